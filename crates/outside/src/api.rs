//! Requests to the API server and their responses, real or in memory.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::Method;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::as_yaml::as_yaml;
use super::refusal::refusal;

/// A connection to an API server: a kube client, or [`crate::MemoryApi`] in tests.
pub trait Api: Send + Sync {
    /// Sends one request and returns the body of its response. Never retries.
    ///
    /// # Errors
    /// A status of 400 or more, a redirect, no complete response within 90 s, or a body over 64 MiB.
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>>;

    /// Sends one request and returns the body of its response as it arrives, without limits of size and time. By
    /// default, returns it in one piece.
    ///
    /// # Errors
    /// As [`send`](Self::send), before the first piece.
    fn stream(&self, call: Call) -> BoxFuture<'_, Result<Pieces, Error>> {
        Box::pin(async move {
            let Response { body, .. } = self.send(call).await?;
            Ok(futures::stream::iter([Ok(body)]).boxed())
        })
    }
}

/// The body of a response, piece by piece.
pub type Pieces = BoxStream<'static, Result<Vec<u8>, Error>>;

/// Sends one request and returns a response whose body has at most `limit` bytes.
///
/// # Errors
/// As [`Api::stream`]; [`Error::TooLarge`] and [`Error::TimedOut`].
pub async fn read_within(api: &dyn Api, call: Call, limit: usize) -> Result<Response, Error> {
    let read = async {
        let (mut pieces, mut body) = (api.stream(call).await?, Vec::new());
        while let Some(piece) = pieces.next().await {
            body.extend(piece?);
            if body.len() > limit {
                return Err(Error::TooLarge { limit });
            }
        }
        Ok(body.into())
    };
    tokio::time::timeout(MAX_TIME, read).await.unwrap_or(Err(Error::TimedOut { seconds: MAX_TIME.as_secs() }))
}

/// Sends each request as one user, through another connection. For a ServiceAccount
/// (`system:serviceaccount:NAMESPACE:NAME`) the server adds its groups.
pub struct ActingAs {
    /// The connection, whose own user must be allowed to impersonate.
    pub api: Arc<dyn Api>,
    /// The user to act as.
    pub user: Arc<str>,
}

impl Api for ActingAs {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        self.api.send(Call { user: Some(self.user.clone()), ..call })
    }

    fn stream(&self, call: Call) -> BoxFuture<'_, Result<Pieces, Error>> {
        self.api.stream(Call { user: Some(self.user.clone()), ..call })
    }
}

/// The `Accept` header for discovery of all kinds at once.
pub const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The `Accept` header for an object's metadata alone.
pub(super) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// One request.
#[derive(Clone, Debug)]
pub struct Call {
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Content type and body.
    pub body: Option<(&'static str, Vec<u8>)>,
    /// The `Accept` header; JSON if absent.
    pub accept: Option<&'static str>,
    /// The entity tag of a known response, which the server need not send again.
    pub known: Option<String>,
    /// The user to impersonate (`Impersonate-User`); if absent, the connection's own user.
    pub user: Option<Arc<str>>,
}

impl Call {
    /// Creates a request without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Call {
        Call { method, path: path.into(), body: None, accept: None, known: None, user: None }
    }

    /// Creates `GET path`.
    pub fn get(path: impl Into<String>) -> Call {
        Call::new(Method::GET, path)
    }

    /// Creates `GET path` for an object's metadata, as `PartialObjectMetadata`.
    pub fn metadata(path: impl Into<String>) -> Call {
        Call { accept: Some(METADATA), ..Call::get(path) }
    }

