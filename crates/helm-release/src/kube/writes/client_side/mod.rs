//! Writes objects client-side, as Helm does: a create, or a three-way merge of the last manifest, the new one and the
//! live object.
//!
//! Used for objects that only server-side apply rejects, and where watches.yaml requests it. Counterpart: `createPatch`
//! in Helm's `pkg/kube/client.go`. Unlike in Helm, custom resources also get a three-way merge, so that drift can be
//! corrected.

mod patch;
mod schema;
mod shared;
#[cfg(test)]
mod tests;

use futures::future::BoxFuture;
use outside::{Call, Error};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::kube::fields::unapplied::as_applied;
use crate::kube::kinds::resource::Resource;
use crate::kube::live_state::live::Live;
use crate::kube::live_state::ownership::Ownership;
use crate::kube::objects::decorate::{Decoration, FIELD_MANAGER, HOOK_RUN_ANNOTATION};
use crate::kube::objects::object::{Object, ObjectKey};
use crate::kube::writes::apply::{Applier, bytes};
use crate::kube::writes::found::Found;
use crate::kube::writes::write::{Body, WriteOptions};

use schema::Schema;
pub(in crate::kube) use schema::Schemas;

/// The bases of three-way merges: what earlier revisions may have applied.
pub(crate) trait MergeBases: Send + Sync {
    /// Returns the object in each revision that contains it, newest first.
    ///
    /// # Errors
    /// A record cannot be read. An undecodable one counts as empty.
    fn of<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Vec<Object>, Error>>;
}

/// A first revision, without an earlier one.
impl MergeBases for () {
    fn of<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Vec<Object>, Error>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

impl Applier {
    /// Creates the object, or patches the observed one. A conflict means that another object has taken its place, or that
    /// it changed hands since it was observed. Its version does not show that: an apply that was refused may have moved
    /// its managed fields, and given them back.
    pub(in crate::kube) async fn write_client_side(
        &self,
        body: &Body,
        observed: &Found,
        options: &WriteOptions<'_>,
    ) -> Result<Merged, Error> {
        let Some((uid, owner)) = observed.owned() else {
            let live = self.post(&body.resource, &body.key.namespace, &body.json).await?;
            return Ok(Merged { live, changed: true });
        };
        let answer = match self.api.send(Call::get(&body.path)).await {
            Err(error) if error.is_not_found() => return Err(changed(body)),
            answer => answer?,
        };
        let live: Value = answer.parse()?;
        let now = options.decoration.ownership(&answer.parse::<Live>()?);
        if live["metadata"]["uid"] != uid || (now != Ownership::Ours && now != owner) {
            return Err(changed(body));
        }
        self.merge(body, options, live).await
    }

    pub(in crate::kube) async fn post(
        &self,
        resource: &Resource,
        namespace: &str,
        json: &Value,
    ) -> Result<Live, Error> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", resource.collection(namespace)?);
        self.api.send(Call::post(path, bytes(json))).await?.parse()
    }

    /// Dry-runs a merge over the newest base, which sets all that the new object has. An object that does not exist is
    /// accepted.
    pub(in crate::kube) async fn send_merge_dry_run(
        &self,
        body: &Body,
        options: &WriteOptions<'_>,
    ) -> Result<(), Error> {
        let live = match self.api.send(Call::get(&body.path)).await {
            Err(error) if error.is_not_found() => return Ok(()),
            answer => answer?.parse::<Value>()?,
        };
        let document = self.schemas.document(&body.resource).await?;
        let schema = document.as_ref().and_then(|document| document.schema(&body.resource.kind));
        let bases = options.bases.of(&body.key).await?;
        let Some(patch) = patch_over(bases.first(), body, options.decoration, &live, schema) else { return Ok(()) };
        let path = format!("{}?dryRun=All&fieldManager={FIELD_MANAGER}", body.path);
        self.send_patch(path, &patch, schema).await.map(drop)
    }

    /// Merges over each base, newest first, so that no dropped field of any of them remains.
    async fn merge(&self, body: &Body, options: &WriteOptions<'_>, mut live: Value) -> Result<Merged, Error> {
        let document = self.schemas.document(&body.resource).await?;
        let schema = document.as_ref().and_then(|document| document.schema(&body.resource.kind));
        let bases = options.bases.of(&body.key).await?;
        let bases = if bases.is_empty() { vec![None] } else { bases.into_iter().map(Some).collect() };
        let mut changed = false;
        for base in &bases {
            if let Some(patch) = patch_over(base.as_ref(), body, options.decoration, &live, schema) {
                let path = format!("{}?fieldManager={FIELD_MANAGER}", body.path);
                live = match self.send_patch(path, &patch, schema).await {
                    Err(error) if error.is_not_found() => return Err(self::changed(body)),
                    answer => answer?,
                };
                changed = true;
            }
        }
        Ok(Merged { live: serde_json::from_value(live).map_err(Error::Json)?, changed })
    }

    /// Returns the patched object.
    async fn send_patch(&self, path: String, patch: &Value, schema: Option<Schema<'_>>) -> Result<Value, Error> {
        let call = if schema.is_some() { Call::strategic } else { Call::merge };
        self.api.send(call(path, bytes(patch))).await?.parse()
    }
}

/// Returns the patch that turns the live object into the new one, without what only the base has; `None` if nothing
/// changes. It has preconditions: it changes no other object with the same name, none that the release takes over after it
/// has changed, and no list of metadata that several controllers share after another has changed the object.
fn patch_over(
    base: Option<&Object>,
    body: &Body,
    decoration: &Decoration,
    live: &Value,
    schema: Option<Schema<'_>>,
) -> Option<Value> {
    let left = |json: &Value| body.left(json, live, &live["metadata"]["managedFields"]);
    let applied = Decoration { tie: decoration.tie_of(live), ..decoration.clone() };
    let base = base.map(|object| left(&applied.decorate(object, &body.resource)));
    let mut new = left(&body.json);
    shared::keep_others(base.as_ref(), &mut new, live);
    let mut patch = Value::Object(patch::three_way(base.as_ref(), &new, live, schema));
    // No manifest has this annotation, so the merge keeps it, but an object of the release is not a hook's any longer.
    let is_hooks = |json: &Value| json["metadata"]["annotations"][HOOK_RUN_ANNOTATION].is_string();
    if is_hooks(live) && !is_hooks(&new) {
        patch["metadata"]["annotations"][HOOK_RUN_ANNOTATION] = Value::Null;
    }
    // An apply that was rejected has left fields of others to us, whose values are set now.
    let settled = as_applied(&live["metadata"]["managedFields"]);
    if patch == json!({}) && settled.is_none() {
        return None;
    }
    patch["metadata"]["uid"] = live["metadata"]["uid"].clone();
    if shared::is_changed_by(&patch) || settled.is_some() || !is_ours(live, decoration) {
        patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    }
    if let Some(managers) = settled {
        patch["metadata"]["managedFields"] = managers;
    }
    Some(patch)
}

/// The result of a client-side write.
pub(in crate::kube) struct Merged {
    pub(in crate::kube) live: Live,
    pub(in crate::kube) changed: bool,
}

/// Returns whether a live object belongs to the release.
fn is_ours(live: &Value, decoration: &Decoration) -> bool {
    Live::deserialize(live).is_ok_and(|live| decoration.ownership(&live) == Ownership::Ours)
}

/// Returns the conflict of an object that is not as it was observed.
pub(in crate::kube::writes) fn changed(body: &Body) -> Error {
    Error::from_status(409, "Conflict", &format!("{} changed since it was read", body.key))
}
