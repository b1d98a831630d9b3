//! Legitimate changes to our objects are not drift: mutating webhooks, CA bundle injectors, autoscalers, other versions
//! of a kind.

use std::path::Path;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;
use test_cluster::{Namespace, Options, TestCluster};

use crate::account::is_operators;
use crate::chart::condition;
use crate::client_side::{operations, whole};
use crate::operator::{Operator, eventually, install_kinds};
use crate::ownership::{HOLDER, install_kind};
use crate::reader::get;
use crate::webhook::Webhook;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/charts/quiet");

/// The release that must not change. The names of cluster-scoped objects contain its name.
const NAME: &str = "web";

/// Builds a release's objects from its name: `kubectl`'s name of the kind, the object's name, and the object.
type Objects = fn(&str, &Namespace<'_>) -> Vec<(&'static str, String, Value)>;

/// An operator with one worker, which handles events in order.
struct Quiet<'a> {
    cluster: &'a TestCluster,
    namespace: Namespace<'a>,
    objects: Objects,
    operator: Option<Operator>,
    probes: Vec<String>,
    last: Option<Seen>,
}

/// The state that must not change while nothing drifts.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    writes: Vec<String>,
    revision: Value,
    irreconcilable: Value,
    events: Vec<String>,
}

impl<'a> Quiet<'a> {
    /// Installs the objects as the release [`NAME`].
    fn start(cluster: &'a TestCluster, prefix: &str, objects: Objects) -> Quiet<'a> {
        let namespace = cluster.namespace(prefix).unwrap();
        install_kinds(cluster);
        install_kind(cluster);
        let mut quiet = Quiet { cluster, namespace, objects, operator: None, probes: Vec::new(), last: None };
        quiet.serve(Path::new(CHART));
        quiet
    }

    /// Stops the operator, if it runs, and starts one that serves this chart.
    fn serve(&mut self, chart: &Path) {
        self.stop();
        let watch = json!([{
            "group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart, "maxConcurrentReconciles": 1, "objects": {"clusterScoped": "any"},
        }]);
        self.operator = Some(Operator::start_in(self.cluster, &[&self.namespace], &watch.to_string()));
    }

    fn stop(&mut self) {
        self.operator.take().map(Operator::terminate);
    }

    /// Installs the release, and one more release for each call of [`Quiet::settle`].
    fn install(&mut self, probes: usize) {
        let probes: Vec<String> = (0..probes).map(|number| format!("probe{number}")).collect();
        let names = [NAME.to_owned()].into_iter().chain(probes.iter().cloned());
        HOLDER.set_all(&self.namespace, names.map(|name| (name.clone(), self.spec(&name))));
        for name in probes.iter().map(String::as_str).chain([NAME]) {
            HOLDER.wait_for(&self.namespace, name, "Deployed");
        }
        self.probes = probes;
    }

    fn spec(&self, name: &str) -> Value {
        let objects = (self.objects)(name, &self.namespace).into_iter();
        let texts = objects.map(|(_, _, mut object)| {
            object["metadata"]["annotations"][PROBE] = "set".into();
            object.to_string()
        });
        json!({"objects": texts.collect::<Vec<String>>()})
    }

    /// Waits until the operator has handled all earlier events and published its own: makes the objects of another
    /// release, of the same kinds, drift, and waits for their repair; then installs one more release, and waits for its
    /// event, which comes last.
    fn settle(&mut self) {
        let probe = self.probes.pop().unwrap();
        let objects = (self.objects)(&probe, &self.namespace);
        let objects: Vec<String> = objects.iter().map(|(kind, name, _)| format!("{kind}/{name}")).collect();
        let run = |before: &[&str], after: &[&str]| {
            let all = before.iter().copied().chain(objects.iter().map(String::as_str)).chain(after.iter().copied());
            self.cluster.kubectl(["--namespace", self.namespace.name()].into_iter().chain(all)).unwrap()
        };
        run(&["annotate"], &[&format!("{PROBE}=x"), "--overwrite"]);
        eventually("repair of the probe", || {
            let list: Value = serde_json::from_str(&run(&["get", "-o", "json"], &[])).unwrap();
            let mut items = list["items"].as_array().unwrap().iter();
            if items.all(|object| object["metadata"]["annotations"][PROBE] == "set") { Ok(()) } else { Err(list) }
        });
        let last = format!("after-{probe}");
        HOLDER.set(&self.namespace, &last, &json!({"objects": []}));
        eventually("event of the last release", || match HOLDER.events_of(&self.namespace, &last) {
            events if events.contains("Installed: ") => Ok(()),
            events => Err(events),
        });
    }

    /// Waits for the deployed revision.
    fn upgraded(&self, to: u32) {
        eventually("upgrade", || match HOLDER.revision(&self.namespace, NAME) {
            revision if revision == to => Ok(()),
            _ => Err(HOLDER.get(&self.namespace, NAME)),
        });
    }

    /// Takes a snapshot after the operator has handled all earlier events.
    fn seen(&mut self) -> Seen {
        self.settle();
        let resource = HOLDER.get(&self.namespace, NAME);
        let is_ours = |name: &str| name.split(['.', '-']).any(|part| part == NAME);
        let requests = self.cluster.requests().unwrap().into_iter();
        let writes = requests.filter(|r| is_operators(r) && r.is_write() && r.code < 300 && is_ours(&r.name));
        let writes = writes.filter(|r| r.resource != "events" && !r.resource.starts_with("holders"));
        // The record's marks may be rewritten; a new record would be a new revision.
        let writes = writes.filter(|r| !(r.name.starts_with("sh.helm.release.v1.") && r.verb == "patch"));
        let writes = writes.filter(|r| ["", self.namespace.name()].contains(&&*r.namespace));
        let seen = Seen {
            writes: writes.map(|r| format!("{} {}/{}", r.verb, r.resource, r.name)).collect(),
            revision: resource["status"]["deployedRelease"]["revision"].clone(),
            irreconcilable: condition(&resource, "Irreconcilable").clone(),
            events: HOLDER.events_of(&self.namespace, NAME).lines().map(str::to_owned).collect(),
        };
        self.last = Some(seen.clone());
        seen
    }

    /// Reverts each repair as `manager` until the operator reports the drift loop and `what`; fails after too many
    /// `repairs`.
    fn fights(&mut self, manager: &str, what: &str, repair: &str, undo: impl Fn(&Quiet<'_>)) {
        let before = self.seen();
        let told = eventually("DriftLoop", || {
            undo(self);
            let resource = HOLDER.get(&self.namespace, NAME);
            match condition(&resource, "Irreconcilable") {
                fight if fight["reason"] == "DriftLoop" => Ok(fight["message"].as_str().unwrap().to_owned()),
                other => Err(other.clone()),
            }
        });
        assert!(told.contains(&format!("{manager} keeps changing {what}")), "{told}");
        undo(self);
        let after = self.seen();
        let repairs = after.writes[before.writes.len()..].iter().filter(|write| *write == repair).count();
        assert!((4..=6).contains(&repairs), "{repairs}: {after:?}");
        assert_eq!(after.revision, before.revision);
    }

    /// Fails if a disturbance causes a write, a revision, a condition or an event.
    fn stays_quiet(&mut self, disturbance: &str, disturb: impl FnOnce(&Namespace<'_>)) {
        let before = self.last.clone().unwrap_or_else(|| self.seen());
        disturb(&self.namespace);
        assert_eq!(self.seen(), before, "{disturbance}");
    }
}

/// An annotation of the probe's objects.
const PROBE: &str = "test.my.domain/probe";

fn deployment(name: &str, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "main", "image": "registry.invalid/main:1", "args": ["a"],
                    "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}},
                    "env": [{"name": "COLOUR", "value": "red"}, {"name": "SIZE", "value": "1"}],
                }]},
            },
        },
    });
    for (key, value) in more.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

