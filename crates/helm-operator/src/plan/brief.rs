//! Summarizes a plan for readers who may see the resource but not its objects' content: shows names, and which fields
//! change, but no values.

use std::collections::BTreeSet;

use serde_json::Value;

use super::text::line;
use super::{Change, ChangeKind, Plan};
use crate::mask::Mask;

/// How many fields of one object are named.
const MAX_FIELDS: usize = 10;

/// The maximum length of one object's line, in bytes.
const MAX_LINE: usize = 600;

/// Room for the last line, in bytes.
const MORE: usize = 24;

/// Returns a plan in at most `limit` bytes: the summary, why the reconcile fails or waits, and a line for each object,
/// as many as there is room for. Names fields, never values.
pub(crate) fn brief(plan: &Plan, mask: &Mask, limit: usize) -> String {
    let mut text = plan.summary();
    if let Some(notice) = &plan.notice {
        let verb = if notice.is_failure { "fails" } else { "waits" };
        let why = mask.hide(format!("{}: {}", notice.reason, notice.message));
        text.push_str(&format!("; {verb}: {}", controller::report::shorten(&why, limit / 2)));
    }
    for (at, change) in plan.changes.iter().enumerate() {
        let line = controller::report::shorten(&mask.hide(described(change)), MAX_LINE);
        if text.len() + 1 + line.len() + MORE > limit {
            text.push_str(&format!("\nand {} more", plan.changes.len() - at));
            break;
        }
        text.push('\n');
        text.push_str(&line);
    }
    text
}

/// Returns the line of an object, with the fields that change.
fn described(change: &Change) -> String {
    let fields = match change.action {
        ChangeKind::Update | ChangeKind::Recreate | ChangeKind::Hook => {
            changed(change.before.as_ref(), change.after.as_ref())
        }
        _ => BTreeSet::new(),
    };
    let line = line(change);
    match fields.len() {
        0 => line,
        count if count > MAX_FIELDS => {
            let named: Vec<String> = fields.into_iter().take(MAX_FIELDS).collect();
            format!("{line}: {} and {} more fields", named.join(", "), count - MAX_FIELDS)
        }
        _ => format!("{line}: {}", fields.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the paths of the fields that differ; none if one of the objects does not exist.
pub(super) fn changed(before: Option<&Value>, after: Option<&Value>) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    if let (Some(before), Some(after)) = (before, after) {
        compare("", before, after, &mut paths);
    }
    paths
}

fn compare(path: &str, before: &Value, after: &Value, paths: &mut BTreeSet<String>) {
    match (before, after) {
        (old, new) if old == new => {}
        (Value::Object(old), Value::Object(new)) => {
            for key in old.keys().chain(new.keys()) {
                let (old, new) = (old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null));
                compare(&below(path, key), old, new, paths);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{at}]"), old, new, paths);
            }
        }
        _ => _ = paths.insert(path.to_owned()),
    }
}

/// Returns the path of a field. A key that would not be read as one is quoted.
fn below(path: &str, key: &str) -> String {
    let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    match (path.is_empty(), is_word) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        _ => format!("{path}[{key:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{Name, Notice};

    fn object(name: &str) -> Name {
        Name { kind: "ConfigMap".into(), name: name.into(), ..Name::default() }
    }

    fn change(name: &str, action: ChangeKind, before: Option<Value>, after: Option<Value>) -> Change {
        Change { action, before, after, ..Change::kept(object(name)) }
    }

    fn plan(changes: Vec<Change>, notice: Option<Notice>) -> Plan {
        Plan { resource: Name::default(), changes, writes: Vec::new(), notice }
    }

    #[test]
    fn a_plan_names_objects_and_fields_and_no_value() {
        let before = json!({"data": {"a": "old", "b": "same", "x.y/z": "1"}, "list": [{"a": 1}, {"a": 2}], "gone": 1});
        let after = json!({"data": {"a": "new", "b": "same"}, "list": [{"a": 1}, {"a": 3}], "more": {"deep": 1}});
        let changes = vec![
            change("new", ChangeKind::Create, None, Some(json!({"data": {"password": "canary"}}))),
            change("old", ChangeKind::Update, Some(before), Some(after)),
            change("gone", ChangeKind::Delete, Some(json!({"data": {"password": "canary"}})), None),
            change("kept", ChangeKind::Keep, None, None),
        ];
        let expected = "+1 ~1 -1, 1 kept\n+ ConfigMap new\n\
            ~ ConfigMap old: data.a, data[\"x.y/z\"], gone, list[1].a, more\n- ConfigMap gone\n\
            = ConfigMap kept (leaves the release and stays)";
        assert_eq!(brief(&plan(changes, None), &Mask::default(), 4096), expected);
    }

    #[test]
    fn a_plan_that_fails_or_waits_says_why_without_what_is_secret() {
        let mut mask = Mask::default();
        mask.add_data(&json!({"kind": "Secret", "stringData": {"password": "canary-8c1f"}}));
        let notice =
            |is_failure| Notice { is_failure, reason: "UpgradeError".into(), message: "no canary-8c1f".into() };
        let text = |is_failure| brief(&plan(Vec::new(), Some(notice(is_failure))), &mask, 4096);
        assert!(text(true).starts_with("no changes; fails: UpgradeError: no "), "{}", text(true));
        assert!(text(false).starts_with("no changes; waits: ") && !text(false).contains("canary"), "{}", text(false));
    }

    #[test]
    fn a_long_plan_is_cut_between_objects_and_says_how_many_are_left_out() {
        let before = |size: usize| (0..size).map(|n| (format!("k{n:03}"), json!(n))).collect::<serde_json::Map<_, _>>();
        let many = change("many", ChangeKind::Update, Some(Value::Object(before(40))), Some(json!({})));
        let text = brief(&plan(vec![many], None), &Mask::default(), 4096);
        assert!(text.ends_with("k008, k009 and 30 more fields"), "{text}");
        let changes: Vec<Change> =
            (0..500).map(|n| change(&format!("a{n}"), ChangeKind::Create, None, Some(json!({})))).collect();
        let text = brief(&plan(changes, None), &Mask::default(), 400);
        let (whole, last) = text.rsplit_once('\n').unwrap();
        let named = whole.lines().count() - 1;
        assert_eq!(last, format!("and {} more", 500 - named));
        assert!(text.len() <= 400 && text.len() > 350, "{}", text.len());
        let long = change(&"x".repeat(5000), ChangeKind::Create, None, Some(json!({})));
        assert!(brief(&plan(vec![long], None), &Mask::default(), 4096).len() < 700);
    }
}
