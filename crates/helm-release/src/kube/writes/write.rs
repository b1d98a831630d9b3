//! Writes one object of a release: by server-side apply, or client-side if only apply rejects it.

use std::sync::Arc;
use std::time::Duration;

use outside::{Call, Error, Response};
use serde_json::{Map, Value, json};

use crate::kube::fields::handover::hand_over;
use crate::kube::fields::migrate::migrated_managers;
use crate::kube::fields::unapplied::as_unapplied;
use crate::kube::fields::{replaced, unowned};
use crate::kube::kinds::resource::Resource;
use crate::kube::live_state::live::{Live, Proven};
use crate::kube::objects::decorate::{Decoration, FIELD_MANAGER, Tie};
use crate::kube::objects::object::{Object, ObjectKey};
use crate::kube::objects::pointer::Pointer;
use crate::kube::objects::rules::ObjectRule;
use crate::kube::waiting::slot::Slot;
use crate::kube::writes::apply::{Applier, ApplyError, bytes};
use crate::kube::writes::autoscaler::has_replicas;
use crate::kube::writes::client_side::{MergeBases, Merged, changed};
use crate::kube::writes::found::{Existing, Found};
use crate::kube::writes::recreate::Deletions;

/// Retry delays in milliseconds, about three seconds in total, until every API server knows the new fields of a
/// definition.
const PAUSES: [u64; 6] = [50, 100, 200, 400, 800, 1600];

/// How objects are written: `apply` in watches.yaml.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// By server-side apply; client-side where the server permanently rejects an apply.
    #[default]
    Auto,
    /// By server-side apply only.
    Server,
    /// Client-side only.
    Client,
}

/// How an object was last written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Previous {
    /// By server-side apply, or never.
    Apply,
    Client {
        /// Whether the chart's object has changed since then, so that server-side apply may accept it.
        changed: bool,
    },
}

/// How an object was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyMethod {
    /// By server-side apply.
    Server,
    /// Client-side: by a create or a three-way merge.
    Client {
        /// Why server-side apply rejected it, if it was tried.
        refused: Option<String>,
    },
}

/// The result of a write.
pub(in crate::kube) struct Written {
    pub(in crate::kube) live: Live,
    pub(in crate::kube) method: ApplyMethod,
    /// Whether the object differs from the observed one.
    pub(in crate::kube) changed: bool,
}

impl Written {
    fn client_side(merged: Merged, refused: Option<String>) -> Written {
        Written { live: merged.live, method: ApplyMethod::Client { refused }, changed: merged.changed }
    }
}

/// How to treat an object that the server refuses to change and that the chart has not changed since it was applied.
/// Something else, such as a webhook, sets its immutable fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unchanged {
    /// Its write is an error.
    Refused,
    /// It stays as it is, and counts as applied.
    Left,
}

/// How to treat the remaining objects after one that cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// Objects of later kinds may need it, so they are not written.
    Stop,
    /// They are written, unless contact with the server is lost: then objects of later kinds are not.
    Continue,
}

/// How to write the objects of a release.
#[derive(Clone, Copy)]
pub(crate) struct WriteOptions<'a> {
    /// The metadata added to each object.
    pub decoration: &'a Decoration,
    /// The user's choice of method.
    pub policy: Policy,
    /// What earlier revisions may have applied, for three-way merges.
    pub bases: &'a dyn MergeBases,
    /// Custom resource definitions that are applied in the same action.
    pub definitions: &'a [&'a Object],
    /// Objects that may be deleted and recreated, besides those with an annotation that says so.
    pub recreate: &'a [ObjectRule],
    /// Records which unfinished objects are deleted in order to recreate them.
    pub deletions: &'a dyn Deletions,
    /// How to treat an unchanged object that the server refuses to change.
    pub unchanged: Unchanged,
    /// How to treat the remaining objects after one that cannot be written.
    pub after_failure: AfterFailure,
    /// The caller's worker slot, released while waiting for deletions.
    pub slot: &'a dyn Slot,
}