/// Returns an object that server-side apply rejects, because a list has a duplicate key.
fn refused(mut deployment: Value) -> Value {
    let container = &mut deployment["spec"]["template"]["spec"]["containers"][0];
    container["env"].as_array_mut().unwrap().push(json!({"name": "COLOUR", "value": "red"}));
    deployment
}

fn workloads(name: &str, _: &Namespace<'_>) -> Vec<(&'static str, String, Value)> {
    let by_client = format!("client-{name}");
    let refused = refused(deployment(&by_client, &json!({"replicas": 1})));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "chart's", "b": "chart's"}});
    vec![
        ("deployment", name.to_owned(), deployment(name, &json!({"replicas": 1}))),
        ("deployment", by_client, refused),
        ("configmap", name.to_owned(), map),
    ]
}

/// Labels and annotates everything, adds a sidecar and limits, changes the registry, and removes an argument and a
/// variable. Changes ConfigMaps only on updates.
fn meddle(operation: &str, object: &mut Value) {
    if object["kind"] == "ConfigMap" {
        if operation == "UPDATE" {
            object["data"] = json!({"a": "webhook's", "c": "webhook's"});
        }
        return;
    }
    object["metadata"]["labels"]["webhook"] = "was-here".into();
    object["metadata"]["annotations"]["webhook"] = "was-here".into();
    let containers = object["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
    let main = &mut containers[0];
    main["image"] = "mirror.invalid/main:1".into();
    main["args"] = json!(["b", "a"]);
    main["resources"]["limits"]["cpu"] = "2".into();
    main["resources"]["requests"] = json!({"cpu": "150m", "memory": "1Mi"});
    main["env"].as_array_mut().unwrap().retain(|variable| variable["name"] != "SIZE");
    if containers.len() == 1 {
        containers.push(json!({"name": "sidecar", "image": "mirror.invalid/sidecar:1"}));
    }
}

#[test]
fn changes_by_a_mutating_webhook_are_not_drift() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let mut quiet = Quiet::start(cluster, "quiet-hook", workloads);
    let _webhook = Webhook::start(cluster, &quiet.namespace, &["apps/deployments", "/configmaps"], meddle);
    // The API server asks it a moment later.
    let (probe, ns) = (deployment("probe", &json!({})).to_string(), quiet.namespace.name());
    let create = ["create", "--dry-run=server", "-o", "jsonpath={.metadata.labels.webhook}", "-n", ns, "-f", "-"];
    eventually("the webhook", || match cluster.kubectl_with_input(create, &probe) {
        Ok(label) if label == "was-here" => Ok(()),
        other => Err(other),
    });
    quiet.install(6);
    HOLDER.wait_for(&quiet.namespace, NAME, "Ready");
    let by_client = format!("client-{NAME}");
    for (name, way) in [(NAME, "Apply"), (&by_client, "Update")] {
        let deployment = whole(&quiet.namespace, ["deployment", name]);
        let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        assert_eq!((containers.len(), &containers[0]["image"]), (2, &json!("mirror.invalid/main:1")));
        assert_eq!(operations(&deployment), [way]);
    }
    let seen = quiet.seen();
    assert!(seen.events.iter().all(|event| !event.contains("Drift")), "{seen:?}");
    quiet.stays_quiet("updates by others", |namespace| {
        namespace.kubectl(["label", "deployment/web", "deployment/client-web", "configmap/web", "other=x"]).unwrap();
    });
    assert_eq!(get(&quiet.namespace, ["configmap", NAME])["data"], json!({"a": "webhook's", "c": "webhook's"}));
    quiet.stays_quiet("a roll-out", |namespace| {
        namespace.kubectl(["rollout", "restart", "deployment/web", "deployment/client-web"]).unwrap();
    });
    quiet.serve(Path::new(CHART));
    quiet.stays_quiet("a restart", |_| {});

    // An upgrade also passes through the webhook, and creates one revision.
    quiet.objects = |name, namespace| {
        let mut objects = workloads(name, namespace);
        objects.iter_mut().for_each(|(_, _, object)| object["metadata"]["labels"]["version"] = "2".into());
        objects
    };
    HOLDER.set(&quiet.namespace, NAME, &quiet.spec(NAME));
    quiet.upgraded(2);
    assert_eq!(quiet.seen().revision, 2);
    quiet.stays_quiet("after an upgrade", |_| {});
}

