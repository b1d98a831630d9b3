//! Selectors of the objects that a watch delivers.

use std::fmt;

use kube::runtime::watcher;

use crate::shards::ShardSelector;

/// A selector of objects of a kind. A string is a label selector, such as `app=memcached`; the empty string selects
/// every object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    labels: String,
    fields: String,
    /// The range of the objects, for the resources of a process that serves one.
    pub(super) range: Option<ShardSelector>,
}

impl From<&str> for Selector {
    fn from(labels: &str) -> Selector {
        Selector { labels: labels.to_owned(), ..Selector::default() }
    }
}

impl Selector {
    /// Adds a field selector, such as `spec.nodeName=a`. The server supports `metadata.name` for every kind, and few
    /// other fields.
    #[must_use]
    pub fn fields(self, fields: &str) -> Selector {
        Selector { fields: fields.to_owned(), ..self }
    }

    /// Returns this selector, narrowed to objects with these labels.
    pub(super) fn and(&self, labels: &str) -> Selector {
        let both = [&*self.labels, labels].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(",");
        Selector { labels: both, ..self.clone() }
    }

    /// Returns this selector, narrowed to objects in this range.
    pub(super) fn within(self, range: Option<ShardSelector>) -> Selector {
        Selector { range, ..self }
    }

    pub(super) fn config(&self) -> watcher::Config {
        let config = watcher::Config::default().labels(&self.labels);
        if self.fields.is_empty() { config } else { config.fields(&self.fields) }
    }

    /// Returns a name for the kind's selected objects: `Pod.v1 with labels app=x`.
    pub(super) fn of(&self, kind: String) -> String {
        if self == &Selector::default() { kind } else { format!("{kind} with {self}") }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&*self.labels, &*self.fields) {
            (labels, "") => write!(f, "labels {labels}"),
            ("", fields) => write!(f, "fields {fields}"),
            (labels, fields) => write!(f, "labels {labels} and fields {fields}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_names_what_it_selects() {
        let named = |selector: Selector| selector.of("Pod.v1".into());
        assert_eq!(named("".into()), "Pod.v1");
        assert_eq!(named("app=x".into()), "Pod.v1 with labels app=x");
        assert_eq!(named(Selector::default().and("app=x")), "Pod.v1 with labels app=x");
        assert_eq!(named(Selector::from("a in (b,c)").and("app=x")), "Pod.v1 with labels a in (b,c),app=x");
        assert_eq!(named(Selector::default().fields("a=b")), "Pod.v1 with fields a=b");
        assert_eq!(named(Selector::from("app=x").fields("a=b")), "Pod.v1 with labels app=x and fields a=b");
    }
}
