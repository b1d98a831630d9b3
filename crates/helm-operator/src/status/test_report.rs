//! What the status says about a release's tests. Without side effects.

use helm_release::storage::Tests;

use super::conditions::new;
use super::reason::Reason;
use super::{Condition, Status, condition};

/// The reason of the condition, and of the event, of tests that succeeded.
pub(crate) const TEST_SUCCEEDED: &str = "TestSucceeded";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestReport {
    pub(crate) revision: u32,
    pub(crate) tests: Tests,
    /// Why they failed, if this process ran them.
    pub(crate) message: Option<String>,
}

impl TestReport {
    pub(super) fn condition(&self, old: &Status) -> Condition {
        let revision = self.revision;
        let of = |status, reason, message: &str| new(condition::TEST_SUCCESS, status, reason, message);
        match self.tests {
            Tests::Due => {
                let message = format!("the tests of revision {revision} start once every object is ready");
                of("Unknown", "TestsPending", &message)
            }
            Tests::Passed => of("True", TEST_SUCCEEDED, &format!("revision {revision} passed its tests")),
            Tests::Failed | Tests::Rejected => of("False", Reason::TestFailed.as_str(), &self.failure(old)),
        }
    }

    /// Returns why the tests failed. The record does not say it, but the status does if another process ran them.
    pub(crate) fn failure(&self, old: &Status) -> String {
        let start = format!("revision {} failed its tests", self.revision);
        let kept = || old.find(condition::TEST_SUCCESS).map(|known| &known.message).filter(|m| m.starts_with(&start));
        match (&self.message, kept()) {
            (Some(message), _) => message.clone(),
            (None, Some(known)) => known.to_string(),
            (None, None) => start,
        }
    }
}

#[cfg(test)]
mod tests {
    use helm_release::kube::intern;

    use super::*;

    #[test]
    fn the_condition_says_what_the_tests_of_a_revision_led_to() {
        let check = |tests, message: Option<&str>, old: &Status, expected: &str| {
            let report = TestReport { revision: 2, tests, message: message.map(str::to_owned) };
            let Condition { status, reason, message, .. } = report.condition(old);
            assert_eq!(format!("{status}/{reason}/{message}"), expected);
        };
        let fresh = Status::default();
        check(
            Tests::Due,
            None,
            &fresh,
            "Unknown/TestsPending/the tests of revision 2 start once every object is ready",
        );
        check(Tests::Passed, None, &fresh, "True/TestSucceeded/revision 2 passed its tests");
        check(Tests::Failed, None, &fresh, "False/TestFailed/revision 2 failed its tests");
        let why = "revision 2 failed its tests: hook a failed";
        check(Tests::Rejected, Some(why), &fresh, &format!("False/TestFailed/{why}"));
        let mut condition = new(condition::TEST_SUCCESS, "False", "TestFailed", why);
        let old = Status { conditions: vec![condition.clone()], ..Status::default() };
        check(Tests::Failed, None, &old, &format!("False/TestFailed/{why}"));
        condition.message = intern("revision 1 failed its tests: another");
        let older = Status { conditions: vec![condition], ..Status::default() };
        check(Tests::Failed, None, &older, "False/TestFailed/revision 2 failed its tests");
    }
}
