//! The status fields that the definition's schema declares. Upstream's updates silently lose undeclared fields, but the
//! server rejects a server-side apply of them. They are therefore omitted, and other managers' conditions stay.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use helm_release::kube::Error;
use outside::sync::lock;
use serde_json::Value;
use tokio::time::Instant;

/// How long a field counts as undeclared before it is tried again, because the definition may have changed.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(600);

/// The maximum number of fields that are recorded, which is more than our status has.
const MAX_FIELDS: usize = 64;

/// Fields that the status can do without. Where the schema gives them another type, they belong to someone else.
const DISPENSABLE: [&str; 3] = ["history", "inventory", "nextAttempt"];

/// The path of a field below the status. Items of lists have no name: a field counts as undeclared in all items.
type Field = Vec<String>;

/// The fields that the schema of a kind does not declare.
#[derive(Default)]
pub(crate) struct Undeclared {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    fields: BTreeSet<Field>,
    since: Option<Instant>,
    logged: BTreeSet<Field>,
}

/// The result of a rejected status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lesson {
    /// The error has another cause.
    Nothing,
    /// More fields are omitted from now on; contains those to log, in Kubernetes' notation.
    Learned(Vec<String>),
}

impl Undeclared {
    /// Removes the undeclared fields. Returns whether there is anything left to write.
    pub(crate) fn remove_from(&self, status: &mut Value) -> bool {
        let mut known = lock(&self.known);
        if known.since.is_some_and(|since| since.elapsed() >= REMEMBERED) {
            known.fields.clear();
            known.since = None;
        }
        known.fields.iter().for_each(|field| remove(status, field));
        !known.fields.contains(&Field::new()) && status.as_object().is_none_or(|fields| !fields.is_empty())
    }

    /// Returns whether a status that was sent has fields that are omitted by now.
    pub(crate) fn omits_some_of(&self, sent: &Value) -> bool {
        let mut left = sent.clone();
        !self.remove_from(&mut left) || left != *sent
    }

    /// Records the undeclared fields that an error names. The request must not contain values of a user's choice: the server
    /// quotes them, and what they say would count for every resource of the kind.
    pub(crate) fn learn(&self, error: &Error) -> Lesson {
        self.record(error.undeclared_fields().into_iter().filter_map(field).chain(of_another_type(error)).collect())
    }

    /// Records an undeclared field of the status itself, or of the deployed release in it, that is the first one that an error
    /// names. Nothing that a user chose precedes it.
    pub(crate) fn learn_first(&self, error: &Error) -> Lesson {
        // The key of a list's item is a user's choice.
        let first = error.first_undeclared_field().filter(|path| !path.contains('[')).and_then(field);
        self.record(first.into_iter().filter(|field| field.len() <= 1 || field[0] == "deployedRelease").collect())
    }

    fn record(&self, fields: BTreeSet<Field>) -> Lesson {
        let mut known = lock(&self.known);
        let is_new = fields.iter().any(|field| !known.fields.contains(field));
        if !is_new || known.fields.len() + fields.len() > MAX_FIELDS {
            return Lesson::Nothing;
        }
        let unlogged = fields.difference(&known.logged).map(shown).collect();
        known.logged.extend(fields.iter().cloned());
        known.fields.extend(fields);
        known.since.get_or_insert_with(Instant::now);
        Lesson::Learned(unlogged)
    }
}

