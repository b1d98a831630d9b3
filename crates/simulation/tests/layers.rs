//! What the layers of a process's client are for: without them, the same scripts fail.

use serde_json::json;
use simulation::process::Setup;
use simulation::run::play;
use simulation::script::{Action, Script};

/// Plays an edit of a resource while what holds the lease gets no time; returns the violation.
fn stalled(bare: bool) -> Option<String> {
    let put = |message| Action::Put("a".into(), json!({"message": message, "replicas": 1, "cache": true}));
    let steps = [(5000, put("first")), (10_000, Action::Stall(0, 30_000)), (25_000, put("second"))];
    let script = Script::new(1, vec![Setup { bare, ..Setup::default() }], steps);
    play(&script).violation.map(|violation| violation.what)
}

#[test]
fn a_process_sends_no_write_after_its_term() {
    let without = stalled(true).unwrap_or_default();
    assert!(without.contains("(h) op-0 sent") && without.contains("after its term"), "{without}");
    assert_eq!(stalled(false), None);
}
