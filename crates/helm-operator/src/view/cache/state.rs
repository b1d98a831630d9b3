//! What the cache knows, and which of two versions of a resource or an object it keeps.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use controller::runtime::freshness::{Epoch, Stamp};
use controller::runtime::key::ResourceKey;
use helm_release::kube::{Live, ObjectKey, intern};
use tokio::time::Instant;

use super::version;
use crate::view::coverage::Coverage;
use crate::view::dependent::{Claim, Dependent, Judged};
use crate::view::primary::Primary;
use crate::view::tombstones::{RecentDeletions, RecentDepartures};

#[derive(Default)]
pub(super) struct State {
    pub(super) primaries: BTreeMap<ResourceKey, (Arc<Primary>, Stamp)>,
    pub(super) dependents: HashMap<ObjectKey, Arc<Dependent>>,
    pub(super) coverage: Coverage,
    pub(super) gone: RecentDeletions,
    pub(super) left: RecentDepartures<Box<str>>,
}

impl State {
    /// Stores a resource, unless a newer state of it is known; returns whether it differs from the known one in this way.
    pub(super) fn put_primary(
        &mut self,
        primary: Primary,
        epoch: Option<Epoch>,
        differs: fn(&Primary, &Primary) -> bool,
    ) -> bool {
        let key = primary.key();
        let known = self.primaries.get_mut(&key).map(|(old, stamp)| {
            // The versions of two objects with the same name are not comparable.
            let comparable = old.uid() == primary.uid();
            (stamp, comparable.then(|| version(old)))
        });
        // Only a server that was restored from a backup goes back. The resource's status may also date from then.
        let is_restored = known.as_ref().is_some_and(|(_, old)| old.is_some_and(|old| version(&primary) < old));
        let Some(stamp) = Stamp::of_newer(known, version(&primary), epoch) else { return false };
        let differs = is_restored || self.primaries.get(&key).is_none_or(|(old, _)| differs(&primary, old));
        self.primaries.insert(key, (Arc::new(primary), stamp));
        differs
    }

    /// Removes a resource with this uid; returns whether it was known.
    pub(super) fn drop_primary(&mut self, key: &ResourceKey, uid: &str) -> bool {
        let known = self.primaries.get(key).is_some_and(|(primary, _)| primary.uid() == uid);
        if known {
            self.primaries.remove(key);
        }
        known
    }

    pub(super) fn dependent(&self, key: &ObjectKey) -> Option<&Dependent> {
        self.dependents.get(key).map(|dependent| &**dependent)
    }

    pub(super) fn put_dependent(
        &mut self,
        key: ObjectKey,
        (live, judged): (&Live, Judged),
        claim: Claim,
        epoch: Option<Epoch>,
    ) -> Option<ResourceKey> {
        let uid = live.metadata.uid.as_deref().unwrap_or_default();
        let version = live.resource_version();
        let known = self.dependents.get_mut(&key).map(|known| {
            let known = Arc::make_mut(known);
            // The event of our own write completes a partial response.
            let completes = known.is_partial && !judged.is_partial && version == known.resource_version;
            // A server that was restored from a backup does not know of our deletion.
            let is_back = known.deleting && !live.deleting && epoch.is_some_and(|e| known.stamp.is_older_than(e));
            (&mut known.stamp, Some(known.resource_version).filter(|_| !completes && !is_back))
        });
        let stamp = Stamp::of_newer(known, version, epoch)?;
        let old = self.dependents.get(&key);
        let judged = judged.completed_by(old.filter(|old| *old.uid == *uid).map(|old| &**old));
        let new = Dependent {
            uid: uid.into(),
            resource_version: version,
            mark: live.mark,
            chart: live.chart.clone(),
            controller_version: controller_version(live),
            unready: judged.unready,
            whole: judged.whole,
            is_partial: judged.is_partial,
            deleting: live.deleting,
            owner: claim.owner,
            ours: claim.ours,
            kept: live.kept,
            is_bound: is_bound(live),
            scaled: live.scaled,
            stamp,
        };
        let same = old.is_some_and(|old| {
            (&old.uid, old.mark, old.failed(), old.deleting, old.ours, old.is_bound, &old.whole)
                == (&new.uid, new.mark, new.failed(), new.deleting, new.ours, new.is_bound, &new.whole)
        });
        let owner = new.owner.clone().filter(|_| !same);
        self.dependents.insert(key, Arc::new(new));
        owner
    }

    pub(super) fn ask_at(&self, key: &ObjectKey) -> Option<Instant> {
        self.dependents.get(key)?.stamp.ask_at()
    }
}

/// Returns the `apiVersion` in which an object names its controller.
pub(super) fn controller_version(live: &Live) -> Option<Arc<str>> {
    live.controller.as_ref().map(|controller| intern(&controller.api_version))
}

/// Returns whether the garbage collector would delete a kept object with its owner.
pub(super) fn is_bound(live: &Live) -> bool {
    live.kept && live.controller.is_some()
}
