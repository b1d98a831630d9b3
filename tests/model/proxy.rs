//! A proxy between the operator and the API server that breaks requests on demand.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use futures::stream::{self, Stream, StreamExt};
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::http::Http;

/// A fault of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// 409, for a write.
    Conflict,
    /// 410, for a list or watch.
    Gone,
    /// 429 with `Retry-After: 1`.
    TooManyRequests,
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
    /// The connection ends before the server sees the request.
    Refused,
    /// The server performs the request, and the connection ends before its response.
    LostAnswer,
    /// The connection ends in the middle of the response.
    CutAnswer,
    /// The response takes another second.
    Slow,
}

impl Fault {
    pub(crate) const ALL: [Fault; 9] = [
        Fault::Conflict,
        Fault::Gone,
        Fault::TooManyRequests,
        Fault::InternalError,
        Fault::Unavailable,
        Fault::Refused,
        Fault::LostAnswer,
        Fault::CutAnswer,
        Fault::Slow,
    ];

    /// Returns whether the fault applies to a request.
    fn concerns(self, request: &Request<Incoming>) -> bool {
        let reads = request.method() == Method::GET;
        match self {
            Fault::Conflict => !reads,
            Fault::Gone => is_watch(request) || request.uri().query().is_some_and(|query| query.contains("continue=")),
            _ => !is_watch(request),
        }
    }
}

/// The proxy's settings, and what it has seen.
#[derive(Debug)]
pub(crate) struct State {
    faults: Mutex<VecDeque<Fault>>,
    /// The delay of watch events in milliseconds.
    lag: AtomicU64,
    /// Signals that all watches are disconnected.
    cut: watch::Sender<()>,
    /// Write requests other than for events and leases, such as `PATCH /api/v1/…`.
    writes: Mutex<Vec<String>>,
    /// The number of requests that met a fault.
    pub(crate) broken: AtomicUsize,
}

impl State {
    fn next_fault(&self, request: &Request<Incoming>) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let fault = faults.pop_front_if(|fault| fault.concerns(request))?;
        self.broken.fetch_add(1, Ordering::SeqCst);
        Some(fault)
    }

    fn count(&self, request: &Request<Incoming>) {
        let path = request.uri().path();
        let counts = !["/events", "/leases", "reviews"].iter().any(|part| path.contains(part));
        if request.method() != Method::GET && counts {
            self.writes.lock().unwrap().push(format!("{} {path}", request.method()));
        }
    }
}

/// A running proxy. It ends with its runtime.
pub(crate) struct Proxy {
    pub(crate) state: Arc<State>,
    address: SocketAddr,
}

impl Proxy {
    /// Starts a proxy that forwards requests through this client, as its user.
    pub(crate) fn start(http: &Http, client: Client) -> Proxy {
        let cut = watch::Sender::new(());
        let state = Arc::new(State {
            faults: Mutex::default(),
            lag: AtomicU64::new(0),
            cut,
            writes: Mutex::default(),
            broken: AtomicUsize::new(0),
        });
        let listener = http.runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        http.runtime.spawn(accept(listener, state.clone(), client));
        Proxy { state, address }
    }

    /// Writes a kubeconfig for the proxy.
    pub(crate) fn kubeconfig(&self, path: PathBuf) -> PathBuf {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "x", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        });
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    pub(crate) fn break_next(&self, fault: Fault, times: usize) {
        self.state.faults.lock().unwrap().extend(std::iter::repeat_n(fault, times));
    }

    pub(crate) fn set_lag(&self, milliseconds: u64) {
        self.state.lag.store(milliseconds, Ordering::SeqCst);
    }

    pub(crate) fn cut_watches(&self) {
        self.state.cut.send_replace(());
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.state.faults.lock().unwrap().clear();
        self.set_lag(0);
    }

    pub(crate) fn writes(&self) -> Vec<String> {
        self.state.writes.lock().unwrap().clone()
    }
}

async fn accept(listener: TcpListener, state: Arc<State>, client: Client) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, state.clone(), client.clone()));
    }
}

