//! What people request, step by step, and the states that the cluster may reach.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest_state_machine::ReferenceStateMachine;

use super::proxy::Fault;

/// A custom resource: its namespace (0 or 1) and its name.
pub(crate) type Key = (usize, &'static str);

/// The resource whose first object already exists without an owner.
pub(crate) const TAKEN: Key = (0, "taken");
pub(crate) const KEYS: [Key; 4] = [(0, "a"), (0, "b"), (1, "a"), TAKEN];

/// The chart's patch version.
pub(crate) type Chart = u8;

/// A resource's `spec`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spec {
    pub(crate) value: Value,
    pub(crate) replicas: i8,
    pub(crate) extra: bool,
}

/// Valid values, and each kind of invalid ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Number(u8),
    /// The schema rejects it.
    Text,
    /// The template fails.
    Unlucky,
}

impl Spec {
    /// Returns whether it can be installed.
    fn is_good(&self) -> bool {
        self.renders() && !self.is_refused()
    }

    /// Returns whether the chart renders with it.
    pub(crate) fn renders(&self) -> bool {
        matches!(self.value, Value::Number(_))
    }

    /// Returns whether only the server rejects it: the install is tried, undone, and retried.
    pub(crate) fn is_refused(&self) -> bool {
        self.replicas < 0
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        let value = match &self.value {
            Value::Number(number) => serde_json::json!(number),
            Value::Text => serde_json::json!("text"),
            Value::Unlucky => serde_json::json!(13),
        };
        serde_json::json!({"value": value, "replicas": self.replicas, "extra": self.extra})
    }
}

/// One of a release's objects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Object {
    Main,
    Web,
}

/// A step of a run.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A person creates or edits a resource.
    Set(Key, Spec),
    Delete(Key),
    /// Someone else changes one of our fields.
    Edit(Key, Object),
    /// Someone else adds their own field.
    Note(Key),
    /// Someone else deletes an object of ours.
    Remove(Key, Object),
    Kill,
    Restart,
    /// The next start uses another version of the chart.
    Upgrade(Chart),
    /// This many of the operator's next requests fail.
    Break(Fault, usize),
    /// All watches are disconnected.
    Cut,
    /// Watches deliver their events this many milliseconds late.
    Lag(u64),
    /// The API server is killed and restarted.
    Crash,
    /// No step is taken until the cluster is settled.
    Settle,
}

/// The inputs that a resource's release may be rendered from; `None` if there may be no release.
pub(crate) type Rendered = Option<(Chart, Spec)>;

/// A resource, and what may have been installed for it.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub(crate) spec: Spec,
    pub(crate) possible: BTreeSet<Rendered>,
}

/// The state that people requested.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) chart: Chart,
    pub(crate) resources: BTreeMap<Key, Resource>,
}

impl Model {
    /// Returns whether this resource can become as its `spec` requests.
    pub(crate) fn can_be_ready(&self, key: Key) -> bool {
        key != TAKEN && self.resources[&key].spec.is_good()
    }

    /// Records that the release is what its resource requests, or one of the earlier possibilities if that cannot be
    /// installed.
    fn remember(&mut self, key: Key) {
        let (chart, good) = (self.chart, self.can_be_ready(key));
        let resource = self.resources.get_mut(&key).expect("a resource of the model");
        if good {
            resource.possible.insert(Some((chart, resource.spec.clone())));
        }
    }

    /// Records that the cluster has settled: every resource that can be ready is ready, and no other.
    pub(crate) fn settle(&mut self) {
        for key in self.resources.keys().copied().collect::<Vec<_>>() {
            if self.can_be_ready(key) {
                let wanted = Some((self.chart, self.resources[&key].spec.clone()));
                self.resources.get_mut(&key).expect("a resource of the model").possible = [wanted].into();
            }
        }
    }
}

impl ReferenceStateMachine for Model {
    type State = Model;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model { chart: 0, resources: BTreeMap::new() }).boxed()
    }

    fn transitions(model: &Model) -> BoxedStrategy<Step> {
        let key = prop::sample::select(KEYS.to_vec());
        let present: Vec<Key> = model.resources.keys().copied().filter(|key| *key != TAKEN).collect();
        let set = (key, spec()).prop_map(|(key, spec)| Step::Set(key, spec)).boxed();
        if present.is_empty() {
            return set;
        }
        let one = prop::sample::select(present);
        let object = prop_oneof![Just(Object::Main), Just(Object::Web)];
        prop_oneof![
            8 => set,
            2 => one.clone().prop_map(Step::Delete),
            3 => (one.clone(), object.clone()).prop_map(|(key, object)| Step::Edit(key, object)),
            1 => one.clone().prop_map(Step::Note),
            3 => (one, object).prop_map(|(key, object)| Step::Remove(key, object)),
            2 => Just(Step::Kill),
            1 => Just(Step::Restart),
            1 => (0..3_u8).prop_map(Step::Upgrade),
            6 => (prop::sample::select(Fault::ALL.to_vec()), 1..10_usize).prop_map(|(fault, times)| Step::Break(fault, times)),
            1 => Just(Step::Cut),
            1 => prop::sample::select(vec![0, 200, 1000]).prop_map(Step::Lag),
            1 => Just(Step::Crash),
            4 => Just(Step::Settle),
        ]
        .boxed()
    }

    fn apply(mut model: Model, step: &Step) -> Model {
        match step {
            Step::Set(key, spec) => {
                let new = Resource { spec: spec.clone(), possible: [None].into() };
                model.resources.entry(*key).or_insert(new).spec = spec.clone();
                model.remember(*key);
            }
            Step::Delete(key) => {
                model.resources.remove(key);
            }
            Step::Upgrade(chart) => {
                model.chart = *chart;
                model.resources.keys().copied().collect::<Vec<_>>().into_iter().for_each(|key| model.remember(key));
            }
            Step::Settle => model.settle(),
            _ => {}
        }
        model
    }

    fn preconditions(model: &Model, step: &Step) -> bool {
        match step {
            Step::Delete(key) | Step::Edit(key, _) | Step::Note(key) | Step::Remove(key, _) => {
                model.resources.contains_key(key)
            }
            _ => true,
        }
    }
}

fn spec() -> impl Strategy<Value = Spec> {
    let value = prop_oneof![
        8 => (0..5_u8).prop_map(Value::Number),
        1 => Just(Value::Text),
        1 => Just(Value::Unlucky),
    ];
    let replicas = prop_oneof![8 => 0..3_i8, 1 => Just(-1)];
    (value, replicas, any::<bool>()).prop_map(|(value, replicas, extra)| Spec { value, replicas, extra })
}
