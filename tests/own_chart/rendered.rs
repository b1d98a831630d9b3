//! What the charts render to, here and with Helm.

use std::process::Command;

use serde_json::{Value, json};

use super::{
    DEFINITIONS, IMAGE, OPERATOR, RIGHTS, helm, objects, objects_in, of_kind, one, ours, run, succeeded, variants, yaml,
};

/// The kinds of a ring.
const RING: &str = r#"controllerRing.resources=[{"group":"a.b","resource":"shops"}]"#;

/// A definition whose versions an operator converts.
const CONVERTED: &str = "definitions.teams=examples/teams/config/crd/bases/platform.example.com_teams.yaml";

#[test]
fn a_converted_definition_names_the_webhooks_in_the_releases_namespace() {
    let service = |flags: &[&str]| {
        let template = ["template", "rel", DEFINITIONS, "--namespace", "ns", "--set-file", CONVERTED];
        let text = succeeded(&run(ours(), [&template[..], flags].concat()));
        let mut documents = text.split("---\n").map(|document| serde_yaml::from_str::<Value>(document).unwrap());
        let definition = documents.find(Value::is_object).unwrap();
        let service = definition["spec"]["conversion"]["webhook"]["clientConfig"]["service"].clone();
        ["name", "namespace", "path"].map(|field| service[field].as_str().unwrap().to_owned())
    };
    let path = "/convert/platform.example.com/teams";
    assert_eq!(service(&[]), ["teams-operator-webhook", "ns", path]);
    assert_eq!(service(&["--set", "webhooks.name=own,webhooks.namespace=there"]), ["own", "there", path]);
}

#[test]
fn helm_renders_the_charts_alike_and_finds_nothing_to_complain_about() {
    let Some(cluster) = helm() else { return };
    let crds = [
        "a=config/crd/bases/cache.my.domain_memcacheds.yaml",
        "b=config/crd/bases/cache.my.domain_memcachedbackups.yaml",
    ];
    let crds = crds.map(|file| format!("definitions.{file}"));
    let definitions = vec![DEFINITIONS, "--set-file", &crds[0], "--set-file", &crds[1], "--set-file", CONVERTED];
    let reference = vec![OPERATOR, "--set", IMAGE, "--set-file", RIGHTS[0], "--set-file", RIGHTS[1]];
    let files = variants();
    let files = files.iter().map(|file| vec![OPERATOR, "--values", file.to_str().unwrap()]);
    for flags in files.chain([definitions, reference]) {
        let template = || ["template", "rel", "--namespace", "ns"].into_iter().chain(flags.iter().copied());
        let wanted = succeeded(&run(cluster.command("helm"), template()));
        assert_eq!(succeeded(&run(ours(), template())), wanted, "{flags:?}");
        assert!(!wanted.lines().any(|line| line.ends_with(' ')), "{flags:?}: a line ends with a space");
        succeeded(&run(cluster.command("helm"), ["lint", "--strict"].into_iter().chain(flags.iter().copied())));
    }
}

#[test]
fn what_cannot_work_is_refused_with_what_to_do() {
    let cases: [(&[&str], &str); 11] = [
        (&["--set", "image.repository="], "make docker-build-base"),
        (&["--set", "replica=2"], "replica"),
        (&["--set", "metrics.serviceMonitor.enable=true"], "enable"),
        (&["--set", "rbac.rules[0].verb={get}"], "verb"),
        (&["--set", "namespaces={Team_A}"], "namespaces"),
        (&["--set", "image.digest=sha256:short"], "digest"),
        (&["--set", "watches[0].kind=Shop"], "chart"),
        (&["--set", "replicas=2,chartCache.existingClaim=charts"], "each replica has its own cache"),
        (&["--set", "shards=3,webhooks.enabled=true"], "webhooks.enabled needs shards: 0"),
        (&["--set", "metrics.requireRBAC=true"], "metrics.requireRBAC needs metrics.secure"),
        (&["--set-string", "rbac.generated.shop=rules: ["], "rbac.generated.shop is not YAML"),
    ];
    for (flags, told) in cases {
        let output = run(ours(), [&["template", "rel", OPERATOR, "--set", IMAGE], flags].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(told), "{flags:?}: {error}");
    }
    let other = ["template", "rel", DEFINITIONS, "--set-file", "definitions.a=config/rbac/role.yaml"];
    let output = run(ours(), other);
    assert!(String::from_utf8_lossy(&output.stderr).contains("an object of kind ClusterRole"), "{output:?}");
}

