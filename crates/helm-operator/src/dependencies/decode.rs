//! Decodes `dependsOn`, a list in watches.yaml or in the annotation `depends-on`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use kube::core::labels::ParseExpressionError;
use serde_json::{Map, Value};

use super::{Dependency, MAX_ENTRIES, Target, Until};
use crate::cel::{self, Expression};
use crate::spelling::unknown_key;
use crate::values_from::fill;

const KEYS: [&str; 8] = ["group", "kind", "name", "selector", "namespace", "until", "ready", "reverseDeletion"];

/// Decodes a list of entries.
///
/// # Errors
/// The first mistake, with the place of its entry.
pub(crate) fn parse(list: &Value) -> Result<Vec<Dependency>, String> {
    let Value::Array(entries) = list else { return Err("expected a list".to_owned()) };
    if entries.len() > MAX_ENTRIES {
        return Err(format!("has {} entries; at most {MAX_ENTRIES} are allowed", entries.len()));
    }
    let decode = |(at, entry)| dependency(entry).map_err(|what| format!("[{at}]: {what}"));
    entries.iter().enumerate().map(decode).collect()
}

fn dependency(entry: &Value) -> Result<Dependency, String> {
    let Value::Object(fields) = entry else { return Err("expected a mapping".to_owned()) };
    if let Some(key) = fields.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(unknown_key(key, &KEYS));
    }
    let (group, kind) = (text(fields, "group")?.unwrap_or_default(), kind(fields)?);
    let until = until(fields, &group, &kind)?;
    let (target, namespace) = (target(fields)?, text(fields, "namespace")?);
    if let Some(namespace) = &namespace {
        // Any valid name will do: this only checks the placeholders.
        fill("namespace", namespace, "x", "x")?;
    }
    let reverse_deletion = match fields.get("reverseDeletion") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(reverse)) => *reverse,
        Some(_) => return Err("reverseDeletion: expected true or false".to_owned()),
    };
    if reverse_deletion && matches!(target, Target::Selected(_)) {
        return Err("reverseDeletion needs a name, not a selector".to_owned());
    }
    Ok(Dependency { group, kind, target, namespace, until, reverse_deletion })
}

fn text(fields: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{key}: expected a string")),
    }
}

fn kind(fields: &Map<String, Value>) -> Result<String, String> {
    let kind = text(fields, "kind")?.unwrap_or_default();
    match kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        _ if kind.is_empty() => Err("an entry needs a kind".to_owned()),
        true => Ok(kind),
        false => Err(format!("kind: {kind:?} is not a kind; a group has its own key, group")),
    }
}

fn target(fields: &Map<String, Value>) -> Result<Target, String> {
    match (text(fields, "name")?, fields.get("selector").filter(|selector| !selector.is_null())) {
        (Some(name), None) => {
            fill("name", &name, "x", "x")?;
            Ok(Target::Named(name.into()))
        }
        (None, Some(labels)) => {
            let labels: LabelSelector =
                serde_json::from_value(labels.clone()).map_err(|cause| format!("selector: {cause}"))?;
            let selector: Result<Selector, ParseExpressionError> = labels.try_into();
            let selector = selector.map_err(|cause| format!("selector: {cause}"))?;
            match selector.selects_all() {
                true => Err("selector: names no label".to_owned()),
                false => Ok(Target::Selected(selector)),
            }
        }
        _ => Err("an entry needs either a name or a selector".to_owned()),
    }
}