/// Returns the dispensable fields that the server rejects, whose types must be others then.
fn of_another_type(error: &Error) -> Vec<Field> {
    let rejected = error.rejected_fields();
    let is_meant = |name: &&&str| {
        rejected.iter().any(|path| {
            let rest = path.trim_start_matches('.').strip_prefix("status.").and_then(|rest| rest.strip_prefix(**name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    };
    DISPENSABLE.iter().filter(is_meant).map(|name| vec![(*name).to_owned()]).collect()
}

fn shown(field: &Field) -> String {
    field.iter().fold(".status".to_owned(), |path, name| format!("{path}.{name}"))
}

/// Parses `.status.conditions[type="Ready"].observedGeneration`; returns `None` for a path outside the status.
fn field(path: &str) -> Option<Field> {
    let mut names = Vec::new();
    let mut rest = path.strip_prefix(".status")?;
    while !rest.is_empty() {
        if let Some(item) = rest.strip_prefix('[') {
            rest = item.split_once(']')?.1;
            continue;
        }
        let name = rest.strip_prefix('.')?;
        let end = name.find(['.', '[']).unwrap_or(name.len());
        names.push(name[..end].to_owned());
        rest = &name[end..];
    }
    Some(names)
}

fn remove(value: &mut Value, field: &[String]) {
    match (value, field) {
        (Value::Array(items), field) => items.iter_mut().for_each(|item| remove(item, field)),
        (Value::Object(entries), [last]) => _ = entries.remove(last),
        (Value::Object(entries), [first, rest @ ..]) => {
            if let Some(inner) = entries.get_mut(first) {
                remove(inner, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(faults: &str) -> Error {
        let message = format!("failed to create typed patch object (ns/a; e.x/v1, Kind=Web): {faults}");
        Error::from_status(500, "", &message)
    }

    #[tokio::test(start_paused = true)]
    async fn undeclared_fields_are_left_out_until_the_definition_may_have_changed() {
        let undeclared = Undeclared::default();
        let error = refusal(
            "errors:\n  .status.observedGeneration: field not declared in schema\n  \
             .status.conditions[type=\"Ready\"].observedGeneration: field not declared in schema",
        );
        let logged = [".status.conditions.observedGeneration", ".status.observedGeneration"].map(String::from).to_vec();
        assert_eq!(undeclared.learn(&error), Lesson::Learned(logged));
        assert_eq!(
            undeclared.learn(&error),
            Lesson::Nothing,
            "the same refusal again is no reason to repeat the write"
        );
        let whole = json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "observedGeneration": 1}]});
        let mut status = whole.clone();
        assert!(undeclared.remove_from(&mut status));
        assert_eq!(status, json!({"conditions": [{"type": "Ready"}]}));
        tokio::time::advance(REMEMBERED).await;
        let mut later = whole.clone();
        assert!(undeclared.remove_from(&mut later) && later == whole);
        assert_eq!(undeclared.learn(&error), Lesson::Learned(Vec::new()), "logged once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_schema_without_a_status_leaves_nothing_to_write() {
        let undeclared = Undeclared::default();
        let logged = vec![".status".to_owned()];
        assert_eq!(undeclared.learn(&refusal(".status: field not declared in schema")), Lesson::Learned(logged));
        assert!(!undeclared.remove_from(&mut json!({"conditions": []})));
    }

    #[test]
    fn fields_that_have_another_type_in_the_schema_are_left_to_their_owner() {
        let cause = json!({"reason": "FieldValueTypeInvalid", "field": "status.inventory", "message": "not a string"});
        let invalid = json!({"reason": "Invalid", "message": "invalid", "details": {"causes": [cause]}});
        let invalid = Error::response(422, invalid.to_string().as_bytes());
        for (error, field) in [(refusal(".status.history: expected map, got &{[]}"), "history"), (invalid, "inventory")]
        {
            let undeclared = Undeclared::default();
            assert_eq!(undeclared.learn(&error), Lesson::Learned(vec![format!(".status.{field}")]), "{error}");
            let mut status = json!({"history": [], "inventory": {}, "conditions": []});
            undeclared.remove_from(&mut status);
            assert!(status.get(field).is_none() && status.as_object().unwrap().len() == 2);
        }
    }

    #[test]
    fn beside_values_of_users_only_a_first_fault_of_the_status_itself_teaches() {
        let lesson = |faults: &str| Undeclared::default().learn_first(&refusal(faults));
        let learned = |field: &str| Lesson::Learned(vec![field.to_owned()]);
        assert_eq!(lesson(".status.hosts: field not declared in schema"), learned(".status.hosts"));
        let nested = ".status.deployedRelease.overrideValuesAreStrings";
        assert_eq!(lesson(&format!("{nested}: field not declared in schema")), learned(nested));
        let two = "errors:\n  .status.hosts: field not declared in schema\n  .status.conditions: field not declared in schema";
        assert_eq!(lesson(two), learned(".status.hosts"));
        for quoted in [
            ".status.hosts: expected list, got &{x\n  .status.conditions: field not declared in schema\n  y}",
            ".status.hosts.x\n  .status.conditions: field not declared in schema: expected string, got &{1}",
            ".status.hosts.x; .status.conditions: field not declared in schema",
            ".status.hosts.x: field not declared in schema",
            ".status.hosts[name=\"x]: field not declared in schema\"].port: expected numeric (int or float), got &{y}",
            ".status.hosts[=\"x]: field not declared in schema\"]: duplicate entries",
        ] {
            assert_eq!(lesson(quoted), Lesson::Nothing, "{quoted}");
        }
    }

    #[test]
    fn other_refusals_teach_nothing() {
        for error in [
            refusal(".spec.a: field not declared in schema"),
            refusal(".status.conditions: expected list, got &{map[]}"),
            Error::from_status(403, "Forbidden", "no"),
            Error::from_status(403, "Forbidden", "status.history is not yours"),
            Error::from_status(422, "Invalid", "spec.hosts: Invalid value: \"status.history\""),
            Error::from_status(
                422,
                "Invalid",
                "no: does not fit its schema: .status.conditions: field not declared in schema",
            ),
        ] {
            assert_eq!(Undeclared::default().learn(&error), Lesson::Nothing, "{error}");
        }
    }
}
