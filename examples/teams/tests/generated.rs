//! The committed definition is that of the Rust type, and the role that of the reconciler's rights. `make manifests` rewrites both.

#[test]
fn the_generated_definition_is_committed() {
    is_committed("crds");
}

#[test]
fn the_generated_role_is_committed() {
    is_committed("rbac");
}

#[test]
fn what_webhooks_need_is_committed() {
    is_committed("webhooks");
}

fn is_committed(what: &str) {
    let mut generate = std::process::Command::new(env!("CARGO_BIN_EXE_teams"));
    generate.args(["generate", what]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GENERATED").is_none() {
        generate.arg("--check");
    }
    let output = generate.output().expect("the program starts");
    assert!(output.status.success(), "run `make manifests`: {}", String::from_utf8_lossy(&output.stderr));
}
