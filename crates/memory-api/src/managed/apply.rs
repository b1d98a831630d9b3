//! Server-side apply: the merged object, its new owners, and conflicts. Counterpart: structured-merge-diff
//! `merge/update.go`.

use serde_json::{Value, json};

use super::update::track;
use super::{By, Entry, Identity, Managers, Operation, compared, strip, unmanaged};
use crate::fields::{Duplicate, Set, fields_of, merge, remove};
use crate::schema::{CUSTOM, Type};
use crate::status::Status;

/// The manager of fields that exist before the first apply to an object without managed fields.
const BEFORE: &str = "before-first-apply";

/// The outcome of an apply.
pub(crate) struct Applied {
    /// The object, with managed fields.
    pub(crate) object: Value,
}

/// What happens if other managers own fields that an apply would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflicts {
    /// The apply takes the fields over.
    TakeOver,
    /// The apply fails.
    Fail,
}

/// Why an apply is refused.
pub(crate) enum Refusal {
    /// Other managers own fields that would change.
    Conflicts(Vec<(Identity, String, Set)>),
    /// A keyed list has two elements with the same key.
    Duplicate(Duplicate),
}

/// Applies `config` to `live`, which has no uid if the object does not exist.
pub(crate) fn apply(
    of: &Type,
    live: &Value,
    config: &Value,
    by: &By,
    conflicts: Conflicts,
) -> Result<Applied, Refusal> {
    let mut managers = Managers::of(live);
    let live = unmanaged(live);
    if managers.entries.is_empty() && live["metadata"]["uid"].is_string() {
        let before = By { manager: BEFORE, ..by.clone() };
        track(&mut managers, of, (&nothing(of, &live), &live), &before);
    }
    let me = Identity {
        operation: Operation::Apply,
        manager: by.manager.to_owned(),
        api_version: String::new(),
        subresource: by.subresource.to_owned(),
    };
    let merged = merge(of, &live, config).map_err(Refusal::Duplicate)?;
    let mut set = fields_of(of, config);
    set.subtract_trees(by.reset);
    let last = managers.entries.remove(&me);
    let time = last.as_ref().map(|last| last.time.clone()).unwrap_or_default();
    managers.entries.insert(me.clone(), Entry { api_version: by.api_version.to_owned(), time, fields: set });
    let object = prune(of, merged, &managers, last.map(|last| last.fields));
    take(&mut managers, &me, of, (&live, &object), by, conflicts)?;
    if object != live
        && let Some(entry) = managers.entries.get_mut(&me)
    {
        by.now.clone_into(&mut entry.time);
    }
    if let Some(entry) = managers.entries.get_mut(&me) {
        strip(&mut entry.fields);
    }
    managers.entries.retain(|_, entry| !entry.fields.is_empty());
    let mut object = object;
    managers.write(&mut object);
    Ok(Applied { object })
}

/// Returns an object of the type without any field set.
fn nothing(of: &Type, live: &Value) -> Value {
    match of {
        Type::Struct { name, .. } if *name != CUSTOM => crate::schema::normal::zero(name),
        _ => json!({"apiVersion": live["apiVersion"], "kind": live["kind"]}),
    }
}

/// Takes the changed fields from other managers.
fn take(
    managers: &mut Managers,
    me: &Identity,
    of: &Type,
    (live, new): (&Value, &Value),
    by: &By,
    conflicts: Conflicts,
) -> Result<(), Refusal> {
    let comparison = compared(of, live, new, by);
    let written = comparison.written();
    let others = managers.entries.iter().filter(|(identity, _)| *identity != me);
    let mut taken: Vec<_> = others
        .map(|(identity, entry)| (identity.clone(), entry.api_version.clone(), entry.fields.intersection(&written)))
        .filter(|(_, _, fields)| !fields.is_empty())
        .collect();
    taken.sort_by(|(a, ..), (b, ..)| (&a.manager, a.operation).cmp(&(&b.manager, b.operation)));
    if conflicts == Conflicts::Fail && !taken.is_empty() {
        return Err(Refusal::Conflicts(taken));
    }
    managers.subtract(&written, Some(me));
    managers.subtract(&comparison.removed, Some(me));
    Ok(())
}

/// Removes the fields that the manager applied last time, no longer applies, and no other manager owns.
fn prune(of: &Type, merged: Value, managers: &Managers, last: Option<Set>) -> Value {
    let Some(last) = last else { return merged };
    let mut managed = Set::default();
    managers.entries.values().for_each(|entry| managed.add(&entry.fields));
    let mut dropped = last.clone();
    dropped.subtract(&managed);
    if dropped.is_empty() {
        return merged;
    }
    let last = last.with_named_fields(of);
    let all = fields_of(of, &merged).with_named_fields(of);
    let kept = |without: &Value| fields_of(of, without).with_named_fields(of);
    let mut unowned = all.clone();
    unowned.subtract(&kept(&remove(of, merged.clone(), &last)));
    unowned.subtract(&managed.with_named_fields(of));
    let mut gone = all;
    gone.subtract(&kept(&remove(of, merged.clone(), &unowned)));
    remove(of, merged, &gone.intersection(&last))
}

impl Refusal {
    /// Returns the server's response.
    pub(crate) fn status(&self, object: &str) -> Status {
        match self {
            Refusal::Duplicate(Duplicate { list, element }) => {
                let message = format!(
                    "failed to create typed patch object ({object}): {list}: duplicate entries for key {element}"
                );
                Status::new(500, "", message)
            }
            Refusal::Conflicts(conflicts) => conflict(conflicts),
        }
    }
}

/// Returns the conflict response. Counterpart: `conflict.go`.
fn conflict(conflicts: &[(Identity, String, Set)]) -> Status {
    let owned: Vec<(String, Vec<String>)> =
        conflicts.iter().map(|(identity, version, fields)| (shown(identity, version), fields.paths())).collect();
    let each = owned.iter().flat_map(|(who, paths)| paths.iter().map(move |path| (who, path)));
    let causes: Vec<Value> = each
        .map(|(who, path)| {
            json!({"reason": "FieldManagerConflict", "message": format!("conflict with {who}"), "field": path})
        })
        .collect();
    let message = match (&owned[..], causes.len()) {
        ([(who, paths)], 1) => format!("Apply failed with 1 conflict: conflict with {who}: {}", paths[0]),
        (_, count) => {
            let text = owned.iter().map(|(who, paths)| format!("conflicts with {who}:\n- {}", paths.join("\n- ")));
            format!("Apply failed with {count} conflicts: {}", text.collect::<Vec<_>>().join("\n"))
        }
    };
    Status { details: json!({"causes": causes}), ..Status::new(409, "Conflict", message) }
}

fn shown(identity: &Identity, api_version: &str) -> String {
    let mut who = format!("\"{}\"", identity.manager);
    if !identity.subresource.is_empty() {
        who = format!("{who} with subresource \"{}\"", identity.subresource);
    }
    if identity.operation == Operation::Update {
        who = format!("{who} using {api_version}");
    }
    who
}