fn gadgets(name: &str, _: &Namespace<'_>) -> Vec<(&'static str, String, Value)> {
    let gadget = |name: &str, spec: Value| json!({"apiVersion": "quiet.my.domain/{{ .Values.version }}", "kind": "Gadget", "metadata": {"name": name}, "spec": spec});
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nobody"}, "minReplicas": 1, "maxReplicas": 3,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
            ],
        },
    });
    let by_client = format!("client-{name}");
    vec![
        ("gadget", name.to_owned(), gadget(name, json!({"colour": "red", "sizes": [{"name": "a", "size": 1}]}))),
        // Server-side apply rejects nulls in custom resources.
        ("gadget", by_client.clone(), gadget(&by_client, json!({"colour": "red", "extra": null}))),
        ("horizontalpodautoscaler", name.to_owned(), autoscaler),
    ]
}

/// Defines Gadget with these versions: name, served, stored.
fn define_gadget(cluster: &TestCluster, versions: [(&str, bool, bool); 2]) {
    let size = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}});
    let sizes = json!({"type": "array", "items": size, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let text = json!({"type": "string"});
    let spec = json!({"type": "object", "properties": {"colour": text, "extra": text, "note": text, "sizes": sizes}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let versions = versions
        .map(|(name, served, storage)| json!({"name": name, "served": served, "storage": storage, "schema": schema}));
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.quiet.my.domain"},
        "spec": {
            "group": "quiet.my.domain", "scope": "Namespaced", "versions": versions,
            "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
        },
    });
    cluster.apply(&definition.to_string()).unwrap();
    cluster.kubectl(["wait", "--for=condition=Established", "--timeout=30s", "crd/gadgets.quiet.my.domain"]).unwrap();
}

/// Returns the chart with another default version of its custom resources.
fn chart_of(version: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("templates")).unwrap();
    for file in ["Chart.yaml", "templates/objects.yaml"] {
        std::fs::copy(Path::new(CHART).join(file), folder.path().join(file)).unwrap();
    }
    std::fs::write(folder.path().join("values.yaml"), format!("version: {version}\n")).unwrap();
    folder
}

