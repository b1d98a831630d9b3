//! Lists and watches objects whose kind is known only at run time.
//!
//! All kinds share this code, so that a project's own crate, which is compiled after each save, contains none for each
//! of its kinds.

use futures::StreamExt as _;
use futures::future::ready;
use futures::stream::BoxStream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::runtime::shard_selector::ShardSelector;
use crate::runtime::{pages, reflector};

/// An object as the API server sent it.
#[derive(Clone, Debug)]
pub(super) struct Untyped {
    pub(super) metadata: ObjectMeta,
    pub(super) value: Value,
}

impl<'de> Deserialize<'de> for Untyped {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let metadata = ObjectMeta::deserialize(&value["metadata"]).map_err(D::Error::custom)?;
        Ok(Untyped { metadata, value })
    }
}

/// The objects to list and watch.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) resource: ApiResource,
    /// The namespace; empty for all namespaces, and for cluster-scoped kinds.
    pub(super) namespace: String,
    /// Whether only the metadata is requested.
    pub(super) is_metadata: bool,
}

/// Lists and watches objects repeatedly, in a range that the client asks for.
pub(super) fn watch(
    client: &Client,
    target: &Target,
    config: watcher::Config,
    range: Option<ShardSelector>,
) -> BoxStream<'static, watcher::Result<Event<Untyped>>> {
    match target.is_metadata {
        true => pages_of::<true>(client, target, config, range),
        false => pages_of::<false>(client, target, config, range),
    }
}

fn pages_of<const METADATA: bool>(
    client: &Client,
    target: &Target,
    config: watcher::Config,
    range: Option<ShardSelector>,
) -> BoxStream<'static, watcher::Result<Event<Untyped>>> {
    let client = client.clone();
    let api: Api<Asked<METADATA>> = match &*target.namespace {
        "" => Api::all_with(client, &target.resource),
        namespace => Api::namespaced_with(client, namespace, &target.resource),
    };
    let events = pages::watch(api, config).within(range);
    events.filter_map(|event| ready(reflector::reduce(event, |asked| Some(asked.0)))).boxed()
}

/// An object that is requested as a whole, or as metadata only: kube decides that by the type.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
struct Asked<const METADATA: bool>(Untyped);

outside::dynamic_resource!([const METADATA: bool] Asked<METADATA>, METADATA, 0.metadata);

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::header::ACCEPT;
    use http::{Request, Response};
    use kube::client::Body;

    use super::*;
    use outside::sync::lock;

    #[tokio::test]
    async fn metadata_alone_is_asked_for_where_the_type_has_no_more() {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let log = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let accept = request.headers().get(ACCEPT).map(|value| value.to_str().unwrap_or_default().to_owned());
            lock(&log).push(accept.unwrap_or_default());
            ready(Ok::<_, Infallible>(Response::builder().status(500).body(Body::empty()).unwrap()))
        });
        let client = Client::new(service, "ns");
        let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
        for is_metadata in [true, false] {
            let target = Target { resource: resource.clone(), namespace: String::new(), is_metadata };
            let mut events = watch(&client, &target, watcher::Config::default(), None);
            while events.next().await.is_some_and(|event| event.is_ok()) {}
        }
        let asked = lock(&asked);
        let is_partial = |accept: &String| accept.contains("as=PartialObjectMetadataList");
        assert_eq!(asked.iter().map(is_partial).collect::<Vec<_>>(), [true, false], "{asked:?}");
    }
}
