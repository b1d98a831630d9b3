//! Decodes `test`, which says whether a chart's tests run after each install and upgrade.

use std::time::Duration;

use super::Error;
use super::decode::wrong;
use super::duration::parse_duration;
use super::node::{Entry, Node};
use super::rules::{map, unknown};

/// How long one test may take if the entry does not say it: as in Helm.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Whether a chart's tests run, and what their failure leads to: `test` in watches.yaml.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChartTests {
    /// Whether they run after each install and upgrade.
    pub enable: bool,
    /// What a failure leads to.
    pub on_failure: OnTestFailure,
    /// How long one of them may take; zero means no limit.
    pub timeout: Duration,
}

/// What a failed test leads to: `test.onFailure` in watches.yaml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnTestFailure {
    /// It is reported; the revision stays.
    #[default]
    Report,
    /// The revision is rolled back to the one before, if there is one, and its inputs are not tried again.
    Rollback,
}

impl Default for ChartTests {
    fn default() -> ChartTests {
        ChartTests { enable: false, on_failure: OnTestFailure::default(), timeout: TIMEOUT }
    }
}

/// Decodes `test: {enable: true, onFailure: rollback, timeout: 5m}`.
pub(super) fn chart_tests(entry: &Entry) -> Result<ChartTests, Error> {
    let bad = |what: String| wrong(entry, what);
    let mut tests = ChartTests::default();
    for Entry { key, value, .. } in map(&entry.value).map_err(bad)? {
        match (key.as_str(), value) {
            ("enable", Node::Bool(enable)) => tests.enable = *enable,
            ("enable", other) => {
                return Err(bad(format!("enable: expected true or false, found {}", other.type_name())));
            }
            ("onFailure", value) => tests.on_failure = on_failure(value).map_err(bad)?,
            ("timeout", Node::String(text)) => {
                tests.timeout = parse_duration(text).map_err(|cause| bad(format!("timeout: {cause}")))?;
            }
            ("timeout", other) => return Err(bad(format!("timeout: expected a string, found {}", other.type_name()))),
            _ => return Err(bad(unknown(key, &["enable", "onFailure", "timeout"]))),
        }
    }
    Ok(tests)
}

fn on_failure(value: &Node) -> Result<OnTestFailure, String> {
    match value {
        Node::String(text) if text == "report" => Ok(OnTestFailure::Report),
        Node::String(text) if text == "rollback" => Ok(OnTestFailure::Rollback),
        Node::String(other) => Err(format!("onFailure must be \"report\" or \"rollback\", found {other:?}")),
        other => Err(format!("onFailure: expected a string, found {}", other.type_name())),
    }
}
