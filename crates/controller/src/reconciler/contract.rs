//! The trait that a controller in Rust implements.

use std::future::Future;
use std::time::Duration;

use kube::Resource as _;

use super::kind::Kind;
use super::rights::Rights;
use super::scope::Scope;
use super::watching::Watching;
use crate::report::Reason;

/// Reconciles one kind of custom resource.
///
/// # What the library does
/// A resource is reconciled when it changes, when an object that [`watch`](Self::watch) declares changes, and when
/// [`Next::After`] asks for it; never by two workers at a time. Namespaces take turns, and all controllers share the
/// process's limit of concurrent reconciles.
///
/// A failed reconcile is logged, counted and published as an event with the error's [`reason`](Reason::reason). It is
/// retried after half a second, doubled each time up to five minutes ([`Watching::backoff`]), or only after a change if
/// the error [is terminal](Reason::is_terminal). A panic is such a failure (`Panicked`) and delays only its own
/// resource. A resource that does not decode into its type counts as a failure (`Undecodable`): the event names the
/// field, and the reconciler is not called. No condition says so: the status is part of the type that does not fit, and
/// the library does not know whether that type's status has conditions at all. If the resource owns a watched object
/// that does not decode (`OwnedUndecodable`), the reconciler is not called either, because that object would look as if
/// it did not exist; [`Objects::allow_undecodable`](super::Objects::allow_undecodable) changes that. While the server
/// refuses one of the watches, nothing is reconciled (`WatchRefused`), because the caches may be outdated. If it refuses
/// only one of several namespaces, that concerns the resources that
/// [may read its objects](super::Objects::in_own_namespace).
///
/// # What the reconciler does
/// Each call reads the whole state and does what is missing, regardless of what triggered it. Any `.await` may be the
/// last, so each write must be idempotent, as [`Scope::apply`] and [`Scope::status`] are. The caches may lag behind the
/// reconciler's own writes, but those two compare with the last write.
///
/// A cache that lacks an object does not show that it does not exist. An object whose content is generated, such as a
/// password, is therefore applied with [`Apply::create_only`](super::Apply::create_only).
pub trait Reconciler: Send + Sync + Sized + 'static {
    /// The type of the custom resource.
    type Resource: Kind;
    /// The reason why a reconcile fails. [`WriteError`](super::WriteError) suits reconcilers that only apply objects
    /// and write a status.
    type Error: Reason + Send + Sync + 'static;
    /// What the reconciler reads: [`Cache`](super::Cache)s, or a struct of them.
    type Caches: Send + Sync + 'static;

    /// Returns the name for logs, metrics and events, which is also the field manager of the writes. No two reconcilers
    /// of a process may have the same. Default: `<kind in lower case>-controller`.
    fn name(&self) -> String {
        format!("{}-controller", Self::Resource::kind(&()).to_lowercase())
    }

    /// Returns the earlier [names](Self::name) of the reconciler, under which nothing writes any more. What was applied
    /// under them, to objects and as a status, moves to the present name before the next write. Otherwise fields that the
    /// code no longer sets would stay forever. Keep a name as long as there may be objects that it applied. Default:
    /// none.
    fn former_names(&self) -> &[&str] {
        &[]
    }

    /// Declares what triggers a reconcile besides the resource itself, and returns the caches to read. Called once, at
    /// startup.
    fn watch(&self, watching: &mut Watching<Self::Resource>) -> Self::Caches;

    /// Returns the permissions that the reconciler needs besides reading its own resources and changing their metadata.
    /// `generate rbac` writes its role from them, and the startup logs those that the role lacks.
    fn rights(&self) -> Rights;

    /// Makes the cluster match the resource's `spec`. Called once every cache has listed; never for a resource that is
    /// being deleted.
    fn reconcile(
        &self,
        scope: &Scope<'_, Self::Resource>,
        caches: &Self::Caches,
    ) -> impl Future<Output = Result<Next, Self::Error>> + Send;

    /// Returns the finalizers that each resource gets before its first [`reconcile`](Self::reconcile), one for each
    /// thing to clean up. Default: none, which suffices if the garbage collector deletes everything that the resource
    /// owns.
    fn finalizers(&self) -> &[&str] {
        &[]
    }

    /// Undoes what the garbage collector cannot. Called for each [finalizer](Self::finalizers) that a deleted resource
    /// has, in their order. The finalizer stays until the call returns [`Next::Wait`]; then the next one follows. A call
    /// is repeated if the resource's `spec` changes meanwhile; without a generation, if anything changes.
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
    /// After the next change.
    Wait,
    /// After the next change, and at the latest after this time, which is at least 100 ms.
    After(Duration),
}
