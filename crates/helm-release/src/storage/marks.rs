//! The marks annotation on a release's Secret: the inputs digest, the owner, and the inventory with each object's
//! ownership mark.
//!
//! With this annotation, a restart needs only lists: it reads no record and renders nothing.

use std::sync::Arc;

use helm::sequence::Turn;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::kube::{
    Adopted, Applied, ApplyMethod, DriftPolicy, Former, Mark, Object, ObjectDigest, ObjectKey, Owner, Tie, intern,
    is_kept,
};

/// The key of the annotation that holds [`Marks`].
pub const MARKS_ANNOTATION: &str = "helm.sdk.operatorframework.io/marks";

/// The content of the annotation on a release's Secret. Its keys in JSON are short because every revision stores one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// The digest of everything the objects were rendered from.
    #[serde(rename = "i")]
    pub inputs: String,
    /// The uid of the custom resource that owns the release; empty if there is no owner.
    #[serde(rename = "u")]
    pub owner: Arc<str>,
    /// The owner's `Kind.group`. Together with the record's name and namespace it identifies the same resource after it
    /// was recreated with another uid.
    #[serde(rename = "k", default)]
    pub owner_type: Arc<str>,
    /// Whether every object was applied; only then do `objects` have marks.
    #[serde(rename = "c", default)]
    pub complete: bool,
    /// Whether the release has pre-delete or post-delete hooks.
    #[serde(rename = "h", default)]
    pub delete_hooks: bool,
    /// Whether the pre hooks of a pending install, upgrade or rollback, or of an uninstall, succeeded.
    #[serde(rename = "d", default, skip_serializing_if = "std::ops::Not::not")]
    pub hooks_done: bool,
    /// Whether the uninstall may still be called off: its pre-delete hooks have succeeded, but the record does not say yet
    /// that objects are being deleted. If the resource itself is being deleted, it never says so.
    #[serde(rename = "x", default, skip_serializing_if = "std::ops::Not::not")]
    pub revocable: bool,
    /// How often the post-delete hooks failed.
    #[serde(rename = "t", default, skip_serializing_if = "is_zero")]
    pub failed_post_deletes: u32,
    /// When revision 1 was deployed, if known.
    #[serde(rename = "f", default, skip_serializing_if = "Option::is_none")]
    pub first_deployed: Option<Timestamp>,
    /// Whether Helm made this revision or an earlier one.
    #[serde(rename = "m", default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_over: bool,
    /// The revision that this one repeats, if it is a rollback.
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    pub rolled_back_to: Option<u32>,
    /// Whether override values are strings in this release, because operator-sdk made it, although this operator's
    /// would have types.
    #[serde(rename = "s", default, skip_serializing_if = "std::ops::Not::not")]
    pub string_overrides: bool,
    /// The release's state before the upgrade to this revision, if the upgrade took a permit.
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub before: Option<Before>,
    /// What is known about the revision's tests; `None` if none are to run.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub tests: Option<Tests>,
    /// The revision that a rollback to this one undid because its tests failed, or its rollout was taken back.
    #[serde(rename = "j", default, skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub rejected: Option<Box<Rejected>>,
    /// Why the revision was made: `spec changed (generation 2)`; empty if that is unknown. Names only, no values.
    #[serde(rename = "y", default, skip_serializing_if = "str::is_empty")]
    pub cause: Arc<str>,
    /// Whether no revision before this one was ever deployed. The oldest may have left the history.
    #[serde(rename = "n", default, skip_serializing_if = "std::ops::Not::not")]
    pub none_deployed_before: bool,
    /// The uids of the resources that had the release before its owner took it over.
    #[serde(rename = "w", default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<Arc<str>>,
    /// The uid of the resource that is taking the release over, and for which Jobs are noted as deleted. Those that have
    /// finished since then ran for it. The takeover may be refused: for the owner, nothing has changed.
    #[serde(rename = "q", default, skip_serializing_if = "str::is_empty")]
    pub noted_for: Arc<str>,
    /// The number of leading `objects` that the revision renders. An unsuccessful revision lists the objects that it
    /// drops after them. `None` if the number is unknown or the revision is complete.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub own: Option<usize>,
    /// The objects, in install order. Serialized separately, in a compact form.
    #[serde(skip)]
    pub objects: Vec<MarkedObject>,
    /// The adopted and the deleted objects, without digests and marks; only if `objects` is empty because the annotation
    /// could not hold them all. The manifest lists every object, but does not say which were adopted and must not be
    /// deleted, and which were deleted before they finished.
    #[serde(skip)]
    pub adopted: Vec<MarkedObject>,
    /// When each object that the revision renders is applied, sorted by the objects' kinds and names; only if `objects` is
    /// empty because the annotation could not hold them all, and the release has an order.
    #[serde(skip)]
    pub turns: Vec<Turn>,
}

