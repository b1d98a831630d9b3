//! One request to the API server and its answer, real or in memory.

use std::time::Duration;

use futures::future::BoxFuture;
use http::Method;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::as_yaml::as_yaml;
use super::refusal::refusal;

/// A server that takes requests. The in-memory twin is [`super::MemoryApi`].
pub trait Api: Send + Sync {
    /// Sends one request. A status of 400 and more is an error.
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Answer, Error>>;
}

/// One request.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Content type and JSON, if the request has a body.
    pub body: Option<(&'static str, Vec<u8>)>,
    /// What to accept instead of JSON.
    pub accept: Option<&'static str>,
}

impl Call {
    /// A request without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Call {
        Call { method, path: path.into(), body: None, accept: None }
    }

    /// `GET path`.
    pub fn get(path: impl Into<String>) -> Call {
        Call::new(Method::GET, path)
    }

    /// `GET path` for the object's metadata only, as `PartialObjectMetadata`.
    pub fn metadata(path: impl Into<String>) -> Call {
        Call { accept: Some("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"), ..Call::get(path) }
    }

    /// `GET path` for the metadata of a collection's objects only, as `PartialObjectMetadataList`.
    pub fn metadata_list(path: impl Into<String>) -> Call {
        Call { accept: Some("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), ..Call::get(path) }
    }

    /// `POST path` with a JSON body.
    pub fn post(path: impl Into<String>, json: Vec<u8>) -> Call {
        Call { body: Some(("application/json", json)), ..Call::new(Method::POST, path) }
    }

    /// A server-side apply. The server reads the JSON as YAML, the one type that every server since 1.16 takes, so it is made to read the same.
    pub fn apply(path: impl Into<String>, json: Vec<u8>) -> Call {
        let body = Some(("application/apply-patch+yaml", as_yaml(json)));
        Call { body, ..Call::new(Method::PATCH, path) }
    }

    /// A JSON merge patch.
    pub fn merge(path: impl Into<String>, json: Vec<u8>) -> Call {
        Call { body: Some(("application/merge-patch+json", json)), ..Call::new(Method::PATCH, path) }
    }

    /// A strategic merge patch.
    pub fn strategic(path: impl Into<String>, json: Vec<u8>) -> Call {
        Call { body: Some(("application/strategic-merge-patch+json", json)), ..Call::new(Method::PATCH, path) }
    }

    /// A JSON patch.
    pub fn json_patch(path: impl Into<String>, json: Vec<u8>) -> Call {
        Call { body: Some(("application/json-patch+json", json)), ..Call::new(Method::PATCH, path) }
    }

    /// `DELETE path` with options as JSON.
    pub fn delete(path: impl Into<String>, options: Vec<u8>) -> Call {
        Call { body: Some(("application/json", options)), ..Call::new(Method::DELETE, path) }
    }
}

/// The body of a successful answer.
#[derive(Clone, Debug)]
pub struct Answer(pub Vec<u8>);

impl Answer {
    /// Parses the body.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.0).map_err(Error::Json)
    }
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused; the message is the server's.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The status' `reason`: `AlreadyExists`, `Forbidden`, …
        reason: String,
        /// The server's words, without values that must not be shown.
        message: String,
        /// The fields that it objects to, if it says so.
        fields: Vec<String>,
    },
    /// No answer.
    #[error("cannot reach the API server")]
    Transport(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer, or its end, did not come in time.
    #[error("the API server did not complete its answer within {seconds} s")]
    TimedOut {
        /// The limit.
        seconds: u64,
    },
    /// The answer is larger than what is read.
    #[error("the API server's answer exceeds {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The answer is not what was asked for.
    #[error("cannot parse the API server's answer")]
    Json(#[source] serde_json::Error),
    /// The server does not serve the kind.
    #[error("no matches for kind \"{kind}\" in version \"{api_version}\"")]
    NoKind {
        /// The kind's `apiVersion`.
        api_version: String,
        /// The kind.
        kind: String,
    },
    /// A name or namespace that cannot stand in a path: which, and why.
    #[error("invalid {0}")]
    InvalidName(String),
    /// An object without a name, which cannot be found again.
    #[error("resource name may not be empty")]
    NoName,
}

impl Error {
    /// The HTTP status of a refusal.
    pub fn code(&self) -> Option<u16> {
        match self {
            Error::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Whether the right is missing.
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Whether the object exists or is not as expected.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }
}

/// How long a request may take, its answer's body included. The API server itself ends any request but a watch after a minute
/// (`--request-timeout`); the rest is for the way.
const MAX_TIME: Duration = Duration::from_secs(90);

/// How large an answer may be: a list of 5,000 Pods of 12 KB, for a `lookup` may ask for everything. More would be the end of a
/// process with little memory.
const MAX_BODY: usize = 64 << 20;

/// What one request may take.
#[derive(Clone, Copy)]
struct Bounds {
    time: Duration,
    body: usize,
}

impl Api for ::kube::Client {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(send_within(self, call, Bounds { time: MAX_TIME, body: MAX_BODY }))
    }
}

async fn send_within(client: &::kube::Client, call: Call, bounds: Bounds) -> Result<Answer, Error> {
    let answer = tokio::time::timeout(bounds.time, exchange(client, call, bounds.body)).await;
    answer.unwrap_or(Err(Error::TimedOut { seconds: bounds.time.as_secs() }))
}

async fn exchange(client: &::kube::Client, call: Call, max_body: usize) -> Result<Answer, Error> {
    let response = client.send(request(call)?).await.map_err(|e| Error::Transport(Box::new(e)))?;
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), max_body).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() { Error::TooLarge { limit: max_body } } else { Error::Transport(error) }
    })?;
    let bytes = body.to_bytes();
    if code < 400 { Ok(Answer(bytes.into())) } else { Err(refusal(code, &bytes)) }
}

