//! The connection from a process to the server: delays, faults, and watches that deliver late but in order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use helm_release::kube::Call;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use kube::client::Body;
use memory_api::{Status, error_event};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use crate::faults::{Breaks, How};
use crate::names::NAMESPACE;
use crate::world::{Answer, World, request, trimmed};

/// Maximum usual latency of a request in each direction.
const USUAL: Duration = Duration::from_millis(15);

/// Maximum usual delay of an event.
const LATE: Duration = Duration::from_millis(40);

/// Maximum delay of an event.
const VERY_LATE: Duration = Duration::from_secs(4);

/// How long a request waits for a lost response.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// One process's connection.
#[derive(Clone)]
pub struct Connection {
    /// The cluster.
    pub world: Arc<World>,
    /// The process's name.
    pub name: Arc<str>,
    /// Whether the process still runs. A killed process sends no further requests.
    pub alive: Arc<AtomicBool>,
}

/// Why a request failed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The page size of lists: small, so that lists are interrupted midway.
const PAGE: &str = "limit=4";

impl Connection {
    /// Returns a client that uses this connection.
    pub fn client(self) -> kube::Client {
        let service = tower::service_fn(move |request: Request<Body>| self.clone().send(request));
        kube::Client::new(service, NAMESPACE)
    }

    async fn send(self, request: Request<Body>) -> Result<Response<Stream>, Failure> {
        if !self.alive.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let call = Call::received(request).await?;
        let call = Call { path: call.path.replace("limit=500", PAGE), ..call };
        if call.path.contains("watch=true") {
            return self.watch(&call).await;
        }
        // A request in flight arrives even if its process is killed meanwhile.
        self.ask(&call);
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move { _ = answer.send(self.exchange(&call).await) });
        let limited = tokio::time::timeout(ANSWER_LIMIT, answered).await;
        let (code, body) = limited.map_err(|_| "no answer in time")?.map_err(|_| "connection closed")??;
        let mut response = Response::new(Stream::whole(body));
        *response.status_mut() = StatusCode::from_u16(code)?;
        Ok(response)
    }

    /// Records the last request other than for leases, lists and watches.
    fn ask(&self, call: &Call) {
        let is_idle = call.path.contains("/leases/") || call.path.contains("limit=");
        let state = &mut *self.world.state();
        if !is_idle && !state.is_retry(call) {
            state.asked = Some((Instant::now(), format!("{} {} {}", self.name, call.method, call.path)));
        }
    }

    /// Draws the outcome and the latencies of a request.
    fn fate(&self, call: &Call) -> (Option<How>, Duration, Duration) {
        let now = self.world.elapsed();
        let state = &mut *self.world.state();
        let how = state.faults.of(call, now, &mut state.random);
        let mut usual = || Duration::from_micros(state.random.u64(200..15_000));
        let (there, back) = (usual(), usual());
        (how, there.min(USUAL), back.min(USUAL))
    }

    async fn exchange(&self, call: &Call) -> Result<Answer, Failure> {
        let (how, there, back) = self.fate(call);
        let late = match how {
            Some(How::Slow(ms)) => Duration::from_millis(ms / 2),
            _ => Duration::ZERO,
        };
        sleep(there + late).await;
        let answer = match how {
            Some(How::Unreachable) => {
                self.note(call, "unreachable");
                return Err("connection refused".into());
            }
            Some(How::Status(code)) => {
                self.note(call, &format!("refused {code}"));
                if is_final(code) {
                    let checks = &mut self.world.state().checks;
                    match call.method {
                        http::Method::GET => checks.hide(trimmed(&call.path)),
                        _ => checks.judge(trimmed(&call.path)),
                    }
                }
                (code, refusal(code))
            }
            _ => self.world.serve(&self.name, call),
        };
        sleep(back + late).await;
        if how == Some(How::AnswerLost) {
            self.note(call, "answer lost");
            return Err("connection reset".into());
        }
        Ok(answer)
    }

    fn note(&self, call: &Call, what: &str) {
        let elapsed = self.world.elapsed();
        let line = || format!("{} {}: {what}", call.method, trimmed(&call.path));
        self.world.state().trace.step(elapsed, &self.name, line);
    }

    /// Starts a watch.
    async fn watch(self, call: &Call) -> Result<Response<Stream>, Failure> {
        let (how, there, back) = self.fate(call);
        sleep(there + back).await;
        match how {
            Some(How::Unreachable | How::AnswerLost) => return Err("connection refused".into()),
            Some(How::Status(code)) => {
                self.note(call, &format!("refused {code}"));
                let mut response = Response::new(Stream::whole(refusal(code)));
                *response.status_mut() = StatusCode::from_u16(code)?;
                return Ok(response);
            }
            Some(How::Slow(ms)) => sleep(Duration::from_millis(ms)).await,
            None => {}
        }
        self.note(call, "watch");
        let opened = self.world.server().watch(&request(call));
        match opened {
            Ok(watch) => Ok(Response::new(Stream(Watch::new(self, call, watch).lines()))),
            Err(status) => {
                let mut response = Response::new(Stream::whole(status.to_json().to_string().into_bytes()));
                *response.status_mut() = StatusCode::from_u16(status.code)?;
                Ok(response)
            }
        }
    }
}

