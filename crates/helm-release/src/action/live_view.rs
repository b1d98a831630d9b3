//! The cached state of live objects, on which an action relies instead of a request.

use futures::future::{BoxFuture, ready};

use super::Health;
use crate::kube::{Applied, Applier, Decoration, Found, Live, Mark, ObjectKey, Proven};

/// The facts about live objects that need no request: the cache that watches fill, or a map in tests.
pub trait LiveView: Send + Sync {
    /// Returns the cached state of an object of this release.
    fn cached(&self, key: &ObjectKey, decoration: &Decoration) -> Cached;

    /// Stores the responses to applies in the middle of an action, and makes sure that changes of these objects become
    /// known. Default: does nothing.
    fn applied<'a>(&'a self, _: &'a [Applied]) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }

    /// Records that the server accepted the deletion of the object with this uid, before the event arrives. Default:
    /// does nothing.
    fn deleted(&self, _: &ObjectKey, _uid: &str) {}

    /// Reports that an object of the release is not deleted, because only Helm's annotations name the release, which does not
    /// suffice there. Default: nothing.
    fn left_unnamed(&self, _: &ObjectKey) {}

    /// Returns whether an object is ready, which was applied before. Default: unknown.
    fn health(&self, _: &ObjectKey) -> Health {
        Health::Unwatched
    }

    /// Returns an applier that reads the readiness of objects that the action's own account may not read. Default:
    /// none.
    fn reader(&self) -> Option<&Applier> {
        None
    }

    /// Returns the revision that a person wants the release to return to, as of now: trimming the history must not delete
    /// it. Default: none.
    fn wanted_revision(&self) -> Option<u32> {
        None
    }

    /// Stores the state of an object that the server has just returned; `None` if the object does not exist. Returns
    /// whether it is ready. Default: judges it by its own fields alone.
    fn answered(&self, key: &ObjectKey, live: Option<&Live>) -> Health {
        live.map_or(Health::Absent, |live| Health::by_itself(key, live))
    }
}

/// The cached state of an object. It may be outdated, so writes based on it carry preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cached {
    /// Nothing is known, or the object does not belong to this release.
    Unknown,
    /// The object did not exist.
    Absent,
    /// The object belongs to this release.
    Ours(CachedObject),
}

/// A live object that is known to belong to a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedObject {
    /// The uid and resource version that were checked.
    pub proven: Proven,
    /// Our ownership mark; absent while the object is being deleted, or if it has the label of a chart with another
    /// name, or names its owner in another version: the next revision writes it.
    pub mark: Option<Mark>,
    /// Whether its annotation `helm.sh/resource-policy` keeps it when the release is uninstalled.
    pub kept: bool,
    /// Whether someone else set its number of replicas through the `scale` subresource.
    pub scaled: bool,
}

impl Cached {
    /// Returns the state that a deletion may rely on.
    pub(crate) fn deletable(self) -> Option<Proven> {
        match self {
            Cached::Ours(known) if !known.kept => Some(known.proven),
            _ => None,
        }
    }
}

impl From<Cached> for Found {
    /// Converts a cached state to what a write may assume without a read.
    fn from(cached: Cached) -> Found {
        match cached {
            Cached::Ours(live) => Found::Ours { proven: live.proven, scaled: live.scaled, kept: live.kept },
            Cached::Absent => Found::Absent,
            Cached::Unknown => Found::Unknown,
        }
    }
}

/// A view that knows nothing: actions read all objects that they need.
impl LiveView for () {
    fn cached(&self, _: &ObjectKey, _: &Decoration) -> Cached {
        Cached::Unknown
    }
}

impl LiveView for std::collections::HashMap<ObjectKey, Cached> {
    fn cached(&self, key: &ObjectKey, _: &Decoration) -> Cached {
        self.get(key).cloned().unwrap_or(Cached::Unknown)
    }
}
