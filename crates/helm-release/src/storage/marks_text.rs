//! The form of [`Marks`] in the annotation: JSON with short keys, whose inventory is compressed if it is large.

use std::fmt;
use std::io::Read as _;
use std::iter;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use helm::sequence::Turn;
use outside::group_of;
use serde::de::{Error as _, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::marks::{MarkedObject, Marks};
use crate::kube::{Adopted, DriftPolicy, Mark, ObjectDigest, ObjectKey, intern};

/// All annotations of an object share 256 KiB. Beyond this size the inventory is compressed, which allows three to four
/// times as many objects. If it is still too large, it is omitted except for adopted and deleted objects and the order,
/// and a restart applies all objects once more.
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
    Some(Adopted::Shipped),
    None,
];
/// The adoption code of a deleted object, which is no longer adopted. Older processes read it as no adoption.
const DELETED: u8 = 5;
/// The adoption code of an object that only a takeover deletes.
const NOTED: u8 = 7;
/// After the three bits of the adoption.
const EXPIRES: u8 = 1 << 7;

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
    /// The turn of each object in `o`, if the release has an order. Without `o`, those of the manifest's objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    g: Vec<u16>,
    /// The ranges of `o` whose objects only attempts have had: the first place of each, and the one after its last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    p: Vec<(usize, usize)>,
    /// `o` as compressed JSON in base64, if it is large.
    #[serde(skip_serializing_if = "String::is_empty")]
    z: String,
    /// The adopted and deleted objects in the form of `z`, if even that is too large.
    #[serde(skip_serializing_if = "String::is_empty")]
    a: String,
}

/// `apiVersion`, kind, namespace, name, digest, mark and flags.
#[derive(Serialize)]
struct Entry(String, String, String, String, String, String, u8);

/// Reads an entry without what a later version of the operator has added. If that made the inventory unreadable, the
/// release would no longer know which objects it has adopted and must not delete.
impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Entry, D::Error> {
        from.deserialize_seq(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object's entry")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Entry, A::Error> {
        let too_short = || A::Error::custom("an object's entry is too short");
        let mut text = || -> Result<String, A::Error> { parts.next_element()?.ok_or_else(too_short) };
        let (api_version, kind, namespace) = (text()?, text()?, text()?);
        let (name, digest, mark) = (text()?, text()?, text()?);
        let flags: u64 = parts.next_element()?.ok_or_else(too_short)?;
        while parts.next_element::<IgnoredAny>()?.is_some() {}
        let [known_flags, ..] = flags.to_le_bytes();
        Ok(Entry(api_version, kind, namespace, name, digest, mark, known_flags))
    }
}

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
    Entry(object.api_version.to_string(), kind, namespace, name, digest, mark, flags)
}

/// Returns the place of an object's adoption.
fn adoption(object: &MarkedObject) -> u8 {
    match object.deleted {
        true if object.noted => NOTED,
        true => DELETED,
        false => place(&ADOPTED, object.adopted),
    }
}

/// Returns the object of an entry, without its turn.
fn listed(Entry(api_version, kind, namespace, name, digest, mark, flags): Entry) -> MarkedObject {
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
        deleted: [DELETED, NOTED].contains(&adoption),
        noted: adoption == NOTED,
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

/// Returns the position of a value that is stored in a few bits.
fn place<T: PartialEq>(values: &[T], value: T) -> u8 {
    values.iter().zip(0_u8..).find(|(known, _)| **known == value).map_or(0, |(_, at)| at)
}

impl Marks {
    /// Parses the annotation; `None` if it is not ours.
    pub fn parse(text: &str) -> Option<Marks> {
        let mut marks: Marks = serde_json::from_str(text).ok()?;
        let Inventory { mut o, g, p, z, a } = serde_json::from_str(text).ok()?;
        if !z.is_empty() {
            let unpacked = unpack(&z);
            // Treated as if it had been omitted.
            marks.complete &= unpacked.is_some();
            o = unpacked.unwrap_or_default();
        }
        let turns = g.into_iter().map(Turn::from_number);
        if o.is_empty() && z.is_empty() {
            marks.turns = turns.collect();
        } else {
            let turns = turns.chain(iter::repeat(Turn::default()));
            marks.objects =
                o.into_iter().zip(turns).map(|(entry, turn)| MarkedObject { turn, ..listed(entry) }).collect();
            for (start, end) in p {
                let range = marks.objects.iter_mut().take(end).skip(start);
                range.for_each(|object| object.attempted = true);
            }
        }
        if !a.is_empty() {
            marks.adopted = unpack(&a).unwrap_or_default().into_iter().map(listed).collect();
        }
        (marks.owner, marks.owner_type) = (intern(&marks.owner), intern(&marks.owner_type));
        marks.former.iter_mut().for_each(|uid| *uid = intern(uid));
        Some(marks)
    }

    /// Formats the annotation. Omits the inventory but for adopted and deleted objects and the order, and `complete`, if it
    /// would be too large.
    pub fn to_text(&self) -> String {
        let whole = Inventory {
            o: self.objects.iter().map(entry).collect(),
            g: self.turns(),
            p: self.attempted(),
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
        let rest = Inventory { g: marks.turns(), a: packed_adopted(&marks.adopted), ..Inventory::default() };
        let text = json(&marks, &rest);
        // In practice it always fits: a manifest with so many objects would not fit into a record.
        if text.len() <= MAX_TEXT { text } else { json(&marks, &Inventory::default()) }
    }

    /// Returns the turn of each object as a number; none if the release has no order.
    fn turns(&self) -> Vec<u16> {
        if self.objects.is_empty() {
            return self.turns.iter().map(|turn| turn.to_number()).collect();
        }
        let has_order = self.has_order();
        self.objects.iter().filter(|_| has_order).map(|object| object.turn.to_number()).collect()
    }

    /// Returns the ranges of the objects that only attempts have had.
    fn attempted(&self) -> Vec<(usize, usize)> {
        let mut end = 0;
        let runs = self.objects.chunk_by(|one, next| one.attempted == next.attempted).map(|run| {
            let start = end;
            end += run.len();
            (run, start, end)
        });
        let attempted = runs.filter(|(run, ..)| run.iter().all(|object| object.attempted));
        attempted.map(|(_, start, end)| (start, end)).collect()
    }
}