impl<'a> WriteOptions<'a> {
    /// Creates options without definitions, rules, record and worker limit.
    pub(crate) fn new(decoration: &'a Decoration, policy: Policy, bases: &'a dyn MergeBases) -> WriteOptions<'a> {
        let (unchanged, after_failure) = (Unchanged::Refused, AfterFailure::Stop);
        WriteOptions {
            decoration,
            policy,
            bases,
            definitions: &[],
            recreate: &[],
            deletions: &(),
            unchanged,
            after_failure,
            slot: &(),
        }
    }

    /// Returns whether other objects are written after this failure.
    pub(crate) fn continues_after(&self, failure: &ApplyError) -> bool {
        self.after_failure == AfterFailure::Continue && failure.concerns_one_object()
    }

    fn defines(&self, resource: &Resource) -> bool {
        let is_of = |spec: &Value| spec["group"] == resource.group() && spec["names"]["kind"] == *resource.kind;
        self.definitions.iter().any(|definition| is_of(&definition.body["spec"]))
    }

    fn is_client_side(&self, previous: Previous) -> bool {
        match self.policy {
            Policy::Auto => previous == Previous::Client { changed: false },
            Policy::Server => false,
            Policy::Client => true,
        }
    }

    /// Returns whether fields that we wrote client-side must move to our apply entry, which requires reading the
    /// object.
    pub(in crate::kube) fn returns_to_apply(&self, previous: Previous) -> bool {
        previous != Previous::Apply && !self.is_client_side(previous)
    }
}

/// What must be true of a live object, or else an apply conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Precondition {
    uid: String,
    /// `None` if any state of the object will do, because a read for this write has just shown who owns it.
    resource_version: Option<String>,
}

impl Precondition {
    /// Requires the state that a watch has shown: it may be late, and the object has changed hands since.
    fn of_known(known: &Proven) -> Precondition {
        Precondition { uid: known.uid.clone(), resource_version: Some(known.resource_version.clone()) }
    }

    /// Requires the state that was read: the object may have changed hands since. An object of the release that was
    /// read for this write may be in any state, because its controller writes its status.
    fn of(read: &Existing) -> Precondition {
        let resource_version = (!read.is_ours_now).then(|| read.resource_version.clone());
        Precondition { uid: read.uid.clone(), resource_version }
    }

    /// Requires the state that our own write left, instead of the one before it.
    fn after(&self, written: &Response) -> Result<Precondition, Error> {
        let Precondition { uid, resource_version: Some(_) } = self else { return Ok(self.clone()) };
        let version = written.parse::<Live>()?.proven().resource_version;
        Ok(Precondition { uid: uid.clone(), resource_version: Some(version) })
    }

    fn is_met_by(&self, metadata: &Value) -> bool {
        let is = |field: &str, expected: &str| metadata[field] == expected;
        is("uid", &self.uid) && self.resource_version.as_ref().is_none_or(|version| is("resourceVersion", version))
    }
}

/// A move of others' fields to ours.
struct Moved<'a> {
    /// The managed fields from before.
    before: &'a Value,
    /// The response to the move.
    answer: Response,
}

impl Moved<'_> {
    /// Returns whether these are the managed fields that the move left.
    fn left(&self, managers: &Value) -> bool {
        self.answer.parse::<Value>().is_ok_and(|live| live["metadata"]["managedFields"] == *managers)
    }
}

/// An object in the form that is sent.
#[derive(Clone)]
pub(in crate::kube) struct Body {
    pub(in crate::kube) resource: Arc<Resource>,
    pub(in crate::kube) key: ObjectKey,
    pub(in crate::kube) path: String,
    pub(in crate::kube) json: Value,
    /// The fields that other managers own once the object exists.
    pub(in crate::kube) handed_over: Vec<Pointer>,
    /// The uid of the release's owner; empty if there is no owner.
    pub(in crate::kube) owner: String,
}

impl Body {
    /// Returns whether the whole live object must be read before the write, because other managers may own some of its
    /// fields.
    pub(in crate::kube) fn needs_whole(&self, observed: &Found) -> bool {
        let scaled = match observed {
            Found::Ours { scaled, .. } => *scaled,
            Found::Read(existing) if existing.whole.is_none() => existing.scaled,
            Found::Read(_) | Found::Absent => return false,
            Found::Unknown => false,
        };
        !self.handed_over.is_empty() || (scaled && has_replicas(&self.json))
    }

    /// Makes annotations name the owner, for an object that is kept: with an owner reference, a foreground deletion of
    /// the resource deletes the object before the release is uninstalled.
    pub(in crate::kube) fn tie_by_annotations(&mut self, object: &Object, decoration: &Decoration) {
        let named = Decoration { tie: Tie::Annotations, ..decoration.clone() };
        self.json = named.decorate(object, &self.resource);
    }

    /// Returns the object without the fields that other managers own in the live one.
    pub(in crate::kube) fn left(&self, json: &Value, live: &Value, managed_fields: &Value) -> Value {
        hand_over(json, live, managed_fields, &self.handed_over).body
    }
}

