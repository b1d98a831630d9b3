//! What differs between what Helm and the operator left on their API servers. Pure: it sees outcomes and objects alone.
//!
//! Helm's two ways (client-side and server-side) differ from each other in places; there the operator has to agree with one of them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::live::{Id, Objects};
use crate::outcome::Outcome;
use crate::random::{Random, is_by_integers, is_digest, is_servers};

/// What was done to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// The first revision.
    Install,
    /// A later one.
    Upgrade,
    /// The end.
    Uninstall,
}

/// A step and what was there after it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// What was done.
    pub action: Action,
    /// The case's name, which decides the values.
    pub case: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Everything on the API server that was not there before the chart; empty after a refusal.
    pub objects: Objects,
    /// The status of the newest release record. Its number is not compared: we make no revision where nothing changes.
    pub record: String,
}

/// One difference. `at` is empty where the object, or the outcome, is meant as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `outcome`, `record`, or an object.
    pub what: String,
    /// JSON pointer in the object.
    pub at: String,
    /// What Helm has.
    pub helm: String,
    /// What the operator has.
    pub ours: String,
}

/// How one step compares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What differs.
    pub differences: Vec<Difference>,
    /// How many objects were compared.
    pub objects: usize,
    /// How many places are random: two runs of Helm differ there, or the server chose.
    pub random: usize,
    /// How many places differ only because integers of a resource are integers, and Helm's are floats.
    pub integers: usize,
    /// How many places have what only client-side Helm left, and what only server-side Helm left.
    pub as_client: usize,
    /// See `as_client`.
    pub as_server: usize,
}

/// One step by each of the three ways.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// `helm install --server-side=false`.
    pub client: &'a Seen,
    /// `helm install`.
    pub server: &'a Seen,
    /// The operator.
    pub ours: &'a Seen,
}

impl Difference {
    /// Whether it is one of objects, not of an outcome or a record.
    #[must_use]
    pub fn is_of_objects(&self) -> bool {
        !["outcome", "record"].contains(&self.what.as_str())
    }
}

/// Compares one step.
#[must_use]
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
    /// Helm's ways that got here by the same steps as we did.
    fn comparable(&self) -> Vec<&'a Seen> {
        let same = |side: &&Seen| side.outcome.is_done() && side.action == self.ours.action;
        [self.client, self.server].into_iter().filter(same).collect()
    }
}

/// The operator has to do what either way of Helm does, and to refuse what both refuse, on the same ground as one of them. What Helm's
/// client-side way refuses may be refused.
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
    } else if random.contains(id, path) || (is_servers(id, path) && all_differ(helm)) {
        verdict.random += 1;
    } else if helm.iter().any(|theirs| is_by_integers(id, path, *theirs, ours))
        || (verdict.integers > 0 && is_digest(helm[0]) && is_digest(ours))
    {
        verdict.integers += 1;
    } else {
        verdict.differences.push(difference(&id.to_string(), path, &show(helm[0]), &show(ours)));
    }
}

/// Whether Helm's ways differ from each other; one alone tells nothing.
fn all_differ(helm: &[Option<&Value>]) -> bool {
    helm.len() < 2 || helm[0] != helm[1]
}

/// Scalars, empty maps and empty lists by JSON pointer.
#[must_use]
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
