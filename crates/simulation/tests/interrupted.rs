//! Actions that are interrupted: they continue from their record, with the values that were generated for it, and what a
//! person deletes meanwhile stays deleted. With each of these seeds and times, an earlier operator did something else.

use serde_json::{Value, json};
use simulation::faults::{Fault, How, Which};
use simulation::helm::Command;
use simulation::process::Setup;
use simulation::run::play;
use simulation::script::{Action, Script};

fn put(values: Value) -> Action {
    named("a", values)
}

fn named(name: &str, values: Value) -> Action {
    let mut all = json!({"broken": false, "cache": true, "farewell": false, "replicas": 3});
    all.as_object_mut().into_iter().for_each(|all| all.extend(values.as_object().cloned().unwrap_or_default()));
    Action::Put(name.into(), all)
}

/// Plays these actions, with their times in milliseconds, and expects no violation.
fn check<const N: usize>(seed: u64, setup: &Setup, actions: [(u64, Action); N]) {
    check_all(seed, std::slice::from_ref(setup), actions);
}

/// Like [`check`], with a process for each setup.
fn check_all<const N: usize>(seed: u64, setups: &[Setup], actions: [(u64, Action); N]) {
    let script = Script::new(seed, setups.to_vec(), actions);
    let violation = play(&script).violation.map(|violation| violation.what);
    assert_eq!(violation, None, "{script}");
}

#[test]
fn an_install_whose_watches_break_continues_before_its_record_is_seen() {
    let watch = "onFailure: uninstall".into();
    let setup = Setup { chart: "web2".into(), watch, period: 0, ..Setup::default() };
    for (seed, cut) in [
        (930_758, 1287),
        (282_794_826, 1269),
        (396_387_717, 1294),
        (345_708_337, 1315),
        (787_842_145, 1311),
        (259_944_094, 1278),
    ] {
        let values = json!({"hooks": false, "message": "m495"});
        check(seed, &setup, [(1190, put(values)), (cut, Action::Cut)]);
    }
}

#[test]
fn a_release_that_is_being_installed_is_not_taken_over() {
    let watch = "adopt: any\napply: client".into();
    let setup = Setup { watch, period: 0, sites: true, ..Setup::default() };
    for (seed, suspended, claimed, killed, down) in [
        (246_140_835, 11_452, 19_383, 29_463, 5944),
        (453_705_785, 17_010, 23_066, 23_429, 1819),
        (462_970_560, 24_596, 23_865, 36_235, 3043),
        (509_854_777, 14_178, 25_089, 31_784, 4043),
        (672_473_185, 9799, 7662, 20_293, 5827),
        (772_662_113, 23_499, 26_795, 31_221, 427),
    ] {
        let values = json!({"hooks": true, "message": "m920"});
        let claim = Action::Claim("a".into());
        let kill = Action::Kill(0, down);
        let suspend = Action::Suspend(suspended);
        check(seed, &setup, [(0, put(values)), (323, suspend), (claimed, claim), (killed, kill)]);
    }
}

#[test]
fn a_release_that_a_person_uninstalls_while_its_upgrade_ends_is_installed_again() {
    let setup = Setup { chart: "web2".into(), period: 10, ..Setup::default() };
    let busy = Fault::new(Which::Secrets, How::Status(429), 300);
    let actions = [
        (0, put(json!({"hooks": true, "message": "m495", "replicas": 2}))),
        (17_197, Action::Autoscale("a".into(), 6)),
        (39_430, put(json!({"hooks": false, "message": "m33"}))),
        (39_605, Action::Helm("a".into(), Command::Uninstall, 255)),
        (39_643, Action::Fault(busy)),
    ];
    check(1_004_484, &setup, actions);
}

#[test]
fn an_event_from_before_its_deletion_does_not_bring_a_resource_back() {
    let setup = Setup { chart: "range".into(), period: 10, ..Setup::default() };
    let other = Setup { chart: "web1".into(), period: 60, ..Setup::default() };
    let steps = [
        (0, put(json!({"hooks": true, "message": "m860", "replicas": 1}))),
        (5759, Action::Backup),
        (6022, Action::Delete("a".into(), String::new())),
    ];
    check_all(1_028_856, &[setup, other], steps);
}

