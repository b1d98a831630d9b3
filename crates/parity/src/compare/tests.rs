use serde_json::json;

use super::*;

fn id(name: &str) -> Id {
    Id { group: String::new(), kind: "ConfigMap".into(), namespace: "ns".into(), name: name.into() }
}

fn seen(outcome: Outcome, objects: &[(&str, Value)]) -> Snapshot {
    let objects = objects.iter().map(|(name, data)| (id(name), json!({"data": data}))).collect();
    Snapshot { action: Action::Install, case: "default".into(), outcome, objects, record: "deployed".into() }
}

fn done(objects: &[(&str, Value)]) -> Snapshot {
    seen(Outcome::Done, objects)
}

fn refused(text: &str) -> Snapshot {
    seen(Outcome::refused(text), &[])
}

fn verdict(client: &Snapshot, server: &Snapshot, ours: &Snapshot) -> Verdict {
    compare(&Sides { client, server, ours }, &Random::default())
}

fn places(verdict: &Verdict) -> Vec<String> {
    verdict.differences.iter().map(|d| format!("{} {}: {} {}", d.what, d.at, d.helm, d.ours)).collect()
}

#[test]
fn equal_objects_do_not_differ() {
    let one = done(&[("x", json!({"a": "b"}))]);
    assert_eq!(verdict(&one, &one, &one), Verdict { objects: 1, ..Verdict::default() });
}

#[test]
fn a_value_that_matches_neither_mode_of_helm_is_a_difference() {
    let helm = done(&[("x", json!({"a": "b", "gone": 1}))]);
    let ours = done(&[("x", json!({"a": "c", "new": {}}))]);
    let expected = [
        "ConfigMap ns/x /data/a: \"b\" \"c\"",
        "ConfigMap ns/x /data/gone: 1 absent",
        "ConfigMap ns/x /data/new: absent {}",
    ];
    assert_eq!(places(&verdict(&helm, &helm, &ours)), expected);
}

#[test]
fn where_helms_modes_differ_either_is_correct_and_counted() {
    let (client, server) = (done(&[("x", json!({"a": 1, "b": 1}))]), done(&[("x", json!({"a": 2, "b": 2}))]));
    let ours = done(&[("x", json!({"a": 1, "b": 2}))]);
    let expected = Verdict { objects: 1, as_client: 1, as_server: 1, ..Verdict::default() };
    assert_eq!(verdict(&client, &server, &ours), expected);
    let third = done(&[("x", json!({"a": 3, "b": 2}))]);
    assert_eq!(places(&verdict(&client, &server, &third)), ["ConfigMap ns/x /data/a: 1 3"]);
}

#[test]
fn an_object_on_only_one_side_is_a_difference() {
    let (with, without) = (done(&[("x", json!({}))]), done(&[]));
    assert_eq!(places(&verdict(&with, &with, &without)), ["ConfigMap ns/x : present absent"]);
    assert_eq!(places(&verdict(&without, &without, &with)), ["ConfigMap ns/x : absent present"]);
    assert!(verdict(&without, &without, &with).differences[0].is_in_object());
    for ours in [&with, &without] {
        assert_eq!(places(&verdict(&with, &without, ours)), [""; 0]);
    }
}

#[test]
fn random_places_and_integer_formats_are_counted_separately() {
    let digest = |digit: &str| digit.repeat(64);
    let helm = done(&[("x", json!({"a": "1e+06", "random": "r", "sum": digest("a")}))]);
    let ours = done(&[("x", json!({"a": "1000000", "random": "s", "sum": digest("b")}))]);
    let again = done(&[("x", json!({"a": "1e+06", "random": "t", "sum": digest("a")}))]);
    let random = Random::between(&helm.objects, &again.objects);
    let found = compare(&Sides { client: &helm, server: &helm, ours: &ours }, &random);
    assert_eq!(found, Verdict { objects: 1, random: 1, integers: 2, ..Verdict::default() });
    let without = done(&[("x", json!({"a": "1e+06", "random": "s", "sum": digest("b")}))]);
    assert_eq!(verdict(&helm, &helm, &without).differences.len(), 2);
}

#[test]
fn server_assigned_values_are_random_only_if_helms_modes_differ() {
    let service = |address: &str| {
        let id = Id { kind: "Service".into(), ..id("x") };
        Snapshot { objects: [(id, json!({"spec": {"clusterIP": address}}))].into(), ..done(&[]) }
    };
    let chosen = verdict(&service("10.0.0.1"), &service("10.0.0.2"), &service("10.0.0.3"));
    assert_eq!((chosen.random, chosen.differences.len()), (1, 0));
    let set = verdict(&service("10.0.0.1"), &service("10.0.0.1"), &service("10.0.0.3"));
    assert_eq!((set.random, set.differences.len()), (0, 1));
}

#[test]
fn outcomes_must_match_a_mode_of_helm() {
    let (fine, bad, odd) = (done(&[]), refused("x is invalid"), refused("no matches for kind"));
    let differs = |client, server, ours| !verdict(client, server, ours).differences.is_empty();
    assert!(!differs(&fine, &fine, &fine) && !differs(&fine, &bad, &fine) && !differs(&bad, &fine, &fine));
    assert!(!differs(&bad, &bad, &bad) && !differs(&bad, &odd, &odd) && !differs(&bad, &fine, &bad));
    assert!(differs(&bad, &bad, &fine) && differs(&fine, &bad, &bad) && differs(&fine, &fine, &bad));
    assert!(differs(&bad, &bad, &odd) && differs(&bad, &fine, &odd));
    let reported = verdict(&bad, &fine, &odd).differences.remove(0);
    assert_eq!((reported.what.as_str(), reported.helm.as_str(), reported.is_in_object()), ("outcome", "done", false));
}

#[test]
fn a_mode_that_took_a_different_action_is_not_compared() {
    let (fresh, ours) = (done(&[("x", json!({"a": 1}))]), done(&[("x", json!({"a": 2}))]));
    let upgraded = Snapshot { action: Action::Upgrade, ..ours.clone() };
    assert_eq!(places(&verdict(&fresh, &upgraded, &upgraded)), [""; 0]);
    assert_eq!(verdict(&fresh, &fresh, &upgraded).objects, 0);
}

#[test]
fn the_newest_records_status_must_match() {
    let (helm, ours) = (done(&[]), Snapshot { record: "pending-install".into(), ..done(&[]) });
    assert_eq!(places(&verdict(&helm, &helm, &ours)), ["record : deployed pending-install"]);
    assert_eq!(places(&verdict(&helm, &ours, &ours)), [""; 0]);
}

#[test]
fn leaves_are_keyed_by_json_pointer() {
    let value = json!({"a/b": {"c~d": [1, {}]}, "e": []});
    let paths: Vec<String> = leaves(&value).into_keys().collect();
    assert_eq!(paths, ["/a~1b/c~0d/0", "/a~1b/c~0d/1", "/e"]);
}
