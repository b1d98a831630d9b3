//! Keeps the API server's configuration current: by watches, on the leader alone. Replaces certificates in time.

use std::collections::HashMap;
use std::future::pending;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ApiResource, Patch, PatchParams, PostParams};
use kube::core::{DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::certificate::{Certificate, Step, Stored};
use super::configuration::{
    Object, Wanted, converter, exchange, is_current, objects, other_address, other_form, wanted,
};
use super::disputes::{Author, Disputes};
use super::follow::Certificates;
use super::inherited::Inherited;
use super::registry::Webhooks;
use super::settings::Replicas;
use crate::client;
use crate::context::Context;
use crate::reconciler::{Controller, Error};
use crate::report::{Outcome, chain};
use crate::rights::Need;
use crate::runtime::{backoff, pages};

/// The controller of the API server's configuration.
pub(crate) struct Publisher {
    pub(crate) webhooks: Webhooks,
    pub(crate) certificates: Certificates,
    pub(crate) replicas: Replicas,
}

impl Controller for Publisher {
    fn name(&self) -> &str {
        "webhooks"
    }

    fn run(self: Box<Self>, context: Context) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(async move {
            let shutdown = context.shutdown.clone();
            let mut publishing = Publishing::new(*self, context);
            tokio::select! {
                () = publishing.run() => {}
                () = shutdown.cancelled() => {}
            }
            publishing.remove_own().await;
            Ok(())
        })
    }
}

struct Publishing {
    webhooks: Webhooks,
    certificates: Certificates,
    replicas: Replicas,
    context: Context,
    /// The objects as last seen.
    live: HashMap<Object, DynamicObject>,
    /// The objects that have not been listed, and why; `None` before the first answer.
    unlisted: HashMap<Object, Option<String>>,
    /// The Services that converted the objects of definitions before this process entered its URL.
    replaced: HashMap<Object, Value>,
    /// The authorities that were published before.
    inherited: Inherited,
    /// The bundle that all objects have, and since when.
    trusted: Option<(String, Instant)>,
    disputes: Disputes,
    failures: u32,
    /// The last reported problem; empty if there is none.
    last: String,
    /// The last reported objects that do not exist.
    missing: String,
}

/// The reason if another operator maintains the same configuration.
const DISPUTED: &str = "WebhookConfigurationDisputed";

/// What the watch of an object reports.
enum Change {
    Is(Box<DynamicObject>),
    Gone,
    Listed,
    /// The list or the watch failed.
    Failed(String),
}

impl Publishing {
    fn new(publisher: Publisher, context: Context) -> Publishing {
        let Publisher { webhooks, certificates, replicas } = publisher;
        let unlisted = objects(&webhooks, &certificates.place).into_iter().map(|object| (object, None)).collect();
        Publishing {
            webhooks,
            certificates,
            replicas,
            context,
            live: HashMap::new(),
            unlisted,
            replaced: HashMap::new(),
            inherited: Inherited::default(),
            trusted: None,
            disputes: Disputes::default(),
            failures: 0,
            last: String::new(),
            missing: String::new(),
        }
    }

    fn api(&self, object: &Object) -> Api<DynamicObject> {
        api(self.context.client.clone(), object)
    }

    /// Reports the permissions that the process lacks.
    async fn check_rights(&self) {
        let place = &self.certificates.place;
        let (all, secret) = (objects(&self.webhooks, place), place.secret());
        let need = |object: &'_ Object| (object.group(), object.plural(), object.name().to_owned());
        let named: Vec<_> = all.iter().map(need).collect();
        let verbs = &["get", "list", "watch", "patch"];
        let mut needs: Vec<Need<'_>> = named
            .iter()
            .map(|(group, resource, name)| Need { group, resource, verbs, name: Some(name), namespace: None })
            .collect();
        if let Some(namespace) = place.namespace.as_deref().filter(|_| self.certificates.keeps_secret()) {
            let namespace = Some(namespace);
            let verbs = &["get", "list", "watch", "update"];
            needs.push(Need { group: "", resource: "secrets", verbs, name: Some(&secret), namespace });
            needs.push(Need { group: "", resource: "secrets", verbs: &["create"], name: None, namespace });
        }
        self.context.rights.check(&needs, "webhooks").await;
    }

