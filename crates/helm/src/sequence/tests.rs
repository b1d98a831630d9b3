//! Orders of whole charts: the examples of HIP-0025 and one chart for each of its rules.

use std::sync::Arc;

use super::*;
use crate::manifest::Head;

fn chart(files: &[(&str, &str)]) -> Arc<Chart> {
    Chart::from_files(files.iter().map(|(path, text)| (*path, *text))).unwrap()
}

fn yaml(name: &str, more: &str) -> String {
    format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n{more}")
}

/// Returns an object of a template's chart, with its group and what that waits for.
fn object(path: &str, name: &str, group: &str, on: &str) -> Manifest {
    let pairs = [(GROUP, group), (DEPENDS_ON_GROUPS, on)].into_iter().filter(|(_, text)| !text.is_empty());
    let annotations = pairs.map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
    let head = Head { name: name.to_owned(), kind: "ConfigMap".to_owned(), annotations, ..Head::default() };
    Manifest { path: path.to_owned(), content: String::new(), head }
}

fn own(name: &str, group: &str, on: &str) -> Manifest {
    object("foo/templates/a.yaml", name, group, on)
}

/// Returns the rounds, one per line: the stages with their objects.
fn rounds(chart: &Chart, manifests: &[Manifest]) -> String {
    let sequence = sequence(chart, manifests).unwrap();
    let stage = |stage: &&Stage| {
        let names: Vec<&str> = stage.objects.iter().map(|at| manifests[*at].head.name.as_str()).collect();
        format!("{}: {}", stage.name(), names.join(" "))
    };
    let round = |round: Vec<&Stage>| round.iter().map(stage).collect::<Vec<_>>().join(" | ");
    sequence.rounds().into_iter().map(round).collect::<Vec<_>>().join("\n")
}

fn plain() -> Arc<Chart> {
    chart(&[("Chart.yaml", &yaml("foo", ""))])
}

