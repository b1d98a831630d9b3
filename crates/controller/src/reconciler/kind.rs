//! The kinds of objects that a reconciler works with, namespaced or cluster-scoped.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, GetParams, Patch, PatchParams};
use kube::core::{ClusterResourceScope, NamespaceResourceScope, Request};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;

use super::decoded::Decoded;
use super::untyped::Untyped;
use crate::{ResourceKey, client};
use outside::group_of;

/// A kind with a Rust type, such as `Deployment`, `Node` or a custom resource. With `PartialObjectMeta<K>`, only the
/// metadata of the objects is read, which saves memory and traffic.
///
/// kube's `DynamicObject` does not implement it: its kind is known only at run time, but rights, roles and shared
/// watches follow from the type before anything runs. A reconciler reaches such objects through the client
/// ([`Context::client`](crate::context::Context::client)), without a cache. An object's fields can still be untyped: a
/// type of your own may hold a `serde_json::Value` as its spec.
pub trait Kind:
    Resource<DynamicType = (), Scope: KindScope> + Clone + Debug + DeserializeOwned + Serialize + Send + Sync + 'static
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope: KindScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize
        + Send
        + Sync
        + 'static
{
}

/// The scope of a kind: its objects are namespaced or cluster-scoped.
pub trait KindScope: Sized + 'static {
    /// Whether the objects are namespaced.
    const NAMESPACED: bool;

    /// Returns the API of a kind in a namespace. It covers the whole cluster if the namespace is empty or the kind is
    /// cluster-scoped.
    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, namespace: &str) -> Api<K>;
}

impl KindScope for NamespaceResourceScope {
    const NAMESPACED: bool = true;

    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, namespace: &str) -> Api<K> {
        if namespace.is_empty() { Api::all(client) } else { Api::namespaced(client, namespace) }
    }
}

impl KindScope for ClusterResourceScope {
    const NAMESPACED: bool = false;

    fn api<K: Resource<DynamicType = (), Scope = Self>>(client: Client, _namespace: &str) -> Api<K> {
        Api::all(client)
    }
}

pub(super) const fn is_namespaced<K: Kind>() -> bool {
    <K::Scope as KindScope>::NAMESPACED
}

/// Returns the API of a kind in a namespace, see [`KindScope::api`].
pub(super) fn api<K: Resource<DynamicType = (), Scope: KindScope>>(client: Client, namespace: &str) -> Api<K> {
    <K::Scope as KindScope>::api(client, namespace)
}

/// Applies an object, or one of its subresources, see [`client::apply()`]. Reads the response as watches read objects:
/// what the type does not need must not make a write that was done look like a failure.
pub(super) async fn apply<K: Kind>(
    api: Api<K>,
    what: (&str, &str),
    params: &PatchParams,
    content: &Value,
) -> kube::Result<K> {
    typed(client::apply(api, what, params, content).await?)
}

/// Reads an object, as watches read objects.
pub(super) async fn get<K: Kind>(api: Api<K>, name: &str) -> kube::Result<K> {
    let (requests, params) = (Request::new(api.resource_url()), GetParams::default());
    let request = match K::metadata_api() {
        true => requests.get_metadata(name, &params),
        false => requests.get(name, &params),
    };
    let found: Untyped = api.into_client().request(request.map_err(kube::Error::BuildRequest)?).await?;
    typed(found)
}

fn typed<K: Kind>(object: Untyped) -> kube::Result<K> {
    match Decoded::of(object) {
        Decoded::Valid(object) => Ok(object),
        Decoded::Invalid(invalid) => Err(kube::Error::SerdeError(serde_json::Error::custom(invalid.cause))),
    }
}

/// Reads the metadata of an object, see [`read`].
pub(super) async fn metadata<K: Kind>(api: Api<K>, name: &str) -> kube::Result<Option<ObjectMeta>> {
    Ok(read(api, name).await?.map(|found| found.metadata))
}

/// Reads an object without its contents, as watches read it: whoever may write the object may give its managed fields a
/// time that Rust's type does not have. Returns `None` if there is no such object.
pub(super) async fn read<K: Kind>(api: Api<K>, name: &str) -> kube::Result<Option<Untyped>> {
    let request = Request::new(api.resource_url()).get_metadata(name, &GetParams::default());
    match api.into_client().request::<Untyped>(request.map_err(kube::Error::BuildRequest)?).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Merges a patch into an object. Returns its new metadata, as watches read it.
pub(super) async fn merge<K: Kind>(
    api: Api<K>,
    name: &str,
    params: &PatchParams,
    patch: &Value,
) -> kube::Result<ObjectMeta> {
    let request = Request::new(api.resource_url()).patch_metadata(name, params, &Patch::Merge(patch));
    let written: Untyped = api.into_client().request(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(written.metadata)
}

/// Deletes an object. Does not read the response: it may contain the object, as unreadable as whoever wrote it made it.
pub(super) async fn delete<K: Kind>(api: Api<K>, name: &str, params: &DeleteParams) -> kube::Result<()> {
    let request = Request::new(api.resource_url()).delete(name, params);
    api.into_client().request_text(request.map_err(kube::Error::BuildRequest)?).await.map(drop)
}

/// Returns the resource of kind `R` that the object's controller reference names.
pub(super) fn owner<R: Kind, K: Kind>(object: &K) -> Option<ResourceKey> {
    let controller = controller(object)?;
    let group = group_of(&controller.api_version);
    let ours = controller.kind == R::kind(&()) && group == R::group(&());
    let namespace = if is_namespaced::<R>() { object.meta().namespace.as_deref()? } else { "" };
    ours.then(|| ResourceKey::new(namespace, &controller.name))
}

/// Returns whether the object's controller is another resource of this kind and name: one that has been deleted since.
pub(super) fn is_of_another<R: Kind, K: Kind>(object: &K, resource: &R) -> bool {
    let (Some(uid), Some(controller)) = (resource.meta().uid.as_ref(), controller(object)) else { return false };
    controller.uid != *uid && owner::<R, K>(object) == Some(ResourceKey::of(resource))
}

fn controller<K: Kind>(object: &K) -> Option<&OwnerReference> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true))
}
