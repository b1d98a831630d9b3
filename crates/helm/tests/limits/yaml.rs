//! YAML, JSON and TOML with deep nesting or exponential aliases: as values, as files, as manifests.

use std::fmt::Write as _;

use go_template::Map;
use helm::values;

use super::{Cases, chart, file, is_error, render_chart};

/// Returns texts that are rejected, and part of the error of each.
fn bad() -> [(&'static str, String, &'static str); 7] {
    let deep = (0..2_000).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n");
    [
        ("nested flow lists", "[".repeat(100_000), "exceeded max depth"),
        ("nested block lists", "- ".repeat(100_000), "exceeded max depth"),
        ("nested flow maps", "{a: ".repeat(100_000), "exceeded max depth"),
        ("nested block maps", deep, "exceeded max depth"),
        ("alias bomb", bomb(9), "excessive aliasing"),
        ("alias bomb under a key that errors show", format!("~:\n{}", indented(&bomb(100))), "excessive aliasing"),
        ("map that is its own key", format!("&s {{a: [x{}], *s : 1}}", ", x".repeat(10_000)), "contains itself"),
    ]
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// Returns a text in which each line refers to the previous one this many times.
fn bomb(times: usize) -> String {
    let mut text = format!("a0: &a0 [{}]\n", vec!["x"; times].join(", "));
    for i in 1..12 {
        let items = vec![format!("*a{}", i - 1); times].join(", ");
        writeln!(text, "a{i}: &a{i} [{items}]").unwrap();
    }
    text
}

#[test]
fn deep_and_aliased_yaml_is_rejected() {
    let mut cases = Cases::of(module_path!(), "deep_and_aliased_yaml_is_rejected");
    for (name, text, expected) in bad() {
        let copy = text.clone();
        cases.add(format!("{name} as values"), move || {
            is_error(values::read(text.as_bytes()).map_err(|error| error.to_string()), expected);
        });
        cases.add(format!("{name} in values.yaml"), move || {
            let loaded = chart(vec![file("values.yaml", &copy)]);
            is_error(loaded.as_ref().map_err(Clone::clone), "cannot load values.yaml");
            is_error(loaded, expected);
        });
    }
    cases.run();
}

#[test]
fn decoding_functions_are_bounded() {
    let mut cases = Cases::of(module_path!(), "decoding_functions_are_bounded");
    for (name, text, expected) in bad() {
        cases.add(format!("{name} in fromYaml"), move || {
            let template = "a: {{ (.Files.Get \"x\" | fromYaml).Error | quote }}";
            let files = vec![file("templates/t.yaml", template), file("x", &text)];
            let rendered = render_chart(chart(files).unwrap(), &Map::default()).unwrap();
            let shown = &rendered.manifests[0].content;
            assert!(shown.contains(expected) && shown.len() < 1000, "{shown:.1000}");
        });
    }
    let error = "\"exceeded max depth\"";
    cases.gives("index (repeat 100000 \"[\" | fromJsonArray) 0 | quote", error);
    cases.gives("(repeat 100000 \"{\\\"a\\\":\" | fromJson).Error | quote", error);
    for text in ["repeat 100000 \"a.\" | printf \"%sa = 1\"", "repeat 100000 \"[\" | printf \"a = %s\""] {
        cases.gives(&format!("({text} | fromToml).Error | contains \"exceeded max depth of 200\""), "true");
    }
    cases.run();
}

#[test]
fn yaml_bombs_in_manifests_are_rejected() {
    let mut cases = Cases::of(module_path!(), "yaml_bombs_in_manifests_are_rejected");
    for (name, text, expected) in bad() {
        cases.add(format!("{name} as a manifest"), move || {
            let files = vec![file("templates/t.yaml", "{{ .Files.Get \"x\" }}"), file("x", &text)];
            is_error(render_chart(chart(files).unwrap(), &Map::default()).map(|_| ()), expected);
        });
    }
    cases.run();
}