impl Marks {
    /// Returns how the objects name their owner.
    pub fn tie(&self) -> Tie {
        if self.delete_hooks { Tie::Annotations } else { Tie::Reference }
    }

    /// Returns the marks as they are stored if the inventory is too large.
    #[must_use]
    pub fn without_inventory(&self) -> Marks {
        let counts = |object: &&MarkedObject| object.adopted.is_some() || object.deleted;
        let objects = self.objects.iter().chain(&self.adopted).filter(counts);
        let adopted = objects.map(|object| MarkedObject { digest: None, mark: None, ..object.clone() }).collect();
        Marks { complete: false, objects: Vec::new(), adopted, turns: self.turns_of_rendered(), ..self.clone() }
    }

    /// Returns marks that were stored without their inventory with these objects, which the manifest lists.
    #[must_use]
    pub fn with_inventory(&self, mut objects: Vec<MarkedObject>) -> Marks {
        for known in &self.adopted {
            match objects.iter_mut().find(|object| object.key == known.key) {
                Some(object) => {
                    (object.adopted, object.deleted, object.noted) = (known.adopted, known.deleted, known.noted);
                    // A deleted object counts as finished only if it was created again.
                    object.expires &= known.expires || !known.deleted;
                }
                // The revision drops it.
                None => objects.push(known.clone()),
            }
        }
        Marks { objects, adopted: Vec::new(), turns: Vec::new(), ..self.clone() }
    }

    /// Returns the objects that the revision renders. A complete one may also list some of a later revision that did not
    /// succeed, until the next revision renders or deletes them.
    pub fn rendered(&self) -> impl Iterator<Item = &MarkedObject> {
        self.objects.iter().filter(move |object| !self.complete || object.digest.is_some())
    }

    /// Returns whether the revision is known to render an object.
    pub fn renders(&self, key: &ObjectKey) -> bool {
        let own = if self.complete { usize::MAX } else { self.own.unwrap_or_default() };
        self.rendered().take(own).any(|object| object.key == *key)
    }

    /// Returns those of these objects that count as finished when they are missing.
    pub fn expiring(&self, keys: &[ObjectKey]) -> Vec<ObjectKey> {
        keys.iter().filter(|key| self.find(key).is_some_and(|known| known.expires)).cloned().collect()
    }

    /// Returns the marks with a note that these objects were deleted before they finished; `None` if they say so already.
    pub fn with_deleted(&self, keys: &[ObjectKey]) -> Option<Marks> {
        let is_new = |object: &MarkedObject| keys.contains(&object.key) && (object.expires || !object.deleted);
        self.objects.iter().any(is_new).then(|| {
            let noted = |object: &MarkedObject| match is_new(object) {
                true => MarkedObject { deleted: true, expires: false, noted: false, adopted: None, ..object.clone() },
                false => object.clone(),
            };
            Marks { objects: self.objects.iter().map(noted).collect(), ..self.clone() }
        })
    }

    /// Returns the marks with a note that these Jobs, which ran for the owner, are deleted only for the resource with
    /// this uid, which is taking the release over.
    #[must_use]
    pub fn noted_for_taker(mut self, jobs: &[ObjectKey], uid: &str) -> Marks {
        let deleted = self.objects.iter_mut().filter(|object| object.deleted && jobs.contains(&object.key));
        deleted.for_each(|job| job.noted = true);
        Marks { noted_for: intern(uid), ..self }
    }

