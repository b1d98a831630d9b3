//! Injects faults: lost requests and responses, refusals, and a process that dies after a number of writes.

use std::sync::Arc;

use http::Method;

use crate::api::{Call, Error};

/// A fault of the connection or the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// The request does not arrive.
    Unreachable,
    /// The request is served, but its response is lost.
    AnswerLost,
    /// The request is rejected with this HTTP status.
    Refused(u16),
    /// The request does not arrive and never gets a response.
    Unanswered,
    /// The server does not serve the request's path.
    Unserved,
    /// The request is served, but its response breaks off.
    CutOff,
}

/// Returns the error that a request is rejected with, if any.
pub(super) type Refuse = Arc<dyn Fn(&Call) -> Option<Error> + Send + Sync>;

/// The requests so far, and the pending faults.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) log: Vec<String>,
    pub(super) writes: usize,
    pub(super) writes_left: Option<usize>,
    pub(super) disturbances: Vec<(String, usize, Disturbance)>,
    /// A fault after this many requests.
    pub(super) next: Option<(usize, Disturbance)>,
    pub(super) refusals: Vec<Refuse>,
}

impl Faults {
    /// Returns the fault of this request.
    pub(super) fn disturbance(&mut self, call: &Call) -> Option<Disturbance> {
        match self.next.take() {
            Some((0, how)) => return Some(how),
            Some((left, how)) => self.next = Some((left - 1, how)),
            None => {}
        }
        let line = format!("{} {}", call.method, call.path);
        let at = self.disturbances.iter().position(|(text, left, _)| *left > 0 && line.contains(text))?;
        self.disturbances[at].1 -= 1;
        Some(self.disturbances[at].2)
    }

    /// Counts a request that arrives.
    pub(super) fn count(&mut self, call: &Call) -> Result<(), Error> {
        if self.writes_left == Some(0) {
            return Err(Error::Transport("the process died".into()));
        }
        if call.method != Method::GET {
            self.writes += 1;
            self.writes_left = self.writes_left.map(|left| left - 1);
        }
        let path = call.path.split('?').next().unwrap_or_default();
        self.log.push(format!("{} {path}", call.method));
        Ok(())
    }
}

/// Returns the reason that a server gives with a status.
pub(super) fn reason_of(code: u16) -> &'static str {
    match code {
        404 => "NotFound",
        409 => "Conflict",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        _ => "Disturbed",
    }
}
