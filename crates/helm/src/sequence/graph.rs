//! Sorts names so that each comes after those that it waits for.

use std::collections::{BTreeMap, BTreeSet};

/// Names, each with those that it waits for.
pub(super) type Waits = BTreeMap<String, BTreeSet<String>>;

/// Returns the names in an order in which each comes after those that it waits for; equals are in alphabetical order. Names that are only waited for
/// are ignored.
///
/// # Errors
/// The members of a cycle, the first one repeated at the end.
pub(super) fn sorted(waits: &Waits) -> Result<Vec<String>, Vec<String>> {
    let mut order: Vec<String> = Vec::with_capacity(waits.len());
    let mut done = BTreeSet::new();
    while order.len() < waits.len() {
        let is_free = |(name, on): &(&String, &BTreeSet<String>)| {
            !done.contains(*name) && on.iter().all(|one| done.contains(one) || !waits.contains_key(one))
        };
        let Some((name, _)) = waits.iter().find(is_free) else { return Err(cycle(waits, &done)) };
        done.insert(name.clone());
        order.push(name.clone());
    }
    Ok(order)
}

/// Follows the names that are not done, each of which waits for another one of them, until one comes again.
fn cycle(waits: &Waits, done: &BTreeSet<String>) -> Vec<String> {
    let open = |name: &&String| waits.contains_key(*name) && !done.contains(*name);
    let mut path: Vec<String> = waits.keys().find(open).cloned().into_iter().collect();
    while let Some(next) = path.last().and_then(|last| waits.get(last)).and_then(|on| on.iter().find(open)).cloned() {
        if let Some(start) = path.iter().position(|name| *name == next) {
            path.drain(..start);
            path.push(next);
            return path;
        }
        path.push(next);
    }
    path
}
