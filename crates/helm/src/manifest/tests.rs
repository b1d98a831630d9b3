use super::*;

#[test]
fn documents_are_split_at_lines_that_start_with_three_dashes() {
    for (text, wanted) in [
        ("a: 1\n---\nb: 2\n", vec!["a: 1\n", "b: 2\n"]),
        ("\n---\n# only a comment\n---\n\n---\na: 1", vec!["# only a comment\n", "a: 1"]),
        ("---apiVersion: v1", vec!["apiVersion: v1"]),
        ("--- \t a: 1\n--- # x\nb", vec!["a: 1\n", "# x\nb"]),
        ("a: |\n  ---\n", vec!["a: |\n  ---\n"]),
        ("a\n----\nb", vec!["a\n", "-\nb"]),
        ("", vec![]),
    ] {
        assert_eq!(split(text), wanted, "{text:?}");
    }
}

#[test]
fn unknown_kinds_are_installed_last() {
    let mut kinds =
        vec!["Zebra", "Deployment", "Alpaca", "Service", "ValidatingWebhookConfiguration", "Namespace", "Alpaca"];
    sort_by_kind(&mut kinds, INSTALL_ORDER, |kind| kind);
    assert_eq!(
        kinds,
        ["Namespace", "Service", "Deployment", "ValidatingWebhookConfiguration", "Alpaca", "Alpaca", "Zebra"]
    );
}

#[test]
fn hooks_are_separated_from_manifests() {
    let hook = "kind: Job\nmetadata:\n  name: h\n  annotations:\n    helm.sh/hook: pre-install, POST-upgrade\n    helm.sh/hook-weight: \"-5\"\n    helm.sh/hook-delete-policy: hook-succeeded,before-hook-creation\n";
    let unknown = "kind: Job\nmetadata: {annotations: {helm.sh/hook: never}}\n";
    let sorted = sort_files([
        ("c/templates/b.yaml", hook),
        ("c/templates/a.yaml", "kind: Service\n---\nkind: ConfigMap\nmetadata: {name: 1}\n"),
        ("c/templates/u.yaml", unknown),
        ("c/templates/_p.tpl", "not: [yaml"),
        ("c/templates/e.yaml", " \n"),
    ])
    .unwrap();
    let kinds: Vec<_> = sorted.manifests.iter().map(|m| (m.head.kind.as_str(), m.head.name.as_str())).collect();
    assert_eq!(kinds, [("ConfigMap", "1"), ("Service", "")]);
    assert_eq!(sorted.hooks.len(), 1);
    assert_eq!(sorted.hooks[0].events, ["pre-install", "post-upgrade"]);
    assert_eq!(sorted.hooks[0].weight, -5);
    assert_eq!(sorted.hooks[0].delete_policies, ["hook-succeeded", "before-hook-creation"]);
}

#[test]
fn the_error_for_an_invalid_manifest_names_its_template() {
    let error = sort_files([("c/templates/x.yaml", "kind: [a]\n")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "YAML parse error on c/templates/x.yaml: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field SimpleHead.kind of type string"
    );
}

/// Recorded from Helm v4.3.1, one object per line: rendered files, and hooks and manifests or the error.
const CASES: &str = include_str!("cases.jsonl");

#[test]
fn hooks_manifests_and_errors_match_helm() {
    use serde_json::{Value as Json, json};
    let mut wrong = String::new();
    for case in CASES.lines() {
        let case: Json = serde_json::from_str(case).unwrap();
        let files = case["files"].as_object().unwrap().iter();
        let got = match sort_files(files.map(|(path, text)| (path.as_str(), text.as_str().unwrap()))) {
            Err(error) => json!({"error": error.to_string()}),
            Ok(sorted) => {
                let hooks = sorted.hooks.iter().map(|h| {
                    json!([
                        h.name,
                        h.kind,
                        h.path,
                        h.manifest,
                        h.events,
                        h.weight,
                        h.delete_policies,
                        h.output_log_policies
                    ])
                });
                let manifests = sorted
                    .manifests
                    .iter()
                    .map(|m| json!([m.path, m.content, m.head.api_version, m.head.kind, m.head.name]));
                json!({"hooks": hooks.collect::<Vec<_>>(), "manifests": manifests.collect::<Vec<_>>()})
            }
        };
        if got != case["result"] {
            wrong.push_str(&format!("{}\n  got    {got}\n  wanted {}\n", case["files"], case["result"]));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
