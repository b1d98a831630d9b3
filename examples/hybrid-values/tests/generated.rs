//! The committed definition describes the chart's values. `make manifests` rewrites it.

#[test]
fn the_generated_definition_is_committed() {
    let mut generate = std::process::Command::new(env!("CARGO_BIN_EXE_hybrid-values"));
    generate.args(["generate", "crds"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GENERATED").is_none() {
        generate.arg("--check");
    }
    let output = generate.output().unwrap();
    assert!(output.status.success(), "run `make manifests`: {}", String::from_utf8_lossy(&output.stderr));
}
