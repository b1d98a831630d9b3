//! Names the successors of operator-sdk's commands. The page "Write a reconciler in four steps" lists them for readers.

/// Returns the successor of a command of operator-sdk; `None` for commands that it never had.
pub(super) fn of(words: &[&str]) -> Option<&'static str> {
    let [first, rest @ ..] = words else { return None };
    let second = rest.first().copied().unwrap_or_default();
    Some(match (*first, second) {
        ("new", _) => "'init --domain example.com' in an empty folder, with --hybrid for code in Rust",
        ("add", "controller") => "'create api --group GROUP --version VERSION --kind KIND --native'",
        ("add", "crd") => "'generate crds'",
        ("add", _) => "'create api --group GROUP --version VERSION --kind KIND'",
        ("build", _) => "'make docker-build IMG=IMAGE' in the project",
        ("up", _) => "'make run' in the project, or 'run'",
        ("test", _) => "'make test' in the project",
        ("print-deps", _) => "'version'",
        ("migrate", _) => "'init --from-operator-sdk .'",
        ("olm-catalog", _) | ("generate", "csv" | "kustomize" | "packagemanifests") => "'make bundle' in the project",
        ("generate", "k8s" | "openapi") => "'generate crds': no code is generated, 'make generate' works, too",
        ("bundle", _) => "'generate bundle'; operator-sdk's own program validates the result",
        ("scorecard" | "olm" | "cleanup", _) => "operator-sdk's own program, which reads projects made here",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_operator_sdk_name_their_successor() {
        for (line, expected) in [
            ("add api --kind=A", "'create api"),
            ("add controller", "--native'"),
            ("build example.com/a:1", "docker-build"),
            ("generate k8s", "'generate crds'"),
            ("new app-operator", "'init"),
            ("up local", "'make run'"),
            ("test local ./test", "'make test'"),
            ("print-deps", "'version'"),
        ] {
            let words: Vec<&str> = line.split(' ').collect();
            assert!(of(&words).is_some_and(|today| today.contains(expected)), "{line}");
        }
        assert_eq!(of(&["frobnicate"]), None);
        assert_eq!(of(&["generate", "crds"]), None);
        assert_eq!(of(&[]), None);
    }
}
