//! Compares the objects that Helm and the operator left on their API servers. Pure: it sees only outcomes and objects.
//!
//! Where Helm's client-side and server-side modes differ, the operator must match one of them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::live::{Id, Objects};
use crate::outcome::Outcome;
use crate::random::{Random, differs_by_integer_format, is_digest, is_server_assigned};

/// An action on a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Creates the first revision.
    Install,
    /// Creates a later revision.
    Upgrade,
    /// Removes the release.
    Uninstall,
}

/// One step and the state after it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The action.
    pub action: Action,
    /// The name of the case, which determines the values.
    pub case: String,
    /// The outcome.
    pub outcome: Outcome,
    /// Objects that the chart created; empty after a refusal.
    pub objects: Objects,
    /// Status of the newest release record. Its number is not compared, because we create no revision without a change.
    pub record: String,
}

/// One difference. An empty `at` means the whole object or outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `outcome`, `record` or an object.
    pub what: String,
    /// JSON pointer into the object.
    pub at: String,
    /// Helm's value.
    pub helm: String,
    /// The operator's value.
    pub ours: String,
}

/// The comparison of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The differences.
    pub differences: Vec<Difference>,
    /// Number of objects compared.
    pub objects: usize,
    /// Number of random places: two runs of Helm differ there, or the server assigned the value.
    pub random: usize,
    /// Number of places that differ only because a resource's integers are floats in Helm.
    pub integers: usize,
    /// Number of places that match only client-side Helm.
    pub as_client: usize,
    /// Number of places that match only server-side Helm.
    pub as_server: usize,
}

/// One step as taken by each installer.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// `helm install --server-side=false`.
    pub client: &'a Snapshot,
    /// `helm install`.
    pub server: &'a Snapshot,
    /// The operator.
    pub ours: &'a Snapshot,
}

impl Difference {
    /// Returns whether the difference is in an object, rather than an outcome or a record.
    pub fn is_in_object(&self) -> bool {
        !["outcome", "record"].contains(&self.what.as_str())
    }
}

/// Compares one step.
pub fn compare(sides: &Sides<'_>, random: &Random) -> Verdict {
    let mut verdict = Verdict::default();
    verdict.differences.extend(outcome_difference(sides));
    let helm = sides.comparable();
    if !sides.ours.outcome.is_done() || helm.is_empty() {
        return verdict;
    }
    if helm.iter().all(|side| side.record != sides.ours.record) {
        verdict.differences.push(difference("record", "", &helm[0].record, &sides.ours.record));
    }
    let objects: Vec<&Objects> = helm.iter().map(|side| &side.objects).collect();
    compare_objects(&objects, &sides.ours.objects, random, &mut verdict);
    verdict
}

impl<'a> Sides<'a> {
    /// Returns the modes of Helm that reached this state by the same action as the operator.
    fn comparable(&self) -> Vec<&'a Snapshot> {
        let same = |side: &&Snapshot| side.outcome.is_done() && side.action == self.ours.action;
        [self.client, self.server].into_iter().filter(same).collect()
    }
}

/// Checks that the operator does what either mode of Helm does, and refuses what both refuse, for the same cause as one
/// of them. It may refuse what client-side Helm refuses.
fn outcome_difference(sides: &Sides<'_>) -> Option<Difference> {
    let (client, server) = (&sides.client.outcome, &sides.server.outcome);
    let fine = match (client, server, &sides.ours.outcome) {
        (client, server, Outcome::Done) => client.is_done() || server.is_done(),
        (Outcome::Done, _, Outcome::Refused(..)) => false,
        (Outcome::Refused(a, _), Outcome::Refused(b, _), Outcome::Refused(ours, _)) => ours == a || ours == b,
        (Outcome::Refused(a, _), Outcome::Done, Outcome::Refused(ours, _)) => ours == a,
    };
    let helm = if client.is_done() || !server.is_done() { client } else { server };
    (!fine).then(|| difference("outcome", "", &helm.to_string(), &sides.ours.outcome.to_string()))
}

fn compare_objects(helm: &[&Objects], ours: &Objects, random: &Random, verdict: &mut Verdict) {
    let mut ids: Vec<&Id> = helm.iter().flat_map(|side| side.keys()).chain(ours.keys()).collect();
    ids.sort();
    ids.dedup();
    verdict.objects += ids.len();
    for id in ids {
        let theirs: Vec<&Value> = helm.iter().filter_map(|side| side.get(id)).collect();
        match (ours.get(id), &theirs[..]) {
            (Some(ours), [_, ..]) => compare_object(id, &theirs, ours, random, verdict),
            (Some(_), []) => verdict.differences.push(difference(&id.to_string(), "", "absent", "present")),
            (None, _) if theirs.len() == helm.len() => {
                verdict.differences.push(difference(&id.to_string(), "", "present", "absent"));
            }
            (None, _) => {}
        }
    }
}

fn compare_object(id: &Id, helm: &[&Value], ours: &Value, random: &Random, verdict: &mut Verdict) {
    if helm.iter().all(|side| *side == ours) {
        return;
    }
    let helm: Vec<BTreeMap<String, &Value>> = helm.iter().map(|side| leaves(side)).collect();
    let ours = leaves(ours);
    let mut paths: Vec<&String> = helm.iter().flat_map(|side| side.keys()).chain(ours.keys()).collect();
    paths.sort();
    paths.dedup();
    for path in paths {
        let theirs: Vec<Option<&Value>> = helm.iter().map(|side| side.get(path).copied()).collect();
        compare_leaf((id, path), &theirs, ours.get(path).copied(), random, verdict);
    }
}

fn compare_leaf(
    (id, path): (&Id, &str),
    helm: &[Option<&Value>],
    ours: Option<&Value>,
    random: &Random,
    verdict: &mut Verdict,
) {
    let agreeing = helm.iter().filter(|theirs| **theirs == ours).count();
    if agreeing == helm.len() {
        return;
    }
    if agreeing > 0 {
        verdict.as_client += usize::from(helm[0] == ours);
        verdict.as_server += usize::from(helm[0] != ours);
    } else if random.contains(id, path) || (is_server_assigned(id, path) && all_differ(helm)) {
        verdict.random += 1;
    } else if helm.iter().any(|theirs| differs_by_integer_format(id, path, *theirs, ours))
        || (verdict.integers > 0 && is_digest(helm[0]) && is_digest(ours))
    {
        verdict.integers += 1;
    } else {
        verdict.differences.push(difference(&id.to_string(), path, &show(helm[0]), &show(ours)));
    }
}

/// Returns whether Helm's modes differ; true if there is only one to compare.
fn all_differ(helm: &[Option<&Value>]) -> bool {
    helm.len() < 2 || helm[0] != helm[1]
}

/// Returns scalars, empty maps and empty lists by JSON pointer.
pub fn leaves(value: &Value) -> BTreeMap<String, &Value> {
    let mut found = BTreeMap::new();
    collect(value, String::new(), &mut found);
    found
}

fn collect<'a>(value: &'a Value, path: String, found: &mut BTreeMap<String, &'a Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, inner) in map {
                collect(inner, format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (index, inner) in list.iter().enumerate() {
                collect(inner, format!("{path}/{index}"), found);
            }
        }
        leaf => drop(found.insert(path, leaf)),
    }
}

fn show(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), Value::to_string)
}

fn difference(what: &str, at: &str, helm: &str, ours: &str) -> Difference {
    Difference { what: what.into(), at: at.into(), helm: helm.into(), ours: ours.into() }
}

#[cfg(test)]
mod tests;
