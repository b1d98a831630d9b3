//! The API server's configuration of the webhooks: what it must contain, and whether it does.

use serde_json::{Value, json};

use super::registry::{Purpose, Registered, Webhooks};
use super::settings::Endpoint;

/// How long the API server waits for an answer to an admission review, in seconds.
pub(super) const TIMEOUT: u32 = 10;

/// An object that the leader keeps current.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) object: Object,
    /// What to apply, without metadata.
    pub(super) content: Value,
}

/// An object that configures webhooks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Object {
    Validating(String),
    Mutating(String),
    Definition(String),
}

impl Object {
    pub(super) fn name(&self) -> &str {
        match self {
            Object::Validating(name) | Object::Mutating(name) | Object::Definition(name) => name,
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Object::Validating(_) => "ValidatingWebhookConfiguration",
            Object::Mutating(_) => "MutatingWebhookConfiguration",
            Object::Definition(_) => "CustomResourceDefinition",
        }
    }

    pub(super) fn group(&self) -> &'static str {
        match self {
            Object::Definition(_) => "apiextensions.k8s.io",
            _ => "admissionregistration.k8s.io",
        }
    }

    pub(super) fn plural(&self) -> &'static str {
        match self {
            Object::Validating(_) => "validatingwebhookconfigurations",
            Object::Mutating(_) => "mutatingwebhookconfigurations",
            Object::Definition(_) => "customresourcedefinitions",
        }
    }
}

/// Returns the objects that configure these webhooks. A process without admission webhooks has their configurations,
/// too, because an older version may have filled them.
pub(super) fn objects(webhooks: &Webhooks, place: &Endpoint) -> Vec<Object> {
    let mut all = vec![Object::Validating(place.name.clone()), Object::Mutating(place.name.clone())];
    all.extend(webhooks.converted_definitions().into_iter().map(Object::Definition));
    all
}

/// Returns what each object must contain, with the certificates to trust. Without any, the bundles are left to others.
pub(super) fn wanted(webhooks: &Webhooks, place: &Endpoint, ca_bundle: Option<&str>) -> Vec<Wanted> {
    let admission = |purpose| {
        let own = webhooks.admissions.iter().filter(|hook| hook.purpose == purpose);
        json!({"webhooks": own.map(|hook| admission(hook, place, ca_bundle)).collect::<Vec<_>>()})
    };
    let content = |object: &Object| match object {
        Object::Validating(_) => admission(Purpose::Validate),
        Object::Mutating(_) => admission(Purpose::Mutate),
        Object::Definition(name) => {
            let versions = webhooks.conversions.iter().find(|versions| versions.definition() == *name);
            let path = versions.map(|versions| versions.path_of_webhook()).unwrap_or_default();
            conversion(&place.client_config(&path, ca_bundle))
        }
    };
    objects(webhooks, place).into_iter().map(|object| Wanted { content: content(&object), object }).collect()
}

/// Returns what a definition must contain to have its objects converted by this client.
fn conversion(client: &Value) -> Value {
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": client});
    json!({"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
}

impl Webhooks {
    /// Returns the `spec.conversion` to apply a definition with: that of the leader, without certificates, for the
    /// Service `(name, namespace)`. `None` if the process does not convert the definition's objects.
    ///
    /// A definition without it has the strategy `None` until the leader publishes. In that time, each write in another
    /// version than the stored one removes the fields that this version does not have.
    pub fn conversion(&self, definition: &str, (name, namespace): (&str, &str)) -> Option<Value> {
        let place = Endpoint { name: name.to_owned(), namespace: Some(namespace.to_owned()), url: None };
        let definition = Object::Definition(definition.to_owned());
        let mut wanted = wanted(self, &place, None).into_iter().find(|wanted| wanted.object == definition)?;
        Some(wanted.content["spec"]["conversion"].take())
    }
}

fn admission(hook: &Registered, place: &Endpoint, ca_bundle: Option<&str>) -> Value {
    let rule = json!({
        "apiGroups": [hook.kind.group],
        "apiVersions": [hook.kind.version],
        "resources": [hook.plural],
        "operations": hook.operations,
        "scope": if hook.is_namespaced { "Namespaced" } else { "Cluster" },
    });
    let mut webhook = json!({
        "name": hook.name(),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "matchPolicy": "Equivalent",
        "failurePolicy": hook.failure_policy,
        "timeoutSeconds": TIMEOUT,
        "rules": [rule],
        "clientConfig": place.client_config(&hook.path(), ca_bundle),
    });
    if let Some(namespace) = place.namespace.as_ref().filter(|_| is_built_in(&hook.kind.group)) {
        // The process and its pods must be able to start before anyone answers.
        let others = json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [namespace]});
        webhook["namespaceSelector"] = json!({"matchExpressions": [others]});
    }
    webhook
}

/// Returns whether Kubernetes itself uses kinds of the group.
fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Returns the client configuration of a definition's conversion webhook; null if it has none.
pub(super) fn converter(definition: &Value) -> &Value {
    &definition["spec"]["conversion"]["webhook"]["clientConfig"]
}

/// Returns the client that converts a definition's objects, if its address is a Service instead of the wanted URL, or
/// the reverse. Another manager may own it. An apply would then leave both, which the API server refuses.
pub(super) fn other_form<'live>(live: &'live Value, wanted: &Value) -> Option<&'live Value> {
    let (live, wanted) = (converter(live), converter(wanted));
    let is_other = |form: &&str| live.get(form).is_some() && wanted.get(form).is_none();
    (wanted.is_object() && ["service", "url"].iter().any(is_other)).then_some(live)
}

