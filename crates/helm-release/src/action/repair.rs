//! Puts back what drifted, and takes over what an upstream applied; no revision is made.

use super::last::Deployed;
use super::{Environment, Error, HELMS_WAY, Look, read_release};
use crate::kube::{Applied, Before, ObjectKey, Rule, Seen, Target, recorded_objects};
use crate::release::Packed;
use crate::storage::{MarkedObject, Marks};

/// Applies these objects of the deployed revision again, each the way it was written before. One that somebody else claims by now is a conflict.
pub async fn repair(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Packed>,
    drifted: &[&MarkedObject],
) -> Result<Vec<Applied>, Error> {
    let rule = if env.options.adopt { Rule::Adopt } else { Rule::Keep };
    apply(env, version, packed, Some(drifted), rule).await
}

/// Applies every object of the deployed revision, after turning a client-side manager's fields into ours.
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
        // A kind that is served no more has no objects that drift.
        let recorded = env.applier.recorded_key(object, env.decoration).await?;
        let Some(key) = recorded else { continue };
        let known = only.map(|only| only.iter().find(|known| known.key == key));
        if let Some(None) = known {
            continue;
        }
        let client = known.flatten().is_some_and(|known| known.client);
        let before = if client { Before::Client { changed: false } } else { Before::Apply };
        targets.push(Target { object, rule, seen: seen(env, &key, rule), before });
    }
    let last = Deployed::new(env, Some(version), packed);
    Ok(env.applier.apply_all(&targets, &last.writing()).await?)
}

/// What the watches tell is enough only for objects that we applied before.
fn seen(env: &Environment<'_>, key: &ObjectKey, rule: Rule) -> Seen {
    if rule != Rule::Keep {
        return Seen::Unknown;
    }
    match env.live.look(key, env.decoration) {
        Look::Ours(live) => Seen::Ours { uid: live.proven.uid },
        Look::Absent => Seen::Absent,
        Look::Unknown => Seen::Unknown,
    }
}

/// Records that every object of a revision that Helm or an upstream made is ours. Returns the record's resource version.
pub async fn record_ownership(
    env: &Environment<'_>,
    version: u32,
    packed: Option<&Packed>,
    marks: &Marks,
) -> Result<u64, Error> {
    let mut release = read_release(env, version, packed).await?;
    if release.apply_method == "ssa" {
        // Now our field manager has what Helm's had.
        release.apply_method = HELMS_WAY.into();
        return Ok(env.storage.update(&release, Some(marks)).await?.resource_version);
    }
    Ok(env.storage.mark(&release.namespace, &release.name, version, marks).await?)
}
