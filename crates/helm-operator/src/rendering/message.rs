//! The messages between a manager and its worker: JSON in frames, each preceded by its length in 4 bytes, over one
//! socket.
//!
//! The manager sends [`ToWorker::Render`] and answers each [`FromWorker::Lookup`] until the worker reports the end of
//! the render.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use controller::runtime::priority::Priority;
use go_template::{Map, Str};
use golibs::shorten::{MAX_MESSAGE, shorten};
use helm::engine::{Capabilities, KubeVersion};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::lookup::Query;
use super::output::Output;
use super::request::RenderError;
use crate::values::count_values;
use crate::watches::OverrideValuesType;

/// The maximum size, in bytes, of a frame that the manager reads. The manager needs a multiple of a manifest's size to
/// parse it, and a release record holds 1 MiB compressed.
pub(super) const MAX_ANSWER: usize = 16 << 20;

/// The maximum size, in bytes, of a frame that a worker reads: values, or a response of the API server.
pub(super) const MAX_QUESTION: usize = 64 << 20;

/// The maximum number of values in one message of a worker. A string of any length counts as one.
const MAX_ANSWER_VALUES: usize = 100_000;

/// The maximum total size of a lookup's arguments, in bytes. Names have at most 253.
const MAX_QUERY: usize = 4 << 10;

/// Larger messages are parsed on a separate thread.
const LARGE: usize = 64 << 10;

/// A render job. It has no `Debug`, because values may be secret.
#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    /// The chart's absolute path.
    pub(crate) chart: PathBuf,
    /// The chart's digest when the operator started.
    pub(crate) digest: String,
    /// The JSON text of the values, without override values.
    pub(crate) spec: Arc<str>,
    pub(crate) overrides: BTreeMap<String, String>,
    /// How override values become values.
    pub(crate) overrides_kind: OverrideValuesType,
    /// The absolute paths of copies of the documents to which the chart's schemas may refer, by URL.
    pub(crate) copies: BTreeMap<String, PathBuf>,
    /// Whether the validation of values is skipped.
    pub(crate) skip_schema: bool,
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// The revision, starting at 1.
    pub(crate) revision: u32,
    /// Only the manager uses it: retries render in a separate worker.
    #[serde(skip)]
    pub(crate) priority: Priority,
}

/// The cluster's capabilities.
#[derive(Serialize, Deserialize)]
pub(super) struct ClusterFacts {
    version: String,
    api_versions: Vec<String>,
    silent: Vec<String>,
}

impl From<&Capabilities> for ClusterFacts {
    fn from(of: &Capabilities) -> ClusterFacts {
        let (version, api_versions) = (of.kube_version.version.clone(), texts(&of.api_versions));
        ClusterFacts { version, api_versions, silent: texts(&of.silent) }
    }
}

impl ClusterFacts {
    pub(super) fn capabilities(self) -> Capabilities {
        let version = KubeVersion::parse(&self.version).unwrap_or_else(|_| KubeVersion::bare(&self.version, "", ""));
        let silent = Arc::new(self.silent.into_iter().map(Str::from).collect());
        Capabilities { silent, ..Capabilities::new(version, self.api_versions.iter().map(String::as_str)) }
    }
}

fn texts(all: &[Str]) -> Vec<String> {
    all.iter().map(|one| one.to_text().into_owned()).collect()
}

/// A message from the manager to a worker.
#[derive(Serialize, Deserialize)]
pub(super) enum ToWorker {
    /// Render this job, with these capabilities if they differ from those of the last render.
    Render(Arc<Job>, Option<ClusterFacts>),
    /// The server's response to a lookup follows: its chunks, an empty frame, and [`Ended`].
    Found,
    Nothing,
    /// The lookup failed.
    Refused(String),
}

/// The end of a response to a lookup: `None` if it is complete, otherwise the error.
#[derive(Serialize, Deserialize)]
pub(super) struct Ended(pub(super) Option<String>);

