//! Finds cycles among resources that wait for each other. Pure.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The maximum number of resources that a search visits. A longer cycle waits without being named.
const MOST: usize = 10_000;

/// Returns the members of a shortest cycle through `start`, each before the one that it waits for; `None` without a
/// cycle.
pub(crate) fn cycle<N: Ord + Clone>(start: &N, waits_for: impl Fn(&N) -> Vec<N>) -> Option<Vec<N>> {
    let mut found_from = BTreeMap::<N, N>::new();
    let mut next = VecDeque::from([start.clone()]);
    while let Some(node) = next.pop_front() {
        for other in waits_for(&node) {
            if other == *start {
                return Some(path(start, node, &found_from));
            }
            if found_from.len() < MOST && !found_from.contains_key(&other) {
                found_from.insert(other.clone(), node.clone());
                next.push_back(other);
            }
        }
    }
    None
}

fn path<N: Ord + Clone>(start: &N, end: N, found_from: &BTreeMap<N, N>) -> Vec<N> {
    let mut members = vec![end];
    while let Some(before) = members.last().filter(|last| *last != start).and_then(|last| found_from.get(last)) {
        members.push(before.clone());
    }
    members.reverse();
    members
}

/// Returns all that wait for `start`, directly or through others.
pub(crate) fn reaching<N: Ord + Clone>(start: &N, waiting_for: impl Fn(&N) -> Vec<N>) -> BTreeSet<N> {
    let (mut found, mut next) = (BTreeSet::new(), vec![start.clone()]);
    while let Some(node) = next.pop() {
        for other in waiting_for(&node) {
            if found.len() < MOST && other != *start && found.insert(other.clone()) {
                next.push(other);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
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
    fn all_who_wait_are_reached_once() {
        let graph = [('a', "bc"), ('b', "d"), ('c', "d"), ('d', "a")];
        assert_eq!(reaching(&'a', edges(&graph)), BTreeSet::from(['b', 'c', 'd']));
        assert_eq!(reaching(&'x', edges(&graph)), BTreeSet::new());
    }
}
