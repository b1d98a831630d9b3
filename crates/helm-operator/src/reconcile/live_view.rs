//! The state of live objects that actions use without a request, from watches and our own writes.

use std::sync::Arc;

use futures::future::BoxFuture;
use helm_release::action::{Cached, Health, LiveView};
use helm_release::kube::{Applied, Applier, Decoration, Live, ObjectKey, Resource, Unready};

use crate::reconcile::ownership;
use crate::reconcile::step_context::{StepContext, UNSERVED};
use crate::view::cache::Cache;
use crate::view::dependent::Dependent;

impl StepContext<'_> {
    /// Returns whether no version of the object's kind is served, as its watch or the last discovery found.
    pub(crate) fn is_unserved(&self, key: &ObjectKey) -> bool {
        self.shared.cache.is_unserved(key) || self.shared.applier.mapper.is_unserved(&key.group, &key.kind)
    }
}

impl LiveView for StepContext<'_> {
    fn cached(&self, key: &ObjectKey, decoration: &Decoration) -> Cached {
        self.shared.cache.cached(key, decoration)
    }

    fn applied<'a>(&'a self, applied: &'a [Applied]) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.shared.cache.store_applied(applied, self.key);
            let mut kinds: Vec<Arc<Resource>> = Vec::new();
            for one in applied {
                if let Ok(kind) = self.shared.applier.mapper.resource(&one.api_version, &one.key.kind).await
                    && !kinds.contains(&kind)
                {
                    kinds.push(kind);
                }
            }
            self.shared.watch_kinds(kinds);
        })
    }

    fn deleted(&self, key: &ObjectKey, uid: &str) {
        self.shared.cache.note_deletion(key, uid);
    }

    fn left_unnamed(&self, key: &ObjectKey) {
        self.left.add(key);
    }

    fn health(&self, key: &ObjectKey) -> Health {
        let settings = &self.shared.settings;
        // A rehearsal writes nothing that could become ready.
        if settings.rehearses {
            Health::Ready
        } else {
            health(&self.shared.cache, key, settings.watch_dependent_resources)
        }
    }

    fn reader(&self) -> Option<&Applier> {
        Some(&self.shared.applier)
    }

    fn wanted_revision(&self) -> Option<u32> {
        // The resource may have been pinned since the action began.
        self.shared.cache.primary(self.key)?.annotations.pin().ok().flatten()
    }

    fn answered(&self, key: &ObjectKey, live: Option<&Live>) -> Health {
        let cache = &self.shared.cache;
        let claim = live.map(|live| (live, ownership::claim(self.shared, key, live)));
        match claim {
            Some((live, claim)) if claim.owner.is_some() => cache.store_answer(key, live, claim),
            // Nothing shows who owns it, and no watch contradicts the answer.
            Some((live, _)) if !cache.is_synced(key) => return Health::by_itself(key, live),
            Some((live, _)) => _ = cache.replace_dependent(key, live, None),
            None => _ = cache.drop_dependent(key),
        }
        match (cache.dependent(key), live) {
            // It went with its definition. That does not mean that it finished, even if the server deletes finished ones.
            (_, None) if self.is_unserved(key) => Health::Unready(Unready::because(UNSERVED)),
            // A rule of watches.yaml reads more than an answer may have.
            (Some(known), Some(live)) if known.is_partial && !known.deleting => Health::by_itself(key, live),
            (known, _) => seen(known.as_deref()),
        }
    }
}

/// Returns the health of an object as the cache has it.
fn seen(known: Option<&Dependent>) -> Health {
    match known {
        Some(live) if live.deleting => Health::Unready(Unready::because("it is being deleted")),
        Some(live) => live.unready.as_deref().cloned().map_or(Health::Ready, Health::Unready),
        None => Health::Absent,
    }
}

fn health(cache: &Cache, key: &ObjectKey, is_watched: bool) -> Health {
    let is_synced = cache.is_synced(key);
    match cache.dependent(key) {
        _ if cache.is_unserved(key) => Health::Unready(Unready::because(UNSERVED)),
        _ if !is_synced && (!is_watched || cache.is_refused(key)) => Health::Unwatched,
        _ if !is_synced => Health::Unlisted,
        known => seen(known.as_deref()),
    }
}
