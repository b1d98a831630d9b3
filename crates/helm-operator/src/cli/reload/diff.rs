//! Shows how a chart's objects change, as a unified diff. Never shows a Secret's contents.

use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use serde_json::Value;

use super::preview::Objects;

const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const PLAIN: &str = "\u{1b}[0m";

/// Returns the differences of all objects; a sentence if there are none.
pub(super) fn of(before: &Objects, after: &Objects) -> String {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differs = |name: &&String| before.get(*name) != after.get(*name);
    let all: String = names.into_iter().filter(differs).map(|name| one(name, before, after)).collect();
    if all.is_empty() { "no object changes\n".to_owned() } else { all }
}

/// Returns how many objects differ.
pub(super) fn changed(before: &Objects, after: &Objects) -> usize {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).count()
}

fn one(name: &str, before: &Objects, after: &Objects) -> String {
    let (old, new) = (before.get(name), after.get(name));
    let (old_text, new_text) = (text(old, new, "before"), text(new, old, "after"));
    let lines = InternedInput::new(old_text.as_str(), new_text.as_str());
    let mut diff = Diff::compute(Algorithm::Histogram, &lines);
    diff.postprocess_lines(&lines);
    let side = |object: Option<&Value>| if object.is_some() { name } else { "(none)" };
    let printer = BasicLineDiffPrinter(&lines.interner);
    let hunks = diff.unified_diff(&printer, UnifiedDiffConfig::default(), &lines);
    format!("--- {}\n+++ {}\n{hunks}", side(old), side(new))
}

/// Returns an object's text. A Secret's values are redacted; those that differ from the `other` side's are marked.
fn text(object: Option<&Value>, other: Option<&Value>, side: &str) -> String {
    let Some(object) = object else { return String::new() };
    let mut object = object.clone();
    if object["kind"] == "Secret" {
        for field in ["data", "stringData"] {
            for (key, value) in object.get_mut(field).and_then(Value::as_object_mut).into_iter().flatten() {
                let is_same = other.is_none_or(|other| other[field].get(key).is_none_or(|known| known == value));
                *value = if is_same { "****".into() } else { format!("**** ({side})").into() };
            }
        }
        // kubectl keeps the whole text of what it applied.
        if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    let value = go_encoding::json::from_serde(&object);
    go_encoding::yaml::emit(&value).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
}

/// Adds colours to the diff, for a terminal.
pub(super) fn coloured(diff: &str, is_terminal: bool) -> String {
    let is_wanted = is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let paint = |line: &str| match line.as_bytes().first() {
        Some(b'+') if is_wanted => format!("{GREEN}{line}{PLAIN}\n"),
        Some(b'-') if is_wanted => format!("{RED}{line}{PLAIN}\n"),
        _ => format!("{line}\n"),
    };
    diff.lines().map(paint).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn objects(all: &[Value]) -> Objects {
        all.iter().map(|object| (object["kind"].as_str().unwrap().to_owned() + " a", object.clone())).collect()
    }

    #[test]
    fn changed_new_and_removed_objects_are_shown() {
        let map = |x: &str| json!({"kind": "ConfigMap", "data": {"x": x}});
        let before = objects(&[map("one"), json!({"kind": "Service"})]);
        let after = objects(&[map("two"), json!({"kind": "Ingress"})]);
        let expected = "\
--- ConfigMap a
+++ ConfigMap a
@@ -1,3 +1,3 @@
 data:
-  x: one
+  x: two
 kind: ConfigMap
--- (none)
+++ Ingress a
@@ -1,0 +1,1 @@
+kind: Ingress
--- Service a
+++ (none)
@@ -1,1 +1,0 @@
-kind: Service
";
        assert_eq!(of(&before, &after), expected);
        assert_eq!(of(&before, &before), "no object changes\n");
    }

    #[test]
    fn a_secrets_values_are_never_shown() {
        let secret =
            |a: &str| json!({"kind": "Secret", "data": {"a": a, "same": "c2FtZQ=="}, "stringData": {"b": "plain"}});
        let shown = of(&objects(&[secret("b25l")]), &objects(&[secret("dHdv")]));
        assert!(shown.contains("-  a: '**** (before)'") || shown.contains("-  a: **** (before)"), "{shown}");
        assert!(["b25l", "dHdv", "c2FtZQ", "plain"].iter().all(|text| !shown.contains(text)), "{shown}");
        let made = of(&Objects::default(), &objects(&[secret("b25l")]));
        assert!(made.contains("+  a: ") && !made.contains("b25l"), "{made}");
    }

    #[test]
    fn only_terminals_get_colours() {
        assert_eq!(coloured("-a\n+b\n", false), "-a\n+b");
    }
}
