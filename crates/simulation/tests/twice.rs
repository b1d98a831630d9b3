//! Plays scripts twice in one process, with others in between. No other test may share the process, because even its
//! first run must equal later ones.

use serde_json::json;
use simulation::process::Setup;
use simulation::repeated::difference;
use simulation::run::play_kept;
use simulation::script::{Action, Script};

/// Returns a script in which watches restart after this duration.
fn interrupted(by: &[(u64, Action)]) -> Script {
    let put = |message| Action::Put("a".into(), json!({"message": message, "replicas": 1, "cache": true}));
    let mut script = Script { seed: 1, setups: vec![Setup::default()], steps: Vec::new() };
    script.then(5000, put("first"));
    by.iter().for_each(|(after, what)| script.then(*after, what.clone()));
    script.then(5000, put("second"));
    script
}

#[test]
fn a_run_is_the_same_whatever_its_process_played_before() {
    let restarted = interrupted(&[(20_000, Action::RestartServer(3000, 0))]);
    let restored = interrupted(&[(20_000, Action::Backup), (10_000, Action::Restore(3000, 0))]);
    // With seed 13, all watches of a restored server must end.
    let seeds = [5, 13, 101, 102].map(Script::of);
    let scripts: Vec<Script> = [restarted, restored].into_iter().chain(seeds).collect();
    let first: Vec<Vec<String>> = scripts.iter().map(|script| play_kept(script).1).collect();
    for (script, first) in scripts.iter().zip(&first).rev() {
        assert!(first.len() > 100, "{} steps:\n{script}", first.len());
        let again = play_kept(script).1;
        assert_eq!(difference(first, &again).unwrap_or_default(), "", "{script}");
    }
}
