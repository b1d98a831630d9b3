//! A release that needs a kind which the server does not serve: the retry of its install renders again only when discovery has changed.
//!
//! Until then it would fail in the same way, and rendering may cost much: some charts make keys.

use std::time::Duration;

use helm_release::action::Failure;
use tokio::time::Instant;

use crate::reconcile::context::Work;
use crate::reconcile::failure::{Failed, FailedAttempt};
use crate::view::primary::Primary;

/// How long an attempt speaks for its retries: what a chart renders may also depend on what it looks up.
const VALID: Duration = Duration::from_secs(900);

/// An install that failed before it wrote anything.
#[derive(Clone, Debug)]
pub(crate) struct Unserved {
    attempt: String,
    /// The discovery when it began.
    generation: usize,
    at: Instant,
}

impl Unserved {
    /// Whether a retry of this attempt would fail in the same way.
    fn holds(&self, attempt: &str, generation: usize, now: Instant) -> bool {
        self.attempt == attempt && self.generation == generation && now < self.at + VALID
    }
}

impl Work<'_> {
    /// What a failed install says about its retries; `None` if they may succeed. The author's code may change what is rendered or served.
    pub(crate) fn unserved(&self, primary: &Primary, failure: &Failure) -> Option<Box<Unserved>> {
        let is_untouched = failure.recorded.is_none() && self.release().is_none();
        let is_certain = failure.cause.is_unserved_kind() && !self.shared.additions.need_metadata();
        let (generation, at) = (self.discovered?, Instant::now());
        (is_untouched && is_certain).then(|| Box::new(Unserved { attempt: self.attempt(primary), generation, at }))
    }

    /// The failure of the same attempt, if discovery still finds the same. Notes what discovery finds.
    pub(crate) async fn still_unserved(&mut self, primary: &Primary) -> Option<FailedAttempt> {
        let mapper = &self.shared.applier.mapper;
        let history = self.shared.cache.history(self.key);
        if history.unserved.is_some() && mapper.refresh().await.is_err() {
            return None;
        }
        let generation = mapper.generation();
        self.discovered = Some(generation);
        let (unserved, failed, attempt) =
            (history.unserved.as_ref()?, history.failure.as_ref()?, self.attempt(primary));
        if failed.inputs != attempt || !unserved.holds(&attempt, generation, Instant::now()) {
            return None;
        }
        if let Failed::Attempt(attempt) = &failed.failed { Some(attempt.clone()) } else { None }
    }
}
