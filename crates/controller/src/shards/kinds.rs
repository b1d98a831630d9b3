//! What the controllers of each kind serve, for one process: a resource that several of them serve goes to another
//! shard once none has a write in flight. Each controller keeps its own rights, because another may serve a resource
//! that it rejects.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use outside::sync::lock;

use super::Share;
use super::holdings::{Holding, Shard};
use crate::ResourceKey;
use crate::lease::Term;

/// The shards of a process's controllers, by kind.
#[derive(Debug, Default)]
pub struct Kinds(Mutex<BTreeMap<String, Controllers>>);

impl Kinds {
    /// Returns the shard of one more controller of a kind: `Shop.apps.my.domain`.
    pub fn shard(&self, kind: &str, share: Share) -> Shard {
        let controllers = lock(&self.0).entry(kind.to_owned()).or_default().clone();
        Shard::beside(controllers, share)
    }
}

/// The rights of one controller to write for its resources.
pub(super) type Holdings = Arc<Mutex<HashMap<ResourceKey, Holding>>>;

/// The controllers of one kind. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Controllers(Arc<Mutex<Vec<Holdings>>>);

impl Controllers {
    /// Adds a controller, such as one that takes the place of another. Forgets those that have ended, once their writes
    /// have.
    pub(super) fn add(&self, holdings: Holdings) {
        let mut all = lock(&self.0);
        all.retain(|known| Arc::strong_count(known) > 1 || lock(known).values().any(|one| !one.term.is_settled()));
        all.push(holdings);
    }

    /// Ends the rights of all controllers to write for a resource. Returns the ended terms.
    pub(super) fn end(&self, key: &ResourceKey) -> Vec<Term> {
        let all = lock(&self.0);
        let ended = all.iter().filter_map(|holdings| {
            let holding = lock(holdings).get(key)?.clone();
            holding.end();
            Some(holding.term)
        });
        ended.collect()
    }
}
