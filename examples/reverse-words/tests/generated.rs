//! The committed definition is that of the Rust type, and the role that of the reconciler's rights. `make manifests` rewrites both.

use kube::CustomResourceExt as _;
use reverse_words::ReverseWordsApp;

#[test]
fn generated_definition_is_committed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/crd/bases/apps.linuxera.org_reversewordsapps.yaml");
    let header = "# Generated from src/api.rs by `make manifests`.\n";
    let expected = format!("{header}{}", serde_yaml::to_string(&ReverseWordsApp::crd()).unwrap());
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, &expected).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap_or_default() == expected, "stale: run `make manifests`");
}

#[test]
fn the_generated_role_is_committed() {
    let mut generate = std::process::Command::new(env!("CARGO_BIN_EXE_reverse-words"));
    generate.args(["generate", "rbac"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GENERATED").is_none() {
        generate.arg("--check");
    }
    let output = generate.output().unwrap();
    assert!(output.status.success(), "run `make manifests`: {}", String::from_utf8_lossy(&output.stderr));
}