async fn serve(stream: TcpStream, state: Arc<State>, client: Client) {
    let service = service_fn(|request| answer(&state, &client, request));
    // An error ends the connection, as the faults intend.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// The error that ends a connection.
#[derive(Debug)]
struct Broken;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("broken on purpose")
    }
}

impl std::error::Error for Broken {}

type Frames = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Broken>> + Send>>;
type Answer = Response<StreamBody<Frames>>;

async fn answer(state: &State, client: &Client, request: Request<Incoming>) -> Result<Answer, Broken> {
    state.count(&request);
    let fault = state.next_fault(&request);
    match fault {
        Some(Fault::Refused) => return Err(Broken),
        Some(Fault::Slow) => tokio::time::sleep(Duration::from_secs(1)).await,
        Some(fault) => {
            if let Some(refusal) = refusal(fault) {
                return Ok(refusal);
            }
        }
        None => {}
    }
    if is_watch(&request) {
        return forward_watch(state, client, request).await;
    }
    let (head, body) = forward(client, request).await?.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    match fault {
        Some(Fault::LostAnswer) => Err(Broken),
        Some(Fault::CutAnswer) => Ok(Response::from_parts(head, cut(&body))),
        _ => Ok(Response::from_parts(head, whole(body))),
    }
}

/// Returns the response of a server that does not perform the request.
fn refusal(fault: Fault) -> Option<Answer> {
    let (code, reason) = match fault {
        Fault::Conflict => (StatusCode::CONFLICT, "Conflict"),
        Fault::Gone => (StatusCode::GONE, "Expired"),
        Fault::TooManyRequests => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        Fault::InternalError => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        Fault::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
        _ => return None,
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "broken on purpose",
        "reason": reason, "code": code.as_u16(),
    });
    let mut answer = Response::new(whole(status.to_string().into()));
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, "application/json".parse().expect("a header"));
    if fault == Fault::TooManyRequests {
        headers.insert(header::RETRY_AFTER, "1".parse().expect("a header"));
    }
    Some(answer)
}

async fn forward(client: &Client, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    let (mut head, body) = request.into_parts();
    drop_own(&mut head.headers);
    head.headers.remove(header::HOST);
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let mut answer = client.send(Request::from_parts(head, Body::from(body))).await.map_err(|_| Broken)?;
    drop_own(answer.headers_mut());
    Ok(answer)
}

/// Removes headers that concern one connection, or that are invalid once the body is rewritten.
fn drop_own(headers: &mut HeaderMap) {
    const OWN: [HeaderName; 4] =
        [header::CONNECTION, header::TRANSFER_ENCODING, header::CONTENT_LENGTH, header::ACCEPT_ENCODING];
    for name in OWN {
        headers.remove(name);
    }
}

/// Returns events, delayed if so configured, until all watches are disconnected.
async fn forward_watch(state: &State, client: &Client, request: Request<Incoming>) -> Result<Answer, Broken> {
    let (mut cut, lag) = (state.cut.subscribe(), state.lag.load(Ordering::SeqCst));
    let (head, body) = forward(client, request).await?.into_parts();
    let late = body.into_data_stream().then(move |bytes| async move {
        tokio::time::sleep(Duration::from_millis(lag)).await;
        bytes.map(Frame::data).map_err(|_| Broken)
    });
    let frames: Frames = Box::pin(late.take_until(async move { cut.changed().await.is_ok() }));
    Ok(Response::from_parts(head, StreamBody::new(frames)))
}

fn whole(body: Bytes) -> StreamBody<Frames> {
    StreamBody::new(Box::pin(stream::once(async { Ok(Frame::data(body)) })))
}

/// Returns half of a body, followed by an error.
fn cut(body: &Bytes) -> StreamBody<Frames> {
    let half = body.slice(..body.len() / 2);
    StreamBody::new(Box::pin(stream::iter([Ok(Frame::data(half)), Err(Broken)])))
}

fn is_watch(request: &Request<Incoming>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true") || query.contains("watch=1"))
}