    /// Creates `GET path` for the metadata of a collection's objects, as `PartialObjectMetadataList`.
    pub fn metadata_list(path: impl Into<String>) -> Call {
        Call { accept: Some("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), ..Call::get(path) }
    }

    /// Creates `POST path` with a JSON body.
    pub fn post(path: impl Into<String>, json: Vec<u8>) -> Call {
        Call { body: Some(("application/json", json)), ..Call::new(Method::POST, path) }
    }

    /// Creates a server-side apply. Its only content type on servers since 1.16 is YAML, so JSON that YAML would read
    /// differently is escaped.
    pub fn apply(path: impl Into<String>, json: Vec<u8>) -> Call {
        let body = Some(("application/apply-patch+yaml", as_yaml(json)));
        Call { body, ..Call::new(Method::PATCH, path) }
    }

    /// Creates a JSON merge patch.
    pub fn merge(path: impl Into<String>, json: Vec<u8>) -> Call {
        Call { body: Some(("application/merge-patch+json", json)), ..Call::new(Method::PATCH, path) }
    }

    /// Creates a strategic merge patch.
    pub fn strategic(path: impl Into<String>, json: Vec<u8>) -> Call {
        Call { body: Some(("application/strategic-merge-patch+json", json)), ..Call::new(Method::PATCH, path) }
    }

    /// Creates a JSON patch.
    pub fn json_patch(path: impl Into<String>, json: Vec<u8>) -> Call {
        Call { body: Some(("application/json-patch+json", json)), ..Call::new(Method::PATCH, path) }
    }

    /// Creates `DELETE path` with options as JSON.
    pub fn delete(path: impl Into<String>, options: Vec<u8>) -> Call {
        Call { body: Some(("application/json", options)), ..Call::new(Method::DELETE, path) }
    }
}

/// A successful response.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// Its body; empty if [`Call::known`] is still up to date.
    pub body: Vec<u8>,
    /// Its entity tag, if the server sends one.
    pub etag: Option<String>,
    /// Whether [`Call::known`] is still up to date.
    pub is_unchanged: bool,
}

impl From<Vec<u8>> for Response {
    fn from(body: Vec<u8>) -> Response {
        Response { body, ..Response::default() }
    }
}

impl Response {
    /// Parses the body as JSON.
    ///
    /// # Errors
    /// [`Error::Json`].
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(Error::Json)
    }
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To read. An error does not mean that the object is missing.
    Read,
    /// To write. A permanent error means that the server rejects the object.
    #[default]
    Write,
}

impl From<&Method> for Purpose {
    fn from(method: &Method) -> Purpose {
        if *method == Method::GET { Purpose::Read } else { Purpose::Write }
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    /// The server rejected the request.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The status's `reason`: `AlreadyExists`, `Forbidden`, …
        reason: String,
        /// The server's message, without values that must not be shown.
        message: String,
        /// The fields that the server rejects, if it names them.
        fields: Vec<String>,
        /// The purpose of the request.
        purpose: Purpose,
    },
    /// The request or its response was lost.
    #[error("cannot reach the API server")]
    Transport(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The response was not complete within the limit.
    #[error("the API server did not complete its response within {seconds} s")]
    TimedOut {
        /// The limit in seconds.
        seconds: u64,
    },
    #[error("the API server's response exceeds {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    #[error("cannot parse the API server's response")]
    Json(#[source] serde_json::Error),
    #[error("no matches for kind \"{kind}\" in version \"{api_version}\"")]
    NoKind { api_version: String, kind: String },
    /// Whether the kind is served is unknown: the API server that serves its group does not answer.
    #[error(
        "cannot find out whether kind \"{kind}\" in version \"{api_version}\" is served: the API server behind APIService {service:?} does not answer"
    )]
    Unanswered {
        api_version: String,
        kind: String,
        /// The APIService's name: `VERSION.GROUP`.
        service: String,
    },
    /// The request is based on a state from before contact with the server was lost. It was not sent.
    #[error("contact with the API server was lost since this was decided, so it is decided again")]
    Outdated,
    /// The write is for a resource that now belongs to another shard. It was not sent.
    #[error("the resource has gone to another shard, which continues")]
    Moved,
    /// A name or namespace that cannot be a path segment, with the reason.
    #[error("invalid {0}")]
    InvalidName(String),
    /// An object without a name.
    #[error("resource name may not be empty")]
    NoName,
}

impl Error {
    /// Returns the HTTP status, if the server rejected the request.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Records the purpose of the rejected request.
    pub fn of_request(self, wanted: Purpose) -> Error {
        match self {
            Error::Refused { code, reason, message, fields, .. } => {
                Error::Refused { code, reason, message, fields, purpose: wanted }
            }
            other => other,
        }
    }

    /// Returns whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Returns whether the server serves the path, but has no object there.
    pub fn is_missing_object(&self) -> bool {
        self.is_not_found() && !self.is_unserved_path()
    }

    /// Returns whether the server does not serve the path. Its response is not a `Status` for a custom resource's path,
    /// and a `Status` without an object for other paths.
    pub fn is_unserved_path(&self) -> bool {
        let Error::Refused { code: 404, reason, message, .. } = self else { return false };
        reason != "NotFound" || message.starts_with(UNSERVED)
    }

