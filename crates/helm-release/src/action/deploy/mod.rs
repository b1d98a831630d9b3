//! The steps shared by all actions that make a revision: check ownership, write ahead, pre hooks, apply, prune, post hooks, complete.

use std::collections::{HashMap, HashSet};

use futures::future::try_join_all;
use jiff::Timestamp;

use super::last::Deployed;
use super::resume::{await_next, has, not_run, resume};
use super::uninstall::delete;
use super::{
    Cached, CachedObject, Candidate, Current, Environment, Error, Failure, HELM_APPLY_METHOD, Outcome, Recorded,
    Records, failure, read_release,
};
use crate::kube::{Applied, Object, ObjectKey, Observed, Owner, Previous, Rule, Target, uninstall_order};
use crate::release::{Hook, HookEvent, Info, Release, Status};
use crate::storage::{MarkedObject, Marks};

/// How the actions differ.
pub(super) struct ActionKind {
    pub(super) pending: Status,
    pub(super) before: HookEvent,
    pub(super) after: HookEvent,
    pub(super) complete: String,
    pub(super) failed: &'static str,
    pub(super) rollback_revision: u32,
}

/// Makes a revision from a candidate. If it fails after the record was written, the record says so.
pub(super) async fn deploy(
    env: &Environment<'_>,
    candidate: &Candidate,
    current: Option<&Current>,
    kind: ActionKind,
) -> Result<Outcome, Failure> {
    let recorded = resume(env, candidate, current, kind.pending).await?;
    let candidate = recorded.as_ref().unwrap_or(candidate);
    let keys = keys(env, candidate).await?;
    let observations = check_ownership(env, candidate, &keys, current).await?;
    failure::check_refusal(env, candidate).await?;
    let mut release = release(env, candidate, current, &kind);
    let mut ahead = inventory(candidate, &keys, env, current, &release);
    if recorded.is_some() {
        release.hooks.clone_from(&candidate.hooks);
        ahead.hooks_done = current.and_then(|c| c.interrupted.as_ref()).is_some_and(|u| u.hooks_done);
    }
    write_ahead(env, &release, &ahead, current).await?;
    let ran = async {
        run_before(env, &mut release, &mut ahead, &kind).await?;
        let applied = apply(env, candidate, &keys, &observations, current).await?;
        run_after(env, &mut release, &kind).await?;
        Ok::<_, Error>(applied)
    };
    match ran.await {
        Ok(applied) => {
            let marks = marks(env, candidate, &keys, current, &applied, &release);
            complete(env, release, marks, applied, current, kind).await
        }
        Err(cause) => Err(failure::record(env, release, ahead, current, kind.failed, cause).await),
    }
}

async fn keys(env: &Environment<'_>, candidate: &Candidate) -> Result<Vec<ObjectKey>, Error> {
    let keys = candidate.objects.iter().map(|object| env.applier.key(object, env.decoration));
    Ok(try_join_all(keys).await?)
}

fn release(env: &Environment<'_>, candidate: &Candidate, current: Option<&Current>, kind: &ActionKind) -> Release {
    let now = Timestamp::now();
    let first = current.and_then(|c| c.first_deployed).unwrap_or(now);
    let info = Info {
        first_deployed: Some(first),
        last_deployed: Some(now),
        deleted: None,
        description: "Preparing".into(),
        status: kind.pending,
        rollback_revision: kind.rollback_revision,
        notes: candidate.notes.clone(),
    };
    Release {
        name: env.decoration.release.clone(),
        namespace: env.decoration.namespace.clone(),
        version: current.map_or(1, |c| if c.pending { c.version } else { c.version + 1 }),
        info,
        chart: candidate.chart.clone(),
        config: candidate.config.clone(),
        manifest: candidate.manifest.clone(),
        hooks: not_run(&candidate.hooks),
        apply_method: HELM_APPLY_METHOD.into(),
        labels: std::collections::BTreeMap::new(),
    }
}

/// Returns the marks to write ahead: the candidate's objects, then those to prune. They are incomplete, since nothing is applied yet.
fn inventory(
    candidate: &Candidate,
    keys: &[ObjectKey],
    env: &Environment<'_>,
    current: Option<&Current>,
    release: &Release,
) -> Marks {
    let object = |(object, key): (&Object, &ObjectKey)| MarkedObject {
        key: key.clone(),
        api_version: object.api_version.as_str().into(),
        digest: object.digest(&env.decoration.namespace),
        mark: None,
        kept: crate::kube::is_kept(object),
        client: current.and_then(|c| c.inventory.find(key)).is_some_and(|known| known.client),
    };
    let mut objects: Vec<MarkedObject> = candidate.objects.iter().zip(keys).map(object).collect();
    let new: HashSet<&ObjectKey> = keys.iter().collect();
    let old = current.iter().flat_map(|c| &c.inventory.objects).filter(|o| !new.contains(&o.key));
    objects.extend(old.map(|o| MarkedObject { mark: None, ..o.clone() }));
    Marks {
        // A retry with the same inputs continues this action.
        inputs: candidate.inputs.clone(),
        owner: owner_uid(env),
        owner_type: owner_type(env),
        objects,
        delete_hooks: has_delete_hooks(&candidate.hooks),
        first_deployed: release.info.first_deployed,
        taken_over: current.is_some_and(|c| c.taken_over),
        ..Marks::default()
    }
}

