//! Fields that are only assigned by the write itself: uids, addresses, ports, the mark of a hook's run. Each dry run
//! invents other values, so a plan shows a placeholder.

use helm_release::kube::HOOK_RUN_ANNOTATION;
use serde_json::Value;

/// What a plan shows for it.
const ASSIGNED: &str = "(assigned)";

/// The fields of a Service's `spec` and of its ports that the API server fills in.
const OF_SERVICE: [&str; 3] = ["clusterIP", "clusterIPs", "healthCheckNodePort"];
const OF_PORT: &str = "nodePort";

/// The resource that is planned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource<'r> {
    /// As it is after the reconcile.
    pub(crate) object: &'r Value,
    pub(crate) path: &'r str,
    /// Whether it is in the cluster; otherwise a dry run invented its uid.
    pub(crate) exists: bool,
}

impl<'r> Resource<'r> {
    pub(super) fn uid(self) -> &'r str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

/// Replaces it in an object that was `sent` like this.
pub(super) fn hide(object: &mut Value, before: Option<&Value>, sent: &Value, resource: Resource<'_>) {
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(run) = annotations.and_then(|annotations| annotations.get_mut(HOOK_RUN_ANNOTATION)) {
        *run = ASSIGNED.into();
    }
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let is_new = before.is_none_or(|before| before["metadata"]["uid"] != uid.as_str());
    let mut invented: Vec<&str> = Vec::new();
    if is_new {
        invented.push(&uid);
    }
    hide_addresses(object, before.filter(|_| !is_new).unwrap_or(&Value::Null), sent);
    if !resource.exists {
        invented.push(resource.uid());
    }
    invented.retain(|uid| !uid.is_empty());
    replace(object, &invented);
}

/// Replaces texts that are one of these.
fn replace(value: &mut Value, texts: &[&str]) {
    match value {
        Value::String(text) if texts.contains(&text.as_str()) => *text = ASSIGNED.to_owned(),
        Value::Object(map) => map.values_mut().for_each(|inner| replace(inner, texts)),
        Value::Array(list) => list.iter_mut().for_each(|inner| replace(inner, texts)),
        _ => {}
    }
}

/// Replaces a Service's addresses and ports, unless they were sent or the Service had them before.
fn hide_addresses(service: &mut Value, before: &Value, sent: &Value) {
    if service["kind"] != "Service" || service["apiVersion"] != "v1" {
        return;
    }
    // A Service without an address has `None` in each of the fields.
    let is_headless = service["spec"]["clusterIP"] == "None";
    let Some(spec) = service["spec"].as_object_mut() else { return };
    for field in OF_SERVICE {
        match spec.get_mut(field).filter(|one| **one != before["spec"][field]) {
            Some(Value::Array(all))
                if !is_headless && !is_set(&sent["spec"]["clusterIP"]) && !is_set(&sent["spec"][field]) =>
            {
                all.iter_mut().for_each(|one| *one = ASSIGNED.into());
            }
            Some(one) if !one.is_array() && !is_headless && !is_set(&sent["spec"][field]) => *one = ASSIGNED.into(),
            _ => {}
        }
    }
    let is_sent = |port: &Value| ports(sent).iter().any(|one| one["port"] == port["port"] && is_set(&one[OF_PORT]));
    let was_there = |port: &Value| ports(before).iter().any(|one| one[OF_PORT] == port[OF_PORT]);
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        if !port[OF_PORT].is_null() && !is_sent(port) && !was_there(port) {
            port[OF_PORT] = ASSIGNED.into();
        }
    }
}

fn ports(service: &Value) -> &[Value] {
    service["spec"]["ports"].as_array().map_or(&[][..], Vec::as_slice)
}

/// Returns whether the API server sees a value in a field: it fills in fields that are empty or 0.
fn is_set(value: &Value) -> bool {
    !(value.is_null() || *value == 0 || *value == "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hidden(mut object: Value, before: Option<&Value>, sent: &Value, exists: bool) -> Value {
        let resource = json!({"metadata": {"uid": "owner"}});
        hide(&mut object, before, sent, Resource { object: &resource, path: "", exists });
        object
    }

    #[test]
    fn uids_that_a_dry_run_invents_are_not_shown() {
        let job = json!({
            "metadata": {"uid": "own", "ownerReferences": [{"uid": "owner"}], "annotations": {HOOK_RUN_ANNOTATION: "3.now"}},
            "spec": {"selector": {"controller-uid": "own"}, "other": "own-not"},
        });
        let shown = hidden(job.clone(), None, &Value::Null, false);
        assert_eq!(shown["spec"], json!({"selector": {"controller-uid": ASSIGNED}, "other": "own-not"}));
        assert_eq!(shown["metadata"]["ownerReferences"][0]["uid"], ASSIGNED);
        assert_eq!(shown["metadata"]["annotations"][HOOK_RUN_ANNOTATION], ASSIGNED);

        let shown = hidden(job.clone(), Some(&job), &Value::Null, true);
        assert_eq!(shown["spec"], job["spec"], "it keeps its uid");
        assert_eq!(shown["metadata"]["ownerReferences"], job["metadata"]["ownerReferences"]);
    }

    #[test]
    fn addresses_and_ports_are_shown_where_the_chart_sets_them_or_the_service_has_them() {
        let service =
            |spec: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"uid": "u"}, "spec": spec});
        let answered = service(json!({
            "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "healthCheckNodePort": 30003,
            "ports": [{"port": 80, "nodePort": 30001}, {"port": 81, "nodePort": 30002}, {"port": 82}],
        }));
        let sent = service(json!({"ports": [{"port": 80, "nodePort": 30001}, {"port": 81}]}));
        let expected = json!({
            "clusterIP": ASSIGNED, "clusterIPs": [ASSIGNED], "healthCheckNodePort": ASSIGNED,
            "ports": [{"port": 80, "nodePort": 30001}, {"port": 81, "nodePort": ASSIGNED}, {"port": 82}],
        });
        assert_eq!(hidden(answered.clone(), None, &sent, true)["spec"], expected);
        assert_eq!(hidden(answered.clone(), Some(&answered), &sent, true), answered, "it exists");
        let internal = service(json!({"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": [{"port": 80}]}));
        let exposed = service(json!({
            "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ports": [{"port": 80, "nodePort": 30001}],
        }));
        let sent = service(json!({"clusterIP": "", "ports": [{"port": 80, "nodePort": 0}]}));
        let shown = hidden(exposed, Some(&internal), &sent, true);
        assert_eq!(shown["spec"]["ports"][0]["nodePort"], ASSIGNED, "it gets a port");
        assert_eq!(shown["spec"]["clusterIP"], "10.0.0.7", "and keeps its address");
        let sent =
            service(json!({"clusterIP": "10.0.0.7", "healthCheckNodePort": 30003, "ports": answered["spec"]["ports"]}));
        assert_eq!(hidden(answered.clone(), None, &sent, true)["spec"], answered["spec"]);
        let headless = service(json!({"clusterIP": "None", "clusterIPs": ["None"]}));
        assert_eq!(hidden(headless.clone(), None, &Value::Null, true)["spec"], headless["spec"]);
    }
}
