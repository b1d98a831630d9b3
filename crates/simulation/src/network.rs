//! The way from a process to the server and back: delays, faults, and watches that deliver late but in order.

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
use percent_encoding::percent_decode_str;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use crate::faults::How;
use crate::world::{Answer, Change, World, is_member, is_selected, refusal};

/// How long an ordinary request takes in each direction, at most.
const USUAL: Duration = Duration::from_millis(15);

/// How late an event usually is, at most.
const LATE: Duration = Duration::from_millis(40);

/// How late an event may be.
const VERY_LATE: Duration = Duration::from_secs(4);

/// How long a request waits for an answer that does not come.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// One process's connection.
#[derive(Clone)]
pub struct Connection {
    /// The cluster.
    pub world: Arc<World>,
    /// The process's name.
    pub name: Arc<str>,
    /// Whether the process still runs: a killed one sends nothing more.
    pub alive: Arc<AtomicBool>,
}

/// Why a request failed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The types of bodies that the server reads.
const TYPES: [&str; 5] = [
    "application/json",
    "application/apply-patch+yaml",
    "application/merge-patch+json",
    "application/json-patch+json",
    "application/strategic-merge-patch+json",
];

/// What a client asks for to get all kinds at once.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

impl Connection {
    /// A client over this connection.
    pub fn client(self) -> kube::Client {
        let service = tower::service_fn(move |request: Request<Body>| self.clone().send(request));
        kube::Client::new(service, crate::world::NAMESPACE)
    }

    async fn send(self, request: Request<Body>) -> Result<Response<Stream>, Failure> {
        if !self.alive.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let call = call(request).await?;
        if call.path.contains("watch=true") {
            return self.watch(&call).await;
        }
        // Whatever is on its way arrives, even if its process dies meanwhile.
        self.ask(&call);
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move { _ = answer.send(self.exchange(&call).await) });
        let limited = tokio::time::timeout(ANSWER_LIMIT, answered).await;
        let (code, body) = limited.map_err(|_| "no answer in time")?.map_err(|_| "connection closed")??;
        let mut response = Response::new(Stream::whole(body));
        *response.status_mut() = StatusCode::from_u16(code)?;
        Ok(response)
    }

    /// Notes when something other than a lease was last asked for.
    fn ask(&self, call: &Call) {
        let is_idle = call.path.contains("/leases/") || call.path.contains("limit=");
        if !is_idle {
            self.world.state().asked = Some((Instant::now(), format!("{} {} {}", self.name, call.method, call.path)));
        }
    }

    /// Decides what happens to a request.
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
                if call.method != http::Method::GET && is_final(code) {
                    let path = call.path.split('?').next().unwrap_or_default();
                    self.world.state().checks.judge(path);
                }
                (code, refusal(code, reason_of(code), "disturbed"))
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
        let path = call.path.split('?').next().unwrap_or_default();
        let elapsed = self.world.elapsed();
        self.world.state().trace.step(elapsed, &self.name, &format!("{} {path}: {what}", call.method));
    }

    /// Starts a watch.
    async fn watch(self, call: &Call) -> Result<Response<Stream>, Failure> {
        let (how, there, back) = self.fate(call);
        sleep(there + back).await;
        match how {
            Some(How::Unreachable | How::AnswerLost) => return Err("connection refused".into()),
            Some(How::Status(code)) => {
                self.note(call, &format!("refused {code}"));
                let mut response = Response::new(Stream::whole(refusal(code, reason_of(code), "disturbed")));
                *response.status_mut() = StatusCode::from_u16(code)?;
                return Ok(response);
            }
            Some(How::Slow(ms)) => sleep(Duration::from_millis(ms)).await,
            None => {}
        }
        self.note(call, "watch");
        Ok(Response::new(Stream(Watch::new(self, call).lines())))
    }
}