    /// Returns whether permission is missing.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Returns whether the object exists already, or a precondition failed.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// The message for an unserved path. Counterpart: `NewGenericServerResponse` in k8s.io/apimachinery
/// `pkg/api/errors/errors.go`.
const UNSERVED: &str = "the server could not find the requested resource";

/// Maximum duration of a request, response body included. The API server ends any request except watches after 60 s
/// (`--request-timeout`); the rest is for the network.
const MAX_TIME: Duration = Duration::from_secs(90);

/// Maximum size of a response: a `lookup` may list 5,000 Pods of 12 KB. More could exhaust a small process's memory.
pub const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// The maximum number of objects in a page of a list. A client may send smaller pages to a list that asks for exactly
/// this many, because anyone who may create objects decides how large they are.
pub const PAGE: u32 = 500;

/// Maximum size of a refusal's body.
const MAX_REFUSAL: usize = 1 << 20;

/// The limits of one request.
#[derive(Clone, Copy)]
struct Bounds {
    time: Duration,
    body: usize,
}

impl Api for kube::Client {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        Box::pin(send_within(self, call, Bounds { time: MAX_TIME, body: MAX_RESPONSE_BYTES }))
    }

    fn stream(&self, call: Call) -> BoxFuture<'_, Result<Pieces, Error>> {
        let lost = |error| Error::Transport(Box::new(error));
        Box::pin(async move {
            let purpose = Purpose::from(&call.method);
            let response = self.send(request(call)?).await.map_err(lost)?;
            refuse_redirect(&response)?;
            let code = response.status().as_u16();
            if code < 400 {
                return Ok(response
                    .into_body()
                    .into_data_stream()
                    .map(move |piece| Ok(piece.map_err(lost)?.into()))
                    .boxed());
            }
            let body = Limited::new(response.into_body(), MAX_REFUSAL).collect().await.map_err(Error::Transport)?;
            Err(refusal(code, &body.to_bytes()).of_request(purpose))
        })
    }
}

async fn send_within(client: &kube::Client, call: Call, bounds: Bounds) -> Result<Response, Error> {
    let answer = tokio::time::timeout(bounds.time, exchange(client, call, bounds.body)).await;
    answer.unwrap_or(Err(Error::TimedOut { seconds: bounds.time.as_secs() }))
}

async fn exchange(client: &kube::Client, call: Call, max_body: usize) -> Result<Response, Error> {
    let purpose = Purpose::from(&call.method);
    let response = client.send(request(call)?).await.map_err(|e| Error::Transport(Box::new(e)))?;
    refuse_redirect(&response)?;
    let code = response.status().as_u16();
    let etag = response.headers().get(http::header::ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let body = Limited::new(response.into_body(), max_body).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() { Error::TooLarge { limit: max_body } } else { Error::Transport(error) }
    })?;
    let bytes = body.to_bytes();
    match code {
        400.. => Err(refusal(code, &bytes).of_request(purpose)),
        _ => Ok(Response { body: bytes.into(), etag, is_unchanged: code == 304 }),
    }
}