/// Returns whether a refusal is a verdict on the sent object.
fn is_final(code: u16) -> bool {
    matches!(code, 400..500) && !matches!(code, 408 | 409 | 429)
}

/// Returns the body of a refusal.
fn refusal(code: u16) -> Vec<u8> {
    Status::new(code, reason_of(code), "disturbed").to_json().to_string().into_bytes()
}

fn reason_of(code: u16) -> &'static str {
    match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    }
}

/// A watch of a collection.
struct Watch {
    connection: Connection,
    watch: memory_api::Watch,
    /// Events in flight, with their arrival times.
    sent: VecDeque<(Instant, String)>,
    /// The number of changes when it last polled.
    known: usize,
    /// The watch failures before it began.
    breaks: Breaks,
    /// When the server ends it.
    ends: Instant,
    /// The arrival time of the latest event; later events never overtake it.
    last: Instant,
    has_failed: bool,
    /// Whether the server has ended it.
    has_ended: bool,
}

impl Watch {
    fn new(connection: Connection, call: &Call, watch: memory_api::Watch) -> Watch {
        let limit = call.path.split(['?', '&']).find_map(|part| part.strip_prefix("timeoutSeconds="));
        let limit = Duration::from_secs(limit.and_then(|limit| limit.parse().ok()).unwrap_or(290));
        let (now, breaks) = (Instant::now(), connection.world.state().faults.breaks);
        let sent = VecDeque::new();
        Watch {
            connection,
            watch,
            sent,
            known: 0,
            breaks,
            ends: now + limit,
            last: now,
            has_failed: false,
            has_ended: false,
        }
    }

    /// Returns the lines of the response until the server ends it.
    fn lines(self) -> BoxStream<'static, Result<Bytes, Failure>> {
        stream::unfold(self, async |mut watch| {
            let line = watch.line().await?;
            Some((line.map(Bytes::from), watch))
        })
        .boxed()
    }

    /// Returns the next line; an error if the connection breaks, `None` at the end.
    async fn line(&mut self) -> Option<Result<String, Failure>> {
        loop {
            if let Some(end) = self.broken() {
                return end;
            }
            self.pull();
            let next = self.sent.front().map_or(self.ends, |(at, _)| *at);
            tokio::select! {
                biased;
                known = self.connection.world.news(self.known) => self.known = known,
                () = sleep_until(next) => return self.sent.pop_front().map(|(_, line)| Ok(line)),
            }
        }
    }

    /// Returns how an injected failure ends the watch, if one does.
    fn broken(&mut self) -> Option<Option<Result<String, Failure>>> {
        if self.has_failed {
            return Some(None);
        }
        let breaks = self.connection.world.state().faults.breaks;
        let (is_cut, is_expired) = (breaks.cuts > self.breaks.cuts, breaks.expiries > self.breaks.expiries);
        self.has_failed = is_cut || is_expired;
        if is_cut {
            return Some(Some(Err("connection reset".into())));
        }
        is_expired.then(|| Some(Ok(last_line(&Status::new(410, "Expired", "too old resource version")))))
    }

    /// Sends the new events. Some are delayed for long, but none overtakes an earlier one.
    fn pull(&mut self) {
        let world = self.connection.world.clone();
        self.known = world.state().changes;
        if self.has_ended {
            return;
        }
        let events = self.watch.next(&world.server());
        let lines: Vec<String> = match events {
            Ok(events) => events.iter().map(line_of).collect(),
            Err(status) => {
                (self.has_ended, self.ends) = (true, Instant::now());
                vec![last_line(&status)]
            }
        };
        for line in lines {
            let is_very_late = world.state().random.u8(0..40) == 0;
            let way = world.pause(if is_very_late { VERY_LATE } else { LATE });
            self.last = self.last.max(Instant::now() + way);
            self.sent.push_back((self.last, line));
        }
    }
}

/// Formats an event as a line; `type` comes first, as on a real server.
fn line_of(event: &serde_json::Value) -> String {
    format!("{{\"type\":{},\"object\":{}}}\n", event["type"], event["object"])
}

fn last_line(status: &Status) -> String {
    line_of(&error_event(status))
}

/// The body of a response.
pub struct Stream(BoxStream<'static, Result<Bytes, Failure>>);

impl Stream {
    fn whole(body: Vec<u8>) -> Stream {
        Stream(stream::once(std::future::ready(Ok(Bytes::from(body)))).boxed())
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        self.0.poll_next_unpin(task).map(|next| next.map(|part| part.map(Frame::data)))
    }
}