fn uids(quiet: &Quiet<'_>) -> Vec<Value> {
    let objects = (quiet.objects)(NAME, &quiet.namespace).into_iter();
    objects.map(|(kind, name, _)| get(&quiet.namespace, [kind, &name])["metadata"]["uid"].clone()).collect()
}

#[test]
fn another_version_of_a_kind_is_not_drift_and_switching_to_it_is_one_upgrade() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    define_gadget(cluster, [("v1beta1", true, true), ("v1", true, false)]);
    let mut quiet = Quiet::start(cluster, "quiet-versions", gadgets);
    quiet.install(9);
    assert_eq!(operations(&whole(&quiet.namespace, ["gadget", "client-web"])), ["Update"]);
    let before = uids(&quiet);
    quiet.stays_quiet("another client of another version", |namespace| {
        for object in
            ["gadgets.v1.quiet.my.domain/web", "gadgets.v1.quiet.my.domain/client-web", "hpa.v1.autoscaling/web"]
        {
            namespace.kubectl(["annotate", object, "other=x"]).unwrap();
            // Controllers write too, so the object may have changed since it was read.
            eventually("replaced object", || {
                let object = namespace.kubectl(["get", object, "-o", "json"]).unwrap();
                let object = object.replace("\"other\": \"x\"", "\"other\": \"y\"");
                cluster.kubectl_with_input(["replace", "-n", namespace.name(), "-f", "-"], &object)
            });
        }
    });
    quiet.stays_quiet("another version is stored", |namespace| {
        define_gadget(cluster, [("v1beta1", true, false), ("v1", true, true)]);
        for name in ["web", "client-web"] {
            let gadget = &format!("gadgets.v1.quiet.my.domain/{name}");
            namespace.kubectl(["patch", gadget, "--type=merge", "-p", r#"{"spec":{"note":"x"}}"#]).unwrap();
        }
    });
    for (version, revision) in [("v1", 2), ("v1beta1", 3)] {
        let chart = chart_of(version);
        quiet.serve(chart.path());
        quiet.upgraded(revision);
        assert_eq!((quiet.seen().revision, uids(&quiet)), (revision.into(), before.clone()), "{version}");
        quiet.stays_quiet("after the upgrade", |namespace| {
            for version in ["v1beta1", "v1"] {
                let gadget = format!("gadgets.{version}.quiet.my.domain/web");
                let note = json!({"spec": {"note": format!("{revision}{version}")}}).to_string();
                namespace.kubectl(["patch", &gadget, "--type=merge", "-p", &note]).unwrap();
            }
        });
    }
    assert_eq!(get(&quiet.namespace, ["gadget", NAME])["spec"]["note"], "3v1");

    // The release's version is no longer served, and the next chart has one object less.
    define_gadget(cluster, [("v1beta1", false, false), ("v1", true, true)]);
    quiet.objects = |name, namespace| {
        gadgets(name, namespace).into_iter().filter(|(_, name, _)| !name.starts_with("client")).collect()
    };
    quiet.stop();
    HOLDER.set(&quiet.namespace, NAME, &quiet.spec(NAME));
    let chart = chart_of("v1");
    quiet.serve(chart.path());
    quiet.upgraded(4);
    assert_eq!(uids(&quiet), [before[0].clone(), before[2].clone()]);
    eventually("deletion", || match get(&quiet.namespace, ["gadget", "client-web"]) {
        Value::Null => Ok(()),
        gadget => Err(gadget),
    });
    assert_eq!(quiet.seen().revision, 4);
    quiet.stays_quiet("after the old version", |_| {});
}

fn scaled(name: &str, _: &Namespace<'_>) -> Vec<(&'static str, String, Value)> {
    let unset = refused(deployment(&format!("client-{name}"), &json!({})));
    vec![
        ("deployment", name.to_owned(), deployment(name, &json!({}))),
        ("deployment", format!("client-{name}"), unset),
        ("deployment", format!("fixed-{name}"), deployment(&format!("fixed-{name}"), &json!({"replicas": 1}))),
    ]
}

#[test]
fn an_autoscaler_may_own_fields_that_the_chart_leaves_unset_and_is_named_when_they_clash() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let mut quiet = Quiet::start(cluster, "quiet-scale", scaled);
    quiet.install(4);
    quiet.stays_quiet("replicas that the chart does not set", |namespace| {
        for size in ["--replicas=2", "--replicas=3"] {
            namespace.kubectl(["scale", "deployment/web", "deployment/client-web", size]).unwrap();
        }
    });
    let replicas = |name: &str| get(&quiet.namespace, ["deployment", name])["spec"]["replicas"].clone();
    assert_eq!((replicas("web"), replicas("client-web")), (json!(3), json!(3)));

    quiet.fights("kubectl", ".spec.replicas of Deployment \"fixed-web\"", "patch deployments/fixed-web", |quiet| {
        if get(&quiet.namespace, ["deployment", "fixed-web"])["spec"]["replicas"] == 1 {
            quiet.namespace.kubectl(["scale", "deployment/fixed-web", "--replicas=2"]).unwrap();
        }
    });
}

