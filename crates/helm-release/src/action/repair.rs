//! Corrects drift and takes ownership of objects that an upstream operator or Helm applied, without a new revision.

use super::last::Deployed;
use super::{Environment, Error, HELM_APPLY_METHOD, read_release};
use crate::kube::{Applied, ObjectKey, Observed, Previous, Rule, Target, recorded_objects};
use crate::release::Packed;
use crate::storage::{MarkedObject, Marks};

/// Corrects drift: applies these objects of a revision again, each by the method that wrote it before. No record is written.
///
/// Objects whose kind is no longer served are skipped. Repeating a repair changes nothing. When it fails or is cancelled, some objects may
/// already be repaired; objects of one kind are applied concurrently, kinds one after the other.
///
/// # Errors
/// The record cannot be read, the server rejects an object, or an object now belongs to someone else.
pub async fn repair(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Packed>,
    drifted: &[&MarkedObject],
) -> Result<Vec<Applied>, Error> {
    let rule = if env.options.adopt { Rule::Adopt } else { Rule::Keep };
    apply(env, version, packed, Some(drifted), rule).await
}

/// Takes ownership of every object of a revision that Helm or an upstream operator applied: moves its managers' fields to our field manager,
/// then applies. [`record_ownership`] completes it.
///
/// Without the move, fields that a later chart drops would stay for ever, owned by the old manager. Repeating it changes nothing.
///
/// # Errors
/// As [`repair`]; objects that lack Helm's ownership metadata are conflicts.
pub async fn take_ownership(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Packed>,
) -> Result<Vec<Applied>, Error> {
    let rule = if env.options.adopt { Rule::Adopt } else { Rule::Import };
    apply(env, version, packed, None, rule).await
}

async fn apply(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Packed>,
    only: Option<&[&MarkedObject]>,
    rule: Rule,
) -> Result<Vec<Applied>, Error> {
    let release = read_release(env, version, packed).await?;
    let objects = recorded_objects(&release.manifest, &env.decoration.namespace)?;
    let mut targets: Vec<Target<'_>> = Vec::new();
    for object in &objects {
        // Objects of a kind that is no longer served cannot drift.
        let recorded = env.applier.recorded_key(object, env.decoration).await?;
        let Some(key) = recorded else { continue };
        let known = only.map(|only| only.iter().find(|known| known.key == key));
        if let Some(None) = known {
            continue;
        }
        let client = known.flatten().is_some_and(|known| known.client);
        let previous = if client { Previous::Client { changed: false } } else { Previous::Apply };
        targets.push(Target { object, rule, observed: observed(env, &key, rule), previous });
    }
    let last = Deployed::new(env, Some(version), packed);
    Ok(env.applier.apply_all(&targets, &last.write_options()).await?)
}

/// The watches' view suffices only for objects that we applied before.
fn observed(env: &Environment<'_>, key: &ObjectKey, rule: Rule) -> Observed {
    if rule != Rule::Keep {
        return Observed::Unknown;
    }
    env.live.cached(key, env.decoration).into()
}

/// Records that we own every object of a revision that Helm or an upstream operator made. Returns the record's resource version.
///
/// # Errors
/// The record cannot be read or written.
pub async fn record_ownership(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Packed>,
    marks: &Marks,
) -> Result<u64, Error> {
    let mut release = read_release(env, version, packed).await?;
    if release.apply_method == "ssa" {
        // Our field manager now owns what Helm's did.
        release.apply_method = HELM_APPLY_METHOD.into();
        return Ok(env.storage.update(&release, Some(marks)).await?.resource_version);
    }
    Ok(env.storage.mark(&release.namespace, &release.name, version, marks).await?)
}
