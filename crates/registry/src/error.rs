//! The reasons why a chart cannot be had.

use std::io;
use std::time::Duration;

use http::StatusCode;

use crate::Digest;

/// The reason why a chart cannot be fetched. The messages contain no credentials and no queries of URLs.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    #[error("cannot ask {host}")]
    Request { host: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("{host} did not answer within {limit:?}")]
    Slow { host: String, limit: Duration },
    #[error("{host} answered {status} to {what}{}", hint(*status))]
    Status {
        host: String,
        /// The request, without its query.
        what: String,
        status: StatusCode,
    },
    #[error("{host} answered with {what}")]
    Answer { host: String, what: &'static str },
    /// There is more than is read.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge { what: &'static str, limit: u64 },
    /// The content is not what its name says.
    #[error("the content of {expected} has another digest: {found}")]
    Digest { expected: Digest, found: Digest },
    #[error("the registry has {0}")]
    Manifest(&'static str),
    #[error("none of {tags} tags is a version in the range {range}")]
    NoVersion { range: String, tags: usize },
    /// The newest tag in the range is older than one that was there before.
    #[error(
        "the newest version in the range {range} is {found}, but {before} was there before: if it was withdrawn, exclude it from the range"
    )]
    Older {
        range: String,
        /// The newest version now.
        found: String,
        /// The version before.
        before: String,
    },
    #[error("{why}: {chart}")]
    Unverified {
        why: &'static str,
        /// The chart's version, if any, and digest.
        chart: String,
    },
    /// Docker's configuration cannot be read.
    #[error("the credentials are not a configuration of Docker: an object with auths")]
    Credentials,
    #[error("cannot use TLS: {0}")]
    Tls(String),
    #[error("cannot use the cache of charts in {folder}")]
    Cache { folder: String, source: io::Error },
}

fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": are the credentials for it right?",
        StatusCode::NOT_FOUND => ": is there such a chart, and may its reader know?",
        _ => "",
    }
}

impl Error {
    /// Returns whether the chart exists, but is not signed with the required key.
    pub fn is_unverified(&self) -> bool {
        matches!(self, Error::Unverified { .. })
    }

    /// Returns whether the registry answered with charts none of which may be used, so that asking again at once would
    /// change nothing.
    pub fn is_answer(&self) -> bool {
        matches!(self, Error::Unverified { .. } | Error::Older { .. } | Error::NoVersion { .. })
    }
}