fn owner_uid(env: &Environment<'_>) -> String {
    env.decoration.owner.as_ref().map_or_else(String::new, |owner| owner.uid.clone())
}

fn owner_type(env: &Environment<'_>) -> String {
    env.decoration.owner.as_ref().map_or_else(String::new, Owner::annotated_type)
}

fn has_delete_hooks(hooks: &[Hook]) -> bool {
    has(hooks, HookEvent::PreDelete) || has(hooks, HookEvent::PostDelete)
}

async fn write_ahead(
    env: &Environment<'_>,
    release: &Release,
    ahead: &Marks,
    current: Option<&Current>,
) -> Result<(), Error> {
    match current {
        Some(current) if current.pending => env.storage.update(release, Some(ahead)).await?,
        _ => env.storage.create(release, ahead).await?,
    };
    Ok(())
}

/// Applies the candidate's objects, then prunes.
async fn apply(
    env: &Environment<'_>,
    candidate: &Candidate,
    keys: &[ObjectKey],
    observations: &Observations,
    current: Option<&Current>,
) -> Result<Vec<Applied>, Error> {
    let objects = candidate.objects.iter().zip(keys);
    let targets: Vec<Target<'_>> =
        objects.filter_map(|(object, key)| target(env, object, key, observations, current)).collect();
    let last = Deployed::new(env, current.and_then(|c| c.last_good), current.and_then(|c| c.packed.as_ref()));
    let applied = env.applier.apply_all(&targets, &last.write_options()).await?;
    prune(env, keys, current).await?;
    Ok(applied)
}

/// Runs the pre hooks, unless they succeeded before an interruption.
async fn run_before(
    env: &Environment<'_>,
    release: &mut Release,
    ahead: &mut Marks,
    kind: &ActionKind,
) -> Result<(), Error> {
    if env.options.disable_hooks || !has(&release.hooks, kind.before) {
        return Ok(());
    }
    let records = Records { storage: env.storage };
    let run = env.hook_run(&records);
    if !ahead.hooks_done {
        env.applier.run_hooks(release, kind.before, &run).await?;
        await_next(&mut release.hooks, kind.after);
        ahead.hooks_done = true;
        // Before the clean-up, or a restart would not know that the deleted ones succeeded.
        env.storage.update(release, Some(ahead)).await?;
    }
    Ok(env.applier.clean_up_hooks(release, kind.before, &run).await?)
}

async fn run_after(env: &Environment<'_>, release: &mut Release, kind: &ActionKind) -> Result<(), Error> {
    if env.options.disable_hooks || !has(&release.hooks, kind.after) {
        return Ok(());
    }
    let records = Records { storage: env.storage };
    let run = env.hook_run(&records);
    env.applier.run_hooks(release, kind.after, &run).await?;
    env.storage.update(release, None).await?;
    Ok(env.applier.clean_up_hooks(release, kind.after, &run).await?)
}

/// Live objects as read before the first write.
type Observations = HashMap<ObjectKey, Observed>;

/// Reads all objects that the release is not known to own, and fails on any conflict before anything is written.
async fn check_ownership(
    env: &Environment<'_>,
    candidate: &Candidate,
    keys: &[ObjectKey],
    current: Option<&Current>,
) -> Result<Observations, Error> {
    let unknown = |key: &ObjectKey| {
        rule(env, key, current) != Rule::Keep || env.live.cached(key, env.decoration) == Cached::Unknown
    };
    let objects: Vec<(&Object, Rule)> = candidate
        .objects
        .iter()
        .zip(keys)
        .filter(|(_, key)| unknown(key))
        .map(|(object, key)| (object, rule(env, key, current)))
        .collect();
    Ok(env.applier.check_ownership(&objects, env.decoration).await?.into_iter().collect())
}

/// Returns whose existing object may be changed: objects that the last revision applied are the release's until someone else claims them.
fn rule(env: &Environment<'_>, key: &ObjectKey, current: Option<&Current>) -> Rule {
    let had = current.is_some_and(|c| c.inventory.complete && c.inventory.find(key).is_some());
    match had {
        _ if env.options.adopt => Rule::Adopt,
        true => Rule::Keep,
        false => Rule::Import,
    }
}

