//! Decodes `test`, which says whether a chart's tests run after each install and upgrade.

use std::time::Duration;

use super::duration::parse_duration;
use super::node::{Entry, Node};
use super::rules::{boolean, string, unknown};

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
pub(super) fn chart_tests(value: &Node) -> Result<ChartTests, String> {
    let words = [("report", OnTestFailure::Report), ("rollback", OnTestFailure::Rollback)];
    let mut tests = ChartTests::default();
    for Entry { key, value, .. } in value.map()? {
        match key.as_str() {
            "enable" => tests.enable = boolean(key, value)?,
            "onFailure" => tests.on_failure = value.one_of(&words).map_err(|what| format!("onFailure: {what}"))?,
            "timeout" => {
                let text = string(key, value)?;
                tests.timeout = parse_duration(&text).map_err(|cause| format!("timeout: {cause}"))?;
            }
            _ => return Err(unknown(key, &["enable", "onFailure", "timeout"])),
        }
    }
    Ok(tests)
}
