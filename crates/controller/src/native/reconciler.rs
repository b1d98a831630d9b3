//! What a controller in Rust implements.

use std::future::Future;
use std::time::Duration;

use kube::Resource as _;

use super::kind::Kind;
use super::rights::Rights;
use super::scope::Scope;
use super::watching::Watching;
use crate::report::Reason;

/// Serves one kind of custom resource.
///
/// # What the library does
/// A resource is reconciled when it changes, when an object that [`watch`](Self::watch) names changes, and when [`Next::After`] asks for it; never by
/// two workers at a time. Namespaces take turns, and all controllers share the process's limit of concurrent reconciles.
///
/// A failed reconcile is logged, counted and published as an event under the error's [`reason`](Reason::reason). It is repeated after half a second,
/// doubled each time up to five minutes ([`Watching::backoff`]), or only after a change if the error [is terminal](Reason::is_terminal). A panic
/// (`Panicked`) is such a failure, and delays only its own resource. So is a resource that its type cannot hold (`Undecodable`): the event names the
/// field, and the reconciler never sees that state.
///
/// # What the reconciler does
/// Each call looks at the whole state and does what is missing; why it was called does not matter. Any `.await` may be the last: make each write
/// idempotent, as [`Scope::apply`] and [`Scope::status`] are. The caches may lag behind own writes by an event.
pub trait Reconciler: Send + Sync + Sized + 'static {
    /// The custom resource's type.
    type Resource: Kind;
    /// Why a reconcile fails. [`WriteError`](super::WriteError) suits reconcilers that only apply objects and report a status.
    type Error: Reason + Send + Sync + 'static;
    /// What it reads: [`Cache`](super::Cache)s, or a struct of them.
    type Caches: Send + Sync + 'static;

    /// The name in logs, metrics and events, and the field manager of its writes. Default: `<kind in lower case>-controller`.
    fn name(&self) -> String {
        format!("{}-controller", Self::Resource::kind(&()).to_lowercase())
    }

    /// Declares what triggers a reconcile besides the resource itself, and returns the caches to read. Called once, at startup.
    fn watch(&self, watching: &mut Watching<Self::Resource>) -> Self::Caches;

    /// Returns what it does in the cluster, beside reading its own resources. `generate rbac` writes its role from it, and startup reports what the
    /// role lacks.
    fn rights(&self) -> Rights;

    /// Makes the cluster look as the resource asks. Called once every cache has listed; never for a resource that is being deleted.
    fn reconcile(
        &self,
        scope: &Scope<'_, Self::Resource>,
        caches: &Self::Caches,
    ) -> impl Future<Output = Result<Next, Self::Error>> + Send;

    /// Returns the finalizers that each resource gets before its first [`reconcile`](Self::reconcile), one for each thing to clean up. Default:
    /// none, which is enough where the garbage collector deletes what the resource owns.
    fn finalizers(&self) -> &[&str] {
        &[]
    }

    /// Undoes what the garbage collector cannot. Called for each [finalizer](Self::finalizers) that a deleted resource has, in their order. The
    /// finalizer stays until the call returns [`Next::Wait`]; the next one follows then.
    fn cleanup(
        &self,
        _finalizer: &str,
        _scope: &Scope<'_, Self::Resource>,
        _caches: &Self::Caches,
    ) -> impl Future<Output = Result<Next, Self::Error>> + Send {
        std::future::ready(Ok(Next::Wait))
    }
}

/// When to reconcile a resource again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    Wait,
    /// When something changes, and at the latest after this time, which is at least 100 ms.
    After(Duration),
}
