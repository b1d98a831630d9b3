//! What processes cannot see for longer than their limits: it may be as it should, so nothing is removed or taken back.

use serde_json::json;
use simulation::faults::{Fault, How, Which};
use simulation::process::Setup;
use simulation::run::play;
use simulation::script::{Action, Script};

/// More than `progressTimeout` in an ordered script, in milliseconds.
const LONG: u64 = 130_000;

fn put(name: &str, message: &str, cache: bool) -> Action {
    Action::Put(name.into(), json!({"message": message, "replicas": 1, "cache": cache, "task": false}))
}

/// Plays a script of an ordered chart, and expects no violation.
fn check(mut script: Script) {
    script.order();
    let violation = play(&script).violation.map(|violation| violation.what);
    assert_eq!(violation, None, "{script}");
}

#[test]
fn a_release_whose_deployment_is_hidden_for_long_keeps_everything() {
    // The Deployment is created about three seconds after the resource, and takes up to eight more until it is ready.
    for (seed, is_upgrade, code, after) in
        [(1, false, 403, 3500), (2, false, 500, 4500), (3, true, 403, 1500), (4, true, 500, 2000)]
    {
        let watch = if is_upgrade { "onFailure: uninstall" } else { "" };
        let mut script = Script::new(seed, vec![Setup { watch: watch.into(), ..Setup::default() }], []);
        script.then(5000, put("a", "first", true));
        if is_upgrade {
            // Other replicas make the Deployment unready for a while.
            let values = json!({"message": "second", "replicas": 2, "cache": true, "task": false});
            script.then(30_000, Action::Put("a".into(), values));
        }
        let hidden = Fault::new(Which::Deployments, How::Status(code), LONG);
        script.then(after, Action::Fault(hidden));
        script.then(10, Action::Cut);
        check(script);
    }
}

#[test]
fn a_chart_is_not_taken_back_because_nobody_could_see_the_first_release() {
    let watch = "rollout: {steps: [33%, 66%], onFailure: rollback}";
    // Without election, the process goes on, and remembers since when it has waited.
    let setup = |chart: &str| Setup { chart: chart.into(), watch: watch.into(), elects: false, ..Setup::default() };
    for (seed, after) in [(1, 3000), (2, 4000), (3, 5000), (4, 6000)] {
        let mut script = Script::new(seed, vec![setup("web1")], []);
        script.then(5000, put("a", "first", false));
        script.then(0, put("b", "first", false));
        script.then(0, put("c", "first", false));
        script.then(30_000, Action::Restart(0, 0, setup("web2")));
        script.then(after, Action::RestartServer(LONG, 0));
        check(script);
    }
}
