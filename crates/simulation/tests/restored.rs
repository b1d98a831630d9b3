//! A server that is restored from a backup while managers run: what they knew is undone, and its versions go back.

use serde_json::json;
use simulation::faults::{Fault, How, Which};
use simulation::process::Setup;
use simulation::run::play;
use simulation::script::{Action, Script};

fn put(name: &str, message: &str) -> Action {
    Action::Put(name.into(), json!({"message": message, "replicas": 1, "cache": true}))
}

/// Plays what happens between a backup and the restored server, and another edit afterwards; returns the violation.
fn restored(bare: bool, since: &[Action]) -> Option<String> {
    let before = [(5000, put("a", "first")), (30_000, Action::Backup)];
    let mut script = Script::new(1, vec![Setup { bare, ..Setup::default() }], before);
    since.iter().for_each(|what| script.then(20_000, what.clone()));
    script.then(20_000, Action::Restore(3000, 0));
    script.then(10_000, put("a", "last"));
    play(&script).violation.map(|violation| violation.what)
}

#[test]
fn what_a_restored_server_says_is_the_truth() {
    let gone = [put("b", "other"), Action::Delete("a".into(), String::new())];
    for since in [&[put("a", "second"), put("a", "third")][..], &gone, &[Action::Remove("configmaps/a-config".into())]]
    {
        assert_eq!(restored(false, since), None, "{since:?}");
    }
}

#[test]
fn a_watch_that_resumes_without_a_question_misses_what_a_restored_server_does() {
    let without = restored(true, &[put("a", "second"), put("a", "third")]).unwrap_or_default();
    assert!(without.starts_with("(d)") || without.starts_with("(i)"), "{without}");
}

#[test]
fn an_action_that_a_restored_server_undid_is_not_cleaned_up() {
    let hooks = Action::Put("a".into(), json!({"message": "second", "replicas": 1, "hooks": true}));
    // The hook takes up to eight seconds.
    for seed in 1..6 {
        let steps = [(0, put("a", "first")), (20_000, Action::Backup), (30_000, hooks.clone())];
        let mut script = Script::new(seed, vec![Setup::default()], steps);
        script.then(500, Action::Restore(6000, 0));
        script.then(4000, put("a", "last"));
        assert_eq!(play(&script).violation.map(|violation| violation.what), None, "{script}");
    }
}

#[test]
fn what_an_action_would_do_next_is_not_done_on_a_restored_server() {
    let hooks =
        |name: &str| Action::Put("a".into(), json!({"message": name, "replicas": 1, "hooks": true, "cache": true}));
    let farewell = Action::Put("a".into(), json!({"message": "first", "replicas": 1, "farewell": true}));
    let delete = || Action::Delete("a".into(), String::new());
    // The second release waits for its hook, the uninstall for its own, and the rollback for that of the former values.
    let refused = Fault::new(Which::Services, How::Status(422), 12_000);
    for (first, since, waits) in [
        (hooks("first"), vec![(7, delete()), (14_000, hooks("second"))], 300),
        (farewell, vec![(10_000, delete())], 500),
        (hooks("first"), vec![(10_000, Action::Fault(refused)), (10, hooks("second"))], 9000),
    ] {
        for seed in 1..6 {
            let steps = [(0, first.clone()), (20_000, Action::Backup)];
            let mut script = Script::new(seed, vec![Setup::default()], steps);
            since.iter().for_each(|(after_ms, what)| script.then(*after_ms, what.clone()));
            script.then(waits, Action::Restore(6000, 0));
            assert_eq!(play(&script).violation.map(|violation| violation.what), None, "{script}");
        }
    }
}

#[test]
fn what_was_deleted_before_the_server_was_restored_is_followed_again() {
    let put = Action::Put("a".into(), json!({"message": "first", "replicas": 1, "hooks": true}));
    // The Job with a time to live is deleted after the restore, which only the status shows.
    for seed in 1..6 {
        let setup = Setup { period: 0, ..Setup::default() };
        let steps = [(0, put.clone()), (9000, Action::Backup), (18_000, Action::Delete("a".into(), String::new()))];
        let mut script = Script::new(seed, vec![setup], steps);
        script.then(2000, Action::Restore(1500, 0));
        assert_eq!(play(&script).violation.map(|violation| violation.what), None, "{script}");
    }
}

#[test]
fn an_action_that_a_restored_server_undid_while_no_watch_could_begin_is_not_cleaned_up() {
    let busy = Fault::new(Which::Watches, How::Status(429), 19_302);
    let steps = [
        (11, Action::Put("a".into(), json!({"message": "m303", "replicas": 1, "cache": false, "hooks": true}))),
        (218, Action::Fault(busy)),
        (262, Action::Backup),
        (2421, Action::Expire),
        (8459, Action::Restore(3080, 0)),
    ];
    let setup = Setup { chart: "web1".into(), period: 60, ..Setup::default() };
    let script = Script::new(1_072_161, vec![setup], steps);
    assert_eq!(play(&script).violation.map(|violation| violation.what), None, "{script}");
}
