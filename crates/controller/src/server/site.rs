//! Serves a site to people, each of whom sees what their own rights allow.
//!
//! Every request needs a bearer token. Nothing may be stored by the browser, framed, or loaded from elsewhere. A client
//! that accepts `text/event-stream` is notified of changes of the page instead of getting it ([`super::live`]). The site
//! can only be read, unless it gets [`Senders`]; then it also takes forms ([`super::forms`]).

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures::future::BoxFuture;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY, RETRY_AFTER,
    VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use http_body::{Frame, SizeHint};
use outside::{Api, Error};

use super::access::bearer_token;
pub use super::callers::{Access, Right};
use super::callers::{Called, Caller, Callers, Use};
use super::forms::{self, MAX_FORM, Refusal};
use super::gate::REVIEW_LIMIT;
use super::live;
use crate::report::chain;

/// The answer to a client without a valid token.
const UNAUTHORIZED: &str = "Unauthorized: send a bearer token of this cluster, for example with\n\
    curl -k -H \"Authorization: Bearer $(kubectl create token ACCOUNT)\" https://...\n";

/// How many bytes of a page are sent at a time. The rest, and the caller's share, are held until the client has read
/// the previous ones.
const FRAME: usize = 16 << 10;

/// Returns a connection to the API server whose requests are those of the user with this token. It must not have
/// any right of the process.
pub type Senders = Arc<dyn Fn(&str) -> Result<Arc<dyn Api>, Error> + Send + Sync>;

/// A site.
pub trait Site: Send + Sync {
    /// Answers one request. Only what the rights allow may decide anything about the answer.
    fn answer<'s>(&'s self, visit: Visit<'s>) -> BoxFuture<'s, Result<Page, Error>>;
    /// Handles a form submitted from a page of this site.
    fn submit<'s>(&'s self, visit: Visit<'s>, form: Form<'s>) -> BoxFuture<'s, Result<Submitted, Error>>;
    /// Returns a number that differs whenever something that the site shows has changed. It is called several times a
    /// second for each open view, so it must be cheap.
    fn generation(&self) -> u64;
    /// Returns a digest of what the caller sees at an address, as far as it can change. Only what the rights allow may
    /// decide anything about it.
    fn version<'s>(&'s self, visit: Visit<'s>) -> BoxFuture<'s, Result<u64, Error>>;
}

/// A caller's request.
#[derive(Clone, Copy)]
pub struct Visit<'v> {
    /// The path, percent-encoded as it was sent.
    pub path: &'v str,
    /// The query, percent-encoded; empty without one.
    pub query: &'v str,
    /// Whether the client is a program, which gets JSON.
    pub as_json: bool,
    /// Whether the site takes forms.
    pub takes_forms: bool,
    /// What the caller may read.
    pub access: &'v dyn Access,
}

/// What a caller sends.
#[derive(Clone, Copy)]
pub struct Form<'f> {
    /// The fields: `application/x-www-form-urlencoded`.
    pub body: &'f str,
    /// The name of the caller's user.
    pub user: &'f str,
    /// Sends requests as the caller.
    pub api: &'f dyn Api,
}

/// The answer to a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// It was done; this address shows the outcome.
    Done(String),
    /// It was not done; the page says why.
    Refused(Page),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status.
    pub status: StatusCode,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

pub(super) struct Guarded {
    pub(super) callers: Arc<Callers>,
    pub(super) site: Arc<dyn Site>,
    senders: Option<Senders>,
}

impl Guarded {
    pub(super) fn new(site: Arc<dyn Site>, api: Arc<dyn Api>, senders: Option<Senders>) -> Guarded {
        Guarded { callers: Arc::new(Callers::new(api)), site, senders }
    }

    fn visit<'v>(&self, address: &'v Uri, headers: &HeaderMap, access: &'v dyn Access) -> Visit<'v> {
        Visit {
            path: address.path(),
            query: address.query().unwrap_or_default(),
            as_json: accepts(headers, "application/json") && !accepts(headers, "text/html"),
            takes_forms: self.senders.is_some(),
            access,
        }
    }
}

/// Returns the routes of a site. `api` reviews tokens and rights; with `senders`, the site takes forms.
pub(super) fn router(site: Arc<dyn Site>, api: Arc<dyn Api>, senders: Option<Senders>) -> Router {
    let methods = match &senders {
        Some(_) => get(serve).post(take),
        None => get(serve),
    };
    let guarded = Arc::new(Guarded::new(site, api, senders));
    Router::new()
        .fallback_service(methods.with_state(guarded))
        .layer(axum::middleware::map_response(|answer: Response| async { strict(answer) }))
}