    /// Publishes, after every change of an object or of the certificates, once each list was answered. Never returns.
    async fn run(&mut self) {
        self.check_rights().await;
        let (mut trusted, mut made) = (self.certificates.trusted.subscribe(), self.certificates.made.subscribe());
        let all = objects(&self.webhooks, &self.certificates.place);
        let mut changes: SelectAll<_> = all.into_iter().map(|object| watch(self.api(&object), object)).collect();
        loop {
            trusted.borrow_and_update();
            made.borrow_and_update();
            let is_answered = self.unlisted.values().all(Option::is_some);
            let next = if is_answered { self.act().await } else { None };
            let timer = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                change = changes.next() => match change {
                    None => return pending().await,
                    Some((object, change)) => self.take(object, change),
                },
                _ = trusted.changed() => {}
                _ = made.changed() => {}
                () = timer => {}
            }
        }
    }

    /// Records what the watch of an object says.
    fn take(&mut self, object: Object, change: Change) {
        match change {
            Change::Is(live) => _ = self.live.insert(object, *live),
            Change::Gone => _ = self.live.remove(&object),
            Change::Listed => _ = self.unlisted.remove(&object),
            // What was listed before stays known.
            Change::Failed(why) => {
                if let Some(unlisted) = self.unlisted.get_mut(&object) {
                    *unlisted = Some(why);
                }
            }
        }
    }

    /// Publishes and rotates what is due. Returns when to do so again if nothing changes before.
    async fn act(&mut self) -> Option<Instant> {
        let own = self.certificates.trusted.borrow().clone()?;
        let bundle = self.bundle(own);
        let (due, mut errors) = self.publish(&bundle).await;
        // Rotates even if publishing failed: with an expired certificate, no webhook works.
        let step = match self.rotate(&bundle).await {
            Ok(wait) => wait.map(|wait| Instant::now() + wait),
            Err(error) => {
                errors.push(error);
                None
            }
        };
        self.failures = if errors.is_empty() { 0 } else { self.failures.saturating_add(1) };
        let again = (self.failures > 0).then(|| Instant::now() + backoff::wait(self.failures));
        report(&mut self.last, errors.join("; "));
        [due, step, again].into_iter().flatten().min()
    }

    /// Returns what to publish. Other replicas may still serve the previous files of a user.
    fn bundle(&mut self, own: String) -> String {
        if !self.certificates.are_files() {
            return own;
        }
        let (live, unlisted, place) = (&self.live, &self.unlisted, &self.certificates.place);
        let listed = objects(&self.webhooks, place).into_iter().filter(|object| !unlisted.contains_key(object));
        let listed = listed.map(|object| {
            let live = live.get(&object).map(|live| &live.data);
            (object, live.filter(|live| other_address(live, place).is_none()))
        });
        self.inherited.beside(own, listed)
    }

    /// Makes all existing objects current, with these certificates to trust. Returns when to apply again the objects
    /// that are left to another process until then, and why others could not be applied.
    async fn publish(&mut self, bundle: &str) -> (Option<Instant>, Vec<String>) {
        let given = Some(bundle).filter(|bundle| !bundle.is_empty());
        let (mut missing, mut errors, mut due) = (Vec::new(), Vec::new(), None::<Instant>);
        for Wanted { object, content } in wanted(&self.webhooks, &self.certificates.place, given) {
            let is_empty = content["webhooks"].as_array().is_some_and(Vec::is_empty);
            if let Some(Some(why)) = self.unlisted.get(&object) {
                if is_empty {
                    // Nothing in it needs the bundle. The role of a process without such webhooks may lack it.
                    continue;
                }
                // Whether it exists, and with which bundle, is unknown.
                self.trusted = None;
                errors.push(format!("cannot read {} {}: {why}", object.kind(), object.name()));
                continue;
            }
            let live = self.live.get(&object);
            let other = live.and_then(|live| other_address(&live.data, &self.certificates.place));
            // Without admission webhooks, the process may share its name with one that has some.
            let is_others = other.is_some() && is_empty && !self.webhooks.has_admission();
            let is_done = live.map_or(is_empty, |live| is_current(&live.data, &content));
            if is_done || is_others {
                self.disputes.is_current(&object);
                continue;
            }
            let may_create = self.certificates.place.url.is_some() && !matches!(object, Object::Definition(_));
            if live.is_none() && !may_create {
                // The API server calls no webhook for it, so it needs no bundle.
                missing.push(format!("{} {}", object.kind(), object.name()));
                continue;
            }
            // The API server does not have the bundle.
            self.trusted = None;
            let uid = live.and_then(|live| live.uid());
            let author = if other.is_some() { Author::Operator } else { Author::Other };
            if let Some(until) = self.disputes.pause(&object, &content, author) {
                other.into_iter().for_each(|other| self.report_dispute(&object, &other));
                due = due.into_iter().chain([until]).min();
                continue;
            }
            match self.write(&object, uid, &content).await {
                Ok(applied) => {
                    self.disputes.applied(&object, content);
                    self.live.insert(object, applied);
                }
                Err(error) => errors.push(error),
            }
        }
        let advice = |missing: String| format!("there is no {missing}: apply config/crd and config/webhook");
        let missing = (!missing.is_empty()).then(|| advice(missing.join(", no ")));
        report(&mut self.missing, missing.unwrap_or_default());
        let is_published = due.is_none() && errors.is_empty();
        if is_published && self.trusted.as_ref().is_none_or(|(known, _)| known != bundle) {
            self.trusted = Some((bundle.to_owned(), Instant::now()));
        }
        (due, errors)
    }

    /// Reports an operator at another address that keeps the same object, once.
    fn report_dispute(&mut self, object: &Object, other: &str) {
        if !self.disputes.is_new(object) {
            return;
        }
        let advice = match object {
            Object::Definition(_) => "stop one of them, because a kind has one conversion",
            _ => "set another --webhook-name for one of them",
        };
        let message = format!("{other} also keeps {} {}: {advice}", object.kind(), object.name());
        tracing::error!(reason = DISPUTED, error = message, "Another operator replaces the configuration of webhooks");
        self.context.publish(Outcome::warning(DISPUTED, "Publish", message));
    }

    /// Makes an object contain what it must.
    async fn write(&mut self, object: &Object, uid: Option<String>, content: &Value) -> Result<DynamicObject, String> {
        let live = self.live.get(object);
        let Some(before) = live.and_then(|live| other_form(&live.data, content)).cloned() else {
            return self.apply(object, uid, content.clone()).await;
        };
        let written = self.exchange(object, converter(content)).await?;
        self.replaced.insert(object.clone(), before);
        Ok(written)
    }

    /// Replaces the client that converts a definition's objects, whoever owns its address.
    async fn exchange(&self, object: &Object, client: &Value) -> Result<DynamicObject, String> {
        let params = PatchParams::apply(&self.certificates.place.name);
        updated(object, self.api(object).patch(object.name(), &params, &Patch::Merge(exchange(client))).await)
    }

    /// Applies an object. With a uid, the apply does not re-create an object that was deleted in the meantime.
    async fn apply(&self, object: &Object, uid: Option<String>, mut content: Value) -> Result<DynamicObject, String> {
        let name = object.name();
        content["apiVersion"] = format!("{}/v1", object.group()).into();
        content["kind"] = object.kind().into();
        content["metadata"] = json!({"name": name});
        if let Some(uid) = uid {
            content["metadata"]["uid"] = uid.into();
        }
        let params = PatchParams::apply(&self.certificates.place.name).force();
        updated(object, client::apply(self.api(object), (name, ""), &params, &content).await)
    }

    /// Replaces the certificate that the process makes, in steps. Returns when the next one is due.
    async fn rotate(&mut self, bundle: &str) -> Result<Option<Duration>, String> {
        let made = self.certificates.made.borrow().clone();
        let (Some(stored), Some(namespace)) = (made, self.certificates.place.namespace.clone()) else {
            return Ok(None);
        };
        let is_published = stored.bundle() == bundle;
        let since = self.trusted.as_ref().filter(|_| is_published).map(|(_, since)| since.elapsed());
        let (hosts, now) = (self.certificates.place.hosts(), outside::now());
        let next = match stored.step(&hosts, now, (since, self.certificates.settle)) {
            Step::Wait(wait) => return Ok(Some(wait)),
            Step::Prepare => stored.prepared(Certificate::make(&hosts, now).map_err(|error| chain(&error))?),
            Step::Promote => stored.promoted(),
        };
        self.store(&namespace, &next).await?;
        Ok(None)
    }

    /// Writes the Secret. All replicas, this one included, read it from their watches.
    async fn store(&self, namespace: &str, next: &Stored) -> Result<(), String> {
        let name = self.certificates.place.secret();
        let secrets: Api<Secret> = Api::namespaced(self.context.client.clone(), namespace);
        let failed = |why: String| format!("Secret {namespace}/{name}: {why}");
        let mut secret = secrets.get(&name).await.map_err(|error| failed(chain(&error)))?;
        next.write_to(&mut secret).map_err(|error| failed(chain(&error)))?;
        secrets.replace(&name, &PostParams::default(), &secret).await.map_err(|error| failed(chain(&error)))?;
        let what = if next.next.is_some() { "next certificate, to be trusted" } else { "new certificate" };
        tracing::info!(namespace, secret = name, "Stored the {what} of webhooks");
        Ok(())
    }

    /// Empties the configurations that name this process itself rather than a Service or all replicas: after it stops,
    /// no one answers there. Definitions return to the earlier Service, because applying one with a Service would not
    /// remove the URL.
    async fn remove_own(&self) {
        let place = &self.certificates.place;
        if !place.ends_with_process(self.replicas) {
            return;
        }
        for (object, live) in self.live.iter().filter(|(_, live)| other_address(&live.data, place).is_none()) {
            let removed = match (object, self.replaced.get(object)) {
                (Object::Validating(_) | Object::Mutating(_), _) => {
                    self.apply(object, live.uid(), json!({"webhooks": []})).await
                }
                (Object::Definition(_), Some(before)) => self.exchange(object, before).await,
                (Object::Definition(_), None) => continue,
            };
            if let Err(error) = removed {
                tracing::warn!(error, "Cannot remove this process from the configuration of webhooks");
            }
        }
    }
}