/// A message from a worker to the manager.
#[derive(Serialize, Deserialize)]
pub(super) enum FromWorker {
    /// The worker has restricted itself; always the first message.
    Ready(Confinement),
    /// A template looks up an object, or a list if the name is empty.
    Lookup(Query),
    Rendered(Box<Output>),
    Failed(Failure),
}

/// The reason why a render failed, apart from its limits.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(super) reason: Reason,
    pub(super) message: String,
}

impl From<Failure> for RenderError {
    fn from(failure: Failure) -> RenderError {
        let message = shorten(&failure.message, MAX_MESSAGE).into_owned();
        match failure.reason {
            // The operator's files changed, or the cluster did not answer: neither says anything about the resource.
            Reason::ChartChanged | Reason::Unanswered => {
                RenderError::Unanswered { reason: failure.reason.text(), message }
            }
            reason => RenderError::Failed { reason: reason.text(), message },
        }
    }
}

/// The reasons that a worker can report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reason {
    ChartChanged,
    ExternalSchema,
    InternalError,
    InvalidSchema,
    InvalidValues,
    RenderError,
    RenderLimit,
    Unanswered,
    UnsupportedKubernetes,
}

impl Reason {
    /// Returns the reason for conditions.
    pub(super) fn text(self) -> &'static str {
        use crate::status::reason::Reason as Shown;
        let shown = match self {
            Reason::ChartChanged => Shown::ChartChanged,
            Reason::ExternalSchema => Shown::ExternalSchema,
            Reason::InternalError => Shown::InternalError,
            Reason::InvalidSchema => Shown::InvalidSchema,
            Reason::InvalidValues => Shown::InvalidValues,
            Reason::RenderError => Shown::RenderError,
            Reason::RenderLimit => Shown::RenderLimit,
            Reason::Unanswered => Shown::Unanswered,
            Reason::UnsupportedKubernetes => Shown::UnsupportedKubernetes,
        };
        shown.as_str()
    }
}

/// The kernel's restrictions of a worker, besides resource limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Confinement {
    /// Whether it can read only the charts' folders.
    pub(super) files: bool,
    /// Whether it can make only harmless system calls.
    pub(super) calls: bool,
}

/// Encodes a message as a frame.
pub(super) fn encode(message: &impl Serialize, limit: usize) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let header = header(frame.len() - 4, limit)?;
    frame[..4].copy_from_slice(&header);
    Ok(frame)
}

/// Returns the header of a frame of this length.
pub(super) fn header(length: usize, limit: usize) -> io::Result<[u8; 4]> {
    match u32::try_from(length) {
        Ok(short) if length <= limit => Ok(short.to_le_bytes()),
        _ => Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("{length} bytes"))),
    }
}

/// Reads a frame, and blocks until it arrives.
///
/// # Errors
/// Fails if the other side closed the socket, or if the frame exceeds the limit.
pub(super) fn read(from: &mut impl Read, limit: usize) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    from.read_exact(&mut header)?;
    let mut bytes = vec![0; length(header, limit)?];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Reads a frame as [`read`] does, without blocking the thread.
pub(super) async fn receive(from: &mut (impl AsyncRead + Unpin), limit: usize) -> io::Result<Vec<u8>> {
    let mut header = [0; 4];
    from.read_exact(&mut header).await?;
    let mut bytes = vec![0; length(header, limit)?];
    from.read_exact(&mut bytes).await?;
    Ok(bytes)
}

fn length(header: [u8; 4], limit: usize) -> io::Result<usize> {
    let length = u32::from_le_bytes(header) as usize;
    if length > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {length} bytes")));
    }
    Ok(length)
}

/// Decodes a frame's message.
///
/// # Errors
/// Fails if it is not a message. The error quotes nothing.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(|_| invalid("an unreadable message"))
}

