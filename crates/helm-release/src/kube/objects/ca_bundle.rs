//! Drops placeholder CA bundles, which charts set until an injector writes the real bundle.
//!
//! Applying a placeholder would make the field ours: an injector would take it over, and applying again would break the
//! webhook until the injector restores it. Charts use `""`, `Cg==` (a line end) or a comment. None of these trusts a
//! CA, so leaving the field alone loses nothing. A bundle that contains PEM is applied as rendered.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outside::group_of;
use serde_json::Value;

/// Removes placeholder bundles from an object.
pub(in crate::kube) fn drop_placeholders(body: &mut Value) {
    let group = group_of(body["apiVersion"].as_str().unwrap_or_default());
    match (group, body["kind"].as_str().unwrap_or_default()) {
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
            let webhooks = body.get_mut("webhooks").and_then(Value::as_array_mut);
            webhooks.into_iter().flatten().for_each(|webhook| drop_at(webhook, "/clientConfig"));
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => drop_at(body, "/spec/conversion/webhook/clientConfig"),
        ("apiregistration.k8s.io", "APIService") => drop_at(body, "/spec"),
        _ => {}
    }
}

fn drop_at(value: &mut Value, pointer: &str) {
    if let Some(config) = value.pointer_mut(pointer).and_then(Value::as_object_mut)
        && config.get("caBundle").and_then(Value::as_str).is_some_and(is_placeholder)
    {
        config.remove("caBundle");
    }
}

/// Returns whether the bundle contains no PEM. Invalid base64 is kept, for the server to reject.
fn is_placeholder(bundle: &str) -> bool {
    const PEM: &[u8] = b"-----BEGIN ";
    STANDARD.decode(bundle).is_ok_and(|text| !text.windows(PEM.len()).any(|part| part == PEM))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dropped(mut body: Value) -> Value {
        drop_placeholders(&mut body);
        body
    }

    fn configuration(kind: &str, bundles: &[&str]) -> Value {
        let webhook = |bundle: &&str| match *bundle {
            "none" => json!({"name": "x", "clientConfig": {"url": "u"}}),
            bundle => json!({"name": "x", "clientConfig": {"url": "u", "caBundle": bundle}}),
        };
        let webhooks: Vec<Value> = bundles.iter().map(webhook).collect();
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "webhooks": webhooks})
    }

    /// `-----BEGIN CERTIFICATE-----`
    const PEM: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t";

    #[test]
    fn webhooks_lose_placeholders_and_keep_real_bundles() {
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            let said = configuration(kind, &["", PEM, "Cg==", "none"]);
            assert_eq!(dropped(said), configuration(kind, &["none", PEM, "none", "none"]));
        }
    }

    #[test]
    fn crds_and_api_services_lose_placeholder_ca_bundles() {
        let definition = |client: Value| {
            let conversion = json!({"strategy": "Webhook", "webhook": {"clientConfig": client}});
            json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": {"conversion": conversion}})
        };
        assert_eq!(dropped(definition(json!({"caBundle": "Cg==", "url": "u"}))), definition(json!({"url": "u"})));
        let service =
            |spec: Value| json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec});
        assert_eq!(dropped(service(json!({"caBundle": "", "group": "g"}))), service(json!({"group": "g"})));
        assert_eq!(dropped(service(json!({"caBundle": PEM}))), service(json!({"caBundle": PEM})));
    }

    #[test]
    fn comments_are_placeholders_and_invalid_base64_is_not() {
        assert!(is_placeholder("") && is_placeholder("Cg==") && is_placeholder("IyBDQQ=="));
        assert!(is_placeholder(&STANDARD.encode("# an injector puts the bundle here")));
        assert!(!is_placeholder(PEM) && !is_placeholder("${CA_BUNDLE}") && !is_placeholder("Cg="));
    }

    #[test]
    fn other_kinds_and_shapes_are_unchanged() {
        for body in [
            json!({"apiVersion": "x.y/v1", "kind": "APIService", "spec": {"caBundle": ""}}),
            json!({"apiVersion": "v1", "kind": "APIService", "spec": {"caBundle": ""}}),
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "Other", "spec": {"caBundle": ""}}),
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": {"caBundle": 1}}),
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": []}),
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "webhooks": {}}),
        ] {
            assert_eq!(dropped(body.clone()), body);
        }
    }
}