/// Logs that an object was updated, or adds its name to the error.
fn updated(object: &Object, written: kube::Result<DynamicObject>) -> Result<DynamicObject, String> {
    let (kind, name) = (object.kind(), object.name());
    let written = written.map_err(|error| format!("{kind} {name}: {}", chain(&error)))?;
    tracing::info!(kind, name, "Updated the configuration of webhooks");
    Ok(written)
}

/// Logs an error, unless it is empty or was the last one.
fn report(last: &mut String, error: String) {
    if *last != error {
        if !error.is_empty() {
            tracing::error!(error, "Cannot keep the configuration of webhooks current");
        }
        *last = error;
    }
}

/// Returns the requests about an object.
pub(super) fn api(client: Client, object: &Object) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(object.group(), "v1", object.kind());
    let resource = ApiResource::from_gvk_with_plural(&kind, object.plural());
    Api::all_with(client, &resource)
}

fn watch(api: Api<DynamicObject>, object: Object) -> BoxStream<'static, (Object, Change)> {
    let only = watcher::Config::default().fields(&format!("metadata.name={}", object.name()));
    let (mut is_there, mut last) = (false, String::new());
    let changes = pages::watch(api, only).map_err(|error| chain(&error)).map(move |event| {
        let changes = match event {
            Ok(Event::Init) => {
                is_there = false;
                Vec::new()
            }
            Ok(Event::InitApply(live) | Event::Apply(live)) => {
                is_there = true;
                vec![Change::Is(Box::new(live))]
            }
            Ok(Event::Delete(_)) => vec![Change::Gone],
            Ok(Event::InitDone) => {
                let gone = (!is_there).then_some(Change::Gone);
                gone.into_iter().chain([Change::Listed]).collect()
            }
            Err(error) if last == error => Vec::new(),
            Err(error) => {
                let (kind, name) = (object.kind(), object.name());
                tracing::error!(kind, name, error, "Cannot watch the configuration");
                last.clone_from(&error);
                vec![Change::Failed(error)]
            }
        };
        changes.into_iter().map(|change| (object.clone(), change)).collect::<Vec<_>>()
    });
    changes.map(futures::stream::iter).flatten().boxed()
}
