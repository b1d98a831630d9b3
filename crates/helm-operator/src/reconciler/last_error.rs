//! Why something fails that is tried again and again: each reason is news once.

/// The current reason of failure, if any.
#[derive(Debug, Default)]
pub(super) struct LastError(Option<String>);

/// What another attempt changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing: it works as before.
    Nothing,
    /// It fails, for this reason.
    Failed(String),
    /// It still fails, for the same reason.
    StillFailing(String),
    /// It works again.
    Recovered,
}

impl LastError {
    /// Notes a failed attempt.
    pub(super) fn fail(&mut self, reason: String) -> Change {
        let known = self.0.replace(reason.clone()).is_some_and(|known| known == reason);
        if known { Change::StillFailing(reason) } else { Change::Failed(reason) }
    }

    /// Notes a successful attempt.
    pub(super) fn recover(&mut self) -> Change {
        self.0.take().map_or(Change::Nothing, |_| Change::Recovered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_news_until_it_changes_or_an_attempt_succeeds() {
        let mut last = LastError::default();
        assert_eq!(last.recover(), Change::Nothing);
        assert_eq!(last.fail("a".into()), Change::Failed("a".into()));
        assert_eq!(last.fail("a".into()), Change::StillFailing("a".into()));
        assert_eq!(last.fail("b".into()), Change::Failed("b".into()));
        assert_eq!((last.recover(), last.recover()), (Change::Recovered, Change::Nothing));
        assert_eq!(last.fail("b".into()), Change::Failed("b".into()));
    }
}
