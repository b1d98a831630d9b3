//! A live object of a release, reduced to what the cache keeps.

use std::sync::Arc;

use controller::runtime::freshness::Stamp;
use controller::runtime::key::ResourceKey;
use helm_release::kube::{Live, Mark, ObjectKey, Resource, Unready};

use crate::values::{Reserved, Room};

/// Texts of objects up to this size are always kept.
const SMALL: usize = 8 << 10;

pub(crate) fn key_of(resource: &Resource, live: &Live) -> ObjectKey {
    let namespace = live.metadata.namespace.as_deref().unwrap_or_default();
    let name = live.metadata.name.as_deref().unwrap_or_default();
    ObjectKey::new(resource.group(), &resource.kind, namespace, name)
}

/// A live object of a release.
#[derive(Clone, Debug)]
pub(crate) struct Dependent {
    pub(crate) uid: Box<str>,
    pub(crate) resource_version: u64,
    pub(crate) mark: Option<Mark>,
    /// The chart whose label it has, which is the former one if the chart was renamed.
    pub(crate) chart: Option<Arc<str>>,
    /// The `apiVersion` in which it names its controller, which is a former one if the watch had another version.
    pub(crate) controller_version: Option<Arc<str>>,
    /// The reason why it is not ready.
    pub(crate) unready: Option<Box<Unready>>,
    /// Its JSON, if status fields of watches.yaml read it.
    pub(crate) whole: Option<KeptText>,
    /// Whether expressions need more of it than the response to our own write contained.
    pub(crate) is_partial: bool,
    pub(crate) deleting: bool,
    /// The resource to reconcile when the object changes.
    pub(crate) owner: Option<ResourceKey>,
    /// Whether its metadata proves that it belongs to the owner's release.
    pub(crate) ours: bool,
    /// Whether its annotation keeps it when the release is uninstalled.
    pub(crate) kept: bool,
    /// Whether it is kept, although the garbage collector would delete it with its owner.
    pub(crate) is_bound: bool,
    /// Whether someone else set its number of replicas.
    pub(crate) scaled: bool,
    pub(crate) stamp: Stamp,
}

/// The part of an object's state that is kept.
pub(crate) struct Judged {
    pub(crate) unready: Option<Box<Unready>>,
    pub(crate) whole: Option<KeptText>,
    pub(crate) is_partial: bool,
}

/// The JSON of a live object. A large one takes room.
#[derive(Clone, Debug)]
pub(crate) struct KeptText {
    json: Arc<str>,
    reserved: Option<Arc<Reserved>>,
}

impl KeptText {
    /// Keeps an object's text in place of the one that is known; returns `None` if it is large and there is no room for
    /// it, or it is of no known release: whoever may create objects decides how many there are.
    pub(crate) fn of(json: &Arc<str>, claim: &Claim, room: &Room, known: Option<&KeptText>) -> Option<KeptText> {
        let json = json.clone();
        match json.len() {
            ..=SMALL => Some(KeptText { json, reserved: None }),
            _ if !claim.ours => None,
            bytes => {
                let place = room.take(bytes, known.map_or(0, KeptText::reserved))?;
                Some(KeptText { json, reserved: Some(Arc::new(place)) })
            }
        }
    }

    fn reserved(&self) -> usize {
        self.reserved.as_deref().map_or(0, Reserved::bytes)
    }
}

impl AsRef<str> for KeptText {
    fn as_ref(&self) -> &str {
        &self.json
    }
}

impl PartialEq for KeptText {
    fn eq(&self, other: &KeptText) -> bool {
        self.json == other.json
    }
}

impl Judged {
    /// Fills a partial read from the cached entry, unless the partial read already shows that the object is unready.
    pub(crate) fn completed_by(self, old: Option<&Dependent>) -> Judged {
        match old {
            Some(old) if self.is_partial => {
                Judged { unready: self.unready.or(old.unready.clone()), whole: old.whole.clone(), is_partial: true }
            }
            None if self.is_partial && self.unready.is_none() => {
                Judged { unready: Some(Box::new(Unready::because("its state is not known yet"))), ..self }
            }
            _ => self,
        }
    }
}

impl Dependent {
    /// Returns whether the object belongs to this resource, or did until it lost the metadata that names its owner.
    pub(crate) fn is_of(&self, resource: &ResourceKey) -> bool {
        self.owner.as_ref() == Some(resource)
    }

    /// Returns whether the object failed; `None` if it is ready. Other changes of an unready object wake no resource.
    pub(crate) fn failed(&self) -> Option<bool> {
        self.unready.as_ref().map(|unready| unready.failed)
    }
}

/// The resource that an object belongs to, and whether the object's metadata proves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) owner: Option<ResourceKey>,
    pub(crate) ours: bool,
}
