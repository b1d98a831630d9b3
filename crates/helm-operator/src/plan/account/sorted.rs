//! Sorts the writes of an action by object.

use std::collections::HashMap;

use helm_release::action::Made;
use helm_release::kube::{Adopted, Mapper};
use helm_release::release::{Hook, HookPhase, Release, Status};
use helm_release::storage::MarkedObject;
use outside::{Target, group_of};
use serde_json::Value;

use super::recorder::{Effect, Note, Refusal};
use super::{Account, AccountEntry};
use crate::plan::brief::changed;
use crate::plan::facts::WriteFacts;
use crate::plan::{ChangeKind, Name, revisions};

/// How many fields of one object are named.
const MAX_FIELDS: usize = 20;

/// The maximum length of a field's path, in bytes.
const MAX_PATH: usize = 200;

/// Makes an account of the writes of an action.
pub(super) fn account(notes: Vec<Note>, made: &Made<'_>, mapper: &Mapper) -> Account {
    let mut objects: Vec<Vec<Note>> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for note in notes.into_iter().filter(|note| !is_without_effect(note)) {
        let place = *places.entry(note.path.clone()).or_insert(objects.len());
        match objects.get_mut(place) {
            Some(writes) => writes.push(note),
            None => objects.push(vec![note]),
        }
    }
    let made = Revision::new(made, mapper);
    let mut changes: Vec<AccountEntry> = objects.iter().filter_map(|writes| made.entry(writes)).collect();
    changes.extend(made.kept(&places));
    let earlier = made.earlier_hooks(&changes);
    changes.extend(earlier);
    Account { changes, omitted: 0, is_continued: made.of.is_continued }
}

/// Returns whether a write only finds out that an object does not exist.
fn is_without_effect(note: &Note) -> bool {
    note.effect == Effect::Delete && note.refused.as_ref().is_some_and(|refused| refused.code == 404)
}

/// The revision that an action made, by object.
struct Revision<'m> {
    of: &'m Made<'m>,
    mapper: &'m Mapper,
    marked: HashMap<&'m str, Vec<&'m MarkedObject>>,
    /// The records of this revision and of the previous one.
    after: RecordedObjects,
    before: Option<RecordedObjects>,
}

