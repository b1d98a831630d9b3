//! Random requests for both servers: creates, applies by several managers, replaces, patches, deletions, reads.

use serde_json::{Value, json};

/// Numbers from a seed (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    fn odds(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// Returns the paths of all objects that steps use.
pub(super) fn paths() -> Vec<String> {
    KINDS.iter().flat_map(|kind| NAMES.map(|name| format!("{}/{name}", kind.collection))).collect()
}

/// The names of objects.
const NAMES: [&str; 2] = ["a", "b"];

/// The state whose version or uid a request uses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    Now,
    Before,
    Nothing,
}

/// A request. The parts that depend on the server's earlier responses are filled in later.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Value,
    pub(super) version: Of,
    pub(super) uid: Of,
    /// Whether the body is merged into the live object, which it then replaces.
    pub(super) is_replace: bool,
}

/// A kind that the steps use.
struct Kind {
    api_version: &'static str,
    kind: &'static str,
    collection: &'static str,
    parts: fn(&mut Random) -> Value,
    status: Option<fn(&mut Random) -> Value>,
}

static KINDS: [Kind; 4] = [
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

fn metadata(random: &mut Random) -> Value {
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

fn whole(random: &mut Random, kind: &Kind, name: &str) -> Value {
    let mut object = (kind.parts)(random);
    object["apiVersion"] = kind.api_version.into();
    object["kind"] = kind.kind.into();
    object["metadata"] = metadata(random);
    object["metadata"]["name"] = name.into();
    object
}

impl Step {
    /// Chooses a request.
    pub(super) fn random(random: &mut Random) -> Step {
        let kind = random.one(&KINDS);
        let name = *random.one(&NAMES);
        let mut step = kind.step(random, name);
        if step.method != "GET" && random.odds(25) {
            let separator = if step.path.contains('?') { '&' } else { '?' };
            step.path = format!("{}{separator}dryRun=All", step.path);
        }
        step
    }
}

impl Kind {
    fn step(&self, random: &mut Random, name: &str) -> Step {
        let path = format!("{}/{name}", self.collection);
        let manager = *random.one(&["one", "two", "three"]);
        let new = |method, path, body| Step {
            method,
            path,
            content_type: "application/json",
            body,
            version: Of::Nothing,
            uid: Of::Nothing,
            is_replace: false,
        };
        match random.below(20) {
            0..2 => new("POST", format!("{}?fieldManager={manager}", self.collection), whole(random, self, name)),
            2..9 => self.apply(random, &path, name, manager, new("PATCH", String::new(), Value::Null)),
            9..11 => {
                let mut step = new("PUT", format!("{path}?fieldManager={manager}"), whole(random, self, name));
                (step.is_replace, step.version) = (true, *random.one(&[Of::Now, Of::Now, Of::Before, Of::Nothing]));
                step.uid = if random.odds(8) { Of::Before } else { Of::Now };
                step
            }
            11..14 => self.patch(random, &path, manager, new("PATCH", String::new(), Value::Null)),
            14..16 if self.status.is_some() => {
                self.status(random, &path, manager, new("PATCH", String::new(), Value::Null))
            }
            16..18 => self.delete(random, &path, new("DELETE", path.clone(), Value::Null)),
            _ => new("GET", self.read(random, &path), Value::Null),
        }
    }

    fn apply(&self, random: &mut Random, path: &str, name: &str, manager: &str, step: Step) -> Step {
        let force = random.odds(2);
        let mut body = whole(random, self, name);
        if random.odds(20) {
            body["apiVersion"] = "v9".into();
        }
        Step {
            path: format!("{path}?fieldManager={manager}&force={force}"),
            content_type: "application/apply-patch+yaml",
            body,
            version: *random.one(&[Of::Nothing, Of::Nothing, Of::Nothing, Of::Nothing, Of::Now, Of::Before]),
            uid: *random.one(&[Of::Nothing, Of::Nothing, Of::Nothing, Of::Nothing, Of::Now, Of::Before]),
            ..step
        }
    }

    fn patch(&self, random: &mut Random, path: &str, manager: &str, step: Step) -> Step {
        let mut body = (self.parts)(random);
        body["metadata"] = metadata(random);
        if random.odds(4) {
            body["metadata"]["labels"] = json!({"l": null});
        }
        if random.odds(8) {
            body["metadata"]["finalizers"] = Value::Null;
        }
        if random.odds(20) {
            body["metadata"]["managedFields"] = json!([{}]);
        }
        let path = format!("{path}?fieldManager={manager}");
        let version = *random.one(&[Of::Nothing, Of::Nothing, Of::Nothing, Of::Now, Of::Before]);
        match random.below(5) {
            0 => {
                let steps = [
                    json!({"op": "add", "path": "/metadata/labels", "value": {"l": "3"}}),
                    json!({"op": "remove", "path": "/metadata/annotations/x"}),
                    json!({"op": "replace", "path": "/metadata/finalizers", "value": []}),
                    json!({"op": "test", "path": "/metadata/labels/l", "value": "1"}),
                    json!({"op": "add", "path": "/metadata/annotations", "value": {"x": "4"}}),
                ];
                let picked: Vec<Value> = steps.into_iter().filter(|_| random.odds(3)).collect();
                Step { path, content_type: "application/json-patch+json", body: picked.into(), ..step }
            }
            1 => Step { path, content_type: "application/strategic-merge-patch+json", body, version, ..step },
            _ => Step { path, content_type: "application/merge-patch+json", body, version, ..step },
        }
    }

    fn status(&self, random: &mut Random, path: &str, manager: &str, step: Step) -> Step {
        let mut body = self.status.map(|status| status(random)).unwrap_or_default();
        if random.odds(4) {
            let mut more = (self.parts)(random);
            more["status"] = body["status"].clone();
            body = more;
            body["metadata"] = metadata(random);
        }
        if self.kind == "Deployment" && random.odds(4) {
            let body = json!({"spec": {"replicas": 7 + random.below(1000)}});
            let path = format!("{path}/scale?fieldManager={manager}");
            return Step { path, content_type: "application/merge-patch+json", body, ..step };
        }
        let path = format!("{path}/status?fieldManager={manager}");
        match random.below(3) {
            0 => Step { path, content_type: "application/merge-patch+json", body, ..step },
            1 => {
                body["apiVersion"] = self.api_version.into();
                body["kind"] = self.kind.into();
                Step { method: "PUT", path, body, is_replace: true, version: Of::Now, ..step }
            }
            _ => {
                body["apiVersion"] = self.api_version.into();
                body["kind"] = self.kind.into();
                let path = format!("{path}&force={}", random.odds(2));
                Step { path, content_type: "application/apply-patch+yaml", body, ..step }
            }
        }
    }

    fn delete(&self, random: &mut Random, path: &str, step: Step) -> Step {
        let mut body = json!({});
        if random.odds(3) {
            body["propagationPolicy"] = (*random.one(&["Foreground", "Orphan", "Background"])).into();
        }
        Step {
            path: path.to_owned(),
            body,
            version: *random.one(&[Of::Nothing, Of::Nothing, Of::Nothing, Of::Now, Of::Before]),
            uid: *random.one(&[Of::Nothing, Of::Nothing, Of::Nothing, Of::Now, Of::Before]),
            ..step
        }
    }

    fn read(&self, random: &mut Random, path: &str) -> String {
        let list = self.collection;
        match random.below(6) {
            0 => format!("{list}?labelSelector=l%3D1"),
            1 => format!("{list}?limit=1"),
            2 => format!("{list}?labelSelector=m%20in%20(1,2),!l"),
            3 => list.replace("/namespaces/agreement", "") + "?fieldSelector=metadata.name%3Da",
            4 => format!("{list}?resourceVersion=0"),
            _ => path.to_owned(),
        }
    }
}
