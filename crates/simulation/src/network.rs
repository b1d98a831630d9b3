//! The connection from a process to the server: delays, faults, and watches that deliver late but in order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use helm_operator::manager::Hop;
use helm_release::kube::Call;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use kube::client::Body;
use memory_api::{Status, error_event, written_path};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use crate::faults::{Breaks, How};
use crate::names::NAMESPACE;
use crate::world::{Answer, World, trimmed};

/// Maximum usual delay of an event.
const LATE: Duration = Duration::from_millis(40);

/// Maximum delay of an event.
pub(crate) const VERY_LATE: Duration = Duration::from_secs(4);

/// How long a request waits for a lost response.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// How long a process may write after it sent the renewal of its lease (client-go's renew deadline).
const TERM: Duration = Duration::from_secs(10);

/// One process's connection.
#[derive(Clone)]
pub struct Connection {
    world: Arc<World>,
    /// The process's name.
    name: Arc<str>,
    /// Whether the process still runs. A killed process sends no further requests.
    alive: Arc<AtomicBool>,
    /// When the process sent the last write of its lease that arrived.
    renewed: Arc<Mutex<Option<Instant>>>,
    /// After how many more writes the process dies; 0 if none of them kills it.
    writes: Arc<AtomicU64>,
}

/// What happens to a request, and how long its ways take.
struct Passage {
    how: Option<How>,
    there: Duration,
    back: Duration,
}

/// Why a request failed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The page size of lists: small, so that lists are interrupted midway.
const PAGE: u32 = 4;

impl Connection {
    /// Creates the connection of the process with this name, which sends requests as long as it is alive.
    pub fn new(world: Arc<World>, name: &str, alive: Arc<AtomicBool>) -> Connection {
        Connection { world, name: name.into(), alive, renewed: Arc::default(), writes: Arc::default() }
    }

    /// Returns the last hop of a process's client.
    pub fn hop(self) -> Hop {
        Hop::new(tower::service_fn(move |request: Request<Body>| {
            let answer = self.clone().send(request);
            async move { Ok(answer.await?.map(axum::body::Body::new)) }
        }))
    }

    /// Returns a client without the layers of a process's client.
    pub fn bare_client(self) -> kube::Client {
        let service = tower::service_fn(move |request: Request<Body>| self.clone().send(request));
        kube::Client::new(service, NAMESPACE)
    }

    async fn send(self, request: Request<Body>) -> Result<Response<Stream>, Failure> {
        if !self.alive.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let call = Call::received(request).await?;
        let call = Call { path: with_small_pages(&call.path), ..call };
        self.check_term(&call);
        if call.path.contains("watch=true") {
            return self.watch(&call).await;
        }
        self.ask(&call);
        let (code, body) =
            tokio::time::timeout(ANSWER_LIMIT, self.exchange(call)).await.map_err(|_| "no answer in time")??;
        let mut response = Response::new(Stream::whole(body));
        *response.status_mut() = StatusCode::from_u16(code)?;
        if code == 429 {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        Ok(response)
    }

    /// Checks (h) that a process sends no write once the term that it knows of is over. The server may not have given
    /// the lease to another one yet.
    fn check_term(&self, call: &Call) {
        let renewed = *self.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = renewed.is_some_and(|at| at.elapsed() > TERM);
        let mut state = self.world.state();
        if is_over && state.checks.elects && is_limited(call) {
            let what = format!("(h) {} sent {} {} after its term", self.name, call.method, trimmed(&call.path));
            state.trace.violation(self.world.elapsed(), what);
        }
    }

    /// Serves a request, and notes when it renews the lease.
    fn serve(&self, call: &Call, sent: Instant) -> Answer {
        let answer = self.world.serve(&self.name, call);
        if answer.0 < 300 && call.method != http::Method::GET && call.path.contains("/leases") {
            *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = Some(sent);
        }
        if is_limited(call)
            && self.writes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) == Ok(1)
        {
            self.note(&format!("{} {}", call.method, trimmed(&call.path)), "killed after this write");
            self.alive.store(false, Ordering::Relaxed);
        }
        answer
    }

    /// Lets the process die once this many further writes are served.
    pub fn cut_after(&self, writes: u64) {
        self.writes.store(writes, Ordering::Relaxed);
    }

