//! A fair queue: groups of keys (namespaces) take turns, so that a thousand keys of one group do not delay another
//! group.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use tokio::time::Instant;

/// A key that belongs to a group.
pub trait Grouped {
    /// Returns the group, which is a resource's namespace.
    fn group(&self) -> Arc<str>;
}

/// When a key started to wait.
pub type Since = Instant;

/// Waiting keys. The keys of one group keep their order.
pub struct Groups<K> {
    keys: HashMap<Arc<str>, VecDeque<(K, Since)>>,
    /// The groups with keys, each once, starting with the next.
    turns: VecDeque<Arc<str>>,
}

impl<K> Default for Groups<K> {
    fn default() -> Groups<K> {
        Groups { keys: HashMap::new(), turns: VecDeque::new() }
    }
}

impl<K: Eq + Hash + Grouped> Groups<K> {
    /// Adds a key that is not waiting yet.
    pub fn push(&mut self, key: K, since: Since) {
        let group = key.group();
        let keys = self.keys.entry(group.clone()).or_default();
        if keys.is_empty() {
            self.turns.push_back(group);
        }
        keys.push_back((key, since));
    }

    /// Takes the next key.
    pub fn pop(&mut self) -> Option<(K, Since)> {
        self.pop_if(|_| true)
    }

    /// Takes the next key that may go. The others keep their positions.
    pub fn pop_if(&mut self, may_go: impl Fn(&K) -> bool) -> Option<(K, Since)> {
        let places = self.turns.iter().enumerate();
        let (turn, at) = places.into_iter().find_map(|(turn, group)| {
            let at = self.keys.get(group)?.iter().position(|(key, _)| may_go(key))?;
            Some((turn, at))
        })?;
        let group = self.turns.remove(turn)?;
        let keys = self.keys.get_mut(&group)?;
        let key = keys.remove(at);
        match keys.is_empty() {
            true => _ = self.keys.remove(&group),
            false => self.turns.push_back(group),
        }
        key
    }

    /// Removes a waiting key, and returns when it began to wait.
    pub fn remove(&mut self, key: &K) -> Option<Since> {
        let group = key.group();
        let keys = self.keys.get_mut(&group)?;
        let at = keys.iter().position(|(waiting, _)| waiting == key)?;
        let (_, since) = keys.remove(at)?;
        if keys.is_empty() {
            self.keys.remove(&group);
            self.turns.retain(|turn| *turn != group);
        }
        Some(since)
    }
}
