use serde_json::json;

use super::*;

fn id(name: &str) -> Id {
    Id { group: String::new(), kind: "ConfigMap".into(), namespace: "ns".into(), name: name.into() }
}

fn seen(outcome: Outcome, objects: &[(&str, Value)]) -> Seen {
    let objects = objects.iter().map(|(name, data)| (id(name), json!({"data": data}))).collect();
    Seen { action: Action::Install, case: "default".into(), outcome, objects, record: "deployed".into() }
}

fn done(objects: &[(&str, Value)]) -> Seen {
    seen(Outcome::Done, objects)
}

fn refused(text: &str) -> Seen {
    seen(Outcome::refused(text), &[])
}

fn verdict(client: &Seen, server: &Seen, ours: &Seen) -> Verdict {
    compare(&Sides { client, server, ours }, &Random::default())
}

fn places(verdict: &Verdict) -> Vec<String> {
    verdict.differences.iter().map(|d| format!("{} {}: {} {}", d.what, d.at, d.helm, d.ours)).collect()
}

#[test]
fn equal_objects_are_no_difference() {
    let one = done(&[("x", json!({"a": "b"}))]);
    assert_eq!(verdict(&one, &one, &one), Verdict { objects: 1, ..Verdict::default() });
}

#[test]
fn a_place_that_neither_way_of_helm_has_so_is_a_difference() {
    let helm = done(&[("x", json!({"a": "b", "gone": 1}))]);
    let ours = done(&[("x", json!({"a": "c", "new": {}}))]);
    let wanted = [
        "ConfigMap ns/x /data/a: \"b\" \"c\"",
        "ConfigMap ns/x /data/gone: 1 absent",
        "ConfigMap ns/x /data/new: absent {}",
    ];
    assert_eq!(places(&verdict(&helm, &helm, &ours)), wanted);
}

#[test]
fn where_the_ways_of_helm_differ_either_is_right_and_is_counted() {
    let (client, server) = (done(&[("x", json!({"a": 1, "b": 1}))]), done(&[("x", json!({"a": 2, "b": 2}))]));
    let ours = done(&[("x", json!({"a": 1, "b": 2}))]);
    let wanted = Verdict { objects: 1, as_client: 1, as_server: 1, ..Verdict::default() };
    assert_eq!(verdict(&client, &server, &ours), wanted);
    let third = done(&[("x", json!({"a": 3, "b": 2}))]);
    assert_eq!(places(&verdict(&client, &server, &third)), ["ConfigMap ns/x /data/a: 1 3"]);
}

#[test]
fn objects_that_only_one_side_has_are_differences() {
    let (with, without) = (done(&[("x", json!({}))]), done(&[]));
    assert_eq!(places(&verdict(&with, &with, &without)), ["ConfigMap ns/x : present absent"]);
    assert_eq!(places(&verdict(&without, &without, &with)), ["ConfigMap ns/x : absent present"]);
    assert!(verdict(&without, &without, &with).differences[0].is_of_objects());
    for ours in [&with, &without] {
        assert_eq!(places(&verdict(&with, &without, ours)), [""; 0]);
    }
}

#[test]
fn random_places_and_printed_integers_are_counted_apart() {
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
fn what_the_server_chooses_counts_only_where_helm_differs_from_itself() {
    let service = |address: &str| {
        let id = Id { kind: "Service".into(), ..id("x") };
        Seen { objects: [(id, json!({"spec": {"clusterIP": address}}))].into(), ..done(&[]) }
    };
    let chosen = verdict(&service("10.0.0.1"), &service("10.0.0.2"), &service("10.0.0.3"));
    assert_eq!((chosen.random, chosen.differences.len()), (1, 0));
    let set = verdict(&service("10.0.0.1"), &service("10.0.0.1"), &service("10.0.0.3"));
    assert_eq!((set.random, set.differences.len()), (0, 1));
}

#[test]
fn outcomes_have_to_agree_with_a_way_of_helm() {
    let (fine, bad, odd) = (done(&[]), refused("x is invalid"), refused("no matches for kind"));
    let differs = |client, server, ours| !verdict(client, server, ours).differences.is_empty();
    assert!(!differs(&fine, &fine, &fine) && !differs(&fine, &bad, &fine) && !differs(&bad, &fine, &fine));
    assert!(!differs(&bad, &bad, &bad) && !differs(&bad, &odd, &odd) && !differs(&bad, &fine, &bad));
    assert!(differs(&bad, &bad, &fine) && differs(&fine, &bad, &bad) && differs(&fine, &fine, &bad));
    assert!(differs(&bad, &bad, &odd) && differs(&bad, &fine, &odd));
    let told = verdict(&bad, &fine, &odd).differences.remove(0);
    assert_eq!((told.what.as_str(), told.helm.as_str(), told.is_of_objects()), ("outcome", "done", false));
}

#[test]
fn a_way_that_got_there_by_another_step_is_not_compared() {
    let (fresh, ours) = (done(&[("x", json!({"a": 1}))]), done(&[("x", json!({"a": 2}))]));
    let upgraded = Seen { action: Action::Upgrade, ..ours.clone() };
    assert_eq!(places(&verdict(&fresh, &upgraded, &upgraded)), [""; 0]);
    assert_eq!(verdict(&fresh, &fresh, &upgraded).objects, 0);
}

#[test]
fn the_newest_record_has_to_agree() {
    let (helm, ours) = (done(&[]), Seen { record: "pending-install".into(), ..done(&[]) });
    assert_eq!(places(&verdict(&helm, &helm, &ours)), ["record : deployed pending-install"]);
    assert_eq!(places(&verdict(&helm, &ours, &ours)), [""; 0]);
}

#[test]
fn leaves_are_named_by_json_pointers() {
    let value = json!({"a/b": {"c~d": [1, {}]}, "e": []});
    let paths: Vec<String> = leaves(&value).into_keys().collect();
    assert_eq!(paths, ["/a~1b/c~0d/0", "/a~1b/c~0d/1", "/e"]);
}
