//! Chooses among watches of one kind in several versions, each with its own chart: exactly one of them serves a
//! resource.
//!
//! The server converts every resource to each version, so each watch sees all of them. The watch for the version that
//! the resource's `spec` was last written in serves it, or else the first in watches.yaml. See
//! docs/decisions/0023-two-versions-of-a-kind.md.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use controller::runtime::key::ResourceKey;
use kube::core::{Selector, SelectorExt as _};
use outside::sync;

use crate::view::primary::Raw;
use crate::watches::Watch;

/// The watches of one kind, in the order of watches.yaml.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    watches: Vec<(String, Selector)>,
    /// Resources that a controller of one of these watches is reconciling.
    taken: Mutex<HashSet<ResourceKey>>,
}

/// A resource claimed for a reconcile, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Reservation(Option<(Arc<Versions>, ResourceKey)>);

impl Versions {
    /// Returns one per kind that several watches share, in the order of the watches.
    pub(crate) fn of<'a>(watches: impl Iterator<Item = &'a Watch> + Clone) -> Vec<Option<Arc<Versions>>> {
        let kind = |watch: &Watch| (watch.group.clone(), watch.kind.clone());
        let mut kinds: BTreeMap<_, Versions> = BTreeMap::new();
        for watch in watches.clone() {
            let version = (watch.version.clone(), watch.selector.clone());
            kinds.entry(kind(watch)).or_default().watches.push(version);
        }
        kinds.retain(|_, versions| versions.watches.len() > 1);
        let kinds: BTreeMap<_, Arc<Versions>> = kinds.into_iter().map(|(kind, all)| (kind, Arc::new(all))).collect();
        watches.map(|watch| kinds.get(&kind(watch)).cloned()).collect()
    }

    /// Returns whether the watch of this version serves the resource.
    pub(crate) fn serves(&self, version: &str, raw: &Raw) -> bool {
        let mut selecting = self.watches.iter().filter(|(_, selector)| selector.matches(&raw.labels));
        let first = selecting.clone().next();
        let written = raw.spec_version();
        let chosen = selecting.find(|(version, _)| Some(version.as_str()) == written).or(first);
        chosen.is_some_and(|(chosen, _)| chosen == version)
    }

    /// Claims a resource; returns `None` if it is already claimed.
    pub(crate) fn take(self: &Arc<Self>, key: &ResourceKey) -> Option<Reservation> {
        let mut taken = sync::lock(&self.taken);
        taken.insert(key.clone()).then(|| Reservation(Some((self.clone(), key.clone()))))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some((versions, key)) = self.0.take() {
            sync::lock(&versions.taken).remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watches(text: &str) -> Vec<Watch> {
        crate::watches::parse(text, |_| None).unwrap().watches
    }

    const TWO: &str = "
- {group: g, version: v1, kind: K, chart: a, selector: {matchLabels: {tier: old}}}
- {group: g, version: v2, kind: K, chart: b}
- {group: other, version: v1, kind: K, chart: c}
";

    fn raw(version: &str, tier: &str) -> Raw {
        let labels = [("tier".to_owned(), tier.to_owned())].into();
        Raw { labels, spec_written: Some((version.into(), String::new())), ..Raw::default() }
    }

    #[test]
    fn the_version_that_a_spec_was_written_in_decides_among_the_watches_that_select_the_resource() {
        let versions = Versions::of(watches(TWO).iter());
        assert!(versions[2].is_none(), "another group is another kind");
        let versions = versions[0].clone().unwrap();
        for (written, tier, expected) in [
            ("v1", "old", "v1"),
            ("v2", "old", "v2"),
            ("v1", "new", "v2"),
            ("v2", "new", "v2"),
            ("v1beta1", "old", "v1"),
            ("v1beta1", "new", "v2"),
        ] {
            let serving = ["v1", "v2"].into_iter().filter(|v| versions.serves(v, &raw(written, tier)));
            assert_eq!(serving.collect::<Vec<_>>(), [expected], "{written} {tier}");
        }
        assert!(versions.serves("v2", &Raw::default()), "nobody wrote a spec");
    }

    #[test]
    fn one_controller_at_a_time_reconciles_a_resource() {
        let versions = Versions::of(watches(TWO).iter())[1].clone().unwrap();
        let (web, db) = (ResourceKey::new("ns", "web"), ResourceKey::new("ns", "db"));
        let place = versions.take(&web).unwrap();
        assert!(versions.take(&web).is_none() && versions.take(&db).is_some());
        drop(place);
        assert!(versions.take(&web).is_some());
    }
}
