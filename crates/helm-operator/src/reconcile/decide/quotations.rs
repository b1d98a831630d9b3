//! Decides how much messages show of texts that other programs wrote: conditions, events, refusals. They may quote
//! values, so they are shown only as they were redacted. Pure.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// Replaces a quotation when it is unknown what to redact in it.
const HIDDEN: &str = "****";

/// An explanation, with the part of it that another program wrote; may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) text: String,
    pub(crate) quoted: String,
}

impl Cause {
    /// Returns an explanation that ends with a quotation.
    pub(crate) fn quoting(own: &str, quoted: String) -> Cause {
        Cause { text: format!("{own}{quoted}"), quoted }
    }
}

/// Redacted texts, by a digest of the original, so that one that stays costs nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotations {
    revision: u32,
    shown: Vec<(u64, String)>,
}

impl Quotations {
    /// Stores texts that were redacted with the values of a revision.
    pub(crate) fn new(revision: u32, shown: impl IntoIterator<Item = (String, String)>) -> Quotations {
        Quotations { revision, shown: shown.into_iter().map(|(text, shown)| (digest(&text), shown)).collect() }
    }

    /// Returns whether all these texts are redacted with the values of the revision.
    pub(crate) fn cover(&self, revision: u32, quoted: &[String]) -> bool {
        quoted.is_empty() || (self.revision == revision && quoted.iter().all(|text| self.find(text).is_some()))
    }

    /// Returns a text with its quotation redacted.
    pub(crate) fn show(&self, text: &str, quoted: &str) -> String {
        match quoted {
            "" => text.to_owned(),
            quoted => text.replace(quoted, self.find(quoted).unwrap_or(HIDDEN)),
        }
    }

    fn find(&self, text: &str) -> Option<&str> {
        let digest = digest(text);
        self.shown.iter().find(|(of, _)| *of == digest).map(|(_, shown)| &**shown)
    }
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quotation_shows_only_as_it_was_redacted_for_its_revision() {
        let quoted = vec!["denied: hunter2".to_owned()];
        let known = Quotations::new(2, [(quoted[0].clone(), "denied: ****".to_owned())]);
        assert!(known.cover(2, &quoted) && known.cover(3, &[]));
        assert!(!known.cover(3, &quoted) && !known.cover(2, &["denied: another".to_owned()]));
        assert_eq!(known.show("a pod: denied: hunter2 (1 more)", &quoted[0]), "a pod: denied: **** (1 more)");
        assert_eq!(known.show("a pod: denied: another", "denied: another"), "a pod: ****");
        assert_eq!(known.show("0 of 1 replicas are ready", ""), "0 of 1 replicas are ready");
    }
}
