//! Claims unowned server defaults that block an apply: since no manager owns them, no apply removes them.
//!
//! For a Deployment without `strategy`, the server sets `rollingUpdate`; after a change to `type: Recreate` it forbids
//! that field. Once the default is among our fields, applying the manifest without it removes it. The same applies
//! wherever one field excludes another: a StatefulSet's `updateStrategy`, or a volume's source.

use serde_json::{Map, Value, json};

use crate::kube::objects::decorate::FIELD_MANAGER;

/// Returns the managed fields with the unowned siblings of rejected fields added to ours; `None` if there are none.
///
/// `objections` are paths in the server's notation: `spec.template.spec.volumes[0].configMap`. Direct children of
/// `spec` are skipped, because the server assigns some of them, such as `spec.clusterIP`.
pub(in crate::kube) fn with_defaults(live: &Value, body: &Value, objections: &[String]) -> Option<Value> {
    let mut entries = live["metadata"]["managedFields"].as_array()?.clone();
    let ours = entries.iter().position(is_ours)?;
    let others: Vec<Value> =
        entries.iter().filter(|e| e["manager"] != FIELD_MANAGER).map(|e| e["fieldsV1"].clone()).collect();
    let others: Vec<&Value> = others.iter().collect();
    let before = entries[ours]["fieldsV1"].clone();
    for objection in objections {
        let steps = steps(objection);
        if let Some((_, parent @ [_, _, ..])) = steps.split_last() {
            let mut fields = entries[ours]["fieldsV1"].clone();
            if claim(&mut fields, &others, Some(live), Some(body), parent) == Some(true) {
                entries[ours]["fieldsV1"] = fields;
            }
        }
    }
    (entries[ours]["fieldsV1"] != before).then(|| entries.into())
}

/// Returns whether a managed fields entry holds the fields that we apply.
pub(in crate::kube) fn is_ours(entry: &Value) -> bool {
    let subresource = entry["subresource"].as_str().unwrap_or_default();
    entry["manager"] == FIELD_MANAGER && entry["operation"] == "Apply" && subresource.is_empty()
}

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Item(usize),
}

/// Splits a path into fields and list indexes.
fn steps(path: &str) -> Vec<Step> {
    let parts = path.split(['.', '[']).map(|part| part.trim_end_matches(']')).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_or_else(|_| Step::Field(part.to_owned()), Step::Item)).collect()
}

/// Follows the steps in our fields, others' fields, the live object and the manifest in parallel. Returns whether it
/// claimed a field.
fn claim(
    ours: &mut Value,
    others: &[&Value],
    live: Option<&Value>,
    body: Option<&Value>,
    steps: &[Step],
) -> Option<bool> {
    let Some((step, rest)) = steps.split_first() else { return claim_children(ours, others, live?, body) };
    let (key, live, body) = match step {
        Step::Field(name) => (format!("f:{name}"), live?.get(name), body.and_then(|b| b.get(name))),
        Step::Item(at) => {
            let item = live?.get(at)?;
            let (key, id) = element(ours, item)?;
            let same = body.and_then(Value::as_array)?.iter().find(|item| has_all(item, &id));
            (key, Some(item), same)
        }
    };
    let others: Vec<&Value> = others.iter().filter_map(|fields| fields.get(&key)).collect();
    claim(ours.as_object_mut()?.entry(key).or_insert_with(|| json!({})), &others, live, body, rest)
}

/// Finds our entry for an element of a keyed list, `k:{"name":"x"}`, and its key fields.
fn element(ours: &Value, item: &Value) -> Option<(String, Map<String, Value>)> {
    ours.as_object()?.keys().find_map(|key| {
        let id: Map<String, Value> = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
        has_all(item, &id).then(|| (key.clone(), id))
    })
}

fn has_all(item: &Value, id: &Map<String, Value>) -> bool {
    id.iter().all(|(key, value)| item.get(key) == Some(value))
}

