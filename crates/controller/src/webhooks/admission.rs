//! The traits that authors of admission webhooks implement, and their arguments.

use std::future::Future;

use k8s_openapi::api::authentication::v1::UserInfo;
use kube::Client;
use serde::{Deserialize, Serialize};

use crate::reconciler::Kind;
use crate::report::chain;

/// Warnings that the API server shows to the user, such as `spec.size is deprecated`. Keep each below 120 characters.
pub type Warnings = Vec<String>;

/// Decides whether an object of one kind may be stored, changed or deleted.
///
/// Every replica is asked, and several questions may be answered at once. An answer must have no side effects: the API
/// server may still refuse the request.
///
/// An object that does not fit the Rust type is refused, and the message names the field. If an object is being
/// deleted, changes to only its metadata or status are not validated, so that its finalizers can always be removed.
///
/// # Limits
/// An answer that takes longer than 8 seconds, or that panics, fails like one of [`Rejection::failed`].
/// Code that blocks its thread goes on nevertheless: after five minutes, `/healthz` fails.
pub trait Validate: Send + Sync + 'static {
    /// The kind, in the version that [`validate`](Self::validate) reads. Requests in other versions are converted.
    type Resource: Kind;

    /// Returns the operations to ask about. Default: create and update.
    fn operations(&self) -> &[Operation] {
        &[Operation::Create, Operation::Update]
    }

    /// Returns what happens to a request if no replica answers it. Default: it is refused.
    fn failure_policy(&self) -> FailurePolicy {
        FailurePolicy::Fail
    }

    /// Accepts the request, with warnings for the user, or rejects it.
    fn validate(
        &self,
        admission: &Admission<'_, Self::Resource>,
    ) -> impl Future<Output = Result<Warnings, Rejection>> + Send;
}

/// Changes objects of one kind before they are validated and stored.
///
/// The notes on [`Validate`] apply here as well. Only the difference is sent to the API server: fields that the Rust
/// type does not know keep their values. The API server may ask several times, so a change must be idempotent.
pub trait Mutate: Send + Sync + 'static {
    /// The kind, in the version that [`mutate`](Self::mutate) changes.
    type Resource: Kind;

    /// Returns the operations to ask about. Default: create and update. Deletions cannot be changed.
    fn operations(&self) -> &[Operation] {
        &[Operation::Create, Operation::Update]
    }

    /// Returns what happens to a request if no replica answers it. Default: it is refused.
    fn failure_policy(&self) -> FailurePolicy {
        FailurePolicy::Fail
    }

    /// Changes the object, or rejects the request.
    fn mutate(
        &self,
        object: &mut Self::Resource,
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Warnings, Rejection>> + Send;
}

/// A request to validate.
#[derive(Debug)]
pub struct Admission<'a, K> {
    /// The object as it is to be stored; on deletion, the object that is to be deleted.
    pub object: K,
    /// On update, the object as it is stored; `None` if it does not fit the type.
    pub old: Option<K>,
    /// Who requests what.
    pub request: Request<'a>,
}

/// Who requests what.
pub struct Request<'a> {
    /// The operation.
    pub operation: Operation,
    /// The object's name; empty if the API server is to generate it.
    pub name: String,
    /// The object's namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// The user.
    pub user: UserInfo,
    /// Whether nothing will be stored.
    pub is_dry_run: bool,
    /// The process's client, to read other objects.
    pub client: &'a Client,
}

impl std::fmt::Debug for Request<'_> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{:?} {}/{} by {:?}", self.operation, self.namespace, self.name, self.user.username)
    }
}

/// What a request does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// Creates it.
    Create,
    /// Changes it, by whichever method.
    Update,
    /// Deletes it, or marks it as being deleted.
    Delete,
}

/// What the API server does if the webhook does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum FailurePolicy {
    /// It refuses the request.
    #[default]
    Fail,
    /// It accepts the request.
    Ignore,
}

/// Why a request is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub(super) message: String,
    /// The wrong fields, each with what is wrong.
    pub(super) fields: Vec<(String, String)>,
    pub(super) is_failure: bool,
}

impl Rejection {
    /// Rejects the request as forbidden (403).
    pub fn new(message: impl Into<String>) -> Rejection {
        Rejection { message: message.into(), fields: Vec::new(), is_failure: false }
    }

    /// Rejects the request as invalid (422): `Rejection::field("spec.size", "must not shrink")`.
    pub fn field(path: impl Into<String>, message: impl Into<String>) -> Rejection {
        Rejection::new("").and_field(path, message)
    }

    /// Adds another wrong field.
    #[must_use]
    pub fn and_field(mut self, path: impl Into<String>, message: impl Into<String>) -> Rejection {
        self.fields.push((path.into(), message.into()));
        self
    }

    /// Gives no answer, because something that the answer depends on failed. The [`FailurePolicy`] decides.
    pub fn failed(error: &(dyn std::error::Error + 'static)) -> Rejection {
        Rejection { is_failure: true, ..Rejection::new(chain(error)) }
    }

    /// Returns the message with the fields: `spec.size: must not shrink`.
    pub(super) fn text(&self) -> String {
        let fields = self.fields.iter().map(|(path, message)| format!("{path}: {message}"));
        let own = Some(self.message.clone()).filter(|message| !message.is_empty());
        own.into_iter().chain(fields).collect::<Vec<_>>().join(", ")
    }
}

impl From<&str> for Rejection {
    fn from(message: &str) -> Rejection {
        Rejection::new(message)
    }
}

impl From<String> for Rejection {
    fn from(message: String) -> Rejection {
        Rejection::new(message)
    }
}

impl From<kube::Error> for Rejection {
    fn from(error: kube::Error) -> Rejection {
        Rejection::failed(&error)
    }
}