    /// Returns the marks as the owner sees them: Jobs that are noted as deleted for another resource have finished for
    /// the owner. `None` if no such Job is noted.
    pub fn for_owner(&self) -> Option<Marks> {
        let finished = |object: &MarkedObject| match object.deleted && object.noted {
            true => MarkedObject { deleted: false, expires: true, noted: false, ..object.clone() },
            false => object.clone(),
        };
        let all = |objects: &[MarkedObject]| objects.iter().map(finished).collect::<Vec<_>>();
        let is_noted = !self.noted_for.is_empty() && self.noted_for != self.owner;
        is_noted.then(|| Marks {
            objects: all(&self.objects),
            adopted: all(&self.adopted),
            noted_for: Arc::default(),
            ..self.clone()
        })
    }

    /// Returns whether a Job was noted as deleted for the resource with this uid, while it took the release over.
    pub fn is_noted_for(&self, job: &MarkedObject, uid: &str) -> bool {
        job.deleted && *self.noted_for == *uid
    }

    /// Returns the marks without the note that objects count as finished when they are missing; `None` if no object has
    /// it.
    pub fn without_finished(&self) -> Option<Marks> {
        self.objects.iter().any(|object| object.expires).then(|| {
            let objects = self.objects.iter().map(|object| MarkedObject { expires: false, ..object.clone() });
            Marks { objects: objects.collect(), ..self.clone() }
        })
    }

    /// Returns whether a resource other than this owner had the release last.
    pub fn is_anothers(&self, owner: &Owner) -> bool {
        !self.owner.is_empty() && *self.owner != *owner.uid
    }

    /// Returns the marks once this owner has the release. If another resource had it, its tests are due again, and the
    /// upgrade to this revision was not this owner's.
    #[must_use]
    pub fn taken_by(&self, owner: &Owner) -> Marks {
        let is_anothers = self.is_anothers(owner);
        Marks {
            owner: intern(&owner.uid),
            owner_type: intern(&owner.annotated_type()),
            former: self.former_for(owner),
            tests: self.tests.map(|tests| if is_anothers { Tests::Due } else { tests }),
            before: self.before.filter(|_| !is_anothers),
            noted_for: Arc::default(),
            ..self.clone()
        }
    }

    /// Returns the uids of the former resources once this owner has the release: of the [`former_owners`] of this revision.
    pub fn former_for(&self, owner: &Owner) -> Vec<Arc<str>> {
        former_owners([self], owner).into_iter().map(|former| former.uid).collect()
    }
}

/// Returns the resources other than this owner that had a release, according to the marks of these revisions, which begin
/// with the oldest. A recreated resource replaces none. Only the last eight count, oldest first: what belongs to an
/// earlier one is then somebody else's, and is left.
pub fn former_owners<'a>(revisions: impl IntoIterator<Item = &'a Marks>, owner: &Owner) -> Vec<Former> {
    let (own_type, mut all) = (owner.annotated_type(), Vec::new());
    for marks in revisions {
        let is_another = !marks.owner.is_empty() && *marks.owner_type != *own_type;
        let last = is_another.then(|| Former { uid: marks.owner.clone(), kind: marks.owner_type.clone() });
        let earlier = marks.former.iter().map(|uid| Former { uid: uid.clone(), kind: Arc::default() });
        let former = earlier.chain(last).filter(|former| *former.uid != *owner.uid);
        former.for_each(|former| add_former(&mut all, former));
    }
    all
}

/// Adds a former resource as the last one, with the kind that an earlier entry may have.
fn add_former(all: &mut Vec<Former>, last: Former) {
    let known = all.iter().position(|former| former.uid == last.uid).map(|at| all.remove(at));
    let kind = match known {
        Some(known) if last.kind.is_empty() => known.kind,
        _ => last.kind,
    };
    all.push(Former { uid: last.uid, kind });
    if all.len() > MAX_FORMER {
        all.remove(0);
    }
}

