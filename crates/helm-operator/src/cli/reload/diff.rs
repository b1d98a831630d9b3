//! Shows how a chart's objects change.

use super::preview::Objects;
use crate::plan::diff;

/// Returns the differences of all objects; a sentence if there are none.
pub(super) fn of(before: &Objects, after: &Objects) -> String {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differs = |name: &&String| before.get(*name) != after.get(*name);
    let one = |name: &String| diff::of(name, before.get(name), after.get(name));
    let all: String = names.into_iter().filter(differs).map(one).collect();
    if all.is_empty() { "no object changes\n".to_owned() } else { all }
}

/// Returns how many objects differ.
pub(super) fn changed(before: &Objects, after: &Objects) -> usize {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names.into_iter().filter(|name| before.get(*name) != after.get(*name)).count()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
}
