//! A process that restarts with other settings: what one tolerated, the next one repairs.

use serde_json::json;
use simulation::process::Setup;
use simulation::run::play;
use simulation::script::{Action, Script};

fn setup(watch: &str) -> Setup {
    Setup { watch: watch.into(), ..Setup::default() }
}

/// Plays the drift of a release while a process has these settings, and a restart with others; returns the violation.
fn drifted(before: &str, after: &str) -> Option<String> {
    let values = json!({"message": "first", "replicas": 1, "cache": true});
    let mut script = Script::new(1, vec![setup(before)], [(5000, Action::Put("a".into(), values))]);
    script.then(30_000, Action::Disturb("configmaps/a-config".into()));
    script.then(1000, Action::Disturb("deployments/a-server".into()));
    script.then(1000, Action::Remove("services/a-cache".into()));
    script.then(90_000, Action::Restart(0, 500, setup(after)));
    play(&script).violation.map(|violation| violation.what)
}

#[test]
fn a_process_repairs_what_it_tolerated_before_a_restart() {
    for before in ["drift: {policy: detect}", "drift: {policy: \"off\"}", "watchDependentResources: false"] {
        assert_eq!(drifted(before, ""), None, "{before}");
    }
}

#[test]
fn drift_that_is_still_tolerated_is_found() {
    for policy in ["detect", "\"off\""] {
        let watch = format!("drift: {{policy: {policy}}}");
        let found = drifted(&watch, &watch).unwrap_or_default();
        assert!(found.starts_with("(d) "), "{policy}: {found}");
    }
}