impl<'m> Revision<'m> {
    fn new(of: &'m Made<'m>, mapper: &'m Mapper) -> Revision<'m> {
        let mut marked: HashMap<&str, Vec<&MarkedObject>> = HashMap::new();
        for object in of.objects.iter().chain(of.former) {
            marked.entry(&object.key.name).or_default().push(object);
        }
        let before = of.before.map(RecordedObjects::of);
        // Without an earlier revision, there is nothing to compare with.
        let after = before.as_ref().map(|_| RecordedObjects::of(of.release)).unwrap_or_default();
        Revision { of, mapper, marked, after, before }
    }

    /// Returns what the writes to one object did.
    fn entry(&self, writes: &[Note]) -> Option<AccountEntry> {
        let path = &writes.first()?.path;
        let target = Target::of(path)?;
        let marked = self.marked(&target);
        let kind = writes.iter().rev().map(|note| &*note.kind).find(|kind| !kind.is_empty());
        let kind = kind.or(marked.map(|marked| &*marked.key.kind)).unwrap_or(target.plural);
        let object = name(&target, kind);
        let difference = self.difference(&object);
        let refused = refused(writes);
        let hook = self.hook(&object).filter(|_| marked.is_none());
        let is_hook = hook.is_some() || writes.iter().any(|note| note.is_hook);
        let facts = WriteFacts { is_hook, ..self.facts(writes, refused, marked) };
        let mut entry = AccountEntry::of(object, facts.action()?);
        if let (ChangeKind::Update | ChangeKind::Recreate, Some(fields)) = (entry.action, &difference) {
            entry.is_repeated = fields.is_empty();
            entry.more_fields = fields.len().saturating_sub(MAX_FIELDS);
            entry.fields = fields.iter().take(MAX_FIELDS).map(|field| short(field)).collect();
        }
        entry.refused = refused.map(|refused| refused.why.clone());
        entry.losers = writes.iter().flat_map(|note| note.losers.iter().cloned()).collect();
        entry.losers.sort();
        entry.losers.dedup();
        entry.round = marked.map(|marked| marked.turn.round()).filter(|round| *round > 0);
        entry.is_adopted = facts.existed && marked.is_some_and(is_adopted);
        entry.phase = hook.map(phase).unwrap_or_default().to_owned();
        Some(entry)
    }

    fn facts(&self, writes: &[Note], refused: Option<&Refusal>, marked: Option<&MarkedObject>) -> WriteFacts {
        let accepted = || writes.iter().filter(|note| note.refused.is_none());
        let existed = accepted().next().or(writes.first()).is_some_and(|note| note.effect != Effect::Create);
        let exists = accepted().next_back().map_or(existed, |note| note.effect != Effect::Delete);
        let changes = accepted().any(|note| matches!(note.effect, Effect::Create | Effect::Change));
        WriteFacts {
            refused: refused.map(|refused| refused.code),
            existed,
            exists,
            was_deleted: accepted().any(|note| note.effect == Effect::Delete),
            is_left: marked.is_some_and(|marked| self.of.former.iter().any(|former| former.key == marked.key)),
            differs: changes,
            changes_managers: accepted().next().is_some(),
            ..WriteFacts::default()
        }
    }

    fn marked(&self, target: &Target<'_>) -> Option<&'m MarkedObject> {
        let is_it = |marked: &&&MarkedObject| {
            let resource = self.mapper.known(&marked.api_version, &marked.key.kind);
            *marked.key.namespace == *target.namespace
                && *marked.key.group == *group_of(target.api_version)
                && resource.is_some_and(|resource| *resource.plural == *target.plural)
        };
        self.marked.get(target.name)?.iter().find(is_it).copied()
    }

    /// Returns the fields in which the record of an object differs from the one before; `None` if either has none.
    fn difference(&self, object: &Name) -> Option<Vec<String>> {
        let before = self.before.as_ref()?.find(object)?;
        Some(changed(Some(before), Some(self.after.find(object)?)).into_iter().collect())
    }

    /// Returns the objects that left the release and stay, which takes no write.
    fn kept(&self, written: &HashMap<String, usize>) -> Vec<AccountEntry> {
        let is_done = self.of.release.info.status == Status::Deployed;
        let name = |former: &MarkedObject| Name {
            api_version: former.api_version.to_string(),
            kind: former.key.kind.to_string(),
            namespace: former.key.namespace.to_string(),
            name: former.key.name.to_string(),
        };
        let is_written = |former: &&MarkedObject| {
            let resource = self.mapper.known(&former.api_version, &former.key.kind);
            let path = resource.and_then(|resource| resource.path(&former.key.namespace, &former.key.name).ok());
            path.is_some_and(|path| written.contains_key(&path))
        };
        let former = self.of.former.iter().filter(|former| is_done && former.kept && !is_written(former));
        former.map(|former| AccountEntry::of(name(former), ChangeKind::Keep)).collect()
    }

    /// Returns the hooks that an interrupted attempt created, and for which this one only waited.
    fn earlier_hooks(&self, known: &[AccountEntry]) -> Vec<AccountEntry> {
        let hooks = self.of.release.hooks.iter().filter(|hook| self.of.is_continued && !phase(hook).is_empty());
        let of = |hook: &Hook| {
            let object = revisions::objects(std::iter::once(&*hook.manifest)).pop()?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let namespace = Some(text(&object["metadata"]["namespace"])).filter(|own| !own.is_empty());
            let object = Name {
                api_version: text(&object["apiVersion"]),
                kind: hook.kind.clone(),
                namespace: namespace.unwrap_or_else(|| self.of.release.namespace.clone()),
                name: hook.name.clone(),
            };
            let is_known = known.iter().any(|entry| entry.object == object);
            (!is_known)
                .then(|| AccountEntry { phase: phase(hook).to_owned(), ..AccountEntry::of(object, ChangeKind::Hook) })
        };
        hooks.filter_map(of).collect()
    }

    fn hook(&self, object: &Name) -> Option<&'m Hook> {
        self.of.release.hooks.iter().find(|hook| hook.kind == object.kind && hook.name == object.name)
    }
}

/// Returns how a hook ended; empty if it is unknown.
fn phase(hook: &Hook) -> &'static str {
    match hook.last_run.phase {
        HookPhase::Running => "running",
        HookPhase::Succeeded => "succeeded",
        HookPhase::Failed => "failed",
        HookPhase::NotRun | HookPhase::Unknown => "",
    }
}

/// Returns the final refusal: the last write's, ignoring writes that only release fields.
fn refused(writes: &[Note]) -> Option<&Refusal> {
    let mut last = writes.iter().rev().filter(|note| note.effect != Effect::Managers);
    last.next().or(writes.last())?.refused.as_ref()
}

fn is_adopted(marked: &MarkedObject) -> bool {
    matches!(marked.adopted, Some(Adopted::Claimed | Adopted::Unclaimed))
}

fn name(target: &Target<'_>, kind: &str) -> Name {
    Name {
        api_version: target.api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: target.namespace.to_owned(),
        name: target.name.to_owned(),
    }
}

fn short(field: &str) -> String {
    match field.len() <= MAX_PATH {
        true => field.to_owned(),
        false => format!("{}…", &field[..field.floor_char_boundary(MAX_PATH)]),
    }
}

/// The objects of a recorded manifest, by group, kind and name.
#[derive(Default)]
struct RecordedObjects {
    namespace: String,
    objects: HashMap<[String; 3], Vec<Value>>,
}

impl RecordedObjects {
    fn of(release: &Release) -> RecordedObjects {
        let mut objects: HashMap<[String; 3], Vec<Value>> = HashMap::new();
        for object in revisions::objects(std::iter::once(&*release.manifest)) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let group = group_of(object["apiVersion"].as_str().unwrap_or_default()).to_owned();
            let key = [group, text(&object["kind"]), text(&object["metadata"]["name"])];
            objects.entry(key).or_default().push(object);
        }
        RecordedObjects { namespace: release.namespace.clone(), objects }
    }

    fn find(&self, object: &Name) -> Option<&Value> {
        let key = [group_of(&object.api_version).to_owned(), object.kind.clone(), object.name.clone()];
        let namespace = |value: &Value| value["metadata"]["namespace"].as_str().map(str::to_owned);
        let is_it = |value: &&Value| {
            object.namespace.is_empty()
                || namespace(value).as_deref().filter(|own| !own.is_empty()).unwrap_or(&self.namespace)
                    == object.namespace
        };
        // The last one counts if a chart renders an object twice.
        self.objects.get(&key)?.iter().rev().find(is_it)
    }
}
