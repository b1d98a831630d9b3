//! One request to the API server and its answer, real or in memory.

use futures::future::BoxFuture;
use http::Method;
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

impl Api for ::kube::Client {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Answer, Error>> {
        Box::pin(async move {
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
            let request = request.body(::kube::client::Body::from(body)).map_err(|e| Error::Transport(Box::new(e)))?;
            let response = ::kube::Client::send(self, request).await.map_err(|e| Error::Transport(Box::new(e)))?;
            let code = response.status().as_u16();
            let bytes = response.into_body().collect_bytes().await.map_err(|e| Error::Transport(Box::new(e)))?;
            if code < 400 { Ok(Answer(bytes.into())) } else { Err(refusal(code, &bytes)) }
        })
    }
}
