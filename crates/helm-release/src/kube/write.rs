//! Writes one object of a release: by server-side apply, and as a client would if that alone is refused.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::api::{Call, Error};
use super::apply::{Applier, Existing, Seen, bytes};
use super::client_side::{LastApplied, Merged};
use super::migrate::migrated_managers;
use super::refusal::Nature;
use super::{Decoration, FIELD_MANAGER, Live, Object, ObjectKey, Resource, unowned};

/// How long new fields of a definition are waited for, in milliseconds: some three seconds, for a moment is enough for one server, and more may serve.
const PAUSES: [u64; 6] = [50, 100, 200, 400, 800, 1600];

/// Which way objects are written: `apply` in watches.yaml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// By server-side apply; as a client those that it refuses for good.
    #[default]
    Auto,
    /// By server-side apply only.
    Server,
    /// As a client only.
    Client,
}

/// Which way an object was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// By server-side apply, or never.
    Apply,
    /// As a client.
    Client {
        /// Whether the chart says something else of it now, which server-side apply may take.
        changed: bool,
    },
}

/// Which way an object was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// By server-side apply.
    Server,
    /// As a client: a create or a three-way merge.
    Client {
        /// What server-side apply said of it, if it was tried.
        refused: Option<String>,
    },
}

/// What a write left.
pub(super) struct Written {
    pub(super) live: Live,
    pub(super) way: Way,
    pub(super) changed: bool,
}

impl Written {
    fn by_client(merged: Merged, refused: Option<String>) -> Written {
        Written { live: merged.live, way: Way::Client { refused }, changed: merged.changed }
    }
}

/// How the objects of a release are written.
#[derive(Clone, Copy)]
pub struct Writing<'a> {
    /// What is added to them.
    pub decoration: &'a Decoration,
    /// Which way.
    pub policy: Policy,
    /// What the deployed revision says of them.
    pub last: &'a dyn LastApplied,
    /// The definitions of custom resources that are applied before them.
    pub definitions: &'a [&'a Object],
}

impl<'a> Writing<'a> {
    /// Objects that are written over what `last` says, without definitions of their kinds.
    pub fn new(decoration: &'a Decoration, policy: Policy, last: &'a dyn LastApplied) -> Writing<'a> {
        Writing { decoration, policy, last, definitions: &[] }
    }

    fn defines(&self, resource: &Resource) -> bool {
        let is_of = |spec: &Value| spec["group"] == resource.group() && spec["names"]["kind"] == *resource.kind;
        self.definitions.iter().any(|definition| is_of(&definition.body["spec"]))
    }

    fn is_as_client(&self, before: Before) -> bool {
        match self.policy {
            Policy::Auto => before == Before::Client { changed: false },
            Policy::Server => false,
            Policy::Client => true,
        }
    }

    /// Whether the fields that we wrote as a client become those of an apply: their entry has to be read.
    pub(super) fn moves_back(&self, before: Before) -> bool {
        before != Before::Apply && !self.is_as_client(before)
    }
}

/// An object on its way to the server.
pub(super) struct Body {
    pub(super) resource: Arc<Resource>,
    pub(super) key: ObjectKey,
    pub(super) path: String,
    pub(super) json: Value,
}

impl Applier {
    /// Writes the object over what was seen. A conflict says that something else is there by now.
    pub(super) async fn write(
        &self,
        body: &Body,
        seen: &Seen,
        before: Before,
        writing: &Writing<'_>,
    ) -> Result<Written, Error> {
        if writing.is_as_client(before) {
            return Ok(Written::by_client(self.write_as_client(body, seen, writing).await?, None));
        }
        let refused = match self.write_once_defined(body, seen, before, writing).await {
            Ok(live) => return Ok(Written { live, way: Way::Server, changed: true }),
            Err(error) if writing.policy == Policy::Auto && error.may_suit_a_client() => error,
            Err(error) => return Err(error),
        };
        match self.write_as_client(body, seen, writing).await {
            Ok(merged) => Ok(Written::by_client(merged, Some(refused.to_string()))),
            // Both say no: what server-side apply says names the field.
            Err(error) if error.nature() == Nature::Permanent && !error.is_conflict() => Err(refused),
            Err(error) => Err(error),
        }
    }