/// Whether a refusal says something about what was sent.
fn is_final(code: u16) -> bool {
    matches!(code, 400..500) && !matches!(code, 408 | 409 | 429)
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

async fn call(request: Request<Body>) -> Result<Call, Failure> {
    let (parts, body) = request.into_parts();
    let header = |name: &str| parts.headers.get(name).and_then(|sent| sent.to_str().ok()).unwrap_or_default();
    let body = body.collect_bytes().await?.to_vec();
    let sent = header("content-type");
    let body = TYPES.iter().find(|known| **known == sent).filter(|_| !body.is_empty()).map(|known| (*known, body));
    let accept = header("accept").contains("APIGroupDiscoveryList").then_some(DISCOVERY);
    let query = parts.uri.query().map(|query| percent_decode_str(query).decode_utf8_lossy().replace('+', " "));
    let path = query.map_or_else(|| parts.uri.path().to_owned(), |query| format!("{}?{query}", parts.uri.path()));
    Ok(Call { body, accept, ..Call::new(parts.method, path) })
}

/// A watch of a collection.
struct Watch {
    connection: Connection,
    collection: String,
    selector: String,
    /// The changes up to this one are known.
    version: u64,
    /// The place in the log.
    next: usize,
    /// When the server ends it.
    ends: Instant,
    /// No event comes before this one.
    last: Instant,
}

impl Watch {
    fn new(connection: Connection, call: &Call) -> Watch {
        let (collection, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
        let of = |name: &str| {
            query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default().to_owned()
        };
        let ends = Instant::now() + Duration::from_secs(of("timeoutSeconds").parse().unwrap_or(290));
        let (version, selector) = (of("resourceVersion").parse().unwrap_or(0), of("labelSelector"));
        Watch { connection, collection: collection.to_owned(), selector, version, next: 0, ends, last: Instant::now() }
    }

    /// The lines of the answer, until the server ends it.
    fn lines(self) -> BoxStream<'static, Result<Bytes, Failure>> {
        stream::unfold(self, async |mut watch| {
            let line = watch.line().await?;
            Some((Ok(Bytes::from(line)), watch))
        })
        .boxed()
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            while let Some(change) = self.take() {
                if let Some(event) = self.event(&change) {
                    self.arrive(&change).await;
                    return Some(event);
                }
            }
            tokio::select! {
                biased;
                _ = self.connection.world.news(self.next) => {}
                () = sleep_until(self.ends) => return None,
            }
        }
    }

    /// The next change of the log.
    fn take(&mut self) -> Option<Change> {
        let state = self.connection.world.state();
        loop {
            let change = state.log.get(self.next)?;
            self.next += 1;
            if change.version > self.version && is_member(&change.path, &self.collection) {
                return Some(change.clone());
            }
        }
    }

    /// Waits until the event has made its way: sometimes long, never past an earlier one.
    async fn arrive(&mut self, change: &Change) {
        let world = &self.connection.world;
        let is_very_late = world.state().random.u8(0..40) == 0;
        let way = world.pause(if is_very_late { VERY_LATE } else { LATE });
        self.last = self.last.max(change.at + way);
        sleep_until(self.last).await;
    }

    /// What the watch says of a change, if it concerns it.
    fn event(&self, change: &Change) -> Option<String> {
        let selected = |object: &&Arc<Value>| is_selected(object, &self.selector);
        let (before, after) = (change.before.as_ref().filter(selected), change.after.as_ref().filter(selected));
        let (kind, object) = match (before, after) {
            (None, Some(after)) => ("ADDED", (**after).clone()),
            (Some(_), Some(after)) => ("MODIFIED", (**after).clone()),
            (Some(before), None) => {
                let mut last = (**before).clone();
                last["metadata"]["resourceVersion"] = change.version.to_string().into();
                ("DELETED", last)
            }
            (None, None) => return None,
        };
        // The type comes first, as on a real server.
        Some(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n"))
    }
}

/// The body of an answer.
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
