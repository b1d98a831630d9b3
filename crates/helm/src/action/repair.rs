//! Puts back what drifted, and takes over what an upstream applied; no revision is made.

use super::{Environment, Error, read_release};
use crate::kube::{Applied, Mode, Object, ObjectKey, install_order, objects_of};
use crate::release::Packed;

/// Applies these objects of the deployed revision again.
pub async fn repair(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Packed>,
    drifted: &[ObjectKey],
) -> Result<Vec<Applied>, Error> {
    apply(env, version, packed, Some(drifted), Mode::Ours).await
}

/// Applies every object of the deployed revision, after turning a client-side manager's fields into ours.
pub async fn move_in(env: &Environment<'_>, version: u32, packed: Option<&Packed>) -> Result<Vec<Applied>, Error> {
    let mode = if env.options.adopt { Mode::Adopt } else { Mode::MoveIn };
    apply(env, version, packed, None, mode).await
}

async fn apply(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Packed>,
    only: Option<&[ObjectKey]>,
    mode: Mode,
) -> Result<Vec<Applied>, Error> {
    let release = read_release(env, version, packed).await?;
    let mut objects = objects_of(&release.manifest)?;
    install_order(&mut objects);
    let mut todo: Vec<(&Object, Mode)> = Vec::new();
    for object in &objects {
        let key = env.applier.key(object, env.decoration).await?;
        if only.is_none_or(|only| only.contains(&key)) {
            todo.push((object, mode));
        }
    }
    Ok(env.applier.apply_all(&todo, env.decoration).await?)
}