    /// Applies; again and again for a moment if the kind's definition has just been applied, for the server learns new fields a moment after
    /// it took them, and a client's write would lose them.
    async fn write_once_defined(
        &self,
        body: &Body,
        seen: &Seen,
        before: Before,
        writing: &Writing<'_>,
    ) -> Result<Live, Error> {
        let is_new = writing.defines(&body.resource);
        for pause in PAUSES.into_iter().filter(|_| is_new) {
            match self.write_by_apply(body, seen, before).await {
                Err(error) if error.is_undeclared() => tokio::time::sleep(Duration::from_millis(pause)).await,
                answer => return answer,
            }
        }
        self.write_by_apply(body, seen, before).await
    }

    /// Asks server-side apply what it says of an object, without writing it.
    pub(super) async fn dry_run(&self, body: &Body) -> Result<(), Error> {
        self.send_apply(&format!("{}?dryRun=All&", body.path), &body.json).await.map(|_| ())
    }

    async fn write_by_apply(&self, body: &Body, seen: &Seen, before: Before) -> Result<Live, Error> {
        match seen {
            Seen::Unknown | Seen::Absent => self.create(&body.path, &body.json).await,
            Seen::Ours { uid } => self.force_over_defaults(body, uid).await,
            Seen::Read(existing) => {
                if before != Before::Apply {
                    // Its fields stay a client's unless the server would take the apply.
                    self.force(&format!("{}?dryRun=All&", body.path), &body.json, &existing.uid).await?;
                }
                self.take_over(body, existing).await
            }
        }
    }

    /// Applies to the object of this uid; if there is none, or another, that is a conflict.
    async fn force(&self, path: &str, json: &Value, uid: &str) -> Result<Live, Error> {
        let mut json = json.clone();
        json["metadata"]["uid"] = uid.into();
        self.send_apply(path, &json).await
    }

    /// Creates by apply: no object has resource version 1, so one that exists is a conflict and is left alone.
    pub(super) async fn create(&self, path: &str, json: &Value) -> Result<Live, Error> {
        let mut json = json.clone();
        json["metadata"]["resourceVersion"] = "1".into();
        self.send_apply(&format!("{path}?"), &json).await
    }

    async fn send_apply(&self, path: &str, json: &Value) -> Result<Live, Error> {
        let path = format!("{path}fieldManager={FIELD_MANAGER}&force=true");
        self.api.send(Call::apply(path, bytes(json))).await?.parse()
    }

    /// Turns a client-side manager's fields into ours, then applies.
    async fn take_over(&self, body: &Body, existing: &Existing) -> Result<Live, Error> {
        if let Some(managers) = migrated_managers(&existing.managed_fields) {
            self.set_managers(body, &managers, &existing.resource_version).await?;
        }
        self.force_over_defaults(body, &existing.uid).await
    }

    /// Applies; where an unowned server default is in the way, makes it ours and applies again, which drops it.
    async fn force_over_defaults(&self, body: &Body, uid: &str) -> Result<Live, Error> {
        let path = format!("{}?", body.path);
        match self.force(&path, &body.json, uid).await {
            Err(error) if self.claim_defaults(body, &error).await => self.force(&path, &body.json, uid).await,
            answer => answer,
        }
    }

    /// Returns whether there were defaults to claim. What fails here leaves the refusal as it is.
    async fn claim_defaults(&self, body: &Body, refused: &Error) -> bool {
        if refused.fields().is_empty() {
            return false;
        }
        let live = self.api.send(Call::get(&body.path)).await.and_then(|answer| answer.parse::<Value>());
        let Ok(live) = live else { return false };
        let version = live["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        match unowned::with_defaults(&live, &body.json, refused.fields()) {
            Some(managers) => self.set_managers(body, &managers, version).await.is_ok(),
            None => false,
        }
    }

    async fn set_managers(&self, body: &Body, managers: &Value, resource_version: &str) -> Result<(), Error> {
        let patch = json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": managers},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version},
        ]);
        self.api.send(Call::json_patch(&body.path, bytes(&patch))).await.map(|_| ())
    }
}