fn request(call: Call) -> Result<http::Request<::kube::client::Body>, Error> {
    let mut request = http::Request::builder().method(call.method).uri(call.path);
    if let Some(accept) = call.accept {
        request = request.header(http::header::ACCEPT, accept);
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

    use super::super::Nature;
    use super::*;

    /// A server that answers every request with these bytes and then keeps the connection open without a word.
    async fn client(answer: String) -> ::kube::Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let mut connections = Vec::new();
            while let Ok((mut connection, _)) = listener.accept().await {
                // The whole request comes in one piece: it is small.
                _ = connection.read(&mut [0; 4096]).await;
                _ = connection.write_all(answer.as_bytes()).await;
                connections.push(connection);
            }
        });
        let config = ::kube::Config::new(format!("http://{address}").parse().unwrap());
        ::kube::Client::try_from(config).unwrap()
    }

    fn answer(code: u16, length: usize, body: &str) -> String {
        format!("HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
    }

    async fn ask(answer: String, time: u64, body: usize) -> Result<String, Error> {
        let bounds = Bounds { time: Duration::from_millis(time), body };
        let answer = send_within(&client(answer).await, Call::get("/api"), bounds).await?;
        Ok(String::from_utf8(answer.0).unwrap())
    }

    #[tokio::test]
    async fn an_answer_within_the_bounds_is_taken() {
        assert_eq!(ask(answer(200, 4, "true"), 60_000, 4).await.unwrap(), "true");
        for code in [400, 404] {
            assert_eq!(ask(answer(code, 2, "{}"), 60_000, 4).await.unwrap_err().code(), Some(code));
        }
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_given_up() {
        let error = ask(answer(200, 5, "true"), 300, 64).await.unwrap_err();
        assert_eq!(error.to_string(), "the API server did not complete its answer within 0 s");
        assert_eq!(error.nature(), Nature::Transient);
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_given_up_at_the_bound() {
        for code in [200, 500] {
            let error = ask(answer(code, 1 << 40, "true, and so on"), 60_000, 4).await.unwrap_err();
            assert_eq!(error.to_string(), "the API server's answer exceeds 4 bytes");
            assert_eq!(error.nature(), Nature::Transient);
        }
    }

    #[tokio::test]
    async fn a_connection_that_breaks_is_no_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let config = ::kube::Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        drop(listener);
        let client = ::kube::Client::try_from(config).unwrap();
        let error = Api::send(&client, Call::get("/api")).await.unwrap_err();
        assert!(matches!(error, Error::Transport(_)), "{error:?}");
    }
}