/// Decodes a message of a worker. The chart may have taken over the worker, so a message that could take much more
/// memory than its text is not parsed.
///
/// # Errors
/// Fails if it is not a message, or exceeds a limit. The error quotes nothing.
pub(super) async fn judge(bytes: Vec<u8>) -> io::Result<FromWorker> {
    let is_small = bytes.len() < LARGE;
    let read = move || {
        if count_values(&bytes) > MAX_ANSWER_VALUES {
            return Err(invalid("a message of too many values"));
        }
        match decode(&bytes)? {
            FromWorker::Lookup(query) if query.size() > MAX_QUERY => Err(invalid("a lookup of a very long name")),
            said => Ok(said),
        }
    };
    if is_small { read() } else { outside::apart(read).await.ok_or(io::ErrorKind::Interrupted)? }
}

pub(super) fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Job {
    /// Returns the values of the render.
    ///
    /// # Errors
    /// Fails if the spec has no values, or if override values do not fit them.
    pub(super) fn values(&self) -> Result<Map, Failure> {
        let invalid = |message| Failure { reason: Reason::InvalidValues, message };
        let own = crate::values::decode(&self.spec).map_err(|e| invalid(e.to_string()))?;
        let overrides = crate::watches::Overrides::parse(self.overrides.clone(), self.overrides_kind);
        overrides.and_then(|overrides| overrides.over(own)).map_err(|e| invalid(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let failure = Failure { reason: Reason::RenderError, message: "nil pointer".into() };
        let mut bytes = encode(&failure, 100).unwrap();
        bytes.extend(header(3, 3).unwrap());
        bytes.extend(b"raw");
        let mut from = &bytes[..];
        assert_eq!(decode::<Failure>(&read(&mut from, 100).unwrap()).unwrap(), failure);
        assert_eq!(read(&mut from, 3).unwrap(), b"raw");
        assert_eq!(read(&mut from, 3).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_frame_over_its_limit_is_neither_written_nor_read() {
        assert_eq!(encode(&1234, 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let bytes = encode(&1234, 4).unwrap();
        assert_eq!(read(&mut &bytes[..], 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read(&mut &bytes[..6], 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn an_unreadable_message_is_not_quoted() {
        let error = decode::<Failure>(b"{\"s3cret\": 1}").unwrap_err();
        assert_eq!(error.to_string(), "an unreadable message");
    }

    #[tokio::test]
    async fn a_message_that_would_cost_much_more_than_its_text_is_refused_unread() {
        let judged = async |text: String| judge(text.into_bytes()).await.map(drop).map_err(|e| e.to_string());
        let hooks = format!(
            r#"{{"Rendered":{{"manifest":"","hooks":[{}{{}}],"notes":"","crds":[],"unread":[]}}}}"#,
            "{},".repeat(5_000_000)
        );
        assert_eq!(judged(hooks).await.unwrap_err(), "a message of too many values");
        let notes = format!(
            r#"{{"Rendered":{{"manifest":"","hooks":[],"notes":"{}","crds":[],"unread":[]}}}}"#,
            "{},".repeat(5_000_000)
        );
        assert_eq!(judged(notes).await, Ok(()));
        let lookup =
            |name: &str| format!(r#"{{"Lookup":{{"api_version":"v1","kind":"Pod","namespace":"","name":"{name}"}}}}"#);
        assert_eq!(judged(lookup("a")).await, Ok(()));
        assert_eq!(judged(lookup(&"a".repeat(5000))).await.unwrap_err(), "a lookup of a very long name");
    }

    #[test]
    fn capabilities_arrive_as_they_were() {
        let version = KubeVersion::parse("v1.36.3-gke.1").unwrap();
        let silent = Arc::new(vec!["x.y/v1".into()]);
        let sent = Capabilities { silent, ..Capabilities::new(version, ["v1", "apps/v1/Deployment"]) };
        let arrived = ClusterFacts::from(&sent).capabilities();
        assert_eq!((arrived.kube_version, arrived.api_versions), (sent.kube_version, sent.api_versions));
        assert_eq!(arrived.silent, sent.silent);
    }
}
