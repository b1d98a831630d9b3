use controller::client::rehearsal::{Checked, Refused, Write};
use serde_json::{Value, json};

use super::diff::{Colour, coloured};
use super::markdown::markdown;
use super::text::{Style, text};
use super::{ChangeKind, Plan, Resource, json, plan};
use crate::mask::Mask;

const SHOP: &str = "/apis/a.b/v1/namespaces/n/shops/s";

fn shop(conditions: Value) -> Value {
    json!({
        "apiVersion": "a.b/v1", "kind": "Shop", "metadata": {"name": "s", "namespace": "n", "uid": "owner"},
        "status": {"conditions": conditions},
    })
}

fn path(name: &str) -> String {
    format!("/api/v1/namespaces/n/configmaps/{name}")
}

fn map(name: &str, x: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"x": x},
        "metadata": {"name": name, "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 1},
    })
}

fn write(method: &str, path: &str, before: Option<Value>, after: Option<Value>) -> Write {
    let (method, path) = (method.to_owned(), path.to_owned());
    Write { method, path, sent: Value::Null, before, after: Ok(after), checked: Checked::Server }
}

fn refused(code: u16) -> Result<Option<Value>, Refused> {
    Err(Refused { code, reason: "Invalid".into(), message: "spec.x: no".into() })
}

fn plan_of(resource: &Value, writes: &[Write]) -> Plan {
    plan(Resource { object: resource, path: SHOP, exists: true }, writes)
}

fn planned(writes: &[Write]) -> Plan {
    plan_of(&shop(json!([])), writes)
}

fn actions(writes: &[Write]) -> Vec<ChangeKind> {
    planned(writes).changes.iter().map(|change| change.action).collect()
}

#[test]
fn hunks_are_numbered_by_the_lines_that_they_show() {
    let lines = |changed: usize| {
        let line = |at: usize| (format!("k{at:02}"), json!(if at == changed { "new" } else { "old" }));
        Value::Object((0..20).map(line).collect())
    };
    for changed in 0..20 {
        let diff = super::diff::of("x", Some(&lines(99)), Some(&lines(changed)));
        let mut shown = diff.lines().skip(2);
        let header = shown.next().unwrap();
        let first = shown.next().unwrap().trim_start_matches(['-', ' ']);
        let number: usize = first[1..3].parse().unwrap();
        let count = diff.lines().filter(|line| line.starts_with([' ', '-'])).count() - 1;
        assert_eq!(header, format!("@@ -{0},{count} +{0},{count} @@", number + 1), "{diff}");
    }
}

#[test]
fn the_writes_to_an_object_are_one_change() {
    let (a, b) = (map("a", "1"), map("a", "2"));
    let mut other_managers = a.clone();
    other_managers["metadata"]["managedFields"] = json!([{"manager": "helm-operator"}]);
    let mut hook = a.clone();
    hook["metadata"]["annotations"] = json!({"helm.sh/hook": "pre-upgrade"});
    let mut owned = a.clone();
    owned["metadata"]["ownerReferences"] = json!([{"uid": "owner"}]);
    let at = path("a");
    let put = |before: Option<&Value>, after: Option<&Value>| write("PATCH", &at, before.cloned(), after.cloned());
    let delete = |before: &Value| write("DELETE", &at, Some(before.clone()), None);
    for (writes, expected) in [
        (vec![put(None, Some(&a))], ChangeKind::Create),
        (vec![put(Some(&a), Some(&b))], ChangeKind::Update),
        (vec![put(Some(&a), Some(&other_managers)), put(Some(&other_managers), Some(&b))], ChangeKind::Update),
        (vec![put(Some(&a), Some(&other_managers))], ChangeKind::Own),
        (vec![delete(&a)], ChangeKind::Delete),
        (vec![delete(&a), write("POST", &at, None, Some(b.clone()))], ChangeKind::Recreate),
        (vec![put(None, Some(&a)), delete(&a)], ChangeKind::Revert),
        (vec![write("POST", &at, None, Some(hook.clone())), delete(&hook)], ChangeKind::Hook),
        (vec![put(Some(&owned), Some(&a))], ChangeKind::Keep),
        (vec![Write { after: refused(422), ..put(Some(&a), None) }], ChangeKind::Refused),
        (vec![Write { after: refused(409), ..put(Some(&a), None) }], ChangeKind::Conflict),
        // Refused as a change of an immutable field, and then re-created.
        (
            vec![Write { after: refused(422), ..put(Some(&a), None) }, delete(&a), put(None, Some(&b))],
            ChangeKind::Recreate,
        ),
    ] {
        assert_eq!(actions(&writes), [expected], "{writes:?}");
    }
    assert_eq!(actions(&[put(Some(&a), Some(&a))]), [], "nothing changes");
}