/// Returns how to apply an object; `None` if it is unchanged since the last revision.
fn target<'a>(
    env: &Environment<'_>,
    object: &'a Object,
    key: &ObjectKey,
    observations: &Observations,
    current: Option<&Current>,
) -> Option<Target<'a>> {
    let rule = rule(env, key, current);
    let known = current.and_then(|c| c.inventory.find(key)).filter(|_| rule == Rule::Keep);
    let observed = match (observations.get(key), env.live.cached(key, env.decoration)) {
        (_, Cached::Ours(live)) if known.is_some_and(|k| is_intact(k, &live) && is_same(object, k, env)) => {
            return None;
        }
        (Some(read), _) => read.clone(),
        (None, Cached::Ours(live)) => Observed::Ours { uid: live.proven.uid },
        (None, Cached::Absent) => Observed::Absent,
        (None, Cached::Unknown) => Observed::Unknown,
    };
    let previous = match current.and_then(|c| c.inventory.find(key)) {
        Some(known) if known.client => Previous::Client { changed: !is_same(object, known, env) },
        _ => Previous::Apply,
    };
    Some(Target { object, rule, observed, previous })
}

fn is_intact(known: &MarkedObject, live: &CachedObject) -> bool {
    known.mark.is_some() && live.mark == known.mark
}

fn is_same(object: &Object, known: &MarkedObject, env: &Environment<'_>) -> bool {
    *object.api_version == *known.api_version && object.digest(&env.decoration.namespace) == known.digest
}

/// Deletes objects that the candidate no longer contains, in Helm's uninstall order.
async fn prune(env: &Environment<'_>, keys: &[ObjectKey], current: Option<&Current>) -> Result<(), Error> {
    let new: HashSet<&ObjectKey> = keys.iter().collect();
    let objects = current.iter().flat_map(|c| &c.inventory.objects);
    let mut dropped: Vec<&MarkedObject> = objects.filter(|o| !o.kept && !new.contains(&o.key)).collect();
    uninstall_order(&mut dropped, |o| &o.key.kind);
    for object in dropped {
        delete(env, object).await?;
    }
    Ok(())
}

fn marks(
    env: &Environment<'_>,
    candidate: &Candidate,
    keys: &[ObjectKey],
    current: Option<&Current>,
    applied: &[Applied],
    release: &Release,
) -> Marks {
    let marked = |key: &ObjectKey| {
        let now = applied.iter().find(|a| a.key == *key).map(MarkedObject::from);
        now.or_else(|| current.and_then(|c| c.inventory.find(key)).cloned())
    };
    let objects = keys.iter().filter_map(marked).collect();
    let delete_hooks = has_delete_hooks(&candidate.hooks);
    Marks {
        inputs: candidate.inputs.clone(),
        owner: owner_uid(env),
        owner_type: owner_type(env),
        objects,
        complete: true,
        delete_hooks,
        first_deployed: release.info.first_deployed,
        taken_over: current.is_some_and(|c| c.taken_over),
        ..Marks::default()
    }
}

/// Completes the record, marks the previous revision superseded and trims the history.
async fn complete(
    env: &Environment<'_>,
    mut release: Release,
    marks: Marks,
    applied: Vec<Applied>,
    current: Option<&Current>,
    kind: ActionKind,
) -> Result<Outcome, Failure> {
    release.set_status(Status::Deployed, env.options.description.clone().unwrap_or(kind.complete));
    let written = env.storage.update(&release, Some(&marks)).await;
    let recorded = |marks| Recorded { version: release.version, status: kind.pending, marks, dropped: Vec::new() };
    let written = written.map_err(|e| Failure { cause: e.into(), recorded: Some(recorded(marks.clone())) })?;
    let (_, dropped) = futures::future::join(
        supersede(env, current, release.version),
        failure::drop_old(env, current, release.version),
    )
    .await;
    let first_deployed = release.info.first_deployed;
    Ok(Outcome {
        version: release.version,
        written,
        marks,
        applied,
        dropped,
        first_deployed,
        notes: release.info.notes,
    })
}

/// Marks the deployed revision superseded. Failing is harmless, because the newest revision counts.
async fn supersede(env: &Environment<'_>, current: Option<&Current>, version: u32) {
    let Some((deployed, packed)) = current.and_then(|c| c.deployed.map(|d| (d, c.packed.as_ref()))) else { return };
    if deployed == version {
        return;
    }
    let superseded = async {
        let mut old = read_release(env, deployed, packed).await?;
        old.info.status = Status::Superseded;
        env.storage.update(&old, None).await?;
        Ok::<(), Error>(())
    };
    if let Err(error) = superseded.await {
        tracing::warn!(release = env.decoration.release, revision = deployed, %error, "cannot mark a revision superseded");
    }
}
