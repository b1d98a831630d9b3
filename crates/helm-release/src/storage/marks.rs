//! The marks annotation on a release's Secret: the inputs digest, the owner, and the inventory with each object's
//! ownership mark.
//!
//! With this annotation, a restart needs only lists: it reads no record and renders nothing.

use std::io::Read as _;
use std::iter;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use helm::sequence::Turn;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::kube::{
    Adopted, Applied, ApplyMethod, DriftPolicy, Mark, Object, ObjectDigest, ObjectKey, Owner, Tie, intern, is_kept,
};
use outside::group_of;

/// The key of the annotation that holds [`Marks`].
pub const MARKS_ANNOTATION: &str = "helm.sdk.operatorframework.io/marks";

/// All annotations of an object share 256 KiB. Beyond this size the inventory is compressed, which allows three to four
/// times as many objects. If it is still too large, it is omitted except for adopted and deleted objects, and a restart
/// applies all objects once more.
const MAX_TEXT: usize = 200 << 10;

/// Maximum size of an unpacked inventory, in bytes: as many objects as fit into a record.
const MAX_UNPACKED: u64 = 4 << 20;

/// Flags of an object in the annotation.
const KEPT: u8 = 1;
const CLIENT: u8 = 2;
/// Offset of the drift policy: two bits, 0 for none.
const DRIFT_SHIFT: u8 = 2;
const DRIFTS: [Option<DriftPolicy>; 4] =
    [None, Some(DriftPolicy::Repair), Some(DriftPolicy::Detect), Some(DriftPolicy::Off)];
/// Offset of the adoption: three bits, 0 for an object that the release made.
const ADOPTED_SHIFT: u8 = 4;
const ADOPTED: [Option<Adopted>; 8] = [
    None,
    Some(Adopted::Owned),
    Some(Adopted::Claimed),
    Some(Adopted::Unclaimed),
    Some(Adopted::Named),
    None,
    None,
    None,
];
/// The adoption of a deleted object, which is no longer an adopted one. Older processes read it as none.
const DELETED: u8 = 5;
/// After the three bits of the adoption.
const EXPIRES: u8 = 1 << 7;

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
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Before>,
    /// What is known about the revision's tests; `None` if none are to run.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<Tests>,
    /// The revision that a rollback to this one undid because its tests failed, or its rollout was taken back.
    #[serde(rename = "j", default, skip_serializing_if = "Option::is_none")]
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
    /// How many of `objects`, from the first, the revision renders. One that did not succeed lists after them those that
    /// it drops. `None` if that is unknown, or if it is complete.
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
        Marks { complete: false, objects: Vec::new(), adopted, ..self.clone() }
    }

    /// Returns marks that were stored without their inventory with these objects, which the manifest lists.
    #[must_use]
    pub fn with_inventory(&self, mut objects: Vec<MarkedObject>) -> Marks {
        for known in &self.adopted {
            match objects.iter_mut().find(|object| object.key == known.key) {
                Some(object) => (object.adopted, object.deleted) = (known.adopted, known.deleted),
                // The revision drops it.
                None => objects.push(known.clone()),
            }
        }
        Marks { objects, adopted: Vec::new(), ..self.clone() }
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
                true => MarkedObject { deleted: true, expires: false, adopted: None, ..object.clone() },
                false => object.clone(),
            };
            Marks { objects: self.objects.iter().map(noted).collect(), ..self.clone() }
        })
    }

    /// Returns the marks without the note that objects count as finished when they are missing; `None` if none does.
    pub fn without_finished(&self) -> Option<Marks> {
        self.objects.iter().any(|object| object.expires).then(|| {
            let objects = self.objects.iter().map(|object| MarkedObject { expires: false, ..object.clone() });
            Marks { objects: objects.collect(), ..self.clone() }
        })
    }

    /// Returns the former resources once this owner has the release; a recreated resource replaces none.
    pub fn former_for(&self, owner: &Owner) -> Vec<Arc<str>> {
        let is_another = !self.owner.is_empty() && *self.owner_type != *owner.annotated_type();
        let last = is_another.then(|| self.owner.clone());
        let all: Vec<Arc<str>> = self.former.iter().cloned().chain(last).filter(|uid| **uid != *owner.uid).collect();
        all[all.len().saturating_sub(MAX_FORMER)..].to_vec()
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
    /// One failed, and the revision stays.
    #[serde(rename = "f")]
    Failed,
    /// One failed, and the revision is to be rolled back.
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
    /// Whether its tests or its rollout rejected it.
    #[serde(rename = "b", default, skip_serializing_if = "RejectedBy::is_tests")]
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

/// Maximum number of former resources that a record names: they may take a release from each other without end.
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
    /// Whether it was written client-side, because server-side apply rejects it or is disabled.
    pub client: bool,
    /// The drift policy in its annotation.
    pub drift: Option<DriftPolicy>,
    /// How an attempt adopted it; `None` if the release made it, or once a revision with it is deployed. A dropped
    /// definition that the chart still ships counts as claimed: it stays, and a rollback imports it again.
    pub adopted: Option<Adopted>,
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
            client: false,
            drift: None,
            adopted: None,
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
            client: applied.method != ApplyMethod::Server,
            drift: applied.drift,
            adopted: None,
            turn: applied.turn,
        }
    }
}

