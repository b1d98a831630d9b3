//! The contents of a resource's sources: each object once, and within the limit on their size together, so that what is
//! too large is dropped before more is read.

use std::collections::{BTreeMap, BTreeSet};

use super::merge::check_size;
use super::{Content, MergeError, Resolved, SourceKey};

/// The contents that have been read. It deliberately does not implement `Debug`, because they may be secret.
#[derive(Default)]
pub(crate) struct Contents {
    objects: BTreeMap<SourceKey, Content>,
    bytes: usize,
}

impl Contents {
    /// Adds the named keys of an object; [`Content::default`] if it does not exist.
    ///
    /// # Errors
    /// [`MergeError::TooLarge`]: with this object, the contents are too large.
    pub(crate) fn add(&mut self, key: SourceKey, content: Content) -> Result<(), MergeError> {
        self.bytes += content.size();
        check_size(self.bytes)?;
        self.objects.insert(key, content);
        Ok(())
    }

    /// Returns the content of a source's object; `None` if it was not added.
    pub(crate) fn get(&self, source: &Resolved) -> Option<&Content> {
        self.objects.get(&source.key)
    }

    /// Returns a source's bytes; `None` if its object was not added, or lacks the key.
    pub(crate) fn bytes(&self, source: &Resolved) -> Option<&[u8]> {
        self.get(source)?.get(&source.values_key)
    }

    /// Describes what a source lacks; `None` if it has its key, or its object was not added.
    pub(crate) fn lack(&self, source: &Resolved) -> Option<&'static str> {
        match self.get(source)? {
            content if content.get(&source.values_key).is_some() => None,
            content if content.version == 0 => Some("does not exist"),
            _ => Some("has no such key"),
        }
    }
}

/// Returns the keys of an object that sources name.
pub(crate) fn keys_of<'s>(sources: &'s [Resolved], key: &SourceKey) -> BTreeSet<&'s str> {
    sources.iter().filter(|source| source.key == *key).map(|source| source.values_key.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::SourceKind;
    use super::*;

    fn source(name: &str, values_key: &str) -> Resolved {
        let key = SourceKey { kind: SourceKind::ConfigMap, namespace: "ns".into(), name: name.into() };
        Resolved { key, values_key: values_key.into(), target_path: None, optional: false }
    }

    fn content(text: &str) -> Content {
        let json = serde_json::json!({"metadata": {"resourceVersion": "7"}, "data": {"a": text}});
        Content::read(SourceKind::ConfigMap, json.to_string().as_bytes(), &|_| true).unwrap()
    }

    #[test]
    fn an_object_that_makes_the_contents_too_large_is_not_kept() {
        let (first, second) = (source("first", "a"), source("second", "a"));
        let (half, mut contents) = ("x".repeat(600_000), Contents::default());
        contents.add(first.key.clone(), content(&half)).unwrap();
        let refused = contents.add(second.key.clone(), content(&half)).unwrap_err();
        assert_eq!(refused.to_string(), "valuesFrom: the sources have more than 1048576 bytes");
        assert!(contents.bytes(&first).is_some() && contents.get(&second).is_none());
    }

    #[test]
    fn a_missing_object_differs_from_a_missing_key_and_from_one_that_was_not_read() {
        let (found, key, object, unread) =
            (source("one", "a"), source("one", "b"), source("two", "a"), source("3", "a"));
        let mut contents = Contents::default();
        contents.add(found.key.clone(), content("x")).unwrap();
        contents.add(object.key.clone(), Content::default()).unwrap();
        let lacks = [&found, &key, &object, &unread].map(|source| contents.lack(source));
        assert_eq!(lacks, [None, Some("has no such key"), Some("does not exist"), None]);
        let all = [found.clone(), key, object];
        assert_eq!(keys_of(&all, &found.key), BTreeSet::from(["a", "b"]));
    }
}
