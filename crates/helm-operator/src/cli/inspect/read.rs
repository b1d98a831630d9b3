//! Reads a release from the API server with the caller's own rights. What the caller may not read is named in the
//! answer, and everything else is still shown.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use controller::report::chain;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use helm_release::kube::{Api, Call, Error, Live, Mapper, ObjectKey, Resource, objects_of, read_within};
use helm_release::release::{Hook as RecordedHook, HookPhase};
use outside::sync::lock;
use serde_json::Value;

use super::records::Records;
use crate::inspect::hooks::hooks;
use crate::inspect::model::Container;
use crate::inspect::seen::{Seen, SeenObject, Sight};
use crate::reconcile::decide::health::can_explain;
use crate::reconcile::report::diagnose::{explains_itself, items, pod_selector};
use crate::reconcile::report::pods;
use crate::status::inventory::Inventory;
use crate::view::primary::Received;
use outside::group_of;

const AT_A_TIME: usize = 8;
/// How many pods, or other objects below one, are read.
const PAGE: usize = 50;
/// The maximum size of one answer about a single object, in bytes.
const MAX_BYTES: usize = 4 << 20;
/// How many lines and bytes of a log are read.
const LOG_LINES: usize = 5;
const LOG_BYTES: usize = 4096;
/// Maximum number of hooks whose objects are read.
const MAX_HOOKS: usize = 3;

/// Reads releases through one connection.
pub(super) struct Reader {
    pub(super) api: Arc<dyn Api>,
    pub(super) mapper: Mapper,
    /// What the server refused.
    hidden: Mutex<BTreeSet<String>>,
}

/// The part of a resource's status that the operator itself keeps nowhere.
#[derive(Default, serde::Deserialize)]
struct Listed {
    #[serde(default)]
    inventory: Inventory,
}

impl Reader {
    pub(super) fn new(api: Arc<dyn Api>) -> Reader {
        Reader { mapper: Mapper::new(api.clone()), api, hidden: Mutex::default() }
    }

