//! Finds cycles among resources that wait for each other. Pure.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The number of dependencies after which a search visits no further resource. Other resources wait for the registry's
/// lock meanwhile, and a user may chain thousands of resources. A longer cycle waits without being named.
const MOST: usize = 5_000;

/// Returns the members of a shortest cycle through `start`, each before the one that it waits for; `None` without a
/// cycle.
pub(crate) fn cycle<N: Ord + Clone>(start: &N, waits_for: impl Fn(&N) -> Vec<N>) -> Option<Vec<N>> {
    let found_from = search(start, waits_for, Some(start));
    let mut members = vec![found_from.get(start)?.clone()];
    while let Some(before) = members.last().filter(|last| *last != start).and_then(|last| found_from.get(last)) {
        members.push(before.clone());
    }
    members.reverse();
    Some(members)
}

/// Returns all that are in a cycle with `start`, and `start` itself; nothing without a cycle.
pub(crate) fn in_cycle_with<N: Ord + Clone>(
    start: &N,
    waits_for: impl Fn(&N) -> Vec<N>,
    waiting_for: impl Fn(&N) -> Vec<N>,
) -> BTreeSet<N> {
    // Nothing waits for most new resources.
    if waiting_for(start).is_empty() {
        return BTreeSet::new();
    }
    let ahead = search(start, waits_for, None);
    if !ahead.contains_key(start) {
        return BTreeSet::new();
    }
    let behind = |node: &N| -> Vec<N> {
        let waiting = waiting_for(node).into_iter();
        waiting.filter(|other| ahead.contains_key(other)).collect()
    };
    search(start, behind, None).into_keys().collect()
}

/// Follows edges from `start`, the shortest paths first, until `end` is found. Returns what was found, each with the
/// node that it was first found from.
fn search<N: Ord + Clone>(start: &N, edges: impl Fn(&N) -> Vec<N>, end: Option<&N>) -> BTreeMap<N, N> {
    let (mut found_from, mut next, mut followed) = (BTreeMap::new(), VecDeque::from([start.clone()]), 0);
    while let Some(node) = next.pop_front().filter(|_| followed < MOST) {
        for other in edges(&node) {
            followed += 1;
            if let Entry::Vacant(entry) = found_from.entry(other) {
                next.push_back(entry.key().clone());
                entry.insert(node.clone());
            }
        }
        if end.is_some_and(|end| found_from.contains_key(end)) {
            break;
        }
    }
    found_from
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn edges<'e>(all: &'e [(char, &'e str)]) -> impl Fn(&char) -> Vec<char> + 'e {
        |from| all.iter().filter(|(node, _)| node == from).flat_map(|(_, to)| to.chars()).collect()
    }

    #[test]
    fn a_cycle_is_named_from_the_one_that_asks() {
        for (graph, start, expected) in [
            (&[('a', "b"), ('b', "c")][..], 'a', None),
            (&[('a', "a")], 'a', Some("a")),
            (&[('a', "b"), ('b', "a")], 'a', Some("ab")),
            (&[('a', "b"), ('b', "a")], 'b', Some("ba")),
            (&[('a', "bc"), ('b', "c"), ('c', "a")], 'a', Some("ac")),
            // It waits for a cycle, but is not part of it.
            (&[('a', "b"), ('b', "c"), ('c', "b")], 'a', None),
            (&[('a', "bc"), ('b', "d"), ('c', "d"), ('d', "e"), ('e', "a")], 'a', Some("abde")),
        ] {
            let found = cycle(&start, edges(graph)).map(|members| members.into_iter().collect::<String>());
            assert_eq!(found.as_deref(), expected, "{graph:?}");
        }
    }

    #[test]
    fn only_the_members_of_a_cycle_are_in_it() {
        for (graph, start, expected) in [
            (&[('a', "b"), ('b', "c")][..], 'b', ""),
            (&[('a', "a")], 'a', "a"),
            (&[('a', "b"), ('b', "a")], 'a', "ab"),
            // One waits for the cycle, and the cycle waits for another.
            (&[('w', "a"), ('a', "b"), ('b', "ac")], 'a', "ab"),
            (&[('w', "a"), ('a', "b"), ('b', "ac")], 'w', ""),
            (&[('w', "a"), ('a', "b"), ('b', "ac")], 'c', ""),
            (&[('a', "bc"), ('b', "d"), ('c', "d"), ('d', "a"), ('b', "b")], 'a', "abcd"),
        ] {
            let waiting_for = |to: &char| -> Vec<char> {
                graph.iter().filter(|(_, on)| on.contains(*to)).map(|(from, _)| *from).collect()
            };
            let found: String = in_cycle_with(&start, edges(graph), waiting_for).into_iter().collect();
            assert_eq!(found, expected, "{graph:?} {start}");
        }
    }

    /// Each waits for the next twenty without an end, and the second also for the first.
    #[test]
    fn a_search_follows_a_few_thousand_dependencies_however_many_there_are() {
        let followed = Cell::new(0);
        let follow = |all: Vec<usize>| {
            followed.set(followed.get() + all.len());
            all
        };
        let waits_for = |at: &usize| follow((at + 1..=at + 20).chain((*at == 2).then_some(1)).collect());
        let waiting_for = |at: &usize| follow((at.saturating_sub(20)..*at).chain((*at == 1).then_some(2)).collect());
        let most = 2 * (MOST + 21);
        assert_eq!((cycle(&5_000, waits_for), cycle(&2, waits_for)), (None, Some(vec![2, 1])));
        assert!(followed.replace(0) < most);
        assert_eq!(in_cycle_with(&5_000, waits_for, waiting_for), BTreeSet::new());
        assert_eq!(in_cycle_with(&1, waits_for, waiting_for), BTreeSet::from([1, 2]));
        assert!(followed.get() < 2 * most, "{}", followed.get());
    }
}