/// Certificates in base64-encoded PEM: an injector's, and one of a chart that knows its CA. The server parses them.
pub(crate) static INJECTED: LazyLock<String> = LazyLock::new(authority);
static RENEWED: LazyLock<String> = LazyLock::new(authority);
static KNOWN: LazyLock<String> = LazyLock::new(authority);

fn authority() -> String {
    STANDARD.encode(rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap().cert.pem())
}

/// A newline, kubebuilder's placeholder.
const PLACEHOLDER: &str = "Cg==";

/// Returns a webhook configuration, a CRD and an APIService with this CA bundle.
fn trusting(name: &str, bundle: Option<&str>) -> Vec<(&'static str, String, Value)> {
    let with = |mut client: Value| {
        bundle.into_iter().for_each(|bundle| client["caBundle"] = bundle.into());
        client
    };
    let service = json!({"name": "nobody", "namespace": "default"});
    let client = with(json!({"service": service, "url": null}));
    let hook = json!({
        "name": "a.my.domain", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": client,
        "rules": [{"apiGroups": ["nothing.my.domain"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}],
    });
    let (group, version) = (format!("{name}.my.domain"), format!("v1.api.{name}.my.domain"));
    let names = json!({"kind": "Pin", "listKind": "PinList", "plural": "pins", "singular": "pin"});
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let conversion =
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}});
    let spec = with(
        json!({"group": format!("api.{group}"), "version": "v1", "service": service, "groupPriorityMinimum": 1, "versionPriority": 1}),
    );
    let webhooks = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
        "webhooks": [hook],
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("pins.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": names, "conversion": conversion,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let aggregated = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": version}, "spec": spec,
    });
    vec![
        ("validatingwebhookconfiguration", name.to_owned(), webhooks),
        ("customresourcedefinition", format!("pins.{group}"), definition),
        ("apiservice", version, aggregated),
    ]
}

/// The path of the bundle in each of them.
const BUNDLES: [&str; 3] =
    ["/webhooks/0/clientConfig/caBundle", "/spec/conversion/webhook/clientConfig/caBundle", "/spec/caBundle"];

/// Returns objects whose bundles the chart leaves to an injector: absent, empty, a placeholder.
fn open(name: &str, _: &Namespace<'_>) -> Vec<(&'static str, String, Value)> {
    let mut objects = trusting(&format!("{name}-none"), None);
    if name == NAME {
        objects.extend(trusting(&format!("{name}-empty"), Some("")));
        objects.extend(trusting(&format!("{name}-placeholder"), Some(PLACEHOLDER)));
    }
    objects
}

