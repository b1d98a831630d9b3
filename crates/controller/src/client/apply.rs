//! Server-side applies. They are sent as YAML, the content type that every server with server-side apply accepts, but
//! kube puts JSON into them as it is, of which YAML rejects some characters and changes others.

use kube::api::{Patch, PatchParams};
use kube::core::Request;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Applies an object, or one of its subresources: `("demo", "")`, `("demo", "status")`.
///
/// # Errors
/// As kube's `Api::patch`.
pub(crate) async fn apply<K, T>(
    api: Api<K>,
    (name, subresource): (&str, &str),
    params: &PatchParams,
    content: &Value,
) -> kube::Result<T>
where
    K: Resource,
    T: DeserializeOwned,
{
    let (requests, patch) = (Request::new(api.resource_url()), Patch::Apply(content));
    let request = match subresource {
        "" if K::metadata_api() => requests.patch_metadata(name, params, &patch),
        "" => requests.patch(name, params, &patch),
        _ => requests.patch_subresource(subresource, name, params, &patch),
    };
    let request = request.map_err(kube::Error::BuildRequest)?.map(outside::as_yaml);
    api.into_client().request(request).await
}
