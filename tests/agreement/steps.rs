//! Random requests for both servers: creates, applies by several managers, replaces, patches, deletions, reads.

use helm_release::kube::Call;
use serde_json::{Value, json};

use super::kinds::{KINDS, Kind, LAST, NAMES, metadata, whole};
use super::random::Random;

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
    /// The `Accept` header; JSON if absent.
    pub(super) accept: Option<&'static str>,
    pub(super) body: Value,
    pub(super) version: Of,
    pub(super) uid: Of,
    /// Whether the body is merged into the live object, which it then replaces.
    pub(super) is_replace: bool,
}

impl Step {
    /// Returns the requests that create the last object of each kind.
    pub(super) fn last(random: &mut Random) -> Vec<Step> {
        KINDS.iter().map(|kind| kind.last(random)).collect()
    }

    /// Chooses a seed's request with this number.
    pub(super) fn random(random: &mut Random, at: usize) -> Step {
        let kind = random.one(&KINDS);
        let name = *random.one(&NAMES);
        let mut step = kind.step(random, name);
        if step.method != "GET" && random.odds(25) {
            let separator = if step.path.contains('?') { '&' } else { '?' };
            step.path = format!("{}{separator}dryRun=All", step.path);
        }
        if step.method == "POST" && random.odds(3) {
            step.let_server_name(at);
        }
        step
    }

    /// Replaces the name of a new object by a prefix that no other request has, so that lists have one order on both
    /// servers.
    fn let_server_name(&mut self, at: usize) {
        self.body["metadata"].as_object_mut().into_iter().for_each(|metadata| _ = metadata.remove("name"));
        self.body["metadata"]["generateName"] = format!("g{at:03}-").into();
    }
}

fn new(method: &'static str, path: String, body: Value) -> Step {
    let content_type = "application/json";
    let (version, uid) = (Of::Nothing, Of::Nothing);
    Step { method, path, content_type, accept: None, body, version, uid, is_replace: false }
}

impl Kind {
    fn last(&self, random: &mut Random) -> Step {
        let mut object = whole(random, self, LAST);
        object["metadata"] = json!({"name": LAST, "labels": {"l": "1"}});
        new("POST", format!("{}?fieldManager=one", self.collection), object)
    }

    fn step(&self, random: &mut Random, name: &str) -> Step {
        let path = format!("{}/{name}", self.collection);
        let manager = *random.one(&["one", "two", "three"]);
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
            _ => self.read(random, &path),
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
        } else if random.odds(8) {
            // Not with a policy: a real server returns an object without fields if the policy removes the last finalizer.
            body["dryRun"] = json!(["All"]);
        }
        if random.odds(10) {
            let selector = random.one(&["l%3D2", "l,m", "m%20notin%20(1)"]);
            return Step { path: format!("{}?labelSelector={selector}", self.collection), body, ..step };
        }
        Step {
            path: path.to_owned(),
            body,
            version: *random.one(&[Of::Nothing, Of::Nothing, Of::Nothing, Of::Now, Of::Before]),
            uid: *random.one(&[Of::Nothing, Of::Nothing, Of::Nothing, Of::Now, Of::Before]),
            ..step
        }
    }

    fn read(&self, random: &mut Random, path: &str) -> Step {
        if self.status.is_some() && random.odds(8) {
            let subresource = if self.kind == "Deployment" && random.odds(2) { "scale" } else { "status" };
            return new("GET", format!("{path}/{subresource}"), Value::Null);
        }
        let read = self.read_path(random, path);
        let metadata = if read.starts_with(path) { Call::metadata("") } else { Call::metadata_list("") };
        let accept = metadata.accept.filter(|_| random.odds(3));
        Step { accept, ..new("GET", read, Value::Null) }
    }

    fn read_path(&self, random: &mut Random, path: &str) -> String {
        let list = self.collection;
        match random.below(7) {
            0 => format!("{list}?labelSelector=l%3D1"),
            1 => format!("{list}?limit=1"),
            6 => format!("{list}?limit=1&labelSelector=l%3D1"),
            2 => format!("{list}?labelSelector=m%20in%20(1,2),!l"),
            3 => list.replace("/namespaces/agreement", "") + "?fieldSelector=metadata.name%3Da",
            4 => format!("{list}?resourceVersion=0"),
            _ => path.to_owned(),
        }
    }
}