/// Fails if a response is a redirect. An API server never redirects, but a gateway in front of it may redirect to its
/// login page instead of passing the request on. The error omits the query, which may be a secret.
fn refuse_redirect<B>(response: &http::Response<B>) -> Result<(), Error> {
    let status = response.status();
    if !status.is_redirection() || status == http::StatusCode::NOT_MODIFIED {
        return Ok(());
    }
    let location = response.headers().get(http::header::LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
    let page = location.split(['?', '#']).next().unwrap_or_default();
    let code = status.as_u16();
    Err(Error::Transport(format!("the request was redirected to {page:?} ({code}), not answered").into()))
}

fn request(call: Call) -> Result<http::Request<kube::client::Body>, Error> {
    let mut request = http::Request::builder().method(call.method).uri(call.path);
    if let Some(accept) = call.accept {
        request = request.header(http::header::ACCEPT, accept);
    }
    if let Some(known) = call.known {
        request = request.header(http::header::IF_NONE_MATCH, known);
    }
    if let Some(user) = call.user {
        request = request.header("Impersonate-User", &*user);
    }
    let body = match call.body {
        Some((content_type, json)) => {
            request = request.header(http::header::CONTENT_TYPE, content_type);
            json
        }
        None => Vec::new(),
    };
    request.body(body.into()).map_err(|e| Error::Transport(Box::new(e)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Returns a client of a server that sends these bytes for every request and then keeps the connection open
    /// silently.
    async fn client(answer: String) -> kube::Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut connections = Vec::new();
            while let Ok((mut connection, _)) = listener.accept().await {
                // The request is small enough to arrive in one read.
                _ = connection.read(&mut [0; 4096]).await;
                _ = connection.write_all(answer.as_bytes()).await;
                connections.push(connection);
            }
        });
        let config = kube::Config::new(format!("http://{address}").parse().unwrap());
        kube::Client::try_from(config).unwrap()
    }

    fn answer(code: u16, length: usize, body: &str) -> String {
        format!("HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
    }

    async fn ask(answer: String, time: u64, body: usize) -> Result<String, Error> {
        let bounds = Bounds { time: Duration::from_millis(time), body };
        let answer = send_within(&client(answer).await, Call::get("/api"), bounds).await?;
        Ok(String::from_utf8(answer.body).unwrap())
    }

    #[tokio::test]
    async fn responses_within_the_limits_are_accepted() {
        assert_eq!(ask(answer(200, 4, "true"), 60_000, 4).await.unwrap(), "true");
        for code in [400, 404] {
            assert_eq!(ask(answer(code, 2, "{}"), 60_000, 4).await.unwrap_err().code(), Some(code));
        }
    }

    #[tokio::test]
    async fn endless_bodies_time_out() {
        let error = ask(answer(200, 5, "true"), 300, 64).await.unwrap_err();
        assert_eq!(error.to_string(), "the API server did not complete its response within 0 s");
        assert!(error.is_transient());
    }

    #[tokio::test]
    async fn oversized_bodies_are_rejected_at_the_limit() {
        for code in [200, 500] {
            let error = ask(answer(code, 1 << 40, "true, and so on"), 60_000, 4).await.unwrap_err();
            assert_eq!(error.to_string(), "the API server's response exceeds 4 bytes");
            assert!(error.is_transient());
        }
    }

    #[tokio::test]
    async fn a_body_is_read_in_pieces_up_to_a_limit() {
        let read = async |code, body: &str, limit| {
            let client = client(answer(code, body.len(), body)).await;
            read_within(&client, Call::get("/api"), limit).await.map(|answer| answer.body)
        };
        assert_eq!(read(200, "true", 4).await.unwrap(), b"true");
        assert!(matches!(read(200, "true", 3).await, Err(Error::TooLarge { limit: 3 })));
        assert_eq!(read(403, "{}", 4).await.unwrap_err().code(), Some(403));
    }

    #[tokio::test]
    async fn a_redirect_is_no_answer() {
        let to = "Location: https://login.example.com/start?token=secret#top\r\nContent-Type";
        for code in [301, 302, 303, 307, 308] {
            let redirect = answer(code, 2, "{}").replacen("Content-Type", to, 1);
            for call in [Call::get("/api"), Call::delete("/api/v1/namespaces/ns/secrets/a", vec![])] {
                let (whole, pieces) = (client(redirect.clone()).await, client(redirect.clone()).await);
                let streamed = Api::stream(&pieces, call.clone()).await.map(drop).unwrap_err();
                for error in [Api::send(&whole, call).await.unwrap_err(), streamed] {
                    assert!(matches!(&error, Error::Transport(_)) && error.is_transient(), "{code}: {error:?}");
                    let cause = std::error::Error::source(&error).unwrap().to_string();
                    let page = "\"https://login.example.com/start\"";
                    assert_eq!(cause, format!("the request was redirected to {page} ({code}), not answered"));
                }
            }
        }
    }

    #[tokio::test]
    async fn what_has_not_changed_since_is_an_answer() {
        let client = client("HTTP/1.1 304 X\r\nETag: \"a\"\r\n\r\n".to_owned()).await;
        let call = Call { known: Some("\"a\"".to_owned()), ..Call::get("/api") };
        assert!(Api::send(&client, call).await.unwrap().is_unchanged);
    }

    #[tokio::test]
    async fn broken_connections_are_transport_errors() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = kube::Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        drop(listener);
        let client = kube::Client::try_from(config).unwrap();
        let error = Api::send(&client, Call::get("/api")).await.unwrap_err();
        assert!(matches!(error, Error::Transport(_)), "{error:?}");
    }
}