async fn serve(
    State(guarded): State<Arc<Guarded>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    address: Uri,
    headers: HeaderMap,
) -> Response {
    in_time(answer(&guarded, client.ip(), &address, &headers)).await
}

async fn take(
    State(guarded): State<Arc<Guarded>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    in_time(submit(&guarded, client.ip(), request)).await
}

/// Returns an answer, or that the API server does not answer our questions.
async fn in_time(answer: impl Future<Output = Result<Response, Error>>) -> Response {
    let late = Error::TimedOut { seconds: REVIEW_LIMIT.as_secs() };
    let answer = tokio::time::timeout(REVIEW_LIMIT, answer).await;
    answer.unwrap_or(Err(late)).unwrap_or_else(|error| {
        tracing::error!(error = chain(&error), "Cannot ask the API server who may read the page");
        (StatusCode::INTERNAL_SERVER_ERROR, "The API server did not say who you are and what you may read\n")
            .into_response()
    })
}

async fn answer(guarded: &Arc<Guarded>, client: IpAddr, address: &Uri, headers: &HeaderMap) -> Result<Response, Error> {
    let Some(token) = bearer_token(headers) else { return Ok(unauthorized()) };
    let used = if accepts(headers, "text/event-stream") { Use::Follow } else { Use::View };
    let caller = match guarded.callers.identify(client, token, used).await? {
        Called::Known(caller) => caller,
        other => return Ok(turned_away(&other)),
    };
    if used == Use::Follow {
        return Ok(live::follow(guarded.clone(), caller, address.clone()).into_response());
    }
    let page = guarded.site.answer(guarded.visit(address, headers, &caller)).await?;
    Ok(written(page, caller))
}

/// Submits a form to the site, with a client that authenticates as the caller.
async fn submit(guarded: &Arc<Guarded>, client: IpAddr, request: Request) -> Result<Response, Error> {
    let (parts, body) = request.into_parts();
    let (Some(token), Some(senders)) = (bearer_token(&parts.headers), &guarded.senders) else {
        return Ok(unauthorized());
    };
    if let Err(refusal) = forms::check(&parts.headers) {
        return Ok(refused(refusal));
    }
    let caller = match guarded.callers.identify(client, token, Use::View).await? {
        Called::Known(caller) => caller,
        other => return Ok(turned_away(&other)),
    };
    let Ok(body) = axum::body::to_bytes(body, MAX_FORM).await else { return Ok(refused(Refusal::TooLarge)) };
    let Ok(body) = str::from_utf8(&body) else { return Ok(refused(Refusal::NoForm)) };
    let form = Form { body, user: caller.name(), api: &*senders(token)? };
    let submitted = guarded.site.submit(guarded.visit(&parts.uri, &parts.headers, &caller), form).await?;
    Ok(match submitted {
        Submitted::Done(address) => (StatusCode::SEE_OTHER, [(LOCATION, address)]).into_response(),
        Submitted::Refused(page) => written(page, caller),
    })
}

fn written(page: Page, caller: Caller) -> Response {
    let Page { status, content_type, body } = page;
    (status, [(CONTENT_TYPE, content_type)], held(body, caller)).into_response()
}

fn refused(refusal: Refusal) -> Response {
    (refusal.status(), refusal.text()).into_response()
}

/// Returns the answer to a caller who is not let in.
fn turned_away(called: &Called) -> Response {
    match called {
        Called::Busy => (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1")], "Too many requests\n").into_response(),
        Called::Known(_) | Called::Unauthenticated => unauthorized(),
    }
}

/// A body that counts as the caller's until it has been read.
struct Held {
    rest: Bytes,
    _caller: Caller,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = self.rest.len().min(FRAME);
        Poll::Ready((size > 0).then(|| Ok(Frame::data(self.rest.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

pub(super) fn held(body: Vec<u8>, caller: Caller) -> Body {
    Body::new(Held { rest: body.into(), _caller: caller })
}

fn unauthorized() -> Response {
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], UNAUTHORIZED).into_response()
}

/// Returns whether the client names this type as one that it accepts.
fn accepts(headers: &HeaderMap, content_type: &str) -> bool {
    headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default().contains(content_type)
}

/// The headers of every answer.
const STRICT: [(HeaderName, &str); 8] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; \
         base-uri 'none'; frame-ancestors 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (VARY, "accept, authorization"),
    (HeaderName::from_static("x-frame-options"), "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn strict(mut answer: Response) -> Response {
    for (name, value) in STRICT {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
