//! Lists and watches objects whose kind is known only at run time.
//!
//! All kinds share this code, so that a project's own crate, which is compiled after each save, contains none for each
//! of its kinds.

use std::collections::BTreeMap;

use futures::stream::BoxStream;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use kube::api::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::runtime::reflector::WatchScope;
use crate::runtime::shard_selector::ShardSelector;
use crate::runtime::{pages, reflector};

/// An object as the API server sent it.
#[derive(Clone, Debug)]
pub(super) struct Untyped {
    pub(super) metadata: ObjectMeta,
    pub(super) contents: Contents,
}

/// The whole object.
#[derive(Clone, Debug)]
pub(super) enum Contents {
    Values(Value),
    /// Its text without its managed fields, because it nests more deeply than values may, or because its managed fields
    /// cannot be read.
    Text(String),
}

impl<'de> Deserialize<'de> for Untyped {
    /// Takes the object as text first: an error within it would end the whole list.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        read(text.get()).map_err(D::Error::custom)
    }
}

type Fields = BTreeMap<String, Box<RawValue>>;

fn read(text: &str) -> serde_json::Result<Untyped> {
    let Ok(value) = serde_json::from_str::<Value>(text) else { return read_leniently(text) };
    let Ok(metadata) = ObjectMeta::deserialize(&value["metadata"]) else { return read_leniently(text) };
    Ok(Untyped { metadata, contents: Contents::Values(value) })
}

/// Reads an object that nests more deeply than serde_json reads values, which is 127 levels, or whose managed fields
/// have a time after 9999-12-30, which Rust's type does not have. An API server accepts 10,000 levels, and such a time
/// from anyone who may write the object.
fn read_leniently(text: &str) -> serde_json::Result<Untyped> {
    let mut object: Fields = serde_json::from_str(text)?;
    let mut fields: Fields = serde_json::from_str(object.get("metadata").map_or("null", |metadata| metadata.get()))?;
    let managed = fields.remove("managedFields");
    let fields = to_raw_value(&fields)?;
    let mut metadata: ObjectMeta = serde_json::from_str(fields.get())?;
    metadata.managed_fields = managed.map(|managed| entries(&managed));
    object.insert("metadata".to_owned(), fields);
    Ok(Untyped { metadata, contents: Contents::Text(serde_json::to_string(&object)?) })
}

/// Returns the entries of the managed fields that can be read. They nest as deeply as what they describe.
fn entries(managed: &RawValue) -> Vec<ManagedFieldsEntry> {
    let entries: Vec<Box<RawValue>> = serde_json::from_str(managed.get()).unwrap_or_default();
    entries.iter().filter_map(|entry| serde_json::from_str(entry.get()).ok()).collect()
}

/// The objects to list and watch.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) resource: ApiResource,
    pub(super) scope: WatchScope,
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
    let api: Api<Asked<METADATA>> = target.scope.api(client, &target.resource);
    reflector::mapped(pages::watch(api, config).within(range), |asked| Some(asked.0))
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

    use futures::StreamExt as _;
    use futures::future::ready;
    use http::header::ACCEPT;
    use http::{Request, Response};
    use kube::api::{ObjectList, WatchEvent};
    use kube::client::Body;

    use super::*;
    use outside::sync::lock;

    #[test]
    fn a_deeply_nested_object_ends_neither_its_list_nor_its_watch() {
        let deep = format!("{}1{}", "{\"a\":".repeat(600), "}".repeat(600));
        let managed =
            format!(r#"[{{"manager":"x","fieldsV1":{deep}}},{{"manager":"y","fieldsV1":{{"f:spec":{{}}}}}}]"#);
        let metadata = format!(r#"{{"name":"a","uid":"u","resourceVersion":"7","managedFields":{managed}}}"#);
        let object = format!(r#"{{"metadata":{metadata},"spec":{deep}}}"#);
        let check = |read: &Untyped| {
            let ObjectMeta { name, uid, resource_version, managed_fields, .. } = &read.metadata;
            let managers: Vec<_> =
                managed_fields.iter().flatten().filter_map(|entry| entry.manager.as_deref()).collect();
            let read = (name.as_deref(), uid.as_deref(), resource_version.as_deref(), managers);
            assert_eq!(read, (Some("a"), Some("u"), Some("7"), vec!["y"]));
        };
        let list = format!(r#"{{"metadata":{{}},"items":[{object},{{"metadata":{{"name":"b"}}}}]}}"#);
        let list: ObjectList<Asked<false>> = serde_json::from_str(&list).unwrap();
        check(&list.items[0].0);
        assert_eq!(list.items[1].0.metadata.name.as_deref(), Some("b"));
        let event = format!(r#"{{"type":"ADDED","object":{{"metadata":{metadata}}}}}"#);
        let WatchEvent::Added(added) = serde_json::from_str::<WatchEvent<Asked<true>>>(&event).unwrap() else {
            panic!()
        };
        check(&added.0);
    }

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
            let target = Target { resource: resource.clone(), scope: WatchScope::ALL, is_metadata };
            let mut events = watch(&client, &target, watcher::Config::default(), None);
            while events.next().await.is_some_and(|event| event.is_ok()) {}
        }
        let asked = lock(&asked);
        let is_partial = |accept: &String| accept.contains("as=PartialObjectMetadataList");
        assert_eq!(asked.iter().map(is_partial).collect::<Vec<_>>(), [true, false], "{asked:?}");
    }
}