/// Returns the same objects with a bundle that the chart sets.
fn known(name: &str, namespace: &Namespace<'_>) -> Vec<(&'static str, String, Value)> {
    let others = open(name, namespace).into_iter().skip(3);
    trusting(&format!("{name}-none"), Some(&KNOWN)).into_iter().chain(others).collect()
}

impl Quiet<'_> {
    fn with_bundles(&self) -> Vec<((&'static str, String, Value), &'static str)> {
        (self.objects)(NAME, &self.namespace).into_iter().zip(BUNDLES.into_iter().cycle()).collect()
    }

    fn bundles(&self) -> Vec<Value> {
        let at = |((kind, name, _), at): &((&str, String, Value), &str)| {
            get(&self.namespace, [kind, name]).pointer(at).cloned().unwrap_or_default()
        };
        self.with_bundles().iter().map(at).collect()
    }

    /// Sets a bundle in the first objects by an ordinary update, as an injector does.
    fn inject(&self, bundle: &str, first: usize) {
        for ((kind, name, _), at) in self.with_bundles().into_iter().take(first) {
            let patch = json!([{"op": "add", "path": at, "value": bundle}]).to_string();
            let inject = ["patch", kind, &name, "--type=json", "--field-manager=cainjector", "-p", &patch];
            self.cluster.kubectl(inject).unwrap();
        }
    }

    /// Sets a bundle by server-side apply.
    fn force(&self, bundle: &str) {
        let client = json!({"caBundle": bundle});
        let items = self.with_bundles().into_iter().map(|((kind, _, mut object), _)| {
            match kind {
                "validatingwebhookconfiguration" => {
                    object["webhooks"] = json!([{"name": "a.my.domain", "clientConfig": client}]);
                }
                "apiservice" => {
                    object["spec"] = json!({"caBundle": bundle, "groupPriorityMinimum": 1, "versionPriority": 1});
                }
                _ => {
                    object["spec"] = json!({"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client}}})
                }
            }
            object
        });
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()}).to_string();
        let apply = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--validate=false",
            "--field-manager=cainjector",
            "-f",
            "-",
        ];
        self.cluster.kubectl_with_input(apply, &list).unwrap();
    }
}

#[test]
fn an_injected_ca_bundle_stays_unless_the_chart_sets_another() {
    let Some(_) = TestCluster::shared_or_skip() else { return };
    // APIServices without a backend would disturb other tests.
    let cluster = TestCluster::start(Options { audit: true, ..Options::default() }).unwrap();
    let mut quiet = Quiet::start(&cluster, "quiet-ca", open);
    quiet.install(6);
    let all = |bundle: &str| vec![json!(bundle); 9];
    let before = quiet.seen();
    quiet.inject(&INJECTED, 9);
    assert_eq!((quiet.seen(), quiet.bundles()), (before.clone(), all(&INJECTED)), "by an ordinary write");
    quiet.force(&RENEWED);
    assert_eq!((quiet.seen(), quiet.bundles()), (before, all(&RENEWED)), "by server-side apply");

    let mut spec = quiet.spec(NAME);
    spec["objects"].as_array_mut().unwrap().iter_mut().for_each(|text| {
        *text = text.as_str().unwrap().replace("\"annotations\":{", "\"annotations\":{\"upgraded\":\"yes\",").into();
    });
    HOLDER.set(&quiet.namespace, NAME, &spec);
    quiet.upgraded(2);
    assert_eq!((quiet.seen().revision, quiet.bundles()), (json!(2), all(&RENEWED)), "an upgrade");

    quiet.objects = known;
    HOLDER.set(&quiet.namespace, NAME, &quiet.spec(NAME));
    quiet.upgraded(3);
    assert_eq!(quiet.bundles(), [vec![json!(*KNOWN); 3], vec![json!(*RENEWED); 6]].concat());
    let webhooks = ["validatingwebhookconfiguration", "web-none"];
    let what = ".webhooks[name=a.my.domain].clientConfig.caBundle of ValidatingWebhookConfiguration \"web-none\"";
    quiet.fights("cainjector", what, "patch validatingwebhookconfigurations/web-none", |quiet| {
        if get(&quiet.namespace, webhooks).pointer(BUNDLES[0]) == Some(&json!(*KNOWN)) {
            quiet.inject(&INJECTED, 1);
        }
    });
}