impl Applier {
    /// Writes the object over its observed state. A conflict means that it changed since it was observed.
    pub(in crate::kube) async fn write(
        &self,
        body: &Body,
        observed: &Found,
        previous: Previous,
        options: &WriteOptions<'_>,
    ) -> Result<Written, Error> {
        if options.is_client_side(previous) {
            return Ok(Written::client_side(self.write_client_side(body, observed, options).await?, None));
        }
        let refused = match self.write_once_defined(body, observed, previous, options).await {
            Ok(answer) => {
                let live = self.release(body, answer).await?;
                let changed = observed.resource_version() != live.metadata.resource_version.as_deref();
                return Ok(Written { live, method: ApplyMethod::Server, changed });
            }
            Err(error) if options.policy == Policy::Auto && error.may_succeed_client_side() => error,
            Err(error) => return Err(error),
        };
        match self.write_client_side(body, observed, options).await {
            Ok(merged) => Ok(Written::client_side(merged, Some(refused.to_string()))),
            // Recreating the object helps: the server accepts everything else that it rejects in an apply.
            Err(error) if error.is_immutable() && !refused.is_immutable() => Err(error),
            // Both methods are rejected; the message of server-side apply names the field.
            Err(error) if !error.is_transient() && !error.is_conflict() => Err(refused),
            Err(error) => Err(error),
        }
    }

    /// Applies. If this action applied the kind's definition, retries while the server rejects fields as unknown: it
    /// learns them a moment later, and a client-side write would drop them.
    async fn write_once_defined(
        &self,
        body: &Body,
        observed: &Found,
        previous: Previous,
        options: &WriteOptions<'_>,
    ) -> Result<Response, Error> {
        let is_new = options.defines(&body.resource);
        for pause in PAUSES.into_iter().filter(|_| is_new) {
            match self.write_by_apply(body, observed, previous).await {
                Err(error) if error.has_undeclared_field() => tokio::time::sleep(Duration::from_millis(pause)).await,
                answer => return answer,
            }
        }
        self.write_by_apply(body, observed, previous).await
    }

    /// Dry-runs a server-side apply.
    pub(in crate::kube) async fn send_dry_run(&self, body: &Body) -> Result<Response, Error> {
        self.send_apply(&format!("{}?dryRun=All&", body.path), &body.json).await
    }

    pub(in crate::kube) async fn write_by_apply(
        &self,
        body: &Body,
        observed: &Found,
        previous: Previous,
    ) -> Result<Response, Error> {
        match observed {
            Found::Unknown | Found::Absent => self.create(&body.path, &body.json).await,
            Found::Ours { proven, .. } => self.force_over_obstacles(body, &Precondition::of_known(proven), None).await,
            Found::Read(existing) => {
                let (body, managers) = taken_over(body, existing);
                let state = Precondition::of(existing);
                if previous != Previous::Apply {
                    // Moves the fields only if the server would accept the apply.
                    self.force(&format!("{}?dryRun=All&", body.path), &body.json, &state).await?;
                }
                let moved = match managers {
                    Some(managers) => {
                        let answer = self.set_managers(&body.path, &managers, &existing.resource_version).await?;
                        Some(Moved { before: existing.managed_fields.json(), answer })
                    }
                    None => None,
                };
                let state = moved.as_ref().map_or(Ok(state.clone()), |moved| state.after(&moved.answer))?;
                self.force_over_obstacles(&body, &state, moved.as_ref()).await
            }
        }
    }

    /// Restores the managed fields of an object that the server rejects to change. Other managers keep their fields,
    /// and an object that we did not apply stays recognizable, so that it may be recreated. If this fails, a person
    /// must delete the object.
    async fn give_back(&self, body: &Body, managers: &Value, moved: &Response) {
        let Ok(live) = moved.parse::<Live>() else { return };
        let version = live.metadata.resource_version.unwrap_or_default();
        if let Err(error) = self.set_managers(&body.path, managers, &version).await {
            tracing::debug!(object = %body.key, error = error.named(), "cannot restore managed fields");
        }
    }

    /// Releases our ownership of the fields that an apply created for other managers.
    async fn release(&self, body: &Body, applied: Response) -> Result<Live, Error> {
        if body.handed_over.is_empty() {
            return applied.parse();
        }
        let live: Value = applied.parse()?;
        match hand_over(&body.json, &live, &live["metadata"]["managedFields"], &body.handed_over).managers {
            None => applied.parse(),
            Some(managers) => self.set_managers_of(&live, &body.path, &managers).await?.parse(),
        }
    }

    /// Applies to the object that meets the precondition; conflicts if it does not, or does not exist.
    async fn force(&self, path: &str, json: &Value, precondition: &Precondition) -> Result<Response, Error> {
        let mut json = json.clone();
        json["metadata"]["uid"] = precondition.uid.as_str().into();
        if let Some(version) = &precondition.resource_version {
            json["metadata"]["resourceVersion"] = version.as_str().into();
        }
        self.send_apply(path, &json).await
    }