#[test]
fn an_ordered_install_waits_for_what_a_failed_one_deleted_a_moment_ago() {
    let setup = |chart: &str, retries: &str| {
        let watch = format!("adopt: released\nsequencing: ordered\nprogressTimeout: 1m{retries}");
        Setup { chart: chart.into(), watch, period: 60, ..Setup::default() }
    };
    let fault = |which, status, of_ten, for_ms| {
        Action::Fault(Fault { which, how: How::Status(status), of_ten, for_ms, nth: 0 })
    };
    let steps = [
        (0, put(json!({"hooks": false, "message": "m992"}))),
        (29_659, put(json!({"hooks": true, "message": "m252", "replicas": 2}))),
        (44_108, Action::Restart(0, 78, setup("tiers1", ""))),
        (44_193, Action::Note("secrets/a-random".into(), "kubectl-client-side-apply".into())),
        (44_228, fault(Which::Lease, 500, 10, 14_369)),
        (49_552, Action::Remove("secrets/a-guarded".into())),
        (54_119, Action::Kill(0, 24_933)),
        (54_906, put(json!({"cache": false, "farewell": true, "hooks": false, "message": "m590"}))),
        (54_960, Action::Source("s19".into())),
        (61_381, named("o", json!({"cache": false, "farewell": true, "hooks": true, "message": "m813"}))),
        (61_480, Action::Rest),
        (68_146, fault(Which::Writes, 410, 1, 5349)),
        (70_646, Action::Disturb("deployments/a-server".into())),
        (71_989, named("b", json!({"hooks": false, "message": "m596"}))),
    ];
    check(1_051_729, &setup("tiers3", "\nretries: 2"), steps);
}

#[test]
fn a_release_whose_records_a_person_deleted_goes_with_its_resource_and_comes_back_with_the_next() {
    let setup = Setup { chart: "web1".into(), period: 60, ..Setup::default() };
    let refusal = Fault::new(Which::Services, How::Status(422), 4363);
    let steps = [
        (0, put(json!({"hooks": false, "message": "m531", "replicas": 1}))),
        (627, Action::Helm("a".into(), Command::Uninstall, 255)),
        (687, Action::Expire),
        (698, Action::Delete("a".into(), String::new())),
        (761, Action::Rest),
        (783, put(json!({"farewell": true, "hooks": false, "message": "m687", "replicas": 1}))),
        (783, Action::Fault(refusal)),
    ];
    check(1_062_248, &setup, steps);
}

#[test]
fn a_resource_whose_first_record_was_never_made_is_deleted() {
    let setup = Setup { chart: "web1".into(), period: 60, ..Setup::default() };
    let lost = Fault::new(Which::RecordWrites, How::AnswerLost, 16_226);
    let steps = [
        (158, named("o", json!({"cache": false, "farewell": true, "hooks": false, "message": "m10"}))),
        (231, Action::DeleteNamespace),
        (247, Action::Fault(lost)),
    ];
    check(1_081_685, &setup, steps);
}

#[test]
fn a_late_event_of_a_deleted_record_does_not_make_the_next_release_count_on() {
    let setup = Setup { chart: "web1".into(), period: 60, ..Setup::default() };
    let slow = Fault { which: Which::ObjectWatches, how: How::Slow(3624), of_ten: 10, for_ms: 29_009, nth: 0 };
    let steps = [
        (0, put(json!({"hooks": true, "message": "m340", "replicas": 2}))),
        (10_053, Action::Fault(slow)),
        (10_053, put(json!({"hooks": false, "message": "m793"}))),
        (10_197, Action::Delete("a".into(), String::new())),
        (10_446, put(json!({"farewell": true, "hooks": false, "message": "m399", "replicas": 2}))),
    ];
    check(1_152_277, &setup, steps);
}