/// The release's state before an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Before {
    /// It was ready.
    #[serde(rename = "r")]
    Ready,
    /// It was not ready.
    #[serde(rename = "u")]
    Unready,
}

/// What is known about a revision's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tests {
    /// They have yet to succeed or fail.
    #[serde(rename = "d")]
    Due,
    /// They succeeded.
    #[serde(rename = "p")]
    Passed,
    /// A test failed, and the revision stays.
    #[serde(rename = "f")]
    Failed,
    /// A test failed, and the revision is to be rolled back.
    #[serde(rename = "r")]
    Rejected,
}

/// A revision that was rolled back because its tests failed, or because the rollout that made it was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The revision.
    #[serde(rename = "v")]
    pub version: u32,
    /// The digest of what it was rendered from.
    #[serde(rename = "i")]
    pub inputs: String,
    /// Whether its tests or its rollout rejected it. A rejection for a reason that only a later version knows must hold,
    /// so it counts as one by the tests.
    #[serde(rename = "b", default, skip_serializing_if = "RejectedBy::is_tests", deserialize_with = "known")]
    pub by: RejectedBy,
}

/// What rejected a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RejectedBy {
    /// Its tests.
    #[default]
    #[serde(rename = "t")]
    Tests,
    /// The rollout that made it, whose gate was not met.
    #[serde(rename = "r")]
    Rollout,
}

impl RejectedBy {
    fn is_tests(&self) -> bool {
        *self == RejectedBy::Tests
    }
}

/// Maximum number of former resources that count: resources may take a release from each other without end.
const MAX_FORMER: usize = 8;

/// An object in a release's inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedObject {
    /// The object's key.
    pub key: ObjectKey,
    /// The `apiVersion` in which it was applied.
    pub api_version: Arc<str>,
    /// The digest of the chart's object: [`Object::digest`](crate::kube::Object::digest); `None` if no chart rendered
    /// it, if only a later revision that did not succeed did, or if that one may have recreated it in another form.
    pub digest: Option<ObjectDigest>,
    /// The mark after our last apply; `None` before the apply, or if the server keeps no managed fields.
    pub mark: Option<Mark>,
    /// Whether the resource policy `keep` exempts it from deletion.
    pub kept: bool,
    /// Whether it was applied and is deleted once it finished: its absence is not drift.
    pub expires: bool,
    /// Whether the action deletes an unfinished object of this key, to create this one in its place or because the
    /// revision drops it. What earlier revisions say of the object no longer counts.
    pub deleted: bool,
    /// Whether only a takeover deletes it: the Job has finished for the owner, and must run for [`Marks::noted_for`].
    pub noted: bool,
    /// Whether it was written client-side, because server-side apply rejects it or is disabled.
    pub client: bool,
    /// The drift policy in its annotation.
    pub drift: Option<DriftPolicy>,
    /// How an attempt adopted it; `None` if the release made it, or once a revision with it is deployed. A dropped
    /// definition that the chart still ships counts as claimed: it stays, and a rollback imports it again.
    pub adopted: Option<Adopted>,
    /// Whether only attempts of this operator have had it, none of which succeeded. A live object of which the operator has
    /// written nothing is then somebody else's: a clean-up leaves it.
    pub attempted: bool,
    /// When it is applied, if the release has an order.
    pub turn: Turn,
}

impl MarkedObject {
    /// Creates an entry for an object of which only key and version are known.
    pub fn new(key: ObjectKey, api_version: Arc<str>) -> MarkedObject {
        MarkedObject {
            key,
            api_version,
            digest: None,
            mark: None,
            kept: false,
            expires: false,
            deleted: false,
            noted: false,
            client: false,
            drift: None,
            adopted: None,
            attempted: false,
            turn: Turn::default(),
        }
    }