#[test]
fn what_a_failing_reconcile_undoes_is_no_change_and_what_was_refused_stays_refused() {
    let failed = json!([{"type": "ReleaseFailed", "status": "True", "reason": "UpgradeError", "message": "no"}]);
    let (a, b) = (map("a", "1"), map("a", "2"));
    let put = |name: &str, before: &Value, after: &Value| {
        write("PATCH", &path(name), Some(before.clone()), Some(after.clone()))
    };
    let writes = [
        put("a", &a, &b),
        Write { after: refused(422), ..put("c", &a, &b) },
        put("a", &b, &a),
        put("c", &a, &a),
        put("d", &a, &a),
    ];
    let plan = plan_of(&shop(failed), &writes);
    let changes: Vec<_> = plan.changes.iter().map(|one| (one.object.name.as_str(), one.action)).collect();
    assert_eq!(changes, [("a", ChangeKind::Revert), ("c", ChangeKind::Refused)]);
    assert_eq!(plan.summary(), "1 changed back, 1 refused");
}

#[test]
fn records_and_the_resource_itself_are_writes_but_no_changes() {
    let record = json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1", "metadata": {"name": "r"}});
    let writes = [
        write("PATCH", SHOP, Some(shop(json!([]))), Some(shop(json!([])))),
        write("POST", "/api/v1/namespaces/n/secrets/r", None, Some(record)),
        write("PATCH", &path("a"), None, Some(map("a", "1"))),
        write("PATCH", &format!("{SHOP}/status"), Some(shop(json!([]))), Some(shop(json!([])))),
    ];
    let plan = planned(&writes);
    assert_eq!((plan.writes.len(), plan.changes.len()), (4, 1));
    assert_eq!(plan.resource.to_string(), "Shop n/s");
}

#[test]
fn a_write_that_is_sent_again_because_the_object_has_changed_is_one_write() {
    let lost = |name: &str| {
        let conflict = Refused { code: 409, reason: "Conflict".into(), message: "the object has been modified".into() };
        Write { after: Err(conflict), ..write("PATCH", &path(name), Some(map(name, "1")), None) }
    };
    let put = |name: &str| write("PATCH", &path(name), Some(map(name, "1")), Some(map(name, "2")));
    let immutable = Write { after: refused(422), ..put("job") };
    let delete = write("DELETE", &path("job"), Some(map("job", "1")), None);
    let plan = planned(&[lost("job"), lost("b"), immutable, delete, put("job"), put("a")]);
    let writes: Vec<String> =
        plan.writes.iter().map(|one| format!("{} {}", one.method, one.path.rsplit('/').next().unwrap())).collect();
    assert_eq!(writes, ["PATCH b", "PATCH job", "DELETE job", "PATCH job", "PATCH a"]);
    let changes: Vec<ChangeKind> = plan.changes.iter().map(|change| change.action).collect();
    assert_eq!(changes, [ChangeKind::Recreate, ChangeKind::Conflict, ChangeKind::Update]);
}

#[test]
fn two_renders_are_compared_by_kind_and_name() {
    let mut hook = map("h", "1");
    hook["metadata"]["annotations"] = json!({"helm.sh/hook": "pre-upgrade"});
    let mut changed_hook = hook.clone();
    changed_hook["data"]["x"] = "2".into();
    let mut implicit = map("same", "1");
    implicit["metadata"].as_object_mut().unwrap().remove("namespace");
    let resource = planned(&[]).resource;
    let before = [map("a", "1"), map("b", "1"), hook, implicit.clone()];
    let plan = super::compare(resource, &before, &[map("b", "2"), map("c", "1"), changed_hook, implicit]);
    let changes: Vec<_> = plan.changes.iter().map(|one| (one.object.name.as_str(), one.action)).collect();
    let expected =
        [("a", ChangeKind::Delete), ("b", ChangeKind::Update), ("c", ChangeKind::Create), ("h", ChangeKind::Hook)];
    assert_eq!(changes, expected);
}

