//! The reasons why a chart cannot be had.

use std::io;
use std::time::Duration;

use http::StatusCode;

use crate::Digest;

/// The reason why a chart cannot be fetched. The messages contain no credentials and no queries of URLs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server cannot be reached, or ended its answer too soon.
    #[error("cannot ask {host}")]
    Request {
        /// The server.
        host: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server took too long.
    #[error("{host} did not answer within {limit:?}")]
    Slow {
        /// The server.
        host: String,
        /// The limit.
        limit: Duration,
    },
    /// The server refused.
    #[error("{host} answered {status} to {what}{}", hint(*status))]
    Status {
        /// The server.
        host: String,
        /// The request, without its query.
        what: String,
        /// The answer.
        status: StatusCode,
    },
    /// The server's answer cannot be used.
    #[error("{host} answered with {what}")]
    Answer {
        /// The server.
        host: String,
        /// What is wrong.
        what: &'static str,
    },
    /// There is more than is read.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The content is not what its name says.
    #[error("the content of {expected} has another digest: {found}")]
    Digest {
        /// The digest that was asked for.
        expected: Digest,
        /// That of the content.
        found: Digest,
    },
    /// The manifest is not that of a chart.
    #[error("the registry has {0}")]
    Manifest(&'static str),
    /// No tag is in the range.
    #[error("none of {tags} tags is a version in the range {range}")]
    NoVersion {
        /// The range.
        range: String,
        /// How many tags there are.
        tags: usize,
    },
    /// The newest tag in the range is older than one that was there before.
    #[error(
        "the newest version in the range {range} is {found}, but {before} was there before: if it was withdrawn, exclude it from the range"
    )]
    Older {
        /// The range.
        range: String,
        /// The newest version now.
        found: String,
        /// The version before.
        before: String,
    },
    /// The key does not vouch for the chart.
    #[error("{why}: {chart}")]
    Unverified {
        /// Why not.
        why: &'static str,
        /// Its version, if it has one, and digest.
        chart: String,
    },
    /// Docker's configuration cannot be read.
    #[error("the credentials are not a configuration of Docker: an object with auths")]
    Credentials,
    /// The certificates cannot be used.
    #[error("cannot use TLS: {0}")]
    Tls(String),
    /// The cache cannot be written or read.
    #[error("cannot use the cache of charts in {folder}")]
    Cache {
        /// The folder.
        folder: String,
        /// The cause.
        source: io::Error,
    },
}

fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ": are the credentials for it right?",
        StatusCode::NOT_FOUND => ": is there such a chart, and may its reader know?",
        _ => "",
    }
}

impl Error {
    /// Returns whether the chart is there, but not vouched for.
    pub fn is_unverified(&self) -> bool {
        matches!(self, Error::Unverified { .. })
    }
}
