//! What events have said about an uninstall. One that waits for objects is repeated, and must not say it again.

/// What events have said about an uninstall.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UninstallNotes {
    /// The release is uninstalled without its hooks.
    pub(crate) skips_hooks: bool,
    /// The objects of hooks that it goes on beside, although the server refuses to delete them.
    left: Vec<Box<str>>,
}

impl UninstallNotes {
    /// Notes that it goes on beside this object. Returns whether that is news.
    pub(crate) fn leave(&mut self, what: &str) -> bool {
        let is_news = !self.left.iter().any(|known| **known == *what);
        if is_news {
            self.left.push(what.into());
        }
        is_news
    }

    /// Returns whether it goes on beside objects of hooks.
    pub(crate) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_that_is_left_is_news_once() {
        let mut notes = UninstallNotes::default();
        assert!(!notes.has_left());
        assert_eq!(["a", "b", "a"].map(|what| notes.leave(what)), [true, true, false]);
        assert!(notes.has_left());
    }
}