#[test]
fn groups_come_after_those_that_they_wait_for_and_other_objects_last() {
    for (behaviour, objects, expected) in [
        ("nothing is sequenced", vec![own("a", "", ""), own("b", "", "")], "foo: a b"),
        (
            "two groups",
            vec![own("app", "app", r#"["database"]"#), own("db", "database", "")],
            "foo database: db\nfoo app: app",
        ),
        (
            "others last",
            vec![own("x", "", ""), own("app", "app", r#"["database"]"#), own("db", "database", "")],
            "foo database: db\nfoo app: app\nfoo: x",
        ),
        (
            "a diamond",
            vec![
                own("d", "d", r#"["b","c"]"#),
                own("c", "c", r#"["a"]"#),
                own("b", "b", r#"["a"]"#),
                own("a", "a", ""),
            ],
            "foo a: a\nfoo b: b | foo c: c\nfoo d: d",
        ),
        ("an isolated group is no group", vec![own("a", "alone", ""), own("b", "", "")], "foo: a b"),
        (
            "what an object waits for counts for its group",
            vec![own("a", "a", ""), own("b1", "b", ""), own("b2", "b", r#"["a"]"#)],
            "foo a: a\nfoo b: b1 b2",
        ),
        (
            "without a group, an object is last",
            vec![own("x", "", r#"["a"]"#), own("a", "a", ""), own("b", "b", r#"["a"]"#)],
            "foo a: a\nfoo b: b\nfoo: x",
        ),
    ] {
        assert_eq!(rounds(&plain(), &objects), expected, "{behaviour}");
    }
}

#[test]
fn a_group_that_waits_for_an_unknown_one_is_last_with_those_that_wait_for_it() {
    // The HIP's first example: "another-group" does not exist.
    let objects = [
        own("db-service", "database", ""),
        own("my-app", "app", r#"["database", "queue"]"#),
        own("queue-processor", "queue", r#"["another-group"]"#),
    ];
    let found = sequence(&plain(), &objects).unwrap();
    let texts: Vec<String> = found.problems.iter().map(Problem::to_string).collect();
    assert_eq!(texts, ["resource group \"queue\" of chart foo waits for \"another-group\", which no object is in"]);
    assert_eq!(rounds(&plain(), &objects), "foo: db-service my-app queue-processor");
}

#[test]
fn subcharts_come_after_those_that_they_wait_for_and_the_chart_after_those_of_its_annotation() {
    // The HIP's second example.
    let parent = "annotations:\n  helm.sh/depends-on/subcharts: '[\"bar\", \"rabbitmq\"]'\ndependencies:\n\
        - {name: nginx, version: 1.0.0}\n- {name: rabbitmq, version: 1.0.0}\n\
        - {name: bar, version: 1.0.0, depends-on: [nginx, rabbitmq]}\n";
    let foo = chart(&[
        ("Chart.yaml", &yaml("foo", parent)),
        ("charts/nginx/Chart.yaml", &yaml("nginx", "")),
        ("charts/rabbitmq/Chart.yaml", &yaml("rabbitmq", "")),
        ("charts/bar/Chart.yaml", &yaml("bar", "")),
    ]);
    let below = |chart: &str| object(&format!("foo/charts/{chart}/templates/a.yaml"), chart, "", "");
    let objects = [own("foo", "", ""), below("bar"), below("rabbitmq"), below("nginx")];
    let expected = "foo/nginx: nginx | foo/rabbitmq: rabbitmq\nfoo/bar: bar\nfoo: foo";
    assert_eq!(rounds(&foo, &objects), expected);
    // A disabled subchart has no objects, and holds nobody up; what it waits for still counts.
    assert_eq!(rounds(&foo, &[own("foo", "", ""), below("nginx")]), "foo/nginx: nginx\nfoo: foo");
    assert_eq!(rounds(&foo, &[own("foo", "", "")]), "foo: foo");
}

#[test]
fn groups_are_those_of_their_own_chart_and_aliases_count_as_names() {
    let parent =
        "dependencies:\n- {name: db, version: 1.0.0, alias: main}\n- {name: web, version: 1.0.0, depends-on: [main]}\n";
    let foo = chart(&[
        ("Chart.yaml", &yaml("foo", parent)),
        ("charts/db/Chart.yaml", &yaml("db", "")),
        ("charts/web/Chart.yaml", &yaml("web", "")),
    ]);
    let db = |name: &str, group: &str, on: &str| object("foo/charts/main/templates/a.yaml", name, group, on);
    let objects = [
        object("foo/charts/web/templates/a.yaml", "web", "", ""),
        db("late", "late", r#"["early"]"#),
        db("early", "early", ""),
        own("own", "early", ""),
    ];
    assert_eq!(rounds(&foo, &objects), "foo/main early: early | foo: own\nfoo/main late: late\nfoo/web: web");
}

#[test]
fn cycles_and_malformed_lists_are_errors() {
    let error = |chart: &Chart, objects: &[Manifest]| sequence(chart, objects).unwrap_err().to_string();
    let ring = [own("a", "a", r#"["c"]"#), own("b", "b", r#"["a"]"#), own("c", "c", r#"["b"]"#)];
    assert_eq!(error(&plain(), &ring), "resource groups of chart foo wait for each other: a → c → b → a");
    let text = error(&plain(), &[own("a", "a", "database, queue")]);
    assert!(text.starts_with("foo/templates/a.yaml: helm.sh/depends-on/resource-groups must be a list"), "{text}");
    let parent = |on: &str| {
        let more = format!(
            "dependencies:\n- {{name: a, version: 1.0.0, depends-on: {on}}}\n- {{name: b, version: 1.0.0, depends-on: [a]}}\n"
        );
        chart(&[
            ("Chart.yaml", &yaml("foo", &more)),
            ("charts/a/Chart.yaml", &yaml("a", "")),
            ("charts/b/Chart.yaml", &yaml("b", "")),
        ])
    };
    assert_eq!(error(&parent("[b]"), &[]), "subcharts of chart foo wait for each other: a → b → a");
    assert!(error(&parent("b"), &[]).starts_with("Chart.yaml of foo: depends-on must be a list"));
    let unknown = sequence(&parent("[c]"), &[]).unwrap().problems;
    assert_eq!(unknown[0].to_string(), "chart foo lets subchart \"a\" wait for subchart \"c\", which it does not have");
}

#[test]
fn conditions_of_readiness_are_checked() {
    let with = |pairs: &[(&str, &str)]| {
        let mut one = own("job", "", "");
        one.head.annotations = pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        sequence(&plain(), &[one]).unwrap().problems.len()
    };
    let (success, failure) = ("helm.sh/readiness-success", "helm.sh/readiness-failure");
    let good = r#"["{.succeeded} == 1", "{.phase} != Failed"]"#;
    for (pairs, expected) in [
        (&[(success, good), (failure, r#"["{.failed} >= 1"]"#)][..], 0),
        (&[(success, good)], 1),
        (&[(success, r#"[".succeeded == 1"]"#), (failure, r#"["{.failed} is 1"]"#)], 2),
        (&[(success, "{.a} == [1]"), (failure, "[]")], 1),
        (&[], 0),
    ] {
        assert_eq!(with(pairs), expected, "{pairs:?}");
    }
}

#[test]
fn an_objects_turn_is_its_round_and_whether_others_wait_for_it() {
    let turns = |chart: &Chart, objects: &[Manifest]| -> Vec<(u16, bool)> {
        let turns = sequence(chart, objects).unwrap().turns(objects.len());
        turns.into_iter().map(|turn| (turn.round(), turn.is_awaited())).collect()
    };
    let objects = [own("x", "", ""), own("app", "app", r#"["db"]"#), own("db", "db", "")];
    assert_eq!(turns(&plain(), &objects), [(3, false), (2, true), (1, true)]);
    assert_eq!(turns(&plain(), &[own("x", "", "")]), [(1, false)]);
    let parent = "dependencies:\n- {name: a, version: 1.0.0}\n- {name: b, version: 1.0.0, depends-on: [a]}\n";
    let foo = chart(&[
        ("Chart.yaml", &yaml("foo", parent)),
        ("charts/a/Chart.yaml", &yaml("a", "")),
        ("charts/b/Chart.yaml", &yaml("b", "")),
    ]);
    let below = |chart: &str| object(&format!("foo/charts/{chart}/templates/a.yaml"), chart, "", "");
    assert_eq!(turns(&foo, &[own("own", "", ""), below("b"), below("a")]), [(1, false), (2, false), (1, true)]);
    assert_eq!(
        [Turn::of_round(100_000).awaited(), Turn::of_round(7)]
            .map(|turn| Turn::from_number(turn.to_number()))
            .map(|turn| (turn.round(), turn.is_awaited())),
        [(32_767, true), (7, false)]
    );
}

#[test]
fn an_object_of_an_unknown_template_is_the_charts_own() {
    let objects = [object("", "patched", "", ""), object("other/templates/a.yaml", "odd", "", ""), own("a", "", "")];
    assert_eq!(rounds(&plain(), &objects), "foo: patched odd a");
}

/// Five shapes of the draft's text, and what it says about each.
#[test]
fn the_drafts_own_shapes_have_the_order_that_it_describes() {
    let nested = "dependencies:\n- {name: app, version: 1.0.0, depends-on: [infra]}\n- {name: infra, version: 1.0.0}\n";
    let infra = "dependencies:\n- {name: queue, version: 1.0.0, depends-on: [db]}\n- {name: db, version: 1.0.0}\n";
    let foo = chart(&[
        ("Chart.yaml", &yaml("foo", nested)),
        ("charts/app/Chart.yaml", &yaml("app", "")),
        ("charts/infra/Chart.yaml", &yaml("infra", infra)),
        ("charts/infra/charts/db/Chart.yaml", &yaml("db", "")),
        ("charts/infra/charts/queue/Chart.yaml", &yaml("queue", "")),
    ]);
    let at = |path: &str, name: &str, group: &str, on: &str| {
        object(&format!("foo/charts/{path}/templates/a.yaml"), name, group, on)
    };
    for (behaviour, chart, objects, expected) in [
        (
            "\"Resources in database and queue would be deployed at the same time\"",
            plain(),
            vec![own("my-app", "app", r#"["database", "queue"]"#), own("db", "database", ""), own("q", "queue", "")],
            "foo database: db | foo queue: q\nfoo app: my-app",
        ),
        (
            "\"A resource-group would not be considered ready until all resources in that group are\"",
            plain(),
            vec![own("a1", "a", ""), own("a2", "a", ""), own("b", "b", r#"["a"]"#)],
            "foo a: a1 a2\nfoo b: b",
        ),
        (
            "\"A dependent chart is considered ready only when all of its resources are\"",
            foo.clone(),
            vec![
                at("app", "app", "", ""),
                at("infra", "infra", "", ""),
                at("infra/charts/db", "db", "", ""),
                at("infra/charts/queue", "queue", "", ""),
            ],
            "foo/infra/db: db | foo/infra: infra\nfoo/infra/queue: queue\nfoo/app: app",
        ),
        (
            "\"Sequencing annotations will not affect resources in other charts\"",
            foo,
            vec![own("own", "late", r#"["early"]"#), own("own-early", "early", ""), at("infra", "infra", "early", "")],
            "foo/infra: infra | foo early: own-early\nfoo late: own",
        ),
        (
            "\"Resources that lack annotations or belong to isolated groups will be deployed after\"",
            plain(),
            vec![own("plain", "", ""), own("alone", "alone", ""), own("b", "b", r#"["a"]"#), own("a", "a", "")],
            "foo a: a\nfoo b: b\nfoo: plain alone",
        ),
    ] {
        assert_eq!(rounds(&chart, &objects), expected, "{behaviour}");
    }
}

#[test]
fn conditions_compare_what_a_path_finds_in_the_status() {
    let status = serde_json::json!({
        "succeeded": 1, "failed": 0, "phase": "Running", "done": true, "a.b": "dotted", "items": [{"n": 1}, {"n": 5}],
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Stalled", "status": "False"}],
    });
    let never = r#"["{.never} == 1"]"#;
    for (condition, expected) in [
        ("{.succeeded} == 1", true),
        ("{.succeeded}==1.0", true),
        ("{.succeeded} >= 2", false),
        ("{.failed} < 1", true),
        ("{.phase} == Running", true),
        ("{.phase} == \"Running\"", true),
        ("{.phase} != 'Failed'", true),
        ("{.phase} > Pending", true),
        ("{.missing} != Failed", false),
        ("{.done} == true", true),
        ("{.done} == \"true\"", false),
        ("{.succeeded} == \"1\"", false),
        ("{['a.b']} == dotted", true),
        ("{.a\\.b} == dotted", true),
        ("{.items[0].n} == 1", true),
        ("{.items[-1].n} == 5", true),
        ("{.items[2].n} != 5", false),
        ("{.items[*].n} > 4", true),
        ("{.conditions[?(@.type==\"Ready\")].status} == True", true),
        ("{.conditions[?(@.type==\"Ready\")].status} == \"True\"", true),
        ("{.conditions[?(@.type=='Stalled')].status} == 'True'", false),
    ] {
        let list = serde_json::json!([condition]).to_string();
        let judged = judge(Some(&list), Some(never), &status);
        let expected = if expected { Verdict::Ready } else { Verdict::Waiting };
        assert_eq!(judged, Some(expected), "{condition}");
        let judged = judge(Some(r#"["{.succeeded} == 1"]"#), Some(&list), &status);
        let failed = matches!(judged, Some(Verdict::Failed(text)) if text == condition);
        assert_eq!(
            failed,
            judge(Some(&list), Some(never), &status) == Some(Verdict::Ready),
            "a failure counts more: {condition}"
        );
    }
    assert_eq!(judge(Some(never), None, &status), None, "only both together count");
    assert_eq!(judge(Some(never), Some("[]"), &serde_json::Value::Null), Some(Verdict::Waiting));
    for malformed in
        ["{succeeded} == 1", "{.a} ==", "{.a[} == 1", "{.a[x]} == 1", "{.a[?(.b==1)]} == 1", "{} == 1", "{.a..b} == 1"]
    {
        assert_eq!(judge(Some(&serde_json::json!([malformed]).to_string()), Some(never), &status), None, "{malformed}");
    }
}

/// Returns an object with this text, in a group.
fn written(text: &str, group: &str, on: &str) -> Manifest {
    let text = text.replace('\'', "\"");
    let object: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut one = own(object["metadata"]["name"].as_str().unwrap(), group, on);
    one.head.kind = object["kind"].as_str().unwrap().to_owned();
    Manifest { content: text, ..one }
}

#[test]
fn a_pod_that_others_wait_for_must_not_need_what_comes_later() {
    let web = |pod: &str| {
        format!("{{'kind': 'Deployment', 'metadata': {{'name': 'web'}}, 'spec': {{'template': {{'spec': {pod}}}}}}}")
    };
    let of = |kind: &str| format!("{{'kind': '{kind}', 'metadata': {{'name': 'n'}}}}");
    let container = |part: &str| format!("{{'containers': [{part}]}}");
    for (behaviour, pod, kind, group, expected) in [
        ("an account", "{'serviceAccountName': 'n'}".to_owned(), "ServiceAccount", "", true),
        ("an account of its own group", "{'serviceAccountName': 'n'}".to_owned(), "ServiceAccount", "web", false),
        ("another's account", "{'serviceAccountName': 'm'}".to_owned(), "ServiceAccount", "", false),
        ("a volume", "{'volumes': [{'configMap': {'name': 'n'}}]}".to_owned(), "ConfigMap", "", true),
        ("a secret volume", "{'volumes': [{'secret': {'secretName': 'n'}}]}".to_owned(), "Secret", "", true),
        (
            "an optional one",
            "{'volumes': [{'secret': {'secretName': 'n', 'optional': true}}]}".to_owned(),
            "Secret",
            "",
            false,
        ),
        (
            "a projected one",
            "{'volumes': [{'projected': {'sources': [{'secret': {'name': 'n'}}]}}]}".to_owned(),
            "Secret",
            "",
            true,
        ),
        (
            "a claim",
            "{'volumes': [{'persistentVolumeClaim': {'claimName': 'n'}}]}".to_owned(),
            "PersistentVolumeClaim",
            "",
            true,
        ),
        ("variables", container("{'envFrom': [{'configMapRef': {'name': 'n'}}]}"), "ConfigMap", "", true),
        ("a variable", container("{'env': [{'valueFrom': {'secretKeyRef': {'name': 'n'}}}]}"), "Secret", "", true),
    ] {
        let manifests =
            [written(&web(&pod), "web", ""), own("app", "app", r#"["web"]"#), written(&of(kind), group, "")];
        let late = sequence(&plain(), &manifests).unwrap().late(&manifests);
        assert_eq!(!late.is_empty(), expected, "{behaviour}: {late:?}");
    }
    let manifests = [
        written(&web("{'serviceAccountName': 'n'}"), "web", ""),
        own("app", "app", r#"["web"]"#),
        written(&of("ServiceAccount"), "", ""),
    ];
    let late = sequence(&plain(), &manifests).unwrap().late(&manifests);
    let expected = "Deployment web of round 1 needs ServiceAccount n, which comes in round 3 only: put that into the same group, \
                    or one before";
    assert_eq!(late.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    let last = [written(&web("{'serviceAccountName': 'n'}"), "", ""), written(&of("ServiceAccount"), "", "")];
    assert_eq!(sequence(&plain(), &last).unwrap().late(&last), [], "nothing waits for the last round");
}