/// The annotation's JSON.
#[derive(Serialize)]
struct Text<'a> {
    #[serde(flatten)]
    marks: &'a Marks,
    #[serde(flatten)]
    inventory: &'a Inventory,
}

/// The objects in the annotation's JSON.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Inventory {
    o: Vec<Entry>,
    /// When each object of `o` is applied, if the release has an order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    g: Vec<u16>,
    /// `o` as compressed JSON in base64, if it is large.
    #[serde(skip_serializing_if = "String::is_empty")]
    z: String,
    /// The adopted and deleted objects in the form of `z`, if even that is too large.
    #[serde(skip_serializing_if = "String::is_empty")]
    a: String,
}

/// `apiVersion`, kind, namespace, name, digest, mark and flags.
type Entry = (String, String, String, String, String, String, u8);

fn json(marks: &Marks, inventory: &Inventory) -> String {
    serde_json::to_string(&Text { marks, inventory }).unwrap_or_default()
}

/// Returns an object's entry in the annotation.
fn entry(object: &MarkedObject) -> Entry {
    let mark = object.mark.map(|mark| mark.to_string()).unwrap_or_default();
    let digest = object.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let ObjectKey { kind, namespace, name, .. } = &object.key;
    let flag = |is_set, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(object.kept, KEPT)
        | flag(object.client, CLIENT)
        | flag(object.expires, EXPIRES)
        | place(&DRIFTS, object.drift) << DRIFT_SHIFT
        | adoption(object) << ADOPTED_SHIFT;
    let (kind, namespace, name) = (kind.to_string(), namespace.to_string(), name.to_string());
    (object.api_version.to_string(), kind, namespace, name, digest, mark, flags)
}

/// Returns the place of an object's adoption.
fn adoption(object: &MarkedObject) -> u8 {
    if object.deleted { DELETED } else { place(&ADOPTED, object.adopted) }
}

/// Returns the object of an entry, without its turn.
fn listed((api_version, kind, namespace, name, digest, mark, flags): Entry) -> MarkedObject {
    let has = |flag: u8| flags & flag != 0;
    let adoption = (flags >> ADOPTED_SHIFT) & 7;
    MarkedObject {
        digest: ObjectDigest::parse(&digest),
        mark: Mark::parse(&mark),
        kept: has(KEPT),
        client: has(CLIENT),
        expires: has(EXPIRES),
        drift: DRIFTS[usize::from(flags >> DRIFT_SHIFT) % DRIFTS.len()],
        adopted: ADOPTED[usize::from(adoption)],
        deleted: adoption == DELETED,
        ..MarkedObject::new(ObjectKey::new(group_of(&api_version), &kind, &namespace, &name), intern(&api_version))
    }
}