#[test]
fn managers_that_lose_fields_are_named() {
    let with = |managers: Value| {
        let mut object = map("a", "1");
        object["metadata"]["managedFields"] = managers;
        object
    };
    let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Update", "fieldsV1": fields});
    let before = with(json!([
        entry("kubectl", json!({"f:data": {"f:x": {}, "f:y": {}}})),
        entry("other", json!({"f:data": {"f:z": {}}})),
        entry("helm-operator", json!({"f:data": {"f:w": {}}})),
    ]));
    let after =
        with(json!(
            [entry("kubectl", json!({"f:data": {"f:y": {}}})), entry("other", json!({"f:data": {"f:z": {}}})),]
        ));
    let plan = planned(&[write("PATCH", &path("a"), Some(before), Some(after))]);
    assert_eq!(plan.changes[0].losers, ["kubectl"]);
}

fn several() -> Plan {
    let condition = json!([{"type": "Irreconcilable", "status": "True", "reason": "Refused", "message": "it is so"}]);
    let writes = [
        write("PATCH", &path("a"), None, Some(map("a", "1"))),
        write("PATCH", &path("b"), Some(map("b", "1")), Some(map("b", "2"))),
        write("DELETE", &path("c"), Some(map("c", "1")), None),
        Write { after: refused(422), ..write("PATCH", &path("d"), Some(map("d", "1")), None) },
    ];
    plan_of(&shop(condition), &writes)
}

#[test]
fn a_plan_is_printed_with_differences_reason_and_summary() {
    let style = Style { colour: Colour::Never, max_lines: None };
    let expected = "\
+ ConfigMap n/a
--- (none)
+++ ConfigMap n/a
@@ -1,0 +1,7 @@
+apiVersion: v1
+data:
+  x: \"1\"
+kind: ConfigMap
+metadata:
+  name: a
+  namespace: \"n\"
~ ConfigMap n/b
--- ConfigMap n/b
+++ ConfigMap n/b
@@ -1,6 +1,6 @@
 apiVersion: v1
 data:
-  x: \"1\"
+  x: \"2\"
 kind: ConfigMap
 metadata:
   name: b
- ConfigMap n/c
--- ConfigMap n/c
+++ (none)
@@ -1,7 +1,0 @@
-apiVersion: v1
-data:
-  x: \"1\"
-kind: ConfigMap
-metadata:
-  name: c
-  namespace: \"n\"
! ConfigMap n/d (refused): spec.x: no
fails: Refused: it is so
Shop n/s: +1 ~1 -1, 1 refused
";
    assert_eq!(text(&several(), &Mask::default(), style), expected);
    assert!(several().is_failure());
    let folded = text(&several(), &Mask::default(), Style { max_lines: Some(5), ..style });
    let expected = "\
+ ConfigMap n/a
~ ConfigMap n/b
- ConfigMap n/c
! ConfigMap n/d (refused): spec.x: no
(30 lines of differences are left out: --full shows them)
fails: Refused: it is so
Shop n/s: +1 ~1 -1, 1 refused
";
    assert_eq!(folded, expected);
}

#[test]
fn a_printed_plan_controls_no_terminal() {
    let says = "no \u{1b}]0;title\u{7}\nfor \u{9b}2J it";
    let condition = json!([{"type": "Irreconcilable", "status": "True", "reason": "Refused", "message": says}]);
    let refused = Refused { code: 422, reason: "Invalid".into(), message: says.into() };
    let name = "a\u{1b}[2J";
    let writes = [
        write("PATCH", &path(name), None, Some(map(name, "\u{1b}[31m"))),
        Write { after: Err(refused), ..write("PATCH", &path("d"), Some(map("d", "1")), None) },
    ];
    let plan = plan_of(&shop(condition), &writes);
    let printed = text(&plan, &Mask::default(), Style { colour: Colour::Never, max_lines: None });
    assert!(!printed.contains(|c: char| c.is_control() && c != '\n'), "{printed:?}");
    assert!(printed.contains("no \u{fffd}]0;title\u{fffd}\nfor \u{fffd}2J it"), "{printed:?}");
    assert!(printed.contains("+ ConfigMap n/a\u{fffd}[2J\n"), "{printed:?}");
    let comment = markdown([(&plan, &Mask::default())].into_iter());
    assert!(!comment.contains(|c: char| c.is_control() && c != '\n'), "{comment:?}");
    assert!(comment.contains("<summary>+ ConfigMap n/a\u{fffd}[2J</summary>"), "{comment:?}");
}

