//! Writes an object as Helm's client does: a create, or a three-way merge of the last manifest, the new one and the live object.
//!
//! For objects that server-side apply refuses and a client's write does not, and where watches.yaml asks for it.
//! Counterpart: Helm's `pkg/kube/client.go`, `createPatch`. Custom resources get a three-way merge, too, so that drift can be repaired.

mod patch;
mod schema;
#[cfg(test)]
mod tests;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::api::{Call, Error};
use super::apply::{Applier, Observed, bytes};
use super::write::{Body, WriteOptions};
use super::{FIELD_MANAGER, Live, Object, ObjectKey, Resource};

pub(super) use schema::Schemas;

/// What the deployed revision says of an object: where a three-way merge starts.
pub trait LastApplied: Send + Sync {
    /// The object as that revision's manifest has it; absent if it has none.
    fn last<'a>(&'a self, key: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Object>, Error>>;
}

/// Nothing was applied before.
impl LastApplied for () {
    fn last<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Object>, Error>> {
        Box::pin(async { Ok(None) })
    }
}

impl Applier {
    /// Creates the object, or patches the one that was seen. A conflict says that something else is there by now.
    pub(super) async fn write_client_side(
        &self,
        body: &Body,
        observed: &Observed,
        options: &WriteOptions<'_>,
    ) -> Result<Merged, Error> {
        let uid = match observed {
            Observed::Unknown | Observed::Absent => {
                let live = self.post(&body.resource, &body.key.namespace, &body.json).await?;
                return Ok(Merged { live, changed: true });
            }
            Observed::Ours { uid } => uid,
            Observed::Read(existing) => &existing.uid,
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

    pub(super) async fn post(&self, resource: &Resource, namespace: &str, json: &Value) -> Result<Live, Error> {
        let path = format!("{}?fieldManager={FIELD_MANAGER}", resource.collection(namespace)?);
        self.api.send(Call::post(path, bytes(json))).await?.parse()
    }

    async fn patch(&self, body: &Body, options: &WriteOptions<'_>, live: Value) -> Result<Merged, Error> {
        let last = options.last.last(&body.key).await?;
        let last = last.map(|object| options.decoration.decorate(&object, &body.resource));
        let document = self.schemas.document(&body.resource).await?;
        let schema = document.as_ref().and_then(|document| document.schema(&body.resource.kind));
        let mut patch = Value::Object(patch::three_way(last.as_ref(), &body.json, &live, schema));
        if patch == json!({}) {
            return Ok(Merged { live: serde_json::from_value(live).map_err(Error::Json)?, changed: false });
        }
        // The object that was judged, and no other of its name.
        patch["metadata"]["uid"] = live["metadata"]["uid"].clone();
        let path = format!("{}?fieldManager={FIELD_MANAGER}", body.path);
        let call = if schema.is_some() { Call::strategic } else { Call::merge };
        Ok(Merged { live: self.api.send(call(path, bytes(&patch))).await?.parse()?, changed: true })
    }
}

/// What a client's write left.
pub(super) struct Merged {
    pub(super) live: Live,
    /// Whether there was anything to change.
    pub(super) changed: bool,
}

fn changed(body: &Body) -> Error {
    Error::from_status(409, "Conflict", &format!("{} is not the object that was seen", body.key))
}