fn until(fields: &Map<String, Value>, group: &str, kind: &str) -> Result<Until, String> {
    match (text(fields, "until")?.as_deref(), text(fields, "ready")?) {
        (None | Some("ready"), None) => Ok(Until::Ready),
        (Some("exists"), None) => Ok(Until::Exists),
        (None | Some("ready"), Some(_)) if (group, kind) == ("", "Secret") => Err(cel::Error::Secrets.to_string()),
        (None | Some("ready"), Some(source)) => match Expression::compile(&source, &["self"]) {
            Ok(expression) => Ok(Until::True(expression)),
            Err(cause) => Err(format!("ready: {source:?}: {cause}")),
        },
        (Some("exists"), Some(_)) => Err("ready is an expression for until: ready, not for until: exists".to_owned()),
        (Some(other), _) => Err(format!("until must be \"exists\" or \"ready\", found {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mistake(entry: Value) -> String {
        parse(&json!([entry])).unwrap_err()
    }

    #[test]
    fn an_entry_names_objects_and_what_must_be_true_of_them() {
        let entries = json!([
            {"kind": "Secret", "name": "$(name)-tls", "until": "exists"},
            {"group": "db.example.com", "kind": "Database", "name": "db", "namespace": "data", "reverseDeletion": true},
            {"group": "apps", "kind": "Deployment", "selector": {"matchLabels": {"tier": "db"}}},
            {"group": "db.example.com", "kind": "Database", "name": "db", "ready": "self.status.phase == 'Up'"},
        ]);
        let parsed = parse(&entries).unwrap();
        let shown: Vec<String> = parsed.iter().map(|one| format!("{} {:?}", one.kind, one.until)).collect();
        assert_eq!(
            shown,
            ["Secret Exists", "Database Ready", "Deployment Ready", "Database True(self.status.phase == 'Up')"]
        );
        assert!(parsed[1].reverse_deletion && parsed[1].namespace.as_deref() == Some("data"));
    }

    #[test]
    fn a_mistake_is_named_with_its_place_and_what_was_probably_meant() {
        for (entry, expected) in [
            (json!({"knd": "A"}), "[0]: unknown key \"knd\"; the keys are group, kind,"),
            (json!("a"), "[0]: expected a mapping"),
            (json!({"name": "a"}), "[0]: an entry needs a kind"),
            (json!({"kind": "Deployment.apps", "name": "a"}), "[0]: kind: \"Deployment.apps\" is not a kind; a group"),
            (json!({"kind": "A"}), "[0]: an entry needs either a name or a selector"),
            (json!({"kind": "A", "name": "a", "selector": {}}), "[0]: an entry needs either a name or a selector"),
            (json!({"kind": "A", "selector": {}}), "[0]: selector: names no label"),
            (json!({"kind": "A", "name": "$(uid)"}), "[0]: name: only $(name) and $(namespace) are known"),
            (json!({"kind": "A", "name": "a", "namespace": "A"}), "[0]: namespace \"A\" is not a valid name"),
            (json!({"kind": "A", "name": "a", "until": "exist"}), "[0]: until must be \"exists\" or \"ready\""),
            (json!({"kind": "A", "name": "a", "until": "exists", "ready": "true"}), "[0]: ready is an expression"),
            (json!({"kind": "A", "name": "a", "ready": "self.("}), "[0]: ready: \"self.(\": 1:"),
            (json!({"kind": "Secret", "name": "a", "ready": "true"}), "[0]: Secrets are never given"),
            (json!({"kind": "A", "name": "a", "reverseDeletion": 1}), "[0]: reverseDeletion: expected true or false"),
            (
                json!({"kind": "A", "selector": {"matchLabels": {"a": "b"}}, "reverseDeletion": true}),
                "[0]: reverseDeletion needs a name",
            ),
        ] {
            let found = mistake(entry.clone());
            assert!(found.starts_with(expected), "{entry}: {found}");
        }
        assert!(mistake(json!({"kind": "A", "selecter": "a"})).ends_with("did you mean \"selector\"?"));
        assert_eq!(parse(&json!({})).unwrap_err(), "expected a list");
        let many = vec![json!({"kind": "A", "name": "a"}); MAX_ENTRIES + 1];
        assert_eq!(parse(&json!(many)).unwrap_err(), "has 21 entries; at most 20 are allowed");
    }
}