    /// Reads one resource; `None` if it does not exist.
    pub(super) async fn resource(&self, of: &Resource, namespace: &str, name: &str) -> Result<Option<Received>, Error> {
        match read_within(&*self.api, Call::get(of.path(namespace, name)?), MAX_BYTES).await {
            Ok(answer) => answer.parse().map(Some),
            Err(error) if error.is_missing_object() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists the resources of a kind, in one namespace or, if that is empty, in all.
    pub(super) async fn resources(&self, of: &Resource, namespace: &str) -> Result<Vec<Received>, Error> {
        let (mut pages, mut all) = (outside::pages(&*self.api, Call::get(of.collection(namespace)?)), Vec::new());
        while let Some(page) = pages.try_next().await? {
            let items = named(page, &of.api_version, &of.kind).into_iter();
            let read = items.map(|item| serde_json::from_value(item).map_err(Error::Json));
            all.extend(read.collect::<Result<Vec<Received>, Error>>()?);
        }
        Ok(all)
    }

    /// Reads what belongs to a resource's release.
    pub(super) async fn release(&self, resource: Received, records: &Records) -> Seen {
        lock(&self.hidden).clear();
        let status = resource.status.as_deref().map_or("null", |status| status.get());
        let listed: Listed = serde_json::from_str(status).unwrap_or_default();
        let (mut objects, omitted) = listed.inventory.objects();
        let newest = self.note(records.newest(&*self.api).await, &records.what()).flatten();
        if objects.is_empty() {
            objects = newest.as_ref().map(|newest| newest.objects.clone()).unwrap_or_default();
        }
        let record = match &newest {
            Some(newest) => self.note(records.read(newest.version).await, &records.what()),
            None => None,
        };
        let recorded = record.as_ref().map(|(record, _)| &*record.hooks).unwrap_or_default();
        let primary = &resource.primary;
        let is_namespaced = !primary.namespace().is_empty();
        let events = if is_namespaced { primary.namespace() } else { "default" };
        let events = self.events(events, primary.uid()).await.unwrap_or_default();
        let (objects, hook_objects) =
            (self.look_at(objects).await, self.look_at(hook_keys(recorded, records.namespace())).await);
        Seen {
            objects,
            omitted,
            hooks: hooks(recorded),
            hook_objects,
            events,
            hidden: lock(&self.hidden).iter().cloned().collect(),
            resource,
        }
    }

    /// Reads the end of a container's log; empty if the caller may not.
    pub(super) async fn log(&self, of: &Container) -> Vec<String> {
        let Container { namespace, pod, container, previous } = of;
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}&tailLines={LOG_LINES}&limitBytes={LOG_BYTES}&previous={previous}"
        );
        let answer = read_within(&*self.api, Call::get(path), LOG_BYTES * 2).await.ok();
        let text = answer.map(|answer| String::from_utf8_lossy(&answer.body).into_owned()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn look_at(&self, objects: Vec<(ObjectKey, String)>) -> Vec<SeenObject> {
        stream::iter(objects).map(|(key, version)| self.object(key, version)).buffered(AT_A_TIME).collect().await
    }

    async fn object(&self, key: ObjectKey, api_version: String) -> SeenObject {
        let mut seen = SeenObject { key, sight: Sight::Hidden, owners: Vec::new(), pods: Vec::new(), event: None };
        let Some(whole) = self.whole(&mut seen, &api_version).await else { return seen };
        let Ok(live) = serde_json::from_value::<Live>(whole.clone()) else { return seen };
        let (group, kind) = (seen.key.group.clone(), seen.key.kind.clone());
        let is_unready = live.unready(&group, &kind).is_some();
        seen.sight = Sight::Live(Box::new(live));
        match (&*group, &*kind) {
            ("", "Pod") => seen.pods = vec![whole.clone()],
            ("batch", "CronJob") => self.jobs(&mut seen).await,
            ("", "PersistentVolumeClaim" | "Service") => {}
            _ if can_explain(&group, &kind) => self.pods(&mut seen, &whole).await,
            _ => {}
        }
        if is_unready && can_explain(&group, &kind) {
            seen.event = self.explanation(&seen, &whole).await;
        }
        seen
    }

    /// Reads an object, or only its metadata if it may hold data, as Secrets and ConfigMaps do.
    async fn whole(&self, seen: &mut SeenObject, api_version: &str) -> Option<Value> {
        let key = &seen.key;
        let resource = match self.mapper.any_version(api_version, &key.kind).await {
            Ok(resource) => resource,
            Err(error) => return self.note(Err(error), &format!("{key}")),
        };
        let path = resource.path(&key.namespace, &key.name).ok()?;
        let holds_data = key.group.is_empty() && ["ConfigMap", "Secret"].contains(&&*key.kind);
        let call = if holds_data { Call::metadata(path) } else { Call::get(path) };
        match read_within(&*self.api, call, MAX_BYTES).await.and_then(|answer| answer.parse()) {
            Ok(whole) => Some(whole),
            Err(error) if error.is_missing_object() => {
                seen.sight = Sight::Missing;
                None
            }
            Err(error) => self.note(Err(error), &within(&resource.full_name(), &key.namespace)),
        }
    }

    async fn pods(&self, seen: &mut SeenObject, workload: &Value) {
        let Some(selector) = pod_selector(workload) else { return };
        let namespace = seen.key.namespace.to_string();
        if *seen.key.kind == *"Deployment" {
            let found = self.list("apis/apps/v1", "replicasets", &namespace, &selector).await;
            seen.owners = named(found, "apps/v1", "ReplicaSet");
        }
        seen.pods = self.list("api/v1", "pods", &namespace, &selector).await;
    }

    /// Reads the Jobs of a CronJob, and their pods.
    async fn jobs(&self, seen: &mut SeenObject) {
        let Sight::Live(live) = &seen.sight else { return };
        let (uid, namespace) = (live.metadata.uid.clone().unwrap_or_default(), seen.key.namespace.to_string());
        let is_its = |job: &Value| job["metadata"]["ownerReferences"][0]["uid"] == *uid;
        let jobs = self.list("apis/batch/v1", "jobs", &namespace, "").await.into_iter().filter(is_its).collect();
        seen.owners = named(jobs, "batch/v1", "Job");
        let Some(newest) = seen.owners.last().and_then(|job| job["metadata"]["name"].as_str()) else { return };
        seen.pods = self.list("api/v1", "pods", &namespace, &format!("job-name={newest}")).await;
    }

    async fn list(&self, version: &str, plural: &str, namespace: &str, selector: &str) -> Vec<Value> {
        let selector = selector.replace(' ', "%20");
        let path = format!("/{version}/namespaces/{namespace}/{plural}?labelSelector={selector}&limit={PAGE}");
        let answer = read_within(&*self.api, Call::get(path), MAX_BYTES).await.and_then(|answer| answer.parse());
        self.note(answer, &within(plural, namespace)).and_then(items).unwrap_or_default()
    }

    /// Returns the newest event that explains why an object is not ready, if its pods and conditions do not.
    async fn explanation(&self, seen: &SeenObject, whole: &Value) -> Option<String> {
        let uid = match pods::culprit(&seen.pods) {
            Some(culprit) if !culprit.ask => return None,
            Some(culprit) => culprit.uid,
            None if explains_itself(&seen.key.kind) => return None,
            None => whole.pointer("/metadata/uid")?.as_str()?.to_owned(),
        };
        pods::event(&self.events(&seen.key.namespace, &uid).await?)
    }

    async fn events(&self, namespace: &str, uid: &str) -> Option<Vec<Value>> {
        let path = format!("/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid={uid}&limit={PAGE}");
        let answer = read_within(&*self.api, Call::get(path), MAX_BYTES).await.and_then(|answer| answer.parse());
        self.note(answer, &within("events", namespace)).and_then(items)
    }

    /// Returns what was read, and remembers what could not be.
    fn note<T, E: std::error::Error + 'static>(&self, answer: Result<T, E>, what: &str) -> Option<T> {
        match answer {
            Ok(read) => Some(read),
            Err(error) => {
                let why = chain(&error);
                // A `forbidden` response only repeats what was being read.
                let why = if why.contains("forbidden") { String::new() } else { format!(" ({why})") };
                lock(&self.hidden).insert(format!("{what}{why}"));
                None
            }
        }
    }
}

fn within(plural: &str, namespace: &str) -> String {
    if namespace.is_empty() { plural.to_owned() } else { format!("{plural} in namespace {namespace:?}") }
}

/// Adds what the items of a list lack.
fn named(mut items: Vec<Value>, api_version: &str, kind: &str) -> Vec<Value> {
    for item in &mut items {
        (item["apiVersion"], item["kind"]) = (api_version.into(), kind.into());
    }
    items
}

/// Returns the objects of the hooks that did not succeed.
fn hook_keys(hooks: &[RecordedHook], namespace: &str) -> Vec<(ObjectKey, String)> {
    let is_open = |hook: &&RecordedHook| !matches!(hook.last_run.phase, HookPhase::Succeeded | HookPhase::NotRun);
    let key = |hook: &RecordedHook| {
        let object = objects_of(&hook.manifest).ok()?.into_iter().next()?;
        let group = group_of(&object.api_version);
        let own = object.namespace.as_deref().unwrap_or(namespace);
        Some((ObjectKey::new(group, &object.kind, own, &object.name), object.api_version.clone()))
    };
    hooks.iter().filter(is_open).filter_map(key).take(MAX_HOOKS).collect()
}
