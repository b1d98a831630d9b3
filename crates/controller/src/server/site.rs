//! Serves a read-only site to people, each of whom sees what their own rights allow.
//!
//! Every request needs a bearer token. Nothing may be stored by the browser, framed, or loaded from elsewhere.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use futures::future::BoxFuture;
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY, RETRY_AFTER, VARY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri};
use outside::{Api, Error};

use super::access::bearer_token;
use super::callers::{Called, Callers};
pub use super::callers::{Right, Rights};
use super::gate::REVIEW_LIMIT;
use crate::report::chain;

/// The answer to a client without a valid token.
const UNAUTHORIZED: &str = "Unauthorized: send a bearer token of this cluster, for example with\n\
    curl -k -H \"Authorization: Bearer $(kubectl create token ACCOUNT)\" https://...\n";

/// A read-only site.
pub trait Site: Send + Sync {
    /// Answers one request. Only what the rights allow may decide anything about the answer.
    fn answer<'s>(&'s self, visit: Visit<'s>) -> BoxFuture<'s, Result<Page, Error>>;
}

/// What a caller asks for.
#[derive(Clone, Copy)]
pub struct Visit<'v> {
    /// The path, percent-encoded as it was sent.
    pub path: &'v str,
    /// The query, percent-encoded; empty without one.
    pub query: &'v str,
    /// Whether a program asks, which gets JSON.
    pub as_json: bool,
    /// What the caller may read.
    pub rights: &'v dyn Rights,
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

struct Guarded {
    callers: Callers,
    site: Arc<dyn Site>,
}

/// Returns the routes of a site. `api` reviews tokens and rights.
pub(super) fn router(site: Arc<dyn Site>, api: Arc<dyn Api>) -> Router {
    let guarded = Arc::new(Guarded { callers: Callers::new(api), site });
    Router::new()
        .fallback_service(get(serve).with_state(guarded))
        .layer(axum::middleware::map_response(|answer: Response| async { strict(answer) }))
}

async fn serve(
    State(guarded): State<Arc<Guarded>>,
    ConnectInfo(client): ConnectInfo<SocketAddr>,
    address: Uri,
    headers: HeaderMap,
) -> Response {
    let late = Error::TimedOut { seconds: REVIEW_LIMIT.as_secs() };
    let answer = tokio::time::timeout(REVIEW_LIMIT, guarded.answer(client.ip(), &address, &headers)).await;
    answer.unwrap_or(Err(late)).unwrap_or_else(|error| {
        tracing::error!(error = chain(&error), "Cannot ask the API server who may read the page");
        (StatusCode::INTERNAL_SERVER_ERROR, "The API server did not say who you are and what you may read\n")
            .into_response()
    })
}

impl Guarded {
    async fn answer(&self, client: IpAddr, address: &Uri, headers: &HeaderMap) -> Result<Response, Error> {
        let Some(token) = bearer_token(headers) else { return Ok(unauthorized()) };
        let caller = match self.callers.identify(client, token).await? {
            Called::Known(caller) => caller,
            Called::Unauthenticated => return Ok(unauthorized()),
            Called::Busy => {
                let busy = (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "1")], "Too many requests\n");
                return Ok(busy.into_response());
            }
        };
        let visit = Visit {
            path: address.path(),
            query: address.query().unwrap_or_default(),
            as_json: wants_json(headers),
            rights: &caller,
        };
        let Page { status, content_type, body } = self.site.answer(visit).await?;
        Ok((status, [(CONTENT_TYPE, content_type)], Body::from(body)).into_response())
    }
}

fn unauthorized() -> Response {
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], UNAUTHORIZED).into_response()
}

/// Returns whether the client accepts JSON and not HTML.
fn wants_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accept.contains("application/json") && !accept.contains("text/html")
}

/// The headers of every answer.
const STRICT: [(HeaderName, &str); 8] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
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
