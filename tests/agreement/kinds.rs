//! The kinds of the requests: random objects with every field that a server would default.

use serde_json::{Value, json};

use super::random::Random;

/// Returns the paths of the named objects that a request to this path can change: those of its kind.
pub(super) fn paths_near(path: &str) -> Vec<String> {
    let kinds = KINDS.iter().filter(|kind| path.starts_with(kind.collection));
    kinds.flat_map(|kind| NAMES.map(|name| format!("{}/{name}", kind.collection))).collect()
}

/// The names of objects.
pub(super) const NAMES: [&str; 2] = ["a", "b"];

/// The name of the object that is created last, so that each watch has an end.
pub(super) const LAST: &str = "last";

/// A kind that the steps use.
pub(super) struct Kind {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) collection: &'static str,
    pub(super) parts: fn(&mut Random) -> Value,
    pub(super) status: Option<fn(&mut Random) -> Value>,
}

pub(super) static KINDS: [Kind; 8] = [
    Kind {
        api_version: "v1",
        kind: "ConfigMap",
        collection: "/api/v1/namespaces/agreement/configmaps",
        parts: map,
        status: None,
    },
    Kind {
        api_version: "agreement.example.com/v1",
        kind: "Thing",
        collection: "/apis/agreement.example.com/v1/namespaces/agreement/things",
        parts: custom,
        status: Some(custom_status),
    },
    Kind {
        api_version: "apps/v1",
        kind: "Deployment",
        collection: "/apis/apps/v1/namespaces/agreement/deployments",
        parts: deployment,
        status: Some(deployment_status),
    },
    Kind {
        api_version: "rbac.authorization.k8s.io/v1",
        kind: "Role",
        collection: "/apis/rbac.authorization.k8s.io/v1/namespaces/agreement/roles",
        parts: role,
        status: None,
    },
    Kind {
        api_version: "v1",
        kind: "Service",
        collection: "/api/v1/namespaces/agreement/services",
        parts: service,
        status: None,
    },
    Kind {
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
        collection: "/apis/coordination.k8s.io/v1/namespaces/agreement/leases",
        parts: lease,
        status: None,
    },
    Kind {
        api_version: "v1",
        kind: "ServiceAccount",
        collection: "/api/v1/namespaces/agreement/serviceaccounts",
        parts: account,
        status: None,
    },
    Kind {
        api_version: "v1",
        kind: "Secret",
        collection: "/api/v1/namespaces/agreement/secrets",
        parts: secret,
        status: None,
    },
];

fn some(random: &mut Random, fields: &[(&str, &[Value])]) -> Value {
    let mut object = json!({});
    for (name, values) in fields {
        if !random.odds(2) {
            object[*name] = random.one(values).clone();
        }
    }
    object
}

fn map(random: &mut Random) -> Value {
    let values = [json!("1"), json!("2")];
    let data = some(random, &[("a", &values), ("b", &values), ("c", &values)]);
    if random.odds(6) { json!({}) } else { json!({"data": data}) }
}

fn role(random: &mut Random) -> Value {
    let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
    some(random, &[("rules", &[json!([rule("get")]), json!([rule("get"), rule("list")])])])
}

/// Returns a Secret without `stringData`, which a real server moves to `data`.
fn secret(random: &mut Random) -> Value {
    let values = [json!("MQ=="), json!("Mg=="), json!("")];
    let mut secret = some(random, &[("data", &[json!({"a": "MQ=="}), json!({"a": "Mg==", "b": ""})])]);
    secret["type"] = "Opaque".into();
    if random.odds(2) {
        secret["data"]["c"] = random.one(&values).clone();
    }
    secret
}

fn account(random: &mut Random) -> Value {
    let bools = [json!(true), json!(false)];
    let lists = [json!([{"name": "p"}]), json!([{"name": "p"}, {"name": "q"}])];
    some(random, &[("automountServiceAccountToken", &bools), ("imagePullSecrets", &lists), ("secrets", &lists)])
}

fn lease(random: &mut Random) -> Value {
    let numbers = [json!(1), json!(15)];
    let times = [json!("2026-01-02T03:04:05.000006Z"), json!("2026-01-02T03:04:15.000000Z")];
    let spec = some(
        random,
        &[
            ("holderIdentity", &[json!("x"), json!("y")]),
            ("leaseDurationSeconds", &numbers),
            ("leaseTransitions", &numbers),
            ("acquireTime", &times),
            ("renewTime", &times),
        ],
    );
    json!({"spec": spec})
}