/// Returns the entries of adopted and deleted objects, compressed; empty if there are none.
fn packed_adopted(adopted: &[MarkedObject]) -> String {
    let entries: Vec<Entry> = adopted.iter().map(entry).collect();
    if entries.is_empty() { String::new() } else { pack(&entries).unwrap_or_default() }
}

fn pack(entries: &[Entry]) -> Option<String> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    serde_json::to_writer(&mut gzip, entries).ok()?;
    Some(STANDARD.encode(gzip.finish().ok()?))
}

fn unpack(text: &str) -> Option<Vec<Entry>> {
    let packed = STANDARD.decode(text).ok()?;
    let mut json = Vec::new();
    GzDecoder::new(&*packed).take(MAX_UNPACKED).read_to_end(&mut json).ok()?;
    serde_json::from_slice(&json).ok()
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Returns the position of a value that is stored in a few bits.
fn place<T: PartialEq>(values: &[T], value: T) -> u8 {
    values.iter().zip(0_u8..).find(|(known, _)| **known == value).map_or(0, |(_, at)| at)
}

impl Marks {
    /// Parses the annotation; `None` if it is not ours.
    pub fn parse(text: &str) -> Option<Marks> {
        let mut marks: Marks = serde_json::from_str(text).ok()?;
        let Inventory { mut o, g, z, a } = serde_json::from_str(text).ok()?;
        if !z.is_empty() {
            let unpacked = unpack(&z);
            // Treated as if it had been omitted.
            marks.complete &= unpacked.is_some();
            o = unpacked.unwrap_or_default();
        }
        let turns = g.into_iter().map(Turn::from_number).chain(iter::repeat(Turn::default()));
        marks.objects = o.into_iter().zip(turns).map(|(entry, turn)| MarkedObject { turn, ..listed(entry) }).collect();
        if !a.is_empty() {
            marks.adopted = unpack(&a).unwrap_or_default().into_iter().map(listed).collect();
        }
        (marks.owner, marks.owner_type) = (intern(&marks.owner), intern(&marks.owner_type));
        marks.former.iter_mut().for_each(|uid| *uid = intern(uid));
        Some(marks)
    }

    /// Formats the annotation. Omits the inventory but for adopted and deleted objects, and `complete`, if it would be too
    /// large.
    pub fn to_text(&self) -> String {
        let whole = Inventory {
            o: self.objects.iter().map(entry).collect(),
            g: self.turns(),
            z: String::new(),
            a: packed_adopted(&self.adopted),
        };
        let text = json(self, &whole);
        if text.len() <= MAX_TEXT {
            return text;
        }
        let packed = Inventory { z: pack(&whole.o).unwrap_or_default(), o: Vec::new(), ..whole };
        let text = json(self, &packed);
        if text.len() <= MAX_TEXT && !packed.z.is_empty() {
            return text;
        }
        let marks = self.without_inventory();
        let adopted = Inventory { a: packed_adopted(&marks.adopted), ..Inventory::default() };
        let text = json(&marks, &adopted);
        // A record that holds the objects themselves has no room for so many.
        if text.len() <= MAX_TEXT { text } else { json(&marks, &Inventory::default()) }
    }

    /// Returns the turn of each object as a number; none if the release has no order.
    fn turns(&self) -> Vec<u16> {
        let has_order = self.objects.iter().any(|object| object.turn != Turn::default());
        self.objects.iter().filter(|_| has_order).map(|object| object.turn.to_number()).collect()
    }

    /// Gives each of these objects the turn that is recorded for it. `namespace` is the release's.
    pub(crate) fn give_turns(&self, objects: &mut [Object], namespace: &str) {
        let has_order = self.objects.iter().any(|object| object.turn != Turn::default());
        for object in objects.iter_mut().filter(|_| has_order) {
            let turn = self.objects.iter().find(|marked| object.has_key(&marked.key, namespace));
            object.turn = turn.map(|marked| marked.turn).unwrap_or_default();
        }
    }

    /// Finds the object with this key.
    pub fn find(&self, key: &ObjectKey) -> Option<&MarkedObject> {
        self.objects.iter().find(|o| o.key == *key)
    }
}