    /// Records the last request other than for leases, lists and watches.
    fn ask(&self, call: &Call) {
        let is_idle = call.path.contains("/leases/") || call.path.contains("limit=");
        let state = &mut *self.world.state();
        if !is_idle && !state.is_repeated(call) {
            state.asked = Some((Instant::now(), format!("{} {} {}", self.name, call.method, call.path)));
        }
    }

    /// Draws what happens to a request.
    fn fate(&self, call: &Call) -> Passage {
        let now = self.world.elapsed();
        let state = &mut *self.world.state();
        let how = state.faults.of(call, now, &mut state.random);
        let late = match how {
            Some(How::Slow(ms)) => Duration::from_millis(ms / 2),
            _ => Duration::ZERO,
        };
        let mut usual = || Duration::from_micros(state.random.u64(200..15_000));
        Passage { how, there: usual() + late, back: usual() + late }
    }

    /// Sends a request and waits for its answer.
    async fn exchange(self, call: Call) -> Result<Answer, Failure> {
        let (restarts, fate) = (self.restarts(), self.fate(&call));
        let (how, back) = (fate.how, fate.back);
        let what = format!("{} {}", call.method, trimmed(&call.path));
        // A request in flight arrives even if its process is killed.
        let (answer, answered) = oneshot::channel();
        let sent = self.clone();
        tokio::spawn(async move { _ = answer.send(sent.arrive(&call, fate).await) });
        let answer = answered.await.map_err(|_| "connection closed")??;
        sleep(back).await;
        if how == Some(How::AnswerLost) || self.restarts() != restarts {
            self.note(&what, "answer lost");
            return Err("connection reset".into());
        }
        self.note(&what, "answered");
        Ok(answer)
    }

    /// Lets a request arrive and the server answer it.
    async fn arrive(&self, call: &Call, fate: Passage) -> Result<Answer, Failure> {
        let (sent, restarts) = (Instant::now(), self.restarts());
        sleep(fate.there).await;
        let what = format!("{} {}", call.method, trimmed(&call.path));
        if self.restarts() != restarts {
            self.note(&what, "lost");
            return Err("connection reset".into());
        }
        Ok(match fate.how {
            Some(How::Unreachable) => {
                self.note(&what, "unreachable");
                return Err("connection refused".into());
            }
            Some(How::Starting) => {
                self.note(&what, "refused 403, the server starts");
                (403, refusal(403))
            }
            Some(How::Status(code)) => {
                self.note(&what, &format!("refused {code}"));
                if is_final(code) {
                    let checks = &mut self.world.state().checks;
                    match call.method {
                        http::Method::GET => checks.hide(trimmed(&call.path)),
                        _ => checks.judge(&written(call)),
                    }
                }
                (code, refusal(code))
            }
            _ => self.serve(call, sent),
        })
    }

    /// Returns how often the server has restarted.
    fn restarts(&self) -> u32 {
        self.world.state().faults.breaks.restarts
    }

    fn note(&self, request: &str, what: &str) {
        let elapsed = self.world.elapsed();
        let line = || format!("{request}: {what}");
        self.world.state().trace.step(elapsed, &self.name, line);
    }