    /// Creates by apply with resource version 1, which no object has: an existing object conflicts and stays unchanged.
    pub(in crate::kube) async fn create(&self, path: &str, json: &Value) -> Result<Response, Error> {
        let mut json = json.clone();
        json["metadata"]["resourceVersion"] = "1".into();
        self.send_apply(&format!("{path}?"), &json).await
    }

    async fn send_apply(&self, path: &str, json: &Value) -> Result<Response, Error> {
        let path = format!("{path}fieldManager={FIELD_MANAGER}&force=true");
        self.api.send(Call::apply(path, bytes(json))).await
    }

    /// Applies. If an unowned server default or an item that replaced ours blocks the apply, claims it and applies
    /// again, which removes it. Gives back fields that were claimed in vain, and fields that were moved before if the
    /// server refuses to change the object.
    async fn force_over_obstacles(
        &self,
        body: &Body,
        precondition: &Precondition,
        moved: Option<&Moved<'_>>,
    ) -> Result<Response, Error> {
        let path = format!("{}?", body.path);
        let refused = match self.force(&path, &body.json, precondition).await {
            Err(error) if error.is_immutable() => {
                if let Some(moved) = moved {
                    self.give_back(body, moved.before, &moved.answer).await;
                }
                return Err(error);
            }
            Err(error) if !error.fields().is_empty() => error,
            answer => return answer,
        };
        let (before, claimed) = match self.claim_obstacles(body, refused.fields(), precondition).await {
            Ok(Some(claimed)) => claimed,
            // Whether something blocks the apply is unknown.
            Err(error) if error.is_transient() || error.is_conflict() => return Err(error),
            Ok(None) | Err(_) => return Err(refused),
        };
        let applied = self.force(&path, &body.json, &precondition.after(&claimed)?).await;
        if let Err(error) = &applied {
            // One write for both: a second one would need the version that the first one leaves.
            let moved = moved.filter(|moved| error.is_immutable() && moved.left(&before));
            self.give_back(body, moved.map_or(&before, |moved| moved.before), &claimed).await;
        }
        applied
    }

    /// Claims the fields that block an apply; our entry is marked until then. Returns the managed fields from before,
    /// and the response; `None` if nothing blocks it.
    async fn claim_obstacles(
        &self,
        body: &Body,
        refused: &[String],
        precondition: &Precondition,
    ) -> Result<Option<(Value, Response)>, Error> {
        let live: Value = self.api.send(Call::get(&body.path)).await?.parse()?;
        if !precondition.is_met_by(&live["metadata"]) {
            return Err(changed(body));
        }
        let claimed = replaced::with_replacements(&live, &body.json, refused);
        let Some(managers) = claimed.or_else(|| unowned::with_defaults(&live, &body.json, refused)) else {
            return Ok(None);
        };
        let claimed = self.set_managers_of(&live, &body.path, &as_unapplied(managers)).await?;
        Ok(Some((live["metadata"]["managedFields"].clone(), claimed)))
    }

    /// Sets the managed fields of a live object, unless it has changed.
    pub(in crate::kube) async fn set_managers_of(
        &self,
        live: &Value,
        path: &str,
        managers: &Value,
    ) -> Result<Response, Error> {
        let version = live["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        self.set_managers(path, managers, version).await
    }

    async fn set_managers(&self, path: &str, managers: &Value, resource_version: &str) -> Result<Response, Error> {
        let patch = json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": managers},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": resource_version},
        ]);
        self.api.send(Call::json_patch(path, bytes(&patch))).await
    }
}

/// Returns the merge patch that changes this metadata of a live object in its current state; `None` if nothing changes.
pub(in crate::kube) fn metadata_patch(mut changes: Map<String, Value>, metadata: &Value) -> Option<Value> {
    if changes.is_empty() {
        return None;
    }
    changes.insert("uid".into(), metadata["uid"].clone());
    changes.insert("resourceVersion".into(), metadata["resourceVersion"].clone());
    Some(json!({"metadata": changes}))
}

/// Returns the object to apply over an existing one, and the managed fields to set first: earlier managers' fields move
/// to our entry, which is marked until the apply, and handed-over fields are released.
fn taken_over(body: &Body, existing: &Existing) -> (Body, Option<Value>) {
    let managed_fields = existing.managed_fields.json();
    let migrated = migrated_managers(managed_fields, &body.owner).map(as_unapplied);
    let Some(live) = &existing.whole else { return (body.clone(), migrated) };
    let managers = migrated.as_ref().unwrap_or(managed_fields);
    let handed_over = hand_over(&body.json, live, managers, &body.handed_over);
    (Body { json: handed_over.body, ..body.clone() }, handed_over.managers.or(migrated))
}
