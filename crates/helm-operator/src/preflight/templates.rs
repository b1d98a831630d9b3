//! Finds the kinds that a chart's templates spell out, so that the operator knows what it will write before it renders
//! anything.
//!
//! Kinds and API versions that templates compute are found later, when the server refuses them.

use std::collections::BTreeSet;

use go_template::Map;
use helm::engine::Engine;
use helm::manifest::HOOK_ANNOTATION;

/// A kind that a template names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// Whether its objects are hooks, which are neither watched nor changed.
    pub(crate) is_hook: bool,
}

/// Returns the kinds that a chart's templates name, including subcharts that are enabled by default.
pub(crate) fn named(engine: &Engine) -> BTreeSet<Named> {
    match engine.resolve(&Map::default(), &mut Vec::new()) {
        Ok(view) => view.templates().iter().flat_map(|(_, text)| in_text(&text.to_text())).collect(),
        // The chart's resources will report the error.
        Err(_) => BTreeSet::new(),
    }
}

/// Returns the kinds that a template names.
fn in_text(text: &str) -> Vec<Named> {
    documents(text).iter().flat_map(|document| in_document(document)).collect()
}

fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.starts_with("---") {
            documents.push(String::new());
        } else if let Some(last) = documents.last_mut() {
            last.push_str(line);
            last.push('\n');
        }
    }
    documents
}

/// Returns each pair of `apiVersion` and `kind` at the start of a line, in either order. A condition may choose between
/// several.
fn in_document(document: &str) -> Vec<Named> {
    let hook = document.lines().find_map(hook_of);
    if hook.is_some_and(is_test) {
        return Vec::new();
    }
    let is_hook = hook.is_some();
    let (mut found, mut api_version, mut kind) = (Vec::new(), None, None);
    for line in document.lines() {
        api_version = constant(line, "apiVersion:").or(api_version);
        kind = constant(line, "kind:").or(kind);
        if let (Some(version), Some(name)) = (&api_version, &kind) {
            found.push(Named { api_version: version.clone(), kind: name.clone(), is_hook });
            (api_version, kind) = (None, None);
        }
    }
    found
}

/// Returns a hook's events, if this line names them.
fn hook_of(line: &str) -> Option<&str> {
    let (key, events) = line.split_once(':')?;
    (key.trim().trim_matches(['"', '\'']) == HOOK_ANNOTATION).then_some(events)
}

/// Returns whether only `helm test` runs the hook.
fn is_test(events: &str) -> bool {
    events.split(',').all(|event| event.trim().trim_matches(['"', '\'']).starts_with("test"))
}

/// Returns the key's value, if the line spells it out.
fn constant(line: &str, key: &str) -> Option<String> {
    let value = line.strip_prefix(key)?.split(" #").next()?.trim().trim_matches(['"', '\'']);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./-".contains(c);
    (!value.is_empty() && value.chars().all(is_plain)).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use helm::chart::Chart;

    use super::*;

    #[test]
    fn kinds_that_are_spelled_out_are_found_whatever_surrounds_them() {
        let check = |text: &str, expected: &[&str]| {
            let word = |named: Named| {
                format!("{} {}{}", named.api_version, named.kind, if named.is_hook { " hook" } else { "" })
            };
            assert_eq!(in_text(text).into_iter().map(word).collect::<Vec<_>>(), expected, "{text}");
        };
        check("apiVersion: v1\nkind: ConfigMap\n", &["v1 ConfigMap"]);
        check(
            "{{- if .a }}\nkind: \"Deployment\" # main\nmetadata:\n  name: x\napiVersion: apps/v1\n{{ end }}",
            &["apps/v1 Deployment"],
        );
        check(
            "apiVersion: v1\nkind: Secret\n---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations:\n    \"helm.sh/hook\": pre-install\n",
            &["v1 Secret", "batch/v1 Job hook"],
        );
        check("{{ if .a }}\napiVersion: a/v1\n{{ else }}\napiVersion: a/v2\n{{ end }}\nkind: X\n", &["a/v2 X"]);
        check("apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    helm.sh/hook: test\n", &[]);
        check(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    helm.sh/hook: test,pre-delete\n",
            &["v1 Pod hook"],
        );
        check("apiVersion: {{ .v }}\nkind: X\n", &[]);
        check("{{ include \"all\" . }}\n", &[]);
        check("spec:\n  kind: Y\n  apiVersion: v1\n", &[]);
    }

    #[test]
    fn disabled_subcharts_are_left_out() {
        let chart = Chart::from_files([
            (
                "Chart.yaml",
                "apiVersion: v2\nname: a\nversion: 1.0.0\ndependencies:\n- {name: b, version: 1.0.0, condition: b.enabled}\n- {name: c, version: 1.0.0, condition: c.enabled}\n",
            ),
            ("values.yaml", "b: {enabled: true}\nc: {enabled: false}\n"),
            ("templates/a.yaml", "apiVersion: v1\nkind: A\n"),
            ("charts/b/Chart.yaml", "apiVersion: v2\nname: b\nversion: 1.0.0\n"),
            ("charts/b/templates/b.yaml", "apiVersion: v1\nkind: B\n"),
            ("charts/c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n"),
            ("charts/c/templates/c.yaml", "apiVersion: v1\nkind: C\n"),
        ]);
        let found = named(&Engine::new(chart.unwrap()));
        assert_eq!(found.iter().map(|named| named.kind.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    }
}
