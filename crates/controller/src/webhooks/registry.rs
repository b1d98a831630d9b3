//! Collects the webhooks of a process, and finds the one that a path asks for.

use std::fmt::Display;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Client;

use super::admission::{FailurePolicy, Mutate, Operation, Validate};
use super::answer;
use super::conversion::Versions;
use super::review::{Answer, GroupVersionKind, Question};
use crate::reconciler::{Kind, KindScope as _};

/// The webhooks of a process.
#[derive(Clone, Default)]
pub struct Webhooks {
    pub(super) admissions: Vec<Arc<Registered>>,
    pub(crate) conversions: Vec<Arc<Versions>>,
}

/// Whether a webhook validates or changes objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Validate,
    Mutate,
}

/// An admission webhook.
pub(super) struct Registered {
    pub(super) purpose: Purpose,
    pub(super) kind: GroupVersionKind,
    pub(super) plural: String,
    pub(super) is_namespaced: bool,
    pub(super) operations: Vec<Operation>,
    pub(super) failure_policy: FailurePolicy,
    ask: Box<Ask>,
}

type Ask = dyn Fn(Question, Client) -> BoxFuture<'static, Answer> + Send + Sync;

impl Webhooks {
    /// Starts without webhooks.
    pub fn new() -> Webhooks {
        Webhooks::default()
    }

    /// Adds a validating webhook.
    #[must_use]
    pub fn validate<V: Validate>(mut self, hook: V) -> Webhooks {
        let (operations, policy, hook) = (hook.operations().to_vec(), hook.failure_policy(), Arc::new(hook));
        let ask = move |question, client: Client| -> BoxFuture<'static, Answer> {
            let hook = hook.clone();
            Box::pin(async move { answer::validate(&*hook, question, &client).await })
        };
        self.add::<V::Resource>(Purpose::Validate, (operations, policy), Box::new(ask));
        self
    }

    /// Adds a mutating webhook.
    #[must_use]
    pub fn mutate<M: Mutate>(mut self, hook: M) -> Webhooks {
        let operations = hook.operations().iter().copied().filter(|operation| *operation != Operation::Delete);
        let (operations, policy, hook) = (operations.collect(), hook.failure_policy(), Arc::new(hook));
        let ask = move |question, client: Client| -> BoxFuture<'static, Answer> {
            let hook = hook.clone();
            Box::pin(async move { answer::mutate(&*hook, question, &client).await })
        };
        self.add::<M::Resource>(Purpose::Mutate, (operations, policy), Box::new(ask));
        self
    }

    /// Adds the conversion between two versions of a kind, in both directions. Objects are converted over several
    /// versions if need be: with `A` and `B`, and `B` and `C`, also from `A` to `C`.
    #[must_use]
    pub fn convert<A, B>(mut self) -> Webhooks
    where
        A: Kind + TryFrom<B, Error: Display>,
        B: Kind + TryFrom<A, Error: Display>,
    {
        let is_same = |known: &Arc<Versions>| known.group == A::group(&()) && known.kind == A::kind(&());
        let at = self.conversions.iter().position(is_same).unwrap_or_else(|| {
            self.conversions.push(Arc::new(Versions::of::<A>()));
            self.conversions.len() - 1
        });
        if let Some(versions) = Arc::get_mut(&mut self.conversions[at]) {
            versions.add::<A, B>();
        }
        self
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.admissions.is_empty() && self.conversions.is_empty()
    }

    /// Returns whether any of them validates or changes objects.
    pub fn has_admission(&self) -> bool {
        !self.admissions.is_empty()
    }

    /// Returns the names of the definitions whose conversion the process serves: `teams.example.com`.
    pub fn converted_definitions(&self) -> Vec<String> {
        self.conversions.iter().map(|versions| versions.definition()).collect()
    }

    fn add<K: Kind>(&mut self, purpose: Purpose, about: (Vec<Operation>, FailurePolicy), ask: Box<Ask>) {
        let (group, version, kind) = (K::group(&()), K::version(&()), K::kind(&()));
        self.admissions.push(Arc::new(Registered {
            purpose,
            kind: GroupVersionKind {
                group: group.into_owned(),
                version: version.into_owned(),
                kind: kind.into_owned(),
            },
            plural: K::plural(&()).into_owned(),
            is_namespaced: K::Scope::NAMESPACED,
            operations: about.0,
            failure_policy: about.1,
            ask,
        }));
    }
}

impl Registered {
    /// Returns the path that the API server sends its questions to.
    pub(super) fn path(&self) -> String {
        let purpose = match self.purpose {
            Purpose::Validate => "validate",
            Purpose::Mutate => "mutate",
        };
        format!("/{purpose}/{}/{}/{}", group_name(&self.kind.group), self.kind.version, self.plural)
    }

    /// Returns the version that it reads: `example.com/v1`.
    pub(super) fn api_version(&self) -> String {
        let GroupVersionKind { group, version, .. } = &self.kind;
        if group.is_empty() { version.clone() } else { format!("{group}/{version}") }
    }

    /// Returns the webhook's name: `v1.teams.example.com`.
    pub(super) fn name(&self) -> String {
        format!("{}.{}.{}", self.kind.version, self.plural, group_name(&self.kind.group))
    }

    /// Answers the body of an admission review.
    pub(super) async fn review(&self, body: &[u8], client: Client) -> Result<String, Failure> {
        let question = Question::read(body).map_err(|error| Failure::Review(error.to_string()))?;
        let (uid, name, kind) = (question.uid.clone(), question.name.clone(), &question.kind);
        if *kind != self.kind {
            return Err(Failure::Review(format!(
                "{kind:?} is asked about, but this path answers about {:?}",
                self.kind
            )));
        }
        match (self.ask)(question, client).await {
            Answer::Denied(rejection) if rejection.is_failure => Err(Failure::Webhook(rejection.text())),
            answer => Ok(answer.write(&uid, &self.kind, &name).to_string()),
        }
    }
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The question is not one that can be answered here.
    Review(String),
    /// The webhook could not answer.
    Webhook(String),
}

impl Versions {
    /// Returns the name of the kind's definition.
    pub(crate) fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// Returns the path that the API server sends objects to.
    pub(super) fn path_of_webhook(&self) -> String {
        format!("/convert/{}/{}", self.group, self.plural)
    }
}

fn group_name(group: &str) -> &str {
    if group.is_empty() { "core" } else { group }
}
