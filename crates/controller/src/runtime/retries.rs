//! The queue of failed resources: each waits for its next attempt, and only one attempt in the whole process runs at a
//! time.
//!
//! A key stays queued only while each of its reconciles requests another attempt. Keys whose inputs changed since they
//! failed alternate with the others. A corrected resource therefore waits for at most one hopeless attempt, and a flood
//! of changes does not starve the others.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use tokio::time::Instant;

use super::fair_queue::{Grouped, Groups, Since};

/// What a retry attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryInputs {
    /// The inputs that failed.
    #[default]
    Same,
    /// Inputs that changed since the failure.
    Corrected,
}

impl RetryInputs {
    fn other(self) -> RetryInputs {
        match self {
            RetryInputs::Same => RetryInputs::Corrected,
            RetryInputs::Corrected => RetryInputs::Same,
        }
    }
}

/// The failed keys, which are queued separately from the others.
pub struct Retries<K> {
    changed: Groups<K>,
    unchanged: Groups<K>,
    /// The queued keys, and what each attempts.
    places: HashMap<K, RetryInputs>,
    /// Running keys that requested another attempt.
    asked: HashSet<K>,
    /// What the last taken key attempts.
    took: RetryInputs,
}

impl<K> Default for Retries<K> {
    fn default() -> Retries<K> {
        let (changed, unchanged) = (Groups::default(), Groups::default());
        Retries { changed, unchanged, places: HashMap::new(), asked: HashSet::new(), took: RetryInputs::Same }
    }
}

impl<K> Retries<K> {
    /// Returns how many keys are queued.
    pub fn len(&self) -> usize {
        self.places.len()
    }
}

impl<K: Clone + Eq + Hash + Grouped> Retries<K> {
    /// Enqueues a running key for retry, or keeps its position. Returns whether it was not queued before.
    pub fn ask(&mut self, key: &K, attempt: RetryInputs) -> bool {
        self.asked.insert(key.clone());
        let known = self.places.get(key).copied();
        if known.is_none_or(|known| (known, attempt) == (RetryInputs::Same, RetryInputs::Corrected)) {
            let since = if known.is_some() { self.unchanged.remove(key) } else { None };
            self.places.insert(key.clone(), attempt);
            self.line(attempt).push(key.clone(), since.unwrap_or_else(Instant::now));
        }
        known.is_none()
    }

    /// Ends a key's reconcile. Returns whether the key left the queue, because that reconcile requested no other
    /// attempt.
    pub fn ended(&mut self, key: &K) -> bool {
        !self.asked.remove(key) && self.leave(key)
    }

    /// Removes a key from the queue; returns whether it was there.
    pub fn leave(&mut self, key: &K) -> bool {
        let Some(attempt) = self.places.remove(key) else { return false };
        self.line(attempt).remove(key);
        true
    }

    /// Takes the next key that may go. The others keep their positions.
    pub fn take(&mut self, may_go: impl Fn(&K) -> bool) -> Option<(K, Since)> {
        let first = self.took.other();
        let (attempt, taken) =
            [first, self.took].into_iter().find_map(|line| Some((line, self.line(line).pop_if(&may_go)?)))?;
        self.took = attempt;
        self.places.remove(&taken.0);
        Some(taken)
    }

    /// Returns whether no key is queued.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns whether a queued key may go.
    pub fn any(&self, may_go: impl Fn(&K) -> bool) -> bool {
        self.places.keys().any(may_go)
    }

    fn line(&mut self, attempt: RetryInputs) -> &mut Groups<K> {
        match attempt {
            RetryInputs::Same => &mut self.unchanged,
            RetryInputs::Corrected => &mut self.changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Line = Retries<&'static str>;

    fn in_line(keys: &[&'static str], attempt: RetryInputs, line: &mut Line) {
        for key in keys {
            assert!(line.ask(key, attempt), "{key} is new");
            assert!(!line.ended(key));
        }
    }

    fn all(line: &mut Line) -> Vec<&'static str> {
        std::iter::from_fn(|| line.take(|_| true).map(|(key, _)| key)).collect()
    }

    #[tokio::test]
    async fn groups_take_turns_among_those_that_changed_and_among_the_others() {
        let mut line = Line::default();
        in_line(&["a/1", "a/2", "a/3", "b/1"], RetryInputs::Same, &mut line);
        in_line(&["a/4", "a/5", "c/1"], RetryInputs::Corrected, &mut line);
        assert_eq!(all(&mut line), ["a/4", "a/1", "c/1", "b/1", "a/5", "a/2", "a/3"]);
        assert!(!line.any(|_| true));
    }

    #[tokio::test]
    async fn a_change_moves_a_key_and_nothing_moves_it_back() {
        let mut line = Line::default();
        in_line(&["a/1", "b/1", "c/1"], RetryInputs::Same, &mut line);
        assert!(
            !line.ask(&"c/1", RetryInputs::Corrected)
                && !line.ask(&"c/1", RetryInputs::Same)
                && !line.ask(&"b/1", RetryInputs::Same)
        );
        assert_eq!(all(&mut line), ["c/1", "a/1", "b/1"]);
    }

    #[tokio::test]
    async fn a_key_keeps_its_place_while_it_runs_and_asks_again_and_loses_it_otherwise() {
        let mut line = Line::default();
        in_line(&["a/1", "b/1", "c/1"], RetryInputs::Same, &mut line);
        assert_eq!(line.take(|key| *key != "a/1").unwrap().0, "b/1");
        assert!(!line.ask(&"a/1", RetryInputs::Same) && !line.ended(&"a/1"));
        assert!(line.ended(&"c/1"), "its reconcile did not ask");
        assert_eq!(all(&mut line), ["a/1"]);
        assert!(!line.ended(&"a/1") && !line.leave(&"a/1"));
    }
}
