//! Writes objects client-side, as Helm does: a create, or a three-way merge of the last manifest, the new one and the
//! live object.
//!
//! Used for objects that only server-side apply rejects, and where watches.yaml requests it. Counterpart: `createPatch`
//! in Helm's `pkg/kube/client.go`. Unlike in Helm, custom resources get a three-way merge, too, so that drift can be
//! corrected.

mod patch;
mod schema;
#[cfg(test)]
mod tests;

use futures::future::BoxFuture;
use outside::{Call, Error};
use serde_json::{Value, json};

use crate::kube::writes::apply::{Applier, Found, bytes};
use crate::kube::writes::write::{Body, WriteOptions};
use crate::kube::{Decoration, FIELD_MANAGER, Live, Object, ObjectKey, Resource};

pub(in crate::kube) use schema::Schemas;

/// The deployed revision's objects, the base of three-way merges.
pub(crate) trait LastApplied: Send + Sync {
    /// Returns the object in that revision's manifest; `None` if it contains none.
    ///
    /// # Errors
    /// The record cannot be read. An undecodable record counts as empty.
    fn last<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Object>, Error>>;
}

/// A first revision, without an earlier one.
impl LastApplied for () {
    fn last<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Object>, Error>> {
        Box::pin(async { Ok(None) })
    }
}

impl Applier {
    /// Creates the object, or patches the observed one. A conflict means that the object changed since it was observed.
    pub(in crate::kube) async fn write_client_side(
        &self,
        body: &Body,
        observed: &Found,
        options: &WriteOptions<'_>,
    ) -> Result<Merged, Error> {
        let uid = match observed {
            Found::Unknown | Found::Absent => {
                let live = self.post(&body.resource, &body.key.namespace, &body.json).await?;
                return Ok(Merged { live, changed: true });
            }
            Found::Ours { uid, .. } => uid,
            Found::Read(existing) => &existing.uid,
        };
        let live = match self.api.send(Call::get(&body.path)).await {
            Err(error) if error.is_not_found() => return Err(changed(body)),
            answer => answer?.parse::<Value>()?,
        };
        if live["metadata"]["uid"] != uid.as_str() {
            return Err(changed(body));
        }
        self.patch(body, options, live).await
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

    async fn patch(&self, body: &Body, options: &WriteOptions<'_>, live: Value) -> Result<Merged, Error> {
        let last = options.last.last(&body.key).await?;
        let left = |json: &Value| body.left(json, &live, &live["metadata"]["managedFields"]);
        let applied = Decoration { tie: options.decoration.tie_of(&live), ..options.decoration.clone() };
        let last = last.map(|object| left(&applied.decorate(&object, &body.resource)));
        let document = self.schemas.document(&body.resource).await?;
        let schema = document.as_ref().and_then(|document| document.schema(&body.resource.kind));
        let mut patch = Value::Object(patch::three_way(last.as_ref(), &left(&body.json), &live, schema));
        if patch == json!({}) {
            return Ok(Merged { live: serde_json::from_value(live).map_err(Error::Json)?, changed: false });
        }
        // A precondition: patch only the object that was checked, not another with the same name.
        patch["metadata"]["uid"] = live["metadata"]["uid"].clone();
        let path = format!("{}?fieldManager={FIELD_MANAGER}", body.path);
        let call = if schema.is_some() { Call::strategic } else { Call::merge };
        Ok(Merged { live: self.api.send(call(path, bytes(&patch))).await?.parse()?, changed: true })
    }
}

/// The result of a client-side write.
pub(in crate::kube) struct Merged {
    pub(in crate::kube) live: Live,
    /// Whether anything changed.
    pub(in crate::kube) changed: bool,
}

fn changed(body: &Body) -> Error {
    Error::from_status(409, "Conflict", &format!("{} changed since it was read", body.key))
}