/// Returns the merge patch that makes this client, and nothing of another one, convert a definition's objects.
pub(super) fn exchange(client: &Value) -> Value {
    let field = |name: &str| client.get(name).cloned().unwrap_or_default();
    conversion(&json!({"service": field("service"), "url": field("url"), "caBundle": field("caBundle")}))
}

/// Returns the first address in an object that is not this process's: `Service ns/name`, or a URL.
pub(super) fn other_address(live: &Value, place: &Endpoint) -> Option<String> {
    let (own, conversion) = (place.client_config("", None), &live["spec"]["conversion"]["webhook"]);
    let admissions = live["webhooks"].as_array().into_iter().flatten();
    admissions.chain([conversion]).find_map(|webhook| {
        let address = |config: &Value| {
            let service = |field: &str| config["service"][field].as_str();
            let service = service("namespace").zip(service("name"));
            let service = service.map(|(namespace, name)| format!("Service {namespace}/{name}"));
            let host = |url: &str| url.split('/').take(3).collect::<Vec<_>>().join("/");
            service.or_else(|| config["url"].as_str().map(host))
        };
        address(&webhook["clientConfig"]).filter(|found| Some(found) != address(&own).as_ref())
    })
}

/// Returns whether an object has everything that it must contain, and no other webhooks.
pub(super) fn is_current(live: &Value, wanted: &Value) -> bool {
    let names = |of: &Value| of["webhooks"].as_array().map_or(0, Vec::len);
    names(live) == names(wanted) && covers(live, wanted)
}

fn covers(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            // A URL and a Service exclude each other.
            let is_other = |key: &str| live.contains_key(key) && !wanted.contains_key(key);
            let is_other =
                wanted.contains_key("url") && is_other("service") || wanted.contains_key("service") && is_other("url");
            !is_other && wanted.iter().all(|(key, wanted)| live.get(key).is_some_and(|live| covers(live, wanted)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| covers(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;
    use crate::reconciler::Kind;
    use crate::webhooks::{Admission, FailurePolicy, Rejection, Settings, Validate, Warnings};

    struct Any<K>(std::marker::PhantomData<fn() -> K>);

    impl<K: Kind> Validate for Any<K> {
        type Resource = K;

        fn failure_policy(&self) -> FailurePolicy {
            FailurePolicy::Ignore
        }

        async fn validate(&self, _: &Admission<'_, K>) -> Result<Warnings, Rejection> {
            Ok(Warnings::new())
        }
    }

    fn place(url: Option<&str>) -> Endpoint {
        let settings = Settings { url: Some("https://x:1/".into()), ..Settings::default() };
        Endpoint { url: url.map(str::to_owned), ..Endpoint::of(&settings, "hook".into(), Some("ns".into()), 9443) }
    }

    fn validating(place: &Endpoint, bundle: Option<&str>) -> Value {
        let (maps, namespaces) = (Any::<ConfigMap>(Default::default()), Any::<Namespace>(Default::default()));
        let webhooks = Webhooks::new().validate(maps).validate(namespaces);
        let all = wanted(&webhooks, place, bundle);
        let kinds: Vec<&str> = all.iter().map(|wanted| wanted.object.kind()).collect();
        assert_eq!(kinds, ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"]);
        assert_eq!(all[1].content, json!({"webhooks": []}), "what an older version left goes");
        all[0].content.clone()
    }

    #[test]
    fn a_configuration_asks_about_registered_kinds_only_and_never_keeps_the_process_from_starting() {
        let all = validating(&place(None), Some("CA"));
        let hook = &all["webhooks"][0];
        let service = json!({"name": "hook", "namespace": "ns", "path": "/validate/core/v1/configmaps", "port": 443});
        assert_eq!(hook["clientConfig"], json!({"service": service, "caBundle": "Q0E="}));
        assert_eq!((&hook["name"], &hook["failurePolicy"]), (&json!("v1.configmaps.core"), &json!("Ignore")));
        let rule = &hook["rules"][0];
        assert_eq!((&rule["resources"], &rule["operations"]), (&json!(["configmaps"]), &json!(["CREATE", "UPDATE"])));
        assert_eq!(
            (&rule["scope"], &all["webhooks"][1]["rules"][0]["scope"]),
            (&json!("Namespaced"), &json!("Cluster"))
        );
        assert_eq!(hook["namespaceSelector"]["matchExpressions"][0]["values"], json!(["ns"]));
        let without = validating(&place(None), None);
        assert!(without["webhooks"][0]["clientConfig"].get("caBundle").is_none(), "others provide it");
        let url = validating(&place(Some("https://x:1")), None);
        assert_eq!(url["webhooks"][0]["clientConfig"], json!({"url": "https://x:1/validate/core/v1/configmaps"}));
    }

    #[test]
    fn defaults_are_current_and_every_change_is_not() {
        let wanted = validating(&place(None), Some("CA"));
        let mut live = wanted.clone();
        live["webhooks"][0]["objectSelector"] = json!({});
        assert!(is_current(&live, &wanted));
        let changed = |pointer: &str, value: Value| {
            let mut live = live.clone();
            *live.pointer_mut(pointer).unwrap() = value;
            assert!(!is_current(&live, &wanted), "{pointer}");
        };
        changed("/webhooks/0/clientConfig/caBundle", Value::Null);
        changed("/webhooks/1/rules/0/operations", json!(["CREATE"]));
        changed("/webhooks/1/timeoutSeconds", json!(30));
        changed("/webhooks", json!([]));
        let mut more = live.clone();
        more["webhooks"].as_array_mut().unwrap().push(json!({"name": "old"}));
        assert!(!is_current(&more, &wanted));
        let mut url = live.clone();
        url["webhooks"][0]["clientConfig"]["url"] = "https://x".into();
        assert!(!is_current(&url, &wanted));
    }
}
