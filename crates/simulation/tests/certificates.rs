//! A certificate that the chart makes once and keeps, because it looks for its Secret first.

use serde_json::json;
use simulation::faults::{Fault, How, Which};
use simulation::process::Setup;
use simulation::run::play;
use simulation::script::{Action, Script};

fn put(message: &str, tls: &str) -> Action {
    Action::Put("a".into(), json!({"message": message, "replicas": 1, "cache": true, "tls": tls}))
}

/// Plays two edits with an interruption in between; returns the violation.
fn edited(tls: &str, between: &[(u64, Action)]) -> Option<String> {
    let mut script = Script::new(1, vec![Setup::default()], [(5000, put("first", tls))]);
    between.iter().for_each(|(after, what)| script.then(*after, what.clone()));
    script.then(20_000, put("second", tls));
    play(&script).violation.map(|violation| violation.what)
}

#[test]
fn a_certificate_is_kept_whatever_interrupts_its_release() {
    let refused = Fault::new(Which::Services, How::Status(422), 30_000);
    let unanswered = Fault::new(Which::Lookups, How::Status(503), 40_000);
    for between in [
        &[][..],
        &[(10, Action::KillAfter(0, 3, 500))],
        &[(10_000, Action::Fault(refused))],
        &[(15_000, Action::Fault(unanswered))],
        &[(20_000, Action::Remove("secrets/a-guarded".into()))],
    ] {
        assert_eq!(edited("guarded", between), None, "{between:?}");
    }
}

#[test]
fn a_certificate_that_each_render_makes_anew_is_found() {
    let found = edited("unguarded", &[]).unwrap_or_default();
    assert!(found.starts_with("(b) issuer.crt in ") && found.contains("/secrets/a-guarded"), "{found}");
}