    /// Creates the entry of a chart's object that has not been applied yet.
    pub(crate) fn unapplied(key: ObjectKey, object: &Object, namespace: &str) -> MarkedObject {
        MarkedObject {
            digest: Some(object.digest(namespace)),
            kept: is_kept(object),
            drift: object.drift_policy().unwrap_or_default(),
            turn: object.turn,
            ..MarkedObject::new(key, intern(&object.api_version))
        }
    }

    /// Returns whether it describes the chart's object.
    pub(crate) fn is_of(&self, object: &Object, namespace: &str) -> bool {
        *object.api_version == *self.api_version && Some(object.digest(namespace)) == self.digest
    }
}

impl From<&Applied> for MarkedObject {
    fn from(applied: &Applied) -> MarkedObject {
        MarkedObject {
            key: applied.key.clone(),
            api_version: applied.api_version.clone(),
            digest: Some(applied.digest),
            mark: applied.live.mark,
            kept: applied.kept,
            expires: applied.expires,
            deleted: false,
            noted: false,
            client: applied.method != ApplyMethod::Server,
            drift: applied.drift,
            adopted: None,
            attempted: false,
            turn: applied.turn,
        }
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Decodes a field. A value that only a later version of the operator knows counts as the default, and hides no other
/// field.
fn known<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(from: D) -> Result<T, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

impl Marks {
    /// Sets the recorded turn of each of these objects, which are all that the revision renders. `namespace` is the
    /// release's.
    pub(crate) fn give_turns(&self, objects: &mut [Object], namespace: &str) {
        if self.objects.is_empty() && self.turns.len() == objects.len() {
            let mut sorted: Vec<&mut Object> = objects.iter_mut().collect();
            sorted.sort_by(|a, b| place_of(a, namespace).cmp(&place_of(b, namespace)));
            sorted.into_iter().zip(&self.turns).for_each(|(object, turn)| object.turn = *turn);
            return;
        }
        let has_order = !self.objects.is_empty() && self.has_order();
        for object in objects.iter_mut().filter(|_| has_order) {
            let turn = self.objects.iter().find(|marked| object.has_key(&marked.key, namespace));
            object.turn = turn.map(|marked| marked.turn).unwrap_or_default();
        }
    }

    /// Returns whether the objects are applied in an order.
    pub fn has_order(&self) -> bool {
        let mut turns = self.objects.iter().map(|object| &object.turn).chain(&self.turns);
        turns.any(|turn| *turn != Turn::default())
    }

    /// Returns when each object that the revision renders is applied, sorted by [`place`]; nothing without an order.
    fn turns_of_rendered(&self) -> Vec<Turn> {
        if self.objects.is_empty() {
            return self.turns.clone();
        }
        let own = self.own.filter(|_| !self.complete).unwrap_or(usize::MAX);
        let mut rendered: Vec<&MarkedObject> = self.objects.iter().take(own).filter(|o| o.digest.is_some()).collect();
        let has_order = rendered.iter().any(|object| object.turn != Turn::default());
        rendered.sort_by(|a, b| place(&a.key).cmp(&place(&b.key)));
        rendered.into_iter().filter(|_| has_order).map(|object| object.turn).collect()
    }

    /// Finds the object with this key.
    pub fn find(&self, key: &ObjectKey) -> Option<&MarkedObject> {
        self.objects.iter().find(|o| o.key == *key)
    }

    /// Finds the object with this key, or with the key that it had while its kind was served in another scope.
    pub fn find_in_any_scope(&self, key: &ObjectKey) -> Option<&MarkedObject> {
        self.find(key).or_else(|| self.objects.iter().find(|o| o.key.is_in_other_scope(key)))
    }
}

/// Returns the sort key of the objects whose turns are recorded without them. A cluster-scoped one may name a namespace in
/// the manifest, which does not count.
fn place(key: &ObjectKey) -> [&str; 4] {
    [&key.group, &key.kind, &key.name, &key.namespace]
}

/// Returns the same for an object in the manifest.
fn place_of<'a>(object: &'a Object, namespace: &'a str) -> [&'a str; 4] {
    [object.group(), &object.kind, &object.name, object.namespace.as_deref().unwrap_or(namespace)]
}