fn deployment(objects: &[Value]) -> &Value {
    of_kind(objects, "Deployment")[0]
}

fn arguments(deployment: &Value) -> Vec<&str> {
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    container["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap()).collect()
}

#[test]
fn the_pod_is_the_one_that_make_deploy_applies() {
    let text = super::read("config/manager/manager.yaml");
    let documents = text.split("---\n").map(|document| serde_yaml::from_str::<Value>(document).unwrap());
    let documents: Vec<Value> = documents.collect();
    let (objects, configured) = (objects(&[]), deployment(&documents));
    let installed = deployment(&objects);
    let pods = [installed, configured].map(|object| &object["spec"]["template"]["spec"]);
    for field in ["securityContext", "terminationGracePeriodSeconds"] {
        assert_eq!(pods[0][field], pods[1][field], "{field}");
    }
    let containers = pods.map(|pod| &pod["containers"][0]);
    for field in ["name", "ports", "livenessProbe", "readinessProbe", "resources", "securityContext"] {
        assert_eq!(containers[0][field], containers[1][field], "{field}");
    }
    let of_chart =
        |argument: &&str| !argument.starts_with("--leader-election-id=") && !argument.starts_with("--chart-cache");
    let [mut ours, mut theirs] = [installed, configured].map(arguments);
    ours.retain(of_chart);
    theirs.retain(of_chart);
    assert_eq!(ours, theirs);
    assert_eq!(installed["spec"]["replicas"], configured["spec"]["replicas"]);
}

#[test]
fn make_deploy_helm_takes_images_with_ports_tags_and_digests() {
    let (version, digest) = (env!("CARGO_PKG_VERSION"), format!("sha256:{}", "0".repeat(64)));
    for (image, wanted) in [
        ("a.example.com/b:1.2".to_owned(), "a.example.com/b:1.2".to_owned()),
        ("a.example.com:5000/b:1".to_owned(), "a.example.com:5000/b:1".to_owned()),
        ("a.example.com:5000/b".to_owned(), format!("a.example.com:5000/b:{version}")),
        (format!("a.example.com/b@{digest}"), format!("a.example.com/b@{digest}")),
        (format!("a.example.com:5000/b:1@{digest}"), format!("a.example.com:5000/b@{digest}")),
    ] {
        let mut make = Command::new("make");
        make.env_remove("MAKEFLAGS");
        // Instead of Helm, a program that prints what Helm is told.
        let told = succeeded(&run(make, ["--silent", "deploy-helm", "HELM=echo", &*format!("IMG={image}")]));
        let values = told.split_whitespace().find(|word| word.starts_with("image.repository=")).unwrap();
        let text = succeeded(&run(ours(), ["template", "rel", OPERATOR, "--set-string", values]));
        assert!(text.contains(&format!("image: \"{wanted}\"\n")), "{wanted}: {told}");
    }
}

#[test]
fn the_operators_own_rights_are_those_of_config() {
    let objects = objects(&[]);
    let rules = |kind: &str, name: &str| one(&objects, kind, name)["rules"].clone();
    assert_eq!(rules("ClusterRole", "ns-rel-hybrid-helm-operator"), yaml("config/rbac/role.yaml")["rules"]);
    let own = super::read("config/rbac/leader_election_role.yaml");
    let own: Value = serde_yaml::from_str(own.split("---\n").next().unwrap()).unwrap();
    assert_eq!(rules("Role", "rel-hybrid-helm-operator"), own["rules"]);
}

#[test]
fn the_file_that_generate_rbac_writes_is_granted_as_it_is() {
    let objects = objects(&["--set-file", RIGHTS[0], "--set-file", RIGHTS[1]]);
    let granted = one(&objects, "ClusterRole", "ns-rel-hybrid-helm-operator")["rules"].as_array().unwrap();
    for file in ["memcached_role.yaml", "memcachedbackup_role.yaml"] {
        let text = super::read(&format!("config/rbac/{file}"));
        let role: Value = serde_yaml::from_str(text.split("---\n").next().unwrap()).unwrap();
        for rule in role["rules"].as_array().unwrap() {
            assert!(granted.contains(rule), "{file}: {rule}");
        }
    }
}

#[test]
fn in_listed_namespaces_nothing_is_granted_elsewhere() {
    let flags = ["--set", "namespaces={a,b}", "--set-file", RIGHTS[0]];
    let listed = objects(&flags);
    assert!(of_kind(&listed, "ClusterRole").is_empty() && of_kind(&listed, "ClusterRoleBinding").is_empty());
    let mut places: Vec<&str> =
        of_kind(&listed, "Role").iter().map(|role| role["metadata"]["namespace"].as_str().unwrap()).collect();
    places.sort_unstable();
    assert_eq!(places, ["a", "b", "ns"]);
    let environment = &deployment(&listed)["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(*environment, json!([{"name": "WATCH_NAMESPACE", "value": "a,b"}]));

    let more = objects(
        &[&flags[..], &["--set", "rbac.clusterRules[0].nonResourceURLs={/x},rbac.clusterRules[0].verbs={get}"]]
            .concat(),
    );
    let asked = json!([{"nonResourceURLs": ["/x"], "verbs": ["get"]}]);
    assert_eq!(of_kind(&more, "ClusterRole")[0]["rules"], asked, "only what the user asks for");
}

#[test]
fn with_a_namespace_for_records_secrets_are_read_nowhere_else() {
    let objects = objects(&["--set", "rbac.recordNamespaces={$(operator),records}"]);
    let on_secrets = |object: &&Value| {
        let rules = object["rules"].as_array().unwrap().iter();
        rules
            .filter(|rule| rule["resources"] == json!(["secrets"]))
            .any(|rule| rule["verbs"].as_array().unwrap().contains(&json!("delete")))
    };
    assert!(!of_kind(&objects, "ClusterRole").iter().any(on_secrets));
    let roles = of_kind(&objects, "Role").into_iter().filter(on_secrets);
    let places: Vec<&Value> = roles.map(|role| &role["metadata"]["namespace"]).collect();
    assert_eq!(places, ["ns", "records"]);
}

#[test]
fn several_replicas_or_shards_are_spread_and_evicted_one_at_a_time() {
    assert!(
        of_kind(&objects(&[]), "PodDisruptionBudget").is_empty(),
        "it would hold up the drain of one replica's node"
    );
    for several in ["replicas=2", "shards=3"] {
        let objects = objects(&["--set", several]);
        assert_eq!(of_kind(&objects, "PodDisruptionBudget")[0]["spec"]["maxUnavailable"], 1, "{several}");
        let pod = &deployment(&objects)["spec"]["template"];
        let spread = pod["spec"]["topologySpreadConstraints"].as_array().unwrap();
        assert_eq!(spread.len(), 2, "{several}");
        assert_eq!(spread[0]["labelSelector"]["matchLabels"], pod["metadata"]["labels"], "{several}");
    }
    assert!(arguments(deployment(&objects(&["--set", "replicas=2"]))).contains(&"--leader-elect"));
}

#[test]
fn a_pod_with_a_claim_ends_before_the_next_one_starts() {
    let strategy = |flags: &[&str]| deployment(&objects(flags))["spec"]["strategy"].clone();
    assert_eq!(strategy(&[]), Value::Null);
    let claimed = strategy(&["--set", "chartCache.existingClaim=charts"]);
    assert_eq!(claimed["rollingUpdate"], json!({"maxSurge": 0, "maxUnavailable": 1}), "another node waits for it");
}

#[test]
fn shards_are_replicas_that_share_a_ring_instead_of_a_leader() {
    let objects = objects(&["--set", "shards=3", "--set-json", RING]);
    let installed = deployment(&objects);
    assert_eq!(installed["spec"]["replicas"], 3);
    let arguments = arguments(installed);
    assert!(arguments.contains(&"--controller-ring=ns-rel-hybrid-helm-operator"), "{arguments:?}");
    assert!(!arguments.contains(&"--leader-elect"), "{arguments:?}");
    let leader = "--leader-election-id=rel-hybrid-helm-operator";
    assert!(arguments.contains(&leader), "a shard waits for the leader before it: {arguments:?}");
    let ring = of_kind(&objects, "ControllerRing")[0];
    assert_eq!(ring["metadata"]["name"], "ns-rel-hybrid-helm-operator");
    assert_eq!(ring["spec"]["resources"], serde_json::json!([{"group": "a.b", "resource": "shops"}]));
    let sharder = one(&objects, "ClusterRole", "ns-rel-hybrid-helm-operator-sharder");
    assert_eq!(sharder["rules"][0]["verbs"], serde_json::json!(["list", "patch"]));
    let subject = |objects: &[Value]| {
        let binding = one(objects, "ClusterRoleBinding", "ns-rel-hybrid-helm-operator-sharder");
        binding["subjects"][0].clone()
    };
    let account = |namespace: &str, name: &str| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
    assert_eq!(subject(&objects), account("sharding-system", "sharder"));
    let elsewhere = "controllerRing.sharder.namespace=there,controllerRing.sharder.name=own";
    let moved = super::objects(&["--set", "shards=3", "--set-json", RING, "--set", elsewhere]);
    assert_eq!(subject(&moved), account("there", "own"));
    assert_eq!(of_kind(&objects, "PodDisruptionBudget").len(), 1);
    assert!(of_kind(&super::objects(&["--set", "shards=3"]), "ControllerRing").is_empty(), "it is made elsewhere");
}

#[test]
fn releases_of_one_name_in_two_namespaces_share_neither_a_ring_nor_an_object() {
    let ring = |objects: &[Value]| arguments(deployment(objects))[0].to_owned();
    let names = |namespace: &str| {
        let objects = objects_in(namespace, &["--set", "shards=3", "--set-json", RING]);
        let outside = objects.iter().filter(|object| object["metadata"].get("namespace").is_none());
        let names = outside.map(|object| format!("{} {}", object["kind"], object["metadata"]["name"]));
        names.chain([ring(&objects)]).collect::<Vec<String>>()
    };
    let (left, right) = (names("left"), names("right"));
    assert_eq!(left.len(), 6, "two roles with their bindings, the ring, and the flag that names it: {left:?}");
    assert!(!left.iter().any(|name| right.contains(name)), "{left:?} {right:?}");

    // A ring's name is part of labels, and a namespace alone may be as long.
    let long = |end: &str| ring(&objects_in(&format!("{}{end}", "n".repeat(62)), &["--set", "shards=3"]));
    let (left, right) = (long("1"), long("2"));
    assert_eq!(left.len(), "--controller-ring=".len() + 63, "{left}");
    assert_ne!(left, right);
}

#[test]
fn a_new_version_of_the_chart_alone_restarts_nothing_and_changed_watches_do() {
    let objects = objects(&["--set-file", "watches=watches.yaml"]);
    let pod = &deployment(&objects)["spec"]["template"];
    assert!(
        !pod["metadata"].to_string().contains(&yaml("charts/hybrid-helm-operator/Chart.yaml")["version"].to_string())
    );
    let others = super::objects(&["--set-string", "watches=[]"]);
    let digest = |pod: &Value| pod["metadata"]["annotations"]["checksum/watches"].as_str().unwrap().to_owned();
    assert_ne!(digest(pod), digest(&deployment(&others)["spec"]["template"]));
    let text = &one(&objects, "ConfigMap", "rel-hybrid-helm-operator-watches")["data"]["watches.yaml"];
    assert_eq!(text.as_str().unwrap().trim(), super::read("watches.yaml").trim());
}

#[test]
fn alerts_reach_prometheus_as_they_are_in_config() {
    let objects = objects(&["--set", "metrics.alerts.enabled=true"]);
    assert_eq!(of_kind(&objects, "PrometheusRule")[0]["spec"], yaml("config/prometheus/rules.yaml")["spec"]);
}

#[test]
fn every_selector_and_port_name_finds_the_pod() {
    for file in variants() {
        let objects = objects(&["--values", file.to_str().unwrap()]);
        let template = &deployment(&objects)["spec"]["template"];
        let ports = template["spec"]["containers"][0]["ports"].to_string();
        let selected = |labels: &Value| {
            labels.as_object().unwrap().iter().all(|(key, value)| template["metadata"]["labels"][key] == *value)
        };
        assert!(selected(&deployment(&objects)["spec"]["selector"]["matchLabels"]));
        for service in of_kind(&objects, "Service") {
            assert!(selected(&service["spec"]["selector"]), "{service}");
            let target = format!("\"name\":{}", service["spec"]["ports"][0]["targetPort"]);
            assert!(ports.contains(&target), "{service}");
        }
        for other in ["PodDisruptionBudget", "NetworkPolicy"].into_iter().flat_map(|kind| of_kind(&objects, kind)) {
            let selector = other["spec"].get("podSelector").unwrap_or(&other["spec"]["selector"]);
            assert!(selected(&selector["matchLabels"]), "{other}");
        }
        for monitor in of_kind(&objects, "ServiceMonitor") {
            let wanted = monitor["spec"]["selector"]["matchLabels"].as_object().unwrap();
            let services = of_kind(&objects, "Service")
                .into_iter()
                .filter(|service| wanted.iter().all(|(key, value)| service["metadata"]["labels"][key] == *value));
            let names: Vec<&Value> = services.map(|service| &service["metadata"]["name"]).collect();
            assert_eq!(names, ["rel-hybrid-helm-operator-metrics"]);
        }
    }
}
