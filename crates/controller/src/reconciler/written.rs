//! The responses to this process's own writes, until the watch has delivered them. Otherwise a comparison could use a
//! cached object older than the last write, and miss a change back to it.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::time::Instant;

use super::kind::Kind;
use crate::ResourceKey;
use crate::runtime::freshness::Epoch;
use crate::runtime::reflector::WatchScope;

/// The objects of a store that this process wrote last and whose events have not arrived.
pub(super) struct Written<K>(HashMap<ResourceKey, Own<K>>);

struct Own<K> {
    object: Arc<K>,
    at: Instant,
}

impl<K> Default for Written<K> {
    fn default() -> Written<K> {
        Written(HashMap::new())
    }
}

impl<K: Kind> Written<K> {
    /// Keeps the response to a write, unless a newer one is known.
    pub(super) fn add(&mut self, object: K) {
        let key = ResourceKey::of(&object);
        if self.0.get(&key).is_none_or(|own| !is_as_new(own.object.meta(), object.meta())) {
            self.0.insert(key, Own { object: Arc::new(object), at: Instant::now() });
        }
    }

    /// Returns the last write to the object if it is newer than this state of it.
    pub(super) fn after(&self, known: &Arc<K>) -> Option<&Arc<K>> {
        let own = &self.0.get(&ResourceKey::of(&**known))?.object;
        (own.meta().uid == known.meta().uid && !is_as_new(known.meta(), own.meta())).then_some(own)
    }

    /// Handles a state that the watch delivered: that of the write, a newer one, or another object of that name.
    pub(super) fn seen(&mut self, key: &ResourceKey, now: &ObjectMeta) {
        if self.0.get(key).is_some_and(|own| own.object.meta().uid != now.uid || is_as_new(now, own.object.meta())) {
            self.0.remove(key);
        }
    }

    /// Handles the deletion of the object with this uid.
    pub(super) fn gone(&mut self, key: &ResourceKey, uid: Option<&String>) {
        if self.0.get(key).is_some_and(|own| own.object.meta().uid.as_ref() == uid) {
            self.0.remove(key);
        }
    }

    /// Handles the end of a list, which shows the effect of every write before its start, whatever the versions: the
    /// server may have been restored from a backup.
    pub(super) fn listed(&mut self, scope: &WatchScope, list: Epoch) {
        self.0.retain(|key, own| !scope.covers(&key.namespace) || own.at >= list.began);
    }
}

/// Returns whether a state is at least as new as another state of the same object. The versions of different objects
/// are not comparable.
pub(super) fn is_as_new(state: &ObjectMeta, other: &ObjectMeta) -> bool {
    state.uid == other.uid && version(state) >= version(other)
}

fn version(metadata: &ObjectMeta) -> Option<u64> {
    metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    fn map(uid: &str, version: &str) -> ConfigMap {
        let metadata = json!({"namespace": "ns", "name": "a", "uid": uid, "resourceVersion": version});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn written(version: &str) -> Written<ConfigMap> {
        let mut written = Written::default();
        written.add(map("1", version));
        written
    }

    fn has(written: &Written<ConfigMap>) -> bool {
        !written.0.is_empty()
    }

    #[test]
    fn a_write_counts_until_its_event_a_newer_one_or_the_deletion() {
        let key = ResourceKey::new("ns", "a");
        let after = |written: &Written<ConfigMap>, uid: &str, version: &str| {
            written.after(&Arc::new(map(uid, version))).and_then(|own| own.metadata.resource_version.clone())
        };
        let mut own = written("10");
        assert_eq!(after(&own, "1", "9").as_deref(), Some("10"));
        assert_eq!((after(&own, "1", "10"), after(&own, "1", "11"), after(&own, "2", "9")), (None, None, None));
        own.add(map("1", "9"));
        assert_eq!(after(&own, "1", "8").as_deref(), Some("10"), "a response that came late");
        for (uid, version, kept) in [("1", "9", true), ("1", "10", false), ("1", "11", false), ("2", "9", false)] {
            let mut own = written("10");
            own.seen(&key, &map(uid, version).metadata);
            assert_eq!(has(&own), kept, "{uid} {version}");
        }
        own.gone(&key, Some(&"2".to_owned()));
        assert!(has(&own));
        own.gone(&key, Some(&"1".to_owned()));
        assert!(!has(&own));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_began_later_replaces_a_write_whatever_its_version() {
        let mut own = written("10");
        let before = Epoch { number: 1, began: Instant::now(), is_list: false };
        own.listed(&WatchScope::ALL, before);
        assert!(has(&own), "the list may lack the write");
        tokio::time::advance(Duration::from_secs(1)).await;
        let list = Epoch { number: 2, began: Instant::now(), is_list: false };
        own.listed(&WatchScope::namespace("other"), list);
        assert!(has(&own));
        own.listed(&WatchScope::namespace("ns"), list);
        assert!(!has(&own));
    }
}
