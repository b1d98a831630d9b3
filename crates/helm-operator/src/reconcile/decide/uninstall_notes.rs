//! What events have said about an uninstall. One that waits for objects is repeated, and must not say it again.

/// What events have said about an uninstall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UninstallNotes {
    /// The release is uninstalled without its hooks.
    pub(crate) skips_hooks: bool,
    /// The objects of hooks that it goes on beside, although the server refuses to delete them.
    left: Vec<Box<str>>,
    /// Whether a hook that succeeded made one of these. Only then has it waited long enough for such an object.
    leaves_succeeded: bool,
}

impl UninstallNotes {
    /// Notes that it goes on beside a hook that may still run. Returns whether that is news.
    pub(crate) fn leave(&mut self, what: &str) -> bool {
        let is_news = !self.left.iter().any(|known| **known == *what);
        if is_news {
            self.left.push(what.into());
        }
        is_news
    }

    /// Notes that it goes on beside an object of a hook that succeeded. Returns whether that is news.
    pub(crate) fn leave_succeeded(&mut self, what: &str) -> bool {
        self.leaves_succeeded = true;
        self.leave(what)
    }

    /// Returns whether it goes on beside an object of a hook that succeeded.
    pub(crate) fn has_left_succeeded(&self) -> bool {
        self.leaves_succeeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_that_is_left_is_news_once() {
        let mut notes = UninstallNotes::default();
        assert_eq!(["a", "b", "a"].map(|what| notes.leave(what)), [true, true, false]);
        assert!(!notes.has_left_succeeded());
        assert_eq!(["c", "c"].map(|what| notes.leave_succeeded(what)), [true, false]);
        assert!(notes.has_left_succeeded());
    }
}