#[test]
fn nothing_to_write_is_no_change() {
    let plan = planned(&[]);
    let style = Style { colour: Colour::Never, max_lines: None };
    assert_eq!(text(&plan, &Mask::default(), style), "Shop n/s: no changes\n");
    assert!(!plan.is_failure());
    let suspended = json!([{"type": "Suspended", "status": "True", "reason": "Suspended", "message": "by annotation"}]);
    let plan = plan_of(&shop(suspended), &[]);
    let expected = "waits: Suspended: by annotation\nShop n/s: no changes\n";
    assert_eq!((text(&plan, &Mask::default(), style).as_str(), plan.is_failure()), (expected, false));
}

#[test]
fn contents_of_secrets_appear_in_no_form() {
    const CANARY: &str = "Y2FuYXJ5";
    let secret = |data: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "data": {"p": data},
            "metadata": {"name": "a", "annotations": {"copy": "canary"}},
        })
    };
    let at = "/api/v1/namespaces/n/secrets/a";
    let plan = planned(&[write("PATCH", at, Some(secret("b2xk")), Some(secret(CANARY)))]);
    let mut mask = Mask::default();
    mask.add_data(&secret(CANARY));
    let style = Style { colour: Colour::Ansi, max_lines: None };
    let forms =
        [text(&plan, &mask, style), json::json(&plan, &mask).to_string(), markdown([(&plan, &mask)].into_iter())];
    for form in forms {
        assert!(form.contains("****") && form.contains("Secret n/a"), "{form}");
        assert!([CANARY, "canary", "b2xk"].iter().all(|word| !form.contains(word)), "{form}");
    }
}

#[test]
fn markdown_stays_below_the_limit_and_nothing_ends_its_fences() {
    let ticks = |name: &str, text: &str| write("PATCH", &path(name), None, Some(map(name, text)));
    let plan = planned(&[ticks("a", "```\n</details>"), ticks("b", &"x\n".repeat(40_000)), ticks("c", "1")]);
    let comment = markdown([(&plan, &Mask::default())].into_iter());
    assert!(comment.len() < 60_000 && comment.starts_with("### Shop n/s: +3 ~0 -0\n"), "{}", comment.len());
    assert!(comment.contains("\n````diff\n") && comment.contains("ConfigMap n/c</summary>"), "{comment}");
    assert!(comment.ends_with("\n1 more changes are left out, because a comment has room for 60 kB.\n"), "{comment}");
}

#[test]
fn json_names_objects_actions_and_writes() {
    let json = json::json(&several(), &Mask::default());
    assert_eq!(json["summary"], "+1 ~1 -1, 1 refused");
    let actions: Vec<&str> =
        json["changes"].as_array().unwrap().iter().map(|change| change["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["create", "update", "delete", "refused"]);
    assert_eq!(
        json["changes"][1]["object"],
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": "b"})
    );
    assert_eq!(json["writes"][2], json!({"method": "DELETE", "path": path("c")}));
    assert_eq!(json["notice"], json!({"fails": true, "reason": "Refused", "message": "it is so"}));
}

#[test]
fn a_change_of_an_ordered_release_names_its_round() {
    let mut plan = several();
    plan.changes[1].round = Some(2);
    let line = super::text::line(&plan.changes[1]);
    assert!(line.starts_with("~ ConfigMap n/b (round 2"), "{line}");
    let json = json::json(&plan, &Mask::default());
    assert_eq!((&json["changes"][1]["round"], json["changes"][0].get("round")), (&json!(2), None));
}

#[test]
fn only_what_differs_within_a_line_is_marked() {
    assert_eq!(coloured("-a\n+b\n", Colour::Never), "-a\n+b");
    let shown = coloured(" a: 1\n-  image: shop:1.2\n+  image: shop:1.3\n", Colour::Ansi);
    let expected = " a: 1\n\u{1b}[31m-  image: shop:\u{1b}[7m1.2\u{1b}[27m\u{1b}[0m\n\
        \u{1b}[32m+  image: shop:\u{1b}[7m1.3\u{1b}[27m\u{1b}[0m";
    assert_eq!(shown, expected);
    let unpaired = coloured("-a: 1\n+a: 2\n+b: 3\n", Colour::Ansi);
    assert!(!unpaired.contains("\u{1b}[7m"), "{unpaired}");
}
