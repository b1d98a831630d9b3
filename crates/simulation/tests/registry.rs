//! Charts from a registry that fails: nothing that runs stops, and nothing but what is wanted is used.

use serde_json::json;
use simulation::process::Setup;
use simulation::registry::Mood;
use simulation::run::play;
use simulation::script::{Action, Script};

fn put(message: &str) -> Action {
    Action::Put("a".into(), json!({"message": message, "replicas": 1, "cache": true}))
}

/// Plays these actions, with their times in seconds, and expects no violation: in the end, the newest or pinned version
/// runs with the newest values.
fn check(chart: &str, actions: impl IntoIterator<Item = (u64, Action)>) {
    check_with(1, Setup { chart: chart.into(), ..Setup::default() }, actions);
}

fn check_with(seed: u64, setup: Setup, actions: impl IntoIterator<Item = (u64, Action)>) {
    let script = Script::new(seed, vec![setup], actions.into_iter().map(|(at, what)| (at * 1000, what)));
    let violation = play(&script).violation.map(|violation| violation.what);
    assert_eq!(violation, None, "{script}");
}

const MOODS: [Mood; 5] = [Mood::Away, Mood::Silent, Mood::Status(503), Mood::Wrong, Mood::Cut];

#[test]
fn a_first_chart_is_fetched_once_the_registry_recovers() {
    for mood in MOODS {
        check("range", [(0, Action::Registry(mood, 90_000)), (5, put("first"))]);
    }
}

#[test]
fn a_registry_that_fails_for_good_stops_nothing_that_runs() {
    for mood in MOODS {
        let fails = (30, Action::Registry(mood, 0));
        check(
            "range",
            [(5, put("first")), fails, (40, put("second")), (60, Action::Kill(0, 500)), (120, put("third"))],
        );
    }
}

#[test]
fn a_newer_version_is_rolled_out_whatever_fails_while_it_is_fetched() {
    for mood in MOODS {
        let push = (30, Action::Push("2.0.0".into()));
        check("range", [(5, put("first")), push, (31, Action::Registry(mood, 20_000)), (40, put("second"))]);
    }
}

/// The kind that looks later finds the chart in the cache that they share. Which one that is, the seed decides.
#[test]
fn every_kind_of_a_pinned_chart_is_served_once_the_registry_recovers() {
    for seed in 1..=8 {
        let setup = Setup { chart: "pinned".into(), sites: true, ..Setup::default() };
        check_with(seed, setup, [(0, Action::Registry(Mood::Away, 90_000)), (5, put("first"))]);
    }
}

#[test]
fn a_pinned_digest_never_moves() {
    let moved = [(20, Action::MoveTag), (21, Action::Push("2.0.0".into())), (22, Action::ForgetCharts)];
    let wrong = [(60, Action::Registry(Mood::Wrong, 60_000)), (61, Action::Kill(0, 500)), (90, put("second"))];
    check("pinned", [(5, put("first"))].into_iter().chain(moved).chain(wrong));
}
