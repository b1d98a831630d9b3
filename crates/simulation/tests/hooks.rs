//! Hooks that fail, hang or linger for a while: afterwards, all is as the values say, and nothing ran twice or was lost.

use serde_json::json;
use simulation::faults::{Fault, How, Which};
use simulation::hooks::Trouble;
use simulation::process::Setup;
use simulation::run::play;
use simulation::script::{Action, Script};

/// What follows a failed hook.
const POLICIES: [&str; 5] =
    ["", "onFailure: keep", "onFailure: uninstall", "retries: 1", "onFailure: keep\nretries: 1"];

fn put(message: &str) -> Action {
    let values = json!({"message": message, "replicas": 1, "cache": true, "hooks": true, "farewell": true});
    Action::Put("a".into(), values)
}

fn delete() -> Action {
    Action::Delete("a".into(), String::new())
}

/// Plays this trouble while a release is installed, upgraded and deleted, and expects no violation.
fn check(setup: &Setup, trouble: &Action) {
    let [first, second] = [put("first"), put("second")];
    let scripts: [&[(u64, Action)]; 4] = [
        &[(5000, trouble.clone()), (10, first.clone())],
        &[(5000, first.clone()), (30_000, trouble.clone()), (10, second.clone())],
        &[(5000, first.clone()), (30_000, trouble.clone()), (10, second.clone()), (4000, first.clone())],
        &[(5000, first.clone()), (30_000, trouble.clone()), (10, delete()), (4000, second)],
    ];
    for (seed, steps) in (1..).zip(scripts) {
        let mut script = Script::new(seed, vec![setup.clone()], []);
        steps.iter().for_each(|(after, what)| script.then(*after, what.clone()));
        let violation = play(&script).violation.map(|violation| violation.what);
        assert_eq!(violation, None, "{script}");
    }
}

#[test]
fn a_hook_that_fails_runs_again_with_the_next_attempt_only() {
    for watch in POLICIES {
        let setup = Setup { watch: watch.into(), ..Setup::default() };
        check(&setup, &Action::Hooks(Trouble::Fails, 20_000));
    }
}

/// Either all releases return to the chart before, or some never get the new one. Each resource says so.
#[test]
fn a_rollout_may_end_with_a_hook_that_fails() {
    let watch = "rollout: {steps: [33%, 66%], onFailure: rollback}";
    let setup = |chart: &str| Setup { chart: chart.into(), watch: watch.into(), elects: false, ..Setup::default() };
    for (seed, fails_after) in (1..).zip([0, 3000, 6000, 9000, 12_000, 20_000]) {
        let mut script = Script::new(seed, vec![setup("web1")], []);
        for name in ["a", "b", "c"] {
            let Action::Put(_, values) = put("first") else { unreachable!() };
            script.then(0, Action::Put(name.into(), values));
        }
        script.then(40_000, Action::Restart(0, 0, setup("web2")));
        script.then(fails_after, Action::Hooks(Trouble::Fails, 20_000));
        let violation = play(&script).violation.map(|violation| violation.what);
        assert_eq!(violation, None, "{script}");
    }
}

#[test]
fn a_hook_that_does_not_end_fails_when_its_time_is_up() {
    for watch in POLICIES {
        let mut setup = Setup { watch: watch.into(), ..Setup::default() };
        setup.limit_hooks();
        check(&setup, &Action::Hooks(Trouble::Hangs, 50_000));
    }
}

#[test]
fn a_hook_that_hangs_is_waited_for_or_corrected() {
    check(&Setup::default(), &Action::Hooks(Trouble::Hangs, 50_000));
}

#[test]
fn no_hook_runs_beside_one_whose_job_goes_slowly() {
    for for_ms in [20_000, 90_000] {
        check(&Setup::default(), &Action::Hooks(Trouble::Lingers, for_ms));
    }
}

#[test]
fn jobs_that_cannot_be_deleted_for_a_while_are_deleted_later() {
    for code in [403, 500] {
        let refused = Fault::new(Which::JobDeletions, How::Status(code), 40_000);
        check(&Setup::default(), &Action::Fault(refused));
    }
}
