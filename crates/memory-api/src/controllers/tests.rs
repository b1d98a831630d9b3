use serde_json::{Value, json};

use super::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn create(server: &mut Server, collection: &str, body: Value) -> Value {
    let write = Write { method: "POST", content_type: "application/json", manager: "user", body };
    server.send(collection, &write).unwrap()
}

fn owner(object: &Value, blocks: bool) -> Value {
    let metadata = &object["metadata"];
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "name": metadata["name"], "uid": metadata["uid"],
        "blockOwnerDeletion": blocks,
    })
}

/// Creates an owner, a dependent, and a dependent of that.
fn family(server: &mut Server) {
    let map = |name: &str, owners: Vec<Value>| json!({"metadata": {"name": name, "ownerReferences": owners}});
    let first = create(server, MAPS, map("first", Vec::new()));
    let second = create(server, MAPS, map("second", vec![owner(&first, true)]));
    create(server, MAPS, map("third", vec![owner(&second, true)]));
}

fn names(server: &Server) -> Vec<String> {
    let maps = server.paths().into_iter().filter(|path| path.starts_with(MAPS));
    maps.map(|path| path.rsplit('/').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn dependents_go_after_their_owner_or_before_it_or_stay() {
    for (how, first_step, end) in [
        ("Background", vec!["second", "third"], vec![]),
        ("Foreground", vec!["first", "second", "third"], vec![]),
        ("Orphan", vec!["first", "second", "third"], vec!["second", "third"]),
    ] {
        let mut server = Server::cluster();
        family(&mut server);
        assert!(server.erase(&format!("{MAPS}/first"), json!({"propagationPolicy": how})));
        assert_eq!(names(&server), first_step, "{how}");
        let mut order = Vec::new();
        while Collector.step(&mut server, 0) {
            order.push(names(&server).join(" "));
        }
        assert_eq!(names(&server), end, "{how}: {order:?}");
        if how == "Foreground" {
            assert_eq!(
                order.iter().rev().take(3).rev().map(String::as_str).collect::<Vec<_>>(),
                ["first second", "first", ""]
            );
        }
    }
}

#[test]
fn an_object_with_another_owner_stays() {
    let mut server = Server::cluster();
    let map = |name: &str| json!({"metadata": {"name": name}});
    let (a, b) = (create(&mut server, MAPS, map("a")), create(&mut server, MAPS, map("b")));
    let owners = json!([owner(&a, true), owner(&b, true)]);
    create(&mut server, MAPS, json!({"metadata": {"name": "c", "ownerReferences": owners}}));
    server.erase(&format!("{MAPS}/a"), json!({"propagationPolicy": "Foreground"}));
    settle(&mut server, &mut [&mut Collector]);
    assert_eq!(names(&server), ["b", "c"]);
    assert_eq!(server.object(&format!("{MAPS}/c")).unwrap()["metadata"]["ownerReferences"], json!([owner(&b, true)]));
    assert!(!Collector.step(&mut server, 0));
}

#[test]
fn a_namespace_goes_when_it_is_empty_and_takes_nothing_new() {
    let mut server = Server::cluster();
    family(&mut server);
    server.merge(&format!("{MAPS}/second"), "user", json!({"metadata": {"finalizers": ["example.com/a"]}}));
    assert!(server.erase("/api/v1/namespaces/default", json!({})));
    let write = Write {
        method: "POST",
        content_type: "application/json",
        manager: "user",
        body: json!({"metadata": {"name": "new"}}),
    };
    let refused = server.send(MAPS, &write).unwrap_err();
    assert_eq!((refused.code, &refused.details["causes"][0]["reason"]), (403, &json!("NamespaceTerminating")));
    settle(&mut server, &mut [&mut Namespaces, &mut Collector]);
    assert_eq!(names(&server), ["second"]);
    server.merge(&format!("{MAPS}/second"), "user", json!({"metadata": {"finalizers": null}}));
    settle(&mut server, &mut [&mut Namespaces, &mut Collector]);
    assert!(server.object("/api/v1/namespaces/default").is_none());
    assert_eq!(server.send(MAPS, &write).unwrap_err().code, 404);
}

#[test]
fn workloads_become_ready_jobs_finish_and_go_when_their_time_is_over() {
    let mut server = Server::cluster();
    create(&mut server, DEPLOYMENTS, json!({"metadata": {"name": "web"}, "spec": {"replicas": 2}}));
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    create(&mut server, jobs, json!({"metadata": {"name": "once"}, "spec": {"ttlSecondsAfterFinished": 10}}));
    let mut kubelet = Kubelet::default();
    settle(&mut server, &mut [&mut kubelet]);
    let web = server.object(&format!("{DEPLOYMENTS}/web")).unwrap();
    assert_eq!((&web["status"]["readyReplicas"], &web["status"]["observedGeneration"]), (&json!(2), &json!(1)));
    let entries = web["metadata"]["managedFields"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["subresource"] == "status"));
    assert!(!TimeToLive.step(&mut server, 0));
    server.set_time(server.time() + 10);
    settle(&mut server, &mut [&mut kubelet, &mut TimeToLive, &mut Collector]);
    assert!(server.object(&format!("{jobs}/once")).is_none());
    let mut failing = Kubelet::new(|_, _| Fate::Fails);
    settle(&mut server, &mut [&mut failing]);
    let web = server.object(&format!("{DEPLOYMENTS}/web")).unwrap();
    assert_eq!(web["status"]["conditions"][1]["reason"], "ProgressDeadlineExceeded");
    assert_eq!((web["status"].get("readyReplicas"), &web["status"]["unavailableReplicas"]), (None, &json!(2)));
}

#[test]
fn an_autoscaler_owns_the_replicas_that_it_writes() {
    let mut server = Server::cluster();
    create(&mut server, DEPLOYMENTS, json!({"metadata": {"name": "web"}, "spec": {"replicas": 2}}));
    let autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let spec = json!({"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5});
    create(&mut server, autoscalers, json!({"metadata": {"name": "web"}, "spec": spec}));
    let mut autoscaler = Autoscaler::default();
    settle(&mut server, &mut [&mut autoscaler]);
    autoscaler.wanted.insert(format!("{autoscalers}/web"), 9);
    settle(&mut server, &mut [&mut autoscaler]);
    let web = server.object(&format!("{DEPLOYMENTS}/web")).unwrap();
    assert_eq!(web["spec"]["replicas"], 5);
    let entries = web["metadata"]["managedFields"].as_array().unwrap();
    let scaled = entries.iter().find(|entry| entry["subresource"] == "scale").unwrap();
    assert_eq!(scaled["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
}

#[test]
fn another_operators_finalizer_holds_an_object_until_that_operator_acts() {
    let mut server = Server::cluster();
    create(&mut server, MAPS, json!({"metadata": {"name": "a"}}));
    let mut other = OtherOperator {
        manager: "manager".into(),
        finalizer: "other.example.com/hold".into(),
        kind: ("v1".into(), "configmaps".into()),
        annotation: ("other.example.com/seen".into(), "yes".into()),
    };
    settle(&mut server, &mut [&mut other]);
    server.mutate(|plural, object| {
        if plural == "configmaps" {
            object["metadata"]["labels"]["injected"] = "yes".into();
        }
    });
    server.erase(&format!("{MAPS}/a"), json!({}));
    assert_eq!(names(&server), ["a"]);
    settle(&mut server, &mut [&mut other, &mut Collector]);
    assert!(names(&server).is_empty());
    let injected = create(&mut server, MAPS, json!({"metadata": {"name": "b"}}));
    assert_eq!(injected["metadata"]["labels"], json!({"injected": "yes"}));
    assert!(injected["metadata"].get("managedFields").is_none(), "a webhook's fields are nobody's");
}