    async fn watch(self, call: &Call) -> Result<Response<Stream>, Failure> {
        let Passage { how, there, back } = self.fate(call);
        sleep(there + back).await;
        let what = format!("{} {}", call.method, trimmed(&call.path));
        let refused = match how {
            Some(How::Unreachable | How::AnswerLost) => return Err("connection refused".into()),
            Some(How::Status(code)) => Some(code),
            Some(How::Starting) => Some(403),
            Some(How::Slow(_)) | None => None,
        };
        if let Some(code) = refused {
            self.note(&what, &format!("refused {code}"));
            let mut response = Response::new(Stream::whole(refusal(code)));
            *response.status_mut() = StatusCode::from_u16(code)?;
            return Ok(response);
        }
        self.note(&what, "watch");
        let opened = self.world.server().watch(&call.into());
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

/// Returns whether the term limits a request: a write of anything but the lease.
fn is_limited(call: &Call) -> bool {
    call.method != http::Method::GET && !call.path.contains("/leases")
}

/// Returns the path with pages of at most [`PAGE`] objects.
fn with_small_pages(path: &str) -> String {
    let Some((before, rest)) = path.split_once("limit=") else { return path.to_owned() };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let limit = rest[..digits].parse().unwrap_or(PAGE).min(PAGE);
    format!("{before}limit={limit}{}", &rest[digits..])
}

/// Returns whether a refusal is a verdict on the sent object.
fn is_final(code: u16) -> bool {
    matches!(code, 400..500) && !matches!(code, 408 | 409 | 429)
}

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

/// An event in flight.
struct Sent {
    arrives: Instant,
    line: String,
    /// What the trace calls it.
    what: String,
}

struct Watch {
    connection: Connection,
    call: Call,
    watch: memory_api::Watch,
    /// Events in flight.
    sent: VecDeque<Sent>,
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
            call: call.clone(),
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
            let next = self.sent.front().map_or(self.ends, |event| event.arrives);
            tokio::select! {
                biased;
                known = self.connection.world.news(self.known) => self.known = known,
                () = sleep_until(next) => {
                    let event = self.sent.pop_front()?;
                    self.connection.note(&event.what, "arrives");
                    return Some(Ok(event.line));
                }
            }
        }
    }

    /// Returns how an injected failure ends the watch, if one does.
    fn broken(&mut self) -> Option<Option<Result<String, Failure>>> {
        if self.has_failed {
            return Some(None);
        }
        let breaks = self.connection.world.state().faults.breaks;
        let is_cut = breaks.cuts > self.breaks.cuts || breaks.restarts > self.breaks.restarts;
        let is_expired = breaks.expiries > self.breaks.expiries;
        self.has_failed = is_cut || is_expired;
        if is_cut {
            return Some(Some(Err("connection reset".into())));
        }
        is_expired.then(|| Some(Ok(line_of(&error_event(&Status::new(410, "Expired", "too old resource version"))))))
    }

    /// Sends the new events. Some are delayed for long, but none overtakes an earlier one.
    fn pull(&mut self) {
        let world = self.connection.world.clone();
        self.known = world.state().changes;
        if self.has_ended {
            return;
        }
        let events = self.watch.next(&world.server());
        let bookmarks = world.state().faults.breaks.bookmarks;
        let is_due = std::mem::replace(&mut self.breaks.bookmarks, bookmarks) != bookmarks;
        let events: Vec<serde_json::Value> = match events {
            Ok(events) => {
                let bookmark = is_due.then(|| self.watch.bookmark()).flatten();
                events.into_iter().chain(bookmark).collect()
            }
            Err(status) => {
                (self.has_ended, self.ends) = (true, Instant::now());
                vec![error_event(&status)]
            }
        };
        for event in events {
            let is_very_late = world.state().random.u8(0..40) == 0;
            let way = world.pause(if is_very_late { VERY_LATE } else { LATE }) + self.lateness();
            self.last = self.last.max(Instant::now() + way);
            self.sent.push_back(Sent { arrives: self.last, line: line_of(&event), what: name_of(&event) });
        }
    }
}

impl Watch {
    /// Draws how much longer an event takes because of a fault.
    fn lateness(&self) -> Duration {
        let now = self.connection.world.elapsed();
        let state = &mut *self.connection.world.state();
        state.faults.lateness(&self.call, now, &mut state.random)
    }
}

/// Formats an event as a line; `type` comes first, as on a real server.
fn line_of(event: &serde_json::Value) -> String {
    format!("{{\"type\":{},\"object\":{}}}\n", event["type"], event["object"])
}

/// Returns the type, kind, name and version of an event.
fn name_of(event: &serde_json::Value) -> String {
    let text = |pointer| event.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
    let [kind, name, version] = ["/object/kind", "/object/metadata/name", "/object/metadata/resourceVersion"].map(text);
    format!("{} {kind} {name} {version}", text("/type"))
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

/// Returns the path of the object that a request writes.
fn written(call: &Call) -> String {
    let object: Option<serde_json::Value> = call.body.as_ref().and_then(|(_, body)| serde_json::from_slice(body).ok());
    let name = object.as_ref().and_then(|object| object["metadata"]["name"].as_str());
    written_path(trimmed(&call.path), name)
}
