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
    assert_eq!(
        texts,
        [
            "resource group \"queue\" of chart foo waits for \"another-group\", which no object is in; it is applied last"
        ]
    );
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