fn claim_children(ours: &mut Value, others: &[&Value], live: &Value, body: Option<&Value>) -> Option<bool> {
    let ours = ours.as_object_mut()?;
    let mut claimed = false;
    for name in live.as_object()?.keys() {
        let wanted = body.and_then(|b| b.get(name)).is_some_and(|value| !value.is_null());
        let key = format!("f:{name}");
        if !wanted && !ours.contains_key(&key) && !others.iter().any(|fields| fields.get(&key).is_some()) {
            ours.insert(key, json!({}));
            claimed = true;
        }
    }
    Some(claimed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPLY: &str = "Apply";

    /// Returns a live object with our fields and those of another manager.
    fn live(spec: Value, ours: Value, theirs: Value) -> Value {
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": {"f:spec": fields}});
        let managed = [
            entry(FIELD_MANAGER, "Update", json!({})),
            entry(FIELD_MANAGER, APPLY, ours),
            entry("kubectl", "Update", theirs),
        ];
        json!({"metadata": {"managedFields": managed}, "spec": spec})
    }

    fn check(live: &Value, spec: Value, objection: &str, expected: Option<Value>) {
        let found = with_defaults(live, &json!({"spec": spec}), &[objection.to_owned()]);
        assert_eq!(found.map(|entries| entries[1]["fieldsV1"]["f:spec"].clone()), expected, "{objection}");
    }

    #[test]
    fn defaults_that_exclude_wanted_fields_are_claimed() {
        let defaults = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}});
        let recreate = json!({"strategy": {"type": "Recreate"}});
        let path = "spec.strategy.rollingUpdate";
        let claimed = json!({"f:replicas": {}, "f:strategy": {"f:rollingUpdate": {}}});
        let plain = live(defaults.clone(), json!({"f:replicas": {}}), json!({}));
        check(&plain, recreate.clone(), path, Some(claimed.clone()));
        check(&plain, json!({"strategy": {"type": "Recreate", "rollingUpdate": null}}), path, Some(claimed));
        let named = live(defaults.clone(), json!({"f:strategy": {"f:type": {}}}), json!({}));
        check(&named, recreate.clone(), path, Some(json!({"f:strategy": {"f:type": {}, "f:rollingUpdate": {}}})));
        let theirs = live(defaults.clone(), json!({}), json!({"f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}}}));
        check(&theirs, recreate.clone(), path, None);
        let ours = live(defaults, json!({"f:strategy": {"f:rollingUpdate": {}}}), json!({}));
        check(&ours, recreate, path, None);
    }

    #[test]
    fn subresource_entries_are_not_ours() {
        let mut live = live(json!({"strategy": {"rollingUpdate": {}}}), json!({}), json!({}));
        live["metadata"]["managedFields"][1]["subresource"] = "status".into();
        check(&live, json!({"strategy": {}}), "spec.strategy.rollingUpdate", None);
    }

    #[test]
    fn volumes_are_found_by_name() {
        let volume = json!({"volumes": [{"name": "x", "emptyDir": {}}]});
        let fields = json!({"f:volumes": {"k:{\"name\":\"a\"}": {}, "k:{\"name\":\"x\"}": {".": {}, "f:name": {}}}});
        let live = live(volume, fields, json!({}));
        let wanted = json!({"volumes": [{"name": "x", "configMap": {}}]});
        let mut expected =
            json!({"f:volumes": {"k:{\"name\":\"a\"}": {}, "k:{\"name\":\"x\"}": {".": {}, "f:name": {}}}});
        expected["f:volumes"]["k:{\"name\":\"x\"}"]["f:emptyDir"] = json!({});
        check(&live, wanted.clone(), "spec.volumes[0].configMap", Some(expected));
        check(&live, wanted, "spec.volumes[1].configMap", None);
        check(&live, json!({}), "spec.volumes[0].configMap", None);
    }

    #[test]
    fn fields_that_the_server_assigns_are_not_claimed() {
        let live = live(json!({"clusterIP": "10.0.0.1"}), json!({}), json!({}));
        check(&live, json!({}), "spec.clusterIPs[0]", None);
        check(&live, json!({}), "spec.clusterIP", None);
        check(&live, json!({}), "spec", None);
        check(&live, json!({}), "spec.clusterIP.x", None);
        assert_eq!(with_defaults(&json!({}), &json!({}), &["spec.a.b".to_owned()]), None);
    }

    #[test]
    fn paths_are_split_into_steps() {
        let field = |name: &str| Step::Field(name.to_owned());
        assert_eq!(
            steps("spec.volumes[10].configMap"),
            [field("spec"), field("volumes"), Step::Item(10), field("configMap")]
        );
        assert_eq!(steps("data[tls.crt]"), [field("data"), field("tls"), field("crt")]);
    }
}