/// Returns a headless Service with every field that the server would default. Others get an address.
fn service(random: &mut Random) -> Value {
    let port = |number: u16, target: &Value| {
        let name = format!("p{number}");
        json!({"name": name, "port": number, "protocol": "TCP", "targetPort": target})
    };
    let targets = [json!(8080), json!("http")];
    let (one, other) = (port(80, random.one(&targets)), port(81, random.one(&targets)));
    let ports = random.one(&[json!([one]), json!([other]), json!([other, one])]).clone();
    json!({"spec": {
        "type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None",
        "selector": {"app": random.one(&["x", "y"])}, "ports": ports,
    }})
}

fn custom(random: &mut Random) -> Value {
    let scalars = [json!(1), json!("x"), json!(true)];
    let maps = [json!({"a": 1}), json!({"b": {"c": 2}}), json!({"a": 2, "b": {"c": 2, "d": [1, {"e": 1}]}}), json!({})];
    let lists = [json!([1, 2]), json!([2]), json!([])];
    let spec = some(random, &[("one", &scalars), ("two", &maps), ("three", &lists), ("map", &[json!("m")])]);
    if random.odds(6) { json!({}) } else { json!({"spec": spec}) }
}

fn conditions(random: &mut Random) -> Value {
    let condition = |name: &str, status: &str| json!({"type": name, "status": status});
    let all = [condition("Available", "True"), condition("Progressing", "False"), condition("Available", "False")];
    let mut picked: Vec<Value> = all.into_iter().filter(|_| random.odds(2)).collect();
    if picked.len() == 3 {
        picked.pop();
    }
    picked.into()
}

fn custom_status(random: &mut Random) -> Value {
    json!({"status": {"phase": random.one(&["A", "B"]), "conditions": conditions(random)}})
}

fn deployment_status(random: &mut Random) -> Value {
    json!({"status": {"replicas": 1 + random.below(2), "conditions": conditions(random)}})
}

fn container(random: &mut Random, name: &str) -> Value {
    let mut container = json!({
        "name": name, "image": random.one(&["x:1", "x:2"]), "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    });
    if random.odds(2) {
        container["env"] = json!([{"name": "A", "value": random.one(&["1", "2"])}]);
    }
    if random.odds(2) {
        container["ports"] = json!([{"containerPort": random.one(&[80, 81]), "protocol": "TCP"}]);
    }
    if random.odds(3) {
        container["args"] = json!([random.one(&["-a", "-b"])]);
    }
    container
}

/// Returns a Deployment with every field that the server would default.
fn deployment(random: &mut Random) -> Value {
    let mut containers = vec![container(random, "main")];
    if random.odds(3) {
        let at = random.below(2);
        containers.insert(at, container(random, "side"));
    }
    let pod = json!({
        "containers": containers, "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {},
    });
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}});
    json!({"spec": {
        "replicas": 1 + random.below(3), "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": strategy,
        "selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}, "spec": pod},
    }})
}

pub(super) fn metadata(random: &mut Random) -> Value {
    let values = [json!("1"), json!("2")];
    let mut metadata = json!({});
    if random.odds(2) {
        metadata["labels"] = some(random, &[("l", &values), ("m", &values)]);
    }
    if random.odds(3) {
        metadata["annotations"] = some(random, &[("x", &values), ("y", &values)]);
    }
    if random.odds(5) {
        let all = ["example.com/a", "example.com/b", "example.com/c"];
        metadata["finalizers"] = all.into_iter().filter(|_| random.odds(2)).collect::<Vec<_>>().into();
    }
    if random.odds(6) {
        let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid});
        metadata["ownerReferences"] =
            ["o1", "o2"].into_iter().filter(|_| random.odds(2)).map(owner).collect::<Vec<_>>().into();
    }
    metadata
}

pub(super) fn whole(random: &mut Random, kind: &Kind, name: &str) -> Value {
    let mut object = (kind.parts)(random);
    object["apiVersion"] = kind.api_version.into();
    object["kind"] = kind.kind.into();
    object["metadata"] = metadata(random);
    object["metadata"]["name"] = name.into();
    object
}
