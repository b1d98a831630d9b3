//! A release's manifest as Helm 3 records it: in its install order, and without white space at the end of documents.
//!
//! operator-sdk compares manifests as text, so any other text would cost each release a revision when its operator takes over.

use go_encoding::json::to_serde;
use go_encoding::yaml;

use super::{INSTALL_ORDER, Manifest, sort_by_kind};

/// Kinds that Helm 3 does not know and therefore installs last, ordered by name.
const UNKNOWN_TO_HELM3: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Returns the manifest of a release's record. `manifests` must be in install order.
pub(crate) fn recorded(manifests: &[Manifest]) -> String {
    let order: Vec<&str> = INSTALL_ORDER.iter().copied().filter(|kind| !UNKNOWN_TO_HELM3.contains(kind)).collect();
    let mut manifests: Vec<&Manifest> = manifests.iter().collect();
    sort_by_kind(&mut manifests, &order, |manifest| &manifest.head.kind);
    manifests.iter().map(|m| format!("---\n# Source: {}\n{}\n", m.path, trimmed(&m.content))).collect()
}

/// Returns the document without the white space at its end, unless that is part of a value.
fn trimmed(document: &str) -> &str {
    let text = document.trim_end();
    let has_spaces = document[text.len()..].contains([' ', '\t']) && text.contains(['|', '>']);
    if (has_spaces || keeps_blank_lines(text)) && !is_same(document, text) { document } else { text }
}

/// Returns whether both documents have the same value once they are recorded.
fn is_same(one: &str, other: &str) -> bool {
    let value = |text: &str| yaml::parse(format!("{text}\n").as_bytes()).map(|value| to_serde(&value));
    value(one).ok() == value(other).ok()
}

/// Returns whether the document may contain a block scalar that keeps blank lines at its end: `|+`, `>2+`.
fn keeps_blank_lines(document: &str) -> bool {
    document.match_indices('+').any(|(at, _)| {
        let before = document[..at].trim_end_matches(|c: char| c.is_ascii_digit());
        before.ends_with(['|', '>'])
    })
}

#[cfg(test)]
mod tests {
    use super::super::Head;
    use super::*;

    fn manifest(kind: &str, name: &str, content: &str) -> Manifest {
        let head = Head { kind: kind.into(), name: name.into(), ..Head::default() };
        Manifest { path: format!("c/templates/{name}.yaml"), content: content.into(), head }
    }

    #[test]
    fn white_space_at_the_end_is_dropped_unless_it_belongs_to_a_value() {
        let check = |content: &str, expected: &str| {
            let text = recorded(&[manifest("A", "a", content)]);
            assert_eq!(text, format!("---\n# Source: c/templates/a.yaml\n{expected}\n"), "{content:?}");
        };
        check("a: 1", "a: 1");
        check("a: 1\n\n  \n", "a: 1");
        check("a: 1\r\n", "a: 1");
        check("a: 1  \n", "a: 1");
        check("a: |\n  text\n\n", "a: |\n  text");
        check("a: |\n  1 + 1\n\n", "a: |\n  1 + 1");
        check("a: |\n  text  \n", "a: |\n  text  \n");
        check("a: |\n  text\n    \n\n", "a: |\n  text\n    \n\n");
        check("a: |\n  text\n    \n  ", "a: |\n  text\n    \n  ");
        check("a: |\n  text\n  \n", "a: |\n  text");
        check("a: x | y\n  \n", "a: x | y");
        check("a: |+\n  text\n\n", "a: |+\n  text\n\n");
        check("a: >2+\n   text\n\n", "a: >2+\n   text\n\n");
        check("a: |+2 # kept\n   text\n\n", "a: |+2 # kept\n   text\n\n");
    }

    #[test]
    fn webhooks_are_sorted_by_name_among_the_kinds_that_helm_3_does_not_know() {
        let installed = [
            "Service",
            "APIService",
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "Certificate",
            "Zoo",
        ];
        let text = recorded(&installed.map(|kind| manifest(kind, kind, "x: 1")));
        let sources: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# Source: c/templates/")).collect();
        let expected = [
            "Service.yaml",
            "APIService.yaml",
            "Certificate.yaml",
            "MutatingWebhookConfiguration.yaml",
            "ValidatingWebhookConfiguration.yaml",
            "Zoo.yaml",
        ];
        assert_eq!(sources, expected);
    }
}
