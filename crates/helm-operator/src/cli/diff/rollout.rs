//! Prints in which steps a rollout brings what the plans show.

use std::fmt::Write as _;

use controller::runtime::key::ResourceKey;
use serde_json::Value;

use crate::charts::rehearsals::Planner;

/// How many resources of a step are named.
const MAX_NAMED: usize = 10;

/// Returns a text for each kind that rolls out in steps.
pub(super) fn texts<'c>(changed: impl Iterator<Item = &'c (Planner, Value)>) -> Vec<String> {
    let mut kinds: Vec<(&Planner, Vec<&Value>)> = Vec::new();
    for (planner, resource) in changed {
        match kinds.iter_mut().find(|(known, _)| std::ptr::eq(known.kind(), planner.kind())) {
            Some((_, resources)) => resources.push(resource),
            None => kinds.push((planner, vec![resource])),
        }
    }
    let texts = kinds.iter().filter_map(|(planner, all)| Some(text(&planner.kind().kind, &planner.steps(all)?)));
    texts.collect()
}

fn text(kind: &str, steps: &[(String, Vec<ResourceKey>)]) -> String {
    let mut text = format!("A change of {kind}'s chart or override values rolls out in {} steps:\n", steps.len());
    for (number, (title, keys)) in (1..).zip(steps) {
        let mut named: Vec<String> = keys.iter().take(MAX_NAMED).map(ToString::to_string).collect();
        if let more @ 1.. = keys.len().saturating_sub(MAX_NAMED) {
            named.push(format!("and {more} more"));
        }
        let named = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
        _ = writeln!(text, "  {number}. {title}: {named}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_names_its_resources() {
        let key = |index: usize| ResourceKey::new("ns", &format!("r{index}"));
        let steps = [
            ("canaries".to_owned(), vec![key(0)]),
            ("10% of the others".into(), vec![]),
            ("the remainder".into(), (1..13).map(key).collect()),
        ];
        let expected = "A change of Shop's chart or override values rolls out in 3 steps:\n  1. canaries: ns/r0\n  \
            2. 10% of the others: none\n  3. the remainder: ns/r1, ns/r2, ns/r3, ns/r4, ns/r5, ns/r6, ns/r7, ns/r8, ns/r9, ns/r10, and 2 more\n";
        assert_eq!(text("Shop", &steps), expected);
    }
}
