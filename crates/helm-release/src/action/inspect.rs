//! Finds the managers that took over fields of a release's live objects. Writes nothing.

use super::handover::Handover;
use super::keys::served;
use super::{Environment, Error, read_sealed};
use crate::kube::{ApplyError, Inspection, ObjectKey, recorded_objects};
use crate::release::Packed;
use crate::storage::Stored;

/// Reads these objects of a revision and finds the managers that took over our fields. Skips objects of kinds that are
/// no longer served.
///
/// # Errors
/// The record or an object cannot be read.
pub async fn inspect(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Stored<Packed>>,
    at: &[ObjectKey],
) -> Result<Vec<(ObjectKey, Inspection)>, Error> {
    let release = read_sealed(env, version, packed).await?.into_inner();
    let objects = recorded_objects(&release.manifest, &env.decoration.namespace)?;
    let handover = Handover::new(env, &objects);
    let mut found = Vec::new();
    for (key, object) in served(env, objects).await? {
        if !at.contains(&key) {
            continue;
        }
        let failed = |source| ApplyError::Failed { verb: "read", object: key.to_string(), source };
        let inspection = env.applier.inspect(&object, &env.decoration, &handover.of(&key)).await.map_err(failed)?;
        found.push((key, inspection));
    }
    Ok(found)
}
