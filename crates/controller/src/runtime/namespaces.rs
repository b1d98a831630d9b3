//! The namespaces that a process watches.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::reflector::WatchScope;

/// The namespaces that the operator watches; empty means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(pub Arc<[String]>);

impl Namespaces {
    /// Parses `WATCH_NAMESPACE`: comma-separated names. Drops spaces, empty names and duplicates.
    pub fn parse(text: &str) -> Namespaces {
        let mut names: Vec<String> =
            text.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        Namespaces(names.into())
    }

    /// Returns these namespaces and `more`.
    pub fn and(&self, more: &BTreeSet<String>) -> Namespaces {
        match self.is_all() {
            true => self.clone(),
            false => Namespaces(self.0.iter().chain(more).cloned().collect::<BTreeSet<_>>().into_iter().collect()),
        }
    }

    /// Returns whether this namespace is watched.
    pub fn covers(&self, namespace: &str) -> bool {
        self.is_all() || self.0.iter().any(|watched| watched == namespace)
    }

    /// Returns a scope for each namespace; a single one for all.
    pub fn scopes(&self) -> Vec<WatchScope> {
        match self.is_all() {
            true => vec![WatchScope::ALL],
            false => self.0.iter().map(|name| WatchScope::namespace(name)).collect(),
        }
    }

    /// Returns whether every namespace is watched.
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_read_from_a_list_with_commas() {
        let check = |text: &str, expected: &[&str]| assert_eq!(*Namespaces::parse(text).0, *expected, "{text}");
        check("", &[]);
        check(" , ", &[]);
        check("a", &["a"]);
        check(" b, a ,,b", &["a", "b"]);
    }

    #[test]
    fn more_namespaces_join_some_but_not_all() {
        let more = ["b".to_owned(), "c".to_owned()].into();
        assert_eq!(Namespaces::parse("a,b").and(&more), Namespaces::parse("a,b,c"));
        assert_eq!(Namespaces::parse("").and(&more), Namespaces::default());
    }

    #[test]
    fn no_namespace_means_all_of_them() {
        assert!(Namespaces::parse("").is_all() && !Namespaces::parse("a").is_all());
    }
}
