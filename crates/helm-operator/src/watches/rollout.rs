//! Decodes `rollout`, which says in which steps a change of the chart reaches the releases of a kind.

use std::fmt;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde_json::{Value, json};

use super::duration::parse_duration;
use super::node::{Entry, Node};
use super::rules::unknown;
use crate::cel::Expression;

const KEYS: [&str; 5] = ["canary", "steps", "bakeFor", "gate", "onFailure"];

/// The words of `onFailure`.
const WORDS: [(&str, OnGateFailure); 2] = [("halt", OnGateFailure::Halt), ("rollback", OnGateFailure::Rollback)];

/// The maximum number of shares in `steps`.
const MOST: usize = 32;

/// The variable of the gate.
const VARIABLE: &str = "releases";

/// The gate that counts if an entry has none: what was upgraded is ready.
const GATE: &str = "releases.ready == releases.updated";

/// In which steps a change of the chart reaches the releases of a kind: `rollout` in watches.yaml.
#[derive(Clone, Debug)]
pub struct RolloutRule {
    /// The releases of the first step, by the labels of their resources. `None`: there is no such step.
    pub canary: Option<Selector>,
    /// Which shares of the others the next steps reach, in percent, each larger than the one before. The remainder
    /// follows.
    pub steps: Vec<u8>,
    /// How long to wait after each step before its gate decides.
    pub bake_for: Duration,
    /// The condition that a step's releases must meet before the next step begins.
    pub(crate) gate: Expression,
    /// What to do if the gate is not met.
    pub on_failure: OnGateFailure,
}

/// What an unmet gate leads to: `rollout.onFailure` in watches.yaml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnGateFailure {
    /// The remaining releases stay as they are until the gate is met.
    #[default]
    Halt,
    /// The releases that the rollout has reached are also rolled back.
    Rollback,
}

/// How many releases a rollout has reached, and how they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// The releases that the rollout changes.
    pub(crate) total: usize,
    /// The releases that it has reached, except those that were not ready before.
    pub(crate) updated: usize,
    pub(crate) ready: usize,
    /// The releases whose upgrade failed, or that can no longer become ready.
    pub(crate) failed: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} upgraded, {} ready, {} failed", self.updated, self.ready, self.failed)
    }
}

impl RolloutRule {
    /// Returns whether the gate is met; an expression that fails is not.
    pub(crate) fn is_met(&self, counts: &Counts) -> bool {
        self.gate.is_true(&[(VARIABLE, &variable(counts))]).unwrap_or(false)
    }

    /// Returns the gate as watches.yaml writes it.
    pub(crate) fn gate(&self) -> String {
        format!("{:?}", self.gate)
    }
}

/// Returns the variable of the gate. Its numbers are `double`, so that a quotient is a share.
fn variable(counts: &Counts) -> Value {
    let Counts { total, updated, ready, failed } = *counts;
    let number = |count: usize| json!(count as f64);
    json!({"total": number(total), "updated": number(updated), "ready": number(ready), "failed": number(failed)})
}

/// Decodes `rollout: {canary: {matchLabels: …}, steps: [10%, 50%], bakeFor: 10m, gate: …, onFailure: rollback}`.
pub(super) fn rollout(value: &Node) -> Result<RolloutRule, String> {
    let mut rollout = RolloutRule {
        canary: None,
        steps: Vec::new(),
        bake_for: Duration::ZERO,
        gate: gate(GATE)?,
        on_failure: OnGateFailure::default(),
    };
    for Entry { key, value, .. } in value.map()? {
        let set = match key.as_str() {
            "canary" => canary(value).map(|canary| rollout.canary = Some(canary)),
            "steps" => steps(value).map(|steps| rollout.steps = steps),
            "bakeFor" => value.string().and_then(|text| {
                rollout.bake_for = parse_duration(text).map_err(|cause| cause.to_string())?;
                Ok(())
            }),
            "gate" => value.string().and_then(gate).map(|gate| rollout.gate = gate),
            "onFailure" => value.one_of(&WORDS).map(|policy| rollout.on_failure = policy),
            _ => return Err(unknown(key, &KEYS)),
        };
        set.map_err(|what| format!("{key}: {what}"))?;
    }
    match rollout.canary.is_none() && rollout.steps.is_empty() {
        true => Err("expected canary or steps".into()),
        false => Ok(rollout),
    }
}

fn canary(value: &Node) -> Result<Selector, String> {
    let labels: LabelSelector = serde_json::from_value(value.to_json()).map_err(|cause| cause.to_string())?;
    let is_empty = labels.match_labels.as_ref().is_none_or(|all| all.is_empty())
        && labels.match_expressions.as_ref().is_none_or(|all| all.is_empty());
    match is_empty {
        true => Err("expected matchLabels or matchExpressions: without them, every release would be one".into()),
        false => labels.try_into().map_err(|cause: kube::core::labels::ParseExpressionError| cause.to_string()),
    }
}

fn steps(value: &Node) -> Result<Vec<u8>, String> {
    let all = value.list()?;
    if all.len() > MOST {
        return Err(format!("has {} shares; at most {MOST} are allowed", all.len()));
    }
    let steps = all.iter().map(share).collect::<Result<Vec<u8>, _>>()?;
    match steps.windows(2).find(|pair| pair[0] >= pair[1]) {
        Some(pair) => Err(format!("{}% does not grow after {}%", pair[1], pair[0])),
        None => Ok(steps),
    }
}

fn share(value: &Node) -> Result<u8, String> {
    let wrong = || format!("expected shares from 1% to 100%, as in [10%, 50%], found {}", value.to_json());
    let Node::String(text) = value else { return Err(wrong()) };
    let share = text.strip_suffix('%').and_then(|number| number.parse().ok());
    share.filter(|share| (1..=100).contains(share)).ok_or_else(wrong)
}

fn gate(source: &str) -> Result<Expression, String> {
    let gate = Expression::compile(source, &[VARIABLE]).map_err(|cause| cause.to_string())?;
    // A misspelt field or a result of another type shows with any numbers.
    let sample = Counts { total: 2, updated: 1, ready: 1, failed: 0 };
    gate.is_true(&[(VARIABLE, &variable(&sample))]).map_err(|cause| cause.to_string())?;
    Ok(gate)
}

/// Returns a rollout with these steps, for tests.
#[cfg(test)]
pub(crate) fn rollout_of(
    canary: Option<Selector>,
    steps: &[u8],
    gate_source: &str,
    on_failure: OnGateFailure,
) -> RolloutRule {
    let gate = gate(if gate_source.is_empty() { GATE } else { gate_source }).unwrap();
    RolloutRule { canary, steps: steps.to_vec(), bake_for: Duration::ZERO, gate, on_failure }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(updated: usize, ready: usize, failed: usize) -> Counts {
        Counts { total: 10, updated, ready, failed }
    }

    #[test]
    fn a_gate_compares_shares_and_numbers() {
        let met = |source: &str, counts: Counts| rollout_of(None, &[10], source, OnGateFailure::Halt).is_met(&counts);
        let share = "releases.ready / releases.updated >= 0.75 && releases.failed == 0";
        assert!(met(share, counts(4, 3, 0)));
        assert!(!met(share, counts(4, 2, 0)) && !met(share, counts(4, 3, 1)));
        assert!(met("", counts(2, 2, 0)) && !met("", counts(2, 1, 0)));
        assert!(met("releases.failed <= 1", counts(4, 3, 1)) && met("releases.total > 9", counts(1, 1, 0)));
    }
}
