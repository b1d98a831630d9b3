//! An object that somebody may wait for, as a list, a watch or a read shows it, and whether it satisfies a query.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use helm_release::kube::{Live, Whole, intern};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::dependencies::{Missing, Query, Until};
use crate::watches::Expressions;

/// An object's namespace and name.
pub(super) type ObjectName = (Arc<str>, Arc<str>);

/// The part of its objects that a watch or a read shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Portion {
    Metadata,
    Whole,
}

impl Portion {
    pub(crate) fn needed_for(query: &Query) -> Portion {
        if query.needs_only_metadata() { Portion::Metadata } else { Portion::Whole }
    }

    /// Returns whether this shows enough for a query.
    pub(crate) fn suffices_for(self, query: &Query) -> bool {
        self == Portion::Whole || query.needs_only_metadata()
    }
}

/// Who reconciles an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedBy {
    Us,
    Others,
}

/// An object, which is judged and then dropped.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    labels: BTreeMap<String, String>,
    live: Live,
    portion: Portion,
}

/// What is kept of an object that a query means.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(super) name: ObjectName,
    pub(super) version: u64,
    /// Why it does not satisfy the query.
    pub(super) missing: Option<Missing>,
}

/// An object while queries judge it. It is parsed at most once, and judged once by each condition, however many queries
/// mean it.
pub(crate) struct Judging<'s> {
    seen: &'s Seen,
    by: ServedBy,
    object: OnceCell<Value>,
    verdicts: HashMap<Condition, Option<Missing>>,
}

/// What determines the verdict on an object: the controller whose rules count, or the source of an expression.
#[derive(PartialEq, Eq, Hash)]
enum Condition {
    Ready(Option<Arc<str>>),
    True(Arc<str>),
}

/// An object of which only the metadata is requested and read.
#[derive(Clone, Debug)]
pub(crate) struct SeenMetadata(Seen);

outside::dynamic_resource!([] Seen, false, live.metadata);
outside::dynamic_resource!([] SeenMetadata, true, 0.live.metadata);

#[derive(Default, Deserialize)]
struct Labelled {
    #[serde(default)]
    metadata: Labels,
}

#[derive(Default, Deserialize)]
struct Labels {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl<'de> Deserialize<'de> for Seen {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Seen, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        let live = serde_json::from_str::<Whole>(text.get()).map_err(D::Error::custom)?.live;
        let labels: Labelled = serde_json::from_str(text.get()).unwrap_or_default();
        let labels = labels.metadata.labels.unwrap_or_default();
        Ok(Seen { labels, live, portion: Portion::Whole })
    }
}

impl<'de> Deserialize<'de> for SeenMetadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SeenMetadata, D::Error> {
        Ok(SeenMetadata(Seen { portion: Portion::Metadata, ..Seen::deserialize(from)? }))
    }
}

impl From<SeenMetadata> for Seen {
    fn from(of: SeenMetadata) -> Seen {
        of.0
    }
}

