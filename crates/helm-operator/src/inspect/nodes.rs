//! Arranges objects as a tree: each object of the release, below it the ReplicaSets, Jobs and pods that it owns.

use helm_release::kube::ObjectKey;
use serde_json::Value;

use super::model::{Health, Name, Node};
use super::seen::{SeenObject, Sight};
use crate::reconcile::report::pods;
use outside::group_of;

/// Returns an object with what it owns.
pub(crate) fn node(object: &SeenObject) -> Node {
    let (health, why) = health(object);
    let root = match &object.sight {
        Sight::Live(live) => live.metadata.uid.clone().unwrap_or_default(),
        Sight::Missing | Sight::Hidden => String::new(),
    };
    Node { name: name(&object.key), health, why, owns: below(&root, object) }
}

pub(crate) fn name(key: &ObjectKey) -> Name {
    Name {
        group: key.group.to_string(),
        kind: key.kind.to_string(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
    }
}

fn health(object: &SeenObject) -> (Health, String) {
    let live = match &object.sight {
        Sight::Live(live) => live,
        Sight::Missing => return (Health::Missing, "it does not exist".to_owned()),
        Sight::Hidden => return (Health::Unknown, "you may not read it".to_owned()),
    };
    match live.unready(&object.key.group, &object.key.kind) {
        _ if live.deleting => (Health::Progressing, "it is being deleted".to_owned()),
        Some(unready) if unready.failed => (Health::Failed, tidy(&unready.why)),
        Some(unready) => (Health::Progressing, tidy(&unready.why)),
        None => (Health::Ready, String::new()),
    }
}

fn tidy(why: &str) -> String {
    why.trim_end_matches('.').to_owned()
}

/// Returns what an object with this uid owns. Objects without a visible owner belong to the root, because selectors
/// found them.
fn below(root: &str, object: &SeenObject) -> Vec<Node> {
    let owned = |of: &Value, uid: &str| owners(of).any(|owner| owner == uid);
    let pods_of = |uid: &str| object.pods.iter().filter(|pod| owned(pod, uid)).map(pod_node).collect::<Vec<_>>();
    let direct = object.owners.iter().filter(|one| owned(one, root));
    let mut nodes: Vec<Node> = direct
        .map(|one| Node { owns: pods_of(text(one, "/metadata/uid")), ..plain(one) })
        // Deployments keep the ReplicaSets of old revisions, without pods.
        .filter(|node| !node.owns.is_empty() || node.name.kind != "ReplicaSet")
        .collect();
    nodes.extend(pods_of(root));
    nodes
}

fn owners(of: &Value) -> impl Iterator<Item = &str> {
    let all = of.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    all.into_iter().flatten().filter_map(|owner| owner["uid"].as_str())
}

fn plain(of: &Value) -> Node {
    let api_version = text(of, "/apiVersion");
    let name = Name {
        group: group_of(api_version).to_owned(),
        kind: text(of, "/kind").to_owned(),
        namespace: text(of, "/metadata/namespace").to_owned(),
        name: text(of, "/metadata/name").to_owned(),
    };
    Node { name, health: Health::Ready, why: String::new(), owns: Vec::new() }
}

fn pod_node(pod: &Value) -> Node {
    let mut node = plain(pod);
    (node.name.group, node.name.kind) = (String::new(), "Pod".to_owned());
    let is_failed = text(pod, "/status/phase") == "Failed";
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        (node.health, node.why) = (Health::Progressing, "it is being deleted".to_owned());
    } else if let Some((_, cause)) = pods::problem(pod) {
        (node.health, node.why) = (if is_failed { Health::Failed } else { Health::Progressing }, tidy(&cause.text));
    }
    node
}

pub(crate) fn text<'a>(of: &'a Value, pointer: &str) -> &'a str {
    of.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the tree as lines, indented by depth.
    fn lines(nodes: &[Node], depth: usize) -> Vec<String> {
        let of = |node: &Node| {
            let line =
                format!("{}{} {} {:?} {}", "  ".repeat(depth), node.name.kind, node.name.name, node.health, node.why);
            std::iter::once(line.trim_end().to_owned()).chain(lines(&node.owns, depth + 1)).collect::<Vec<_>>()
        };
        nodes.iter().flat_map(of).collect()
    }

    fn owned(kind: &str, name: &str, owner: &str, status: Value) -> Value {
        let metadata = json!({"name": name, "namespace": "ns", "uid": name, "ownerReferences": [{"uid": owner}]});
        json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "status": status})
    }

    #[test]
    fn a_deployment_shows_the_replica_sets_with_pods_and_each_pods_problem() {
        let live = json!({
            "metadata": {"name": "web", "uid": "d"},
            "spec": {"replicas": 1}, "status": {"replicas": 1, "updatedReplicas": 1},
        });
        let key =
            ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: "ns".into(), name: "web".into() };
        let object = SeenObject {
            key: key.clone(),
            sight: Sight::Live(Box::new(serde_json::from_value(live).unwrap())),
            owners: vec![
                owned("ReplicaSet", "new", "d", json!({})),
                owned("ReplicaSet", "old", "d", json!({})),
                owned("ReplicaSet", "strange", "x", json!({})),
            ],
            pods: vec![
                owned("Pod", "new-1", "new", json!({"phase": "Pending"})),
                owned(
                    "Pod",
                    "new-2",
                    "new",
                    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
                ),
            ],
            event: None,
        };
        let expected = [
            "Deployment web Progressing 0 of 1 replicas are available",
            "  ReplicaSet new Ready",
            "    Pod new-1 Progressing it is not scheduled yet",
            "    Pod new-2 Ready",
        ];
        assert_eq!(lines(&[node(&object)], 0), expected);
        let without = |sight| SeenObject { key: key.clone(), sight, owners: vec![], pods: vec![], event: None };
        assert_eq!(lines(&[node(&without(Sight::Missing))], 0), ["Deployment web Missing it does not exist"]);
        assert_eq!(lines(&[node(&without(Sight::Hidden))], 0), ["Deployment web Unknown you may not read it"]);
    }
}
