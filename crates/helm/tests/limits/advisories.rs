//! Inputs of the kind that broke Helm and other tools, by advisory: each is an error or harmless. Archives, links and `--set` have separate tests.

use go_template::Map;
use helm::chart::Chart;

use super::{Cases, chart, file, is_error, render_chart};

/// Loads and renders a chart with this text in `Chart.yaml`, and the subchart `s`.
fn with_metadata(text: &str) -> Result<(), String> {
    let files = [
        ("Chart.yaml", text),
        ("charts/s/Chart.yaml", "apiVersion: v2\nname: s\nversion: 0.1.0\n"),
        ("charts/s/values.yaml", "a: {b: 1}\n"),
        ("templates/t.yaml", "a: {{ .Chart.Name | quote }}\n"),
    ];
    let chart = Chart::from_files(files.map(|(name, text)| file(name, text))).map_err(|error| error.to_string())?;
    render_chart(chart, &Map::default()).map(|_| ())
}

fn about(name: &str, rest: &str) -> String {
    format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n{rest}")
}

#[test]
fn names_and_aliases_cannot_leave_their_folder() {
    let mut cases = Cases::of(module_path!(), "names_and_aliases_cannot_leave_their_folder");
    for (advisory, text, expected) in [
        ("CVE-2024-25620", about("../x", ""), "chart.metadata.name"),
        ("CVE-2026-35206, one dot", about(".", ""), "is not allowed"),
        ("CVE-2026-35206, two dots", about("..", ""), "is not allowed"),
        ("CVE-2026-35206, no name", about("\"\"", ""), "chart.metadata.name is required"),
        ("a long name", about(&format!("{}/x", "n".repeat(1_000_000)), ""), "is invalid"),
        ("CVE-2026-35204", "apiVersion: v2\nname: c\nversion: 1.0.0/../x\n".to_owned(), "chart.metadata.version"),
    ] {
        cases.add(advisory, move || is_error(with_metadata(&text), expected));
    }
    for alias in ["a/b", "..", "a\\nb", "a b", "a.b", "ä"] {
        let text = about("c", &format!("dependencies: [{{name: s, version: 0.1.0, alias: \"{alias}\"}}]\n"));
        cases.add(format!("CVE-2020-15184, {alias}"), move || {
            is_error(with_metadata(&text), "disallowed characters in the alias")
        });
    }
    cases.run();
}

#[test]
fn metadata_of_any_type_is_an_error_or_harmless() {
    let mut cases = Cases::of(module_path!(), "metadata_of_any_type_is_an_error_or_harmless");
    let null = "must not contain empty or null nodes";
    for (advisory, rest, expected) in [
        ("CVE-2025-55198, maintainers", "maintainers: [null]\n", null),
        ("CVE-2025-55198, dependencies", "dependencies: [null]\n", null),
        ("dependencies of another type", "dependencies: 1\n", "cannot"),
        ("annotations of another type", "annotations: [1]\n", "cannot"),
        ("a version of another type", "version: {a: 1}\n", "cannot"),
    ] {
        cases.add(advisory, move || is_error(with_metadata(&about("c", rest)), expected));
    }
    for imports in ["[null]", "[1]", "[{}]", "[{child: 1, parent: [2]}]", "[[a]]", "[a, {child: a.b.c, parent: .}]"] {
        let text = about("c", &format!("dependencies: [{{name: s, version: 0.1.0, import-values: {imports}}}]\n"));
        cases.add(format!("CVE-2025-55198, import-values {imports}"), move || {
            let _ = with_metadata(&text);
        });
    }
    cases.add("CVE-2020-15187, duplicate keys: the last one wins", || {
        assert_eq!(with_metadata(&about("a/b", "name: c\n")), Ok(()));
    });
    for text in ["", "null", "[]", "---", "\0", "~: 1"] {
        cases.add(format!("CVE-2024-26147, {text:?}"), move || assert!(with_metadata(text).is_err()));
    }
    cases.run();
}

#[test]
fn control_characters_do_not_reach_a_terminal() {
    let mut cases = Cases::of(module_path!(), "control_characters_do_not_reach_a_terminal");
    cases.add("CVE-2021-21303, in metadata", || {
        let text =
            "apiVersion: v2\nname: \"c\\e[31m\"\nversion: 0.1.0\ndescription: \"\\e]0;title\\a\"\nhome: \"\\u202e\"\n";
        let chart = Chart::from_files([file("Chart.yaml", text)]).unwrap();
        let about = format!("{:?}", (&chart.metadata.name, &chart.metadata.description, &chart.metadata.home));
        assert_eq!(about, "(\"c[31m\", \"]0;title\", \"\")");
    });
    for (name, text) in [("a version", "version: \"1.0.0\\e[2J\"\n"), ("a kind", "type: \"\\e[2J\"\n")] {
        cases.add(format!("CVE-2021-21303, in the error for {name}"), move || {
            let error = with_metadata(&about("c", text)).unwrap_err();
            assert!(!error.contains('\x1b'), "{error:?}");
        });
    }
    cases.run();
}

#[test]
fn schemas_of_any_type_are_errors() {
    let mut cases = Cases::of(module_path!(), "schemas_of_any_type_are_errors");
    let render = |schema: &str| {
        let files = vec![file("values.schema.json", schema), file("values.yaml", "a: 1\n")];
        render_chart(chart(files)?, &Map::default()).map(|_| ())
    };
    for schema in
        ["null", "1", "\"a\"", "[]", "[{}]", "{", "{}}", "{\"type\":1}", "{\"properties\":[1]}", "{\"$ref\":{}}"]
    {
        cases.add(format!("CVE-2022-23526, {schema}"), move || {
            is_error(render(schema), "values don't meet the specifications of the schema(s)");
        });
    }
    for url in ["file:///dev/zero", "/dev/zero", "http://127.0.0.1:9/x", "//127.0.0.1/x", "../../../etc/passwd"] {
        cases.add(format!("CVE-2025-55199, {url}"), move || {
            is_error(render(&format!("{{\"$ref\":\"{url}\"}}")), "it is not a file of the chart");
        });
    }
    cases.add("CVE-2025-32387", move || {
        is_error(
            render(
                "{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"$ref\":\"#/$defs/a\"}},\"$ref\":\"#/$defs/a\"}",
            ),
            "reference cycle",
        );
    });
    cases.run();
}

#[test]
fn templates_reach_neither_network_nor_cluster() {
    let mut cases = Cases::of(module_path!(), "templates_reach_neither_network_nor_cluster");
    cases.gives("getHostByName \"localhost\" | quote", "\"\"");
    cases.gives("lookup \"v1\" \"Secret\" \"default\" \"\" | len", "0");
    cases.gives(".Files.Get \"/etc/hostname\" | quote", "\"\"");
    cases.gives(".Files.Get \"../../../../etc/hostname\" | quote", "\"\"");
    cases.run();
}

#[test]
fn many_dependencies_are_bounded() {
    let mut cases = Cases::of(module_path!(), "many_dependencies_are_bounded");
    cases.add("20,000 dependencies", || {
        let entries: String = (0..20_000).map(|i| format!("- {{name: s, version: 0.1.0, alias: a{i}}}\n")).collect();
        is_error(with_metadata(&about("c", &format!("dependencies:\n{entries}"))), "limit MAX_DEPENDENCIES");
    });
    cases.add("2,000 subcharts", || {
        let inner = (0..2000).map(|i| file(&format!("charts/s{i}/Chart.yaml"), about(&format!("s{i}"), "")));
        is_error(chart(inner.collect()), "limit MAX_DEPENDENCIES");
    });
    cases.run();
}
