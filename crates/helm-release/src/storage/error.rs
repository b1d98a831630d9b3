//! Why a record could not be read or written.

use jiff::Timestamp;

use super::MAX_RECORD;
use crate::{kube, release};

/// Why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    #[error("cannot {verb} release record {key:?}")]
    Api {
        /// `read`, `create`, `update` or `delete`.
        verb: &'static str,
        key: String,
        #[source]
        source: kube::Error,
    },
    #[error("cannot encode or decode release record {key:?}")]
    Codec {
        key: String,
        #[source]
        source: release::Error,
    },
    #[error("release record {key:?} lacks a chunk")]
    Incomplete { key: String },
    #[error(
        "Secret {key:?} in namespace {namespace:?} has the name of a release record, but not its labels; restore its labels name, owner and version, or delete it"
    )]
    NoRecord { namespace: String, key: String },
    /// The server forbids to look for records beside a release, where the operator keeps none.
    #[error("cannot list the release records in namespace {namespace:?}")]
    Forbidden {
        namespace: String,
        #[source]
        source: kube::Error,
    },
    /// The release is recorded elsewhere, and Helm is changing it.
    #[error(
        "revision {version} of release {name:?} is {status} and was not written by this operator: a person's helm is running; the operator waits until it ends, or until {}",
        .until.strftime("%Y-%m-%dT%H:%M:%SZ")
    )]
    InFlight { name: String, version: u32, status: &'static str, until: Timestamp },
    /// The release is recorded elsewhere, and another resource took it over from the owner.
    #[error("another resource took release {name:?} over from this one")]
    TakenOver { name: String },
    /// The record exceeds 1 MiB even without the chart's other files and the notes.
    #[error(
        "release {name:?} is too large to record: {size} bytes compressed, and a Secret holds {MAX_RECORD}; split the chart or its resource"
    )]
    TooLarge {
        name: String,
        /// The record's size in bytes.
        size: usize,
    },
    /// The record would fit, but no process could read it again.
    #[error(
        "release {name:?} cannot be recorded, because its record could not be read again; simplify the values of its resource, or split the chart"
    )]
    Unreadable {
        name: String,
        #[source]
        source: release::Error,
    },
}

impl Error {
    /// Returns whether the record was read but is damaged.
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Codec { source, .. } if source.is_damage()) || matches!(self, Error::Incomplete { .. })
    }

    /// Returns whether the record does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Error::Api { source, .. } if source.is_missing_object())
    }

    /// Returns whether the server forbids the request.
    pub fn is_forbidden(&self) -> bool {
        match self {
            Error::Forbidden { .. } => true,
            Error::Api { source, .. } => source.is_forbidden(),
            _ => false,
        }
    }

    /// Returns whether the record's namespace is being deleted, so that no record can be created there.
    pub(crate) fn is_terminating(&self) -> bool {
        matches!(self, Error::Api { source, .. } if source.is_terminating())
    }

    /// Returns whether the release is too large, or nests too deep, for any record.
    pub(crate) fn is_unrecordable(&self) -> bool {
        matches!(self, Error::TooLarge { .. } | Error::Unreadable { .. })
    }

    /// Returns whether the server may have written the record although the request failed.
    pub(crate) fn is_unanswered_write(&self) -> bool {
        matches!(self, Error::Api { source, .. } if source.is_transient() && !source.is_conflict())
    }

    /// Returns whether the record to rewrite has changed since it was read.
    pub(crate) fn is_changed(&self) -> bool {
        matches!(self, Error::Api { verb: "update", source, .. } if source.is_conflict())
    }

    /// Returns whether the revision to create already exists.
    pub(crate) fn is_taken(&self) -> bool {
        matches!(self, Error::Api { verb: "create", source, .. } if source.is_conflict())
    }
}