impl Seen {
    /// Returns the namespace; empty for an object without one.
    pub(crate) fn namespace(&self) -> &str {
        self.live.metadata.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.live.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns its namespace and name, as the registry keeps them: many queries may mean the same object.
    pub(super) fn object_name(&self) -> ObjectName {
        (intern(self.namespace()), intern(self.name()))
    }

    pub(crate) fn version(&self) -> u64 {
        self.live.resource_version()
    }

    /// Returns whether the query means the object.
    pub(crate) fn is_meant_by(&self, query: &Query) -> bool {
        query.means(self.namespace(), self.name(), &self.labels)
    }

    /// Returns whether this shows enough of the object for the query.
    pub(crate) fn suffices_for(&self, query: &Query) -> bool {
        self.portion.suffices_for(query)
    }
}

impl Judging<'_> {
    /// Begins to judge an object by queries of one kind.
    pub(crate) fn of(seen: &Seen, by: ServedBy) -> Judging<'_> {
        Judging { seen, by, object: OnceCell::new(), verdicts: HashMap::new() }
    }

    /// Returns why the object does not satisfy the query; `None` if it does. `rules` are those that the query names.
    pub(crate) fn lacks(&mut self, query: &Query, rules: Option<&Expressions>) -> Option<Missing> {
        if self.seen.live.deleting {
            return Some(Missing::Deleting);
        }
        // Without a condition, it is enough that it exists.
        let condition = Condition::of(query)?;
        if let Some(known) = self.verdicts.get(&condition) {
            return known.clone();
        }
        let verdict = self.judge(query, rules);
        self.verdicts.insert(condition, verdict.clone());
        verdict
    }

    fn judge(&self, query: &Query, rules: Option<&Expressions>) -> Option<Missing> {
        match &query.until {
            Until::Exists => None,
            Until::Ready => self.unready(&query.group, &query.kind, rules),
            Until::True(_) if self.seen.live.whole.is_none() => {
                Some(Missing::Faulty("the object is too large".to_owned()))
            }
            Until::True(expression) => match expression.is_true(&[("self", self.object())]) {
                Ok(true) => None,
                Ok(false) => Some(Missing::Untrue),
                Err(fault) => Some(Missing::Faulty(fault.to_string())),
            },
        }
    }

    fn unready(&self, group: &str, kind: &str, rules: Option<&Expressions>) -> Option<Missing> {
        let live = &self.seen.live;
        let by_rule = rules.zip(live.whole.as_ref()).and_then(|(rules, text)| rules.judge(group, kind, text));
        let unready = by_rule.unwrap_or_else(|| live.unready(group, kind));
        match unready {
            Some(unready) if unready.failed => Some(Missing::Failed),
            Some(_) => Some(Missing::Unready),
            // kstatus considers a resource without a status ready. For our own kinds it means: not reconciled yet.
            None => (self.by == ServedBy::Us && !self.is_reconciled()).then_some(Missing::Unready),
        }
    }

    /// Returns the object; null if it is too large or only metadata was read.
    fn object(&self) -> &Value {
        self.object.get_or_init(|| {
            #[cfg(test)]
            tests::PARSED.set(tests::PARSED.get() + 1);
            serde_json::from_str(self.seen.live.whole.as_deref().unwrap_or_default()).unwrap_or_default()
        })
    }

    /// Returns whether the status says that the current generation is ready.
    fn is_reconciled(&self) -> bool {
        let object = self.object();
        let (generation, status) = (&object["metadata"]["generation"], &object["status"]);
        let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        let observed = &status["observedGeneration"];
        let is_current = observed.is_null() || generation.is_null() || observed == generation;
        is_current && status["conditions"].as_array().into_iter().flatten().any(is_ready)
    }
}

impl Condition {
    /// Returns the condition of a query; `None` if existence is enough.
    fn of(query: &Query) -> Option<Condition> {
        match &query.until {
            Until::Exists => None,
            Until::Ready => Some(Condition::Ready(query.rules.clone())),
            Until::True(expression) => Some(Condition::True(expression.source.clone())),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::ServedBy::{Others, Us};
    use super::*;
    use crate::dependencies::{Origin, parse, resolve};

    thread_local! {
        /// How many objects this thread has parsed to judge them.
        pub(in crate::view::dependencies) static PARSED: Cell<usize> = const { Cell::new(0) };
    }

    fn lacks(entry: &Value, object: &Value, by: ServedBy) -> Option<Missing> {
        let entries = parse(&json!([entry])).unwrap();
        let query = resolve(&entries, Origin::Watch, ("ns", "web"), &|_, _| None).unwrap()[0].query.clone();
        Judging::of(&serde_json::from_value(object.clone()).unwrap(), by).lacks(&query, None)
    }

    #[test]
    fn an_object_exists_is_ready_or_satisfies_an_expression() {
        let named = |more: Value| {
            let mut entry = json!({"group": "g", "kind": "Db", "name": "db"});
            entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            entry
        };
        let object =
            |status: Value| json!({"metadata": {"name": "db", "namespace": "ns", "generation": 2}, "status": status});
        let condition = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        let (exists, ready) = (named(json!({"until": "exists"})), named(json!({})));
        let up = named(json!({"ready": "self.status.phase == 'Up'"}));
        for (behaviour, entry, status, by, expected) in [
            ("exists", &exists, condition("Ready", "False"), Others, None),
            ("ready", &ready, condition("Ready", "True"), Others, None),
            ("not ready", &ready, condition("Ready", "False"), Others, Some(Missing::Unready)),
            ("stalled", &ready, condition("Stalled", "True"), Others, Some(Missing::Failed)),
            ("without status", &ready, json!({}), Others, None),
            ("one of ours without status", &ready, json!({}), Us, Some(Missing::Unready)),
            ("one of ours", &ready, condition("Ready", "True"), Us, None),
            // fluxcd/flux2#125
            (
                "an old generation",
                &ready,
                json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True"}]}),
                Us,
                Some(Missing::Unready),
            ),
            ("an expression", &up, json!({"phase": "Up"}), Others, None),
            ("one that is false", &up, json!({"phase": "Down"}), Others, Some(Missing::Untrue)),
            ("one that fails", &up, json!({}), Others, Some(Missing::Faulty("no such key: phase".into()))),
        ] {
            assert_eq!(lacks(entry, &object(status), by), expected, "{behaviour}");
        }
        let mut leaving = object(json!({}));
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(lacks(&exists, &leaving, Others), Some(Missing::Deleting));
    }
}
