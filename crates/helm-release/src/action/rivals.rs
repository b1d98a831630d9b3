//! Finds who keeps changing objects of a release. Writes nothing.

use super::{Environment, Error, read_release};
use crate::kube::{ApplyError, ObjectKey, Rival, objects_of};
use crate::release::Packed;

/// Reads these objects of a revision and reports who took which of our fields.
///
/// # Errors
/// The record or an object cannot be read.
pub async fn rivals(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Packed>,
    of: &[ObjectKey],
) -> Result<Vec<(ObjectKey, Rival)>, Error> {
    let release = read_release(env, version, packed).await?;
    let mut rivals = Vec::new();
    for object in &objects_of(&release.manifest)? {
        let key = env.applier.recorded_key(object, env.decoration).await?;
        if let Some(key) = key.filter(|key| of.contains(key)) {
            let failed = |source| ApplyError::Failed { verb: "read", object: key.to_string(), source };
            let rival = env.applier.rival(object, env.decoration).await.map_err(failed)?;
            rivals.push((key, rival));
        }
    }
    Ok(rivals)
}
