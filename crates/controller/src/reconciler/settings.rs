//! Settings of a reconciler, and the changes of its resources that wake it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::core::GroupVersionKind;

use super::decoded::Invalid;
use super::failing::Failing;
use super::kind::Kind;
use super::known::Known;
use super::selector::Selector;
use super::written::is_as_new;
use crate::ResourceKey;
use crate::context::Context;
use crate::metrics::Metrics;
use crate::runtime::queue::Queue;
use crate::shards::{Shard, Standing};

type Filter<R> = Box<dyn Fn(&R) -> bool + Send + Sync>;

pub(super) struct Settings<R> {
    pub(super) queue: Arc<Queue<ResourceKey>>,
    pub(super) known: Arc<Known>,
    pub(super) selector: Selector,
    pub(super) filters: Vec<Filter<R>>,
    pub(super) ignore_status: bool,
    pub(super) workers: usize,
    pub(super) failing: Arc<Failing>,
    pub(super) timeout: Option<Duration>,
    /// The share of the resources that this process serves, if not all.
    pub(super) shard: Option<Shard>,
    metrics: Metrics,
}

impl<R: Kind> Settings<R> {
    pub(super) fn new(context: &Context) -> Settings<R> {
        Settings {
            queue: Arc::new(Queue::new()),
            known: Arc::default(),
            selector: Selector::default(),
            filters: Vec::new(),
            ignore_status: false,
            workers: context.config.max_concurrent_reconciles,
            failing: Arc::default(),
            timeout: None,
            shard: context.shard(&R::group(&()), &R::kind(&())),
            metrics: context.metrics.clone(),
        }
    }

    /// Returns whether the filters accept the resource.
    pub(super) fn serves(&self, resource: &R) -> bool {
        self.filters.iter().all(|serves| serves(resource))
    }

    /// Returns how this shard must treat a resource.
    pub(super) fn standing(&self, resource: &ObjectMeta) -> Standing {
        self.shard.as_ref().map_or(Standing::Ours, |shard| shard.standing(resource))
    }

    /// Counts a resource's change, and queues the resource if the change matters.
    pub(super) fn wakes(&self) -> impl Fn(ResourceKey, Option<&R>, Option<&R>) + Send + Sync + 'static {
        let (queue, known, failing) = (self.queue.clone(), self.known.clone(), self.failing.clone());
        let (metrics, ignore_status, shard) = (self.metrics.clone(), self.ignore_status, self.shard.clone());
        let gvk = GroupVersionKind::gvk(&R::group(&()), &R::version(&()), &R::kind(&()));
        move |key, before, now| {
            match now {
                Some(resource) => {
                    known.add(&key);
                    let created = resource.creation_timestamp().map_or(0.0, |time| time.0.as_second() as f64);
                    metrics.resource_created(&gvk, &key.namespace, &key.name, created);
                }
                None => metrics.resource_deleted(&gvk, &key.namespace, &key.name),
            }
            if let Some(shard) = &shard {
                let standing = now.map(|resource: &R| shard.standing(resource.meta()));
                shard.follow(&key, standing.unwrap_or(Standing::Others));
            }
            let only_status = matches!((before, now), (Some(before), Some(now)) if is_alike(before, now));
            let wait = match only_status {
                false => Some(Duration::ZERO),
                true if ignore_status => None,
                true => failing.status_changed(&key),
            };
            match wait {
                Some(wait) if wait.is_zero() => queue.push(key),
                Some(wait) => queue.push_after(key, wait),
                None => {}
            }
        }
    }

    /// Queues a resource that cannot be decoded, so that its reconcile reports it, and again when it is deleted.
    pub(super) fn on_invalid(&self) -> impl Fn(&ResourceKey, Option<&Invalid>) + Send + Sync + 'static {
        let (queue, known, shard) = (self.queue.clone(), self.known.clone(), self.shard.clone());
        move |key, invalid| {
            if invalid.is_some() {
                known.add(key);
            }
            if let Some(shard) = &shard {
                let standing = invalid.map(|invalid| shard.standing(&invalid.metadata));
                shard.follow(key, standing.unwrap_or(Standing::Others));
            }
            queue.push(key.clone());
        }
    }
}

/// Returns whether a resource's next state differs only in the status and managed fields. Without a generation, as for
/// a Service, anything may differ. The same holds for a lower version: the server was restored from a backup, in which
/// a status is lost and generations count other changes.
fn is_alike<R: Kind>(a: &R, b: &R) -> bool {
    let (a, b) = (a.meta(), b.meta());
    b.generation.is_some()
        && is_as_new(b, a)
        && (&a.uid, a.generation, &a.deletion_timestamp) == (&b.uid, b.generation, &b.deletion_timestamp)
        && (&a.labels, &a.annotations, &a.finalizers, &a.owner_references)
            == (&b.labels, &b.annotations, &b.finalizers, &b.owner_references)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn of_a_resource_without_a_generation_more_than_the_status_may_have_changed() {
        let map = |generation: Option<i64>, text: &str| -> ConfigMap {
            let metadata = json!({"name": "a", "uid": "u", "generation": generation});
            serde_json::from_value(json!({"metadata": metadata, "data": {"text": text}})).unwrap()
        };
        assert!(!is_alike(&map(None, "one"), &map(None, "two")));
        assert!(
            is_alike(&map(Some(1), "one"), &map(Some(1), "two")) && !is_alike(&map(Some(1), ""), &map(Some(2), ""))
        );
    }

    #[test]
    fn a_change_of_the_metadata_is_more_than_one_of_the_status() {
        let map = |field: &str, value: serde_json::Value| -> ConfigMap {
            let mut metadata = json!({"name": "a", "uid": "u", "generation": 1});
            metadata[field] = value;
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o"});
        for (field, value, alike) in [
            ("labels", json!({"a": "b"}), false),
            ("annotations", json!({"a": "b"}), false),
            ("finalizers", json!(["example.com/a"]), false),
            ("ownerReferences", json!([owner]), false),
            ("managedFields", json!([{"manager": "m"}]), true),
        ] {
            assert_eq!(is_alike(&map(field, json!(null)), &map(field, value)), alike, "{field}");
        }
    }

    #[test]
    fn a_resource_of_a_lower_version_may_differ_in_anything() {
        let map = |version: &str| -> ConfigMap {
            let metadata = json!({"name": "a", "uid": "u", "generation": 1, "resourceVersion": version});
            serde_json::from_value(json!({"metadata": metadata})).unwrap()
        };
        for (before, now, alike) in [("9", "10", true), ("10", "10", true), ("10", "9", false)] {
            assert_eq!(is_alike(&map(before), &map(now)), alike, "{before} {now}");
        }
    }
}
