//! A revision's record as it is read, written and named.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::secret::version_of;
use super::{Content, Marks, Sealed, Stored};
use crate::release::{Packed, Release, Status};

/// A revision's record as the caller knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The revision.
    pub version: u32,
    /// The resource version of its Secret, if known; a deletion requires that the record still has it.
    pub resource_version: Option<u64>,
}

/// A record as written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The record's content, possibly without files and notes.
    pub packed: Sealed<Packed>,
    /// The Secret's resource version, which distinguishes our own write from later ones.
    pub resource_version: u64,
}

impl Written {
    pub(super) fn of(packed: Sealed<Packed>, stored: &ObjectMeta) -> Written {
        let uid = stored.uid.as_deref().map(Arc::from);
        Written { packed: packed.map(|packed| packed.held_by(uid)), resource_version: version_of(stored) }
    }
}

/// A record as read.
#[derive(Debug)]
pub struct Record {
    /// The revision's release.
    pub release: Stored<Release>,
    /// The revision's marks, if this operator wrote the record.
    pub marks: Option<Marks>,
    /// What the revision did when it was made, as an [`Account`](crate::action::Account) said; the seal does not cover it.
    pub plan: Option<Vec<u8>>,
    /// The resource version of its Secret; 0 if unknown.
    pub resource_version: u64,
}

impl Record {
    /// Creates a record without a plan, of an unknown resource version.
    pub(crate) fn of(release: Stored<Release>, marks: Option<Marks>) -> Record {
        Record { release, marks, plan: None, resource_version: 0 }
    }
}

/// The other parts of a record that the seal over its marks covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// The revision.
    pub version: u32,
    /// Its status.
    pub status: Status,
    /// The digest of its record.
    pub content: Content,
}

/// Which Secret a write may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The record with this uid.
    Uid(Arc<str>),
    /// A record that still has this resource version.
    ResourceVersion(u64),
    /// Any record with its name.
    None,
}

impl Precondition {
    /// Returns the precondition that a release's record is the one that was read or written.
    pub(crate) fn of(release: &Release) -> Precondition {
        release.record_uid.clone().map_or(Precondition::None, Precondition::Uid)
    }

    pub(super) fn add_to(&self, metadata: &mut Value) {
        match self {
            Precondition::Uid(uid) => metadata["uid"] = (**uid).into(),
            Precondition::ResourceVersion(version) => metadata["resourceVersion"] = version.to_string().into(),
            Precondition::None => {}
        }
    }
}
