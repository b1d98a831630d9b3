//! Creates a hook's objects with the stamp of their run, finds them by it, and deletes them if they belong to this
//! release.

use helm::manifest::HOOK_ANNOTATION;
use outside::{Call, Error, Response};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::clock::Clock;
use super::decide::{Look, outcome, runs_to_an_end};
use super::{HOOK_RUN_ANNOTATION, HookError, HookRun, MadeBy};
use crate::kube::live_state::live::Live;
use crate::kube::live_state::ownership::{NotOurs, Rule};
use crate::kube::objects::decorate::{Decoration, FIELD_MANAGER};
use crate::kube::objects::object::{Object, objects_of};
use crate::kube::waiting::pause::Pause;
use crate::kube::writes::apply::{Applier, bytes, describe, key_of};
use crate::kube::writes::delete::Propagation;
use crate::kube::writes::write::Body;
use crate::release::{Hook, HookEvent, HookPhase, Release};

/// Maximum length of a chosen name, which is also that of the names that the server chooses.
const MAX_NAME: usize = 63;
/// Number of digest bytes in a chosen name, as hexadecimal digits: enough that the runs of one hook do not collide.
const SUFFIX_BYTES: usize = 4;

pub(super) fn of(hook: &Hook) -> Result<Vec<Object>, HookError> {
    objects_of(&hook.manifest).map_err(|source| HookError::Object { path: hook.path.clone(), source })
}

/// Identifies one run of one hook, so that its objects differ from those of earlier runs.
pub(super) struct Stamp {
    own: String,
    /// The stamps of all hooks of the release that have started.
    all: Vec<String>,
    /// Those of the hooks that have started at the present event.
    present: Vec<String>,
}

impl Stamp {
    pub(super) fn of(release: &Release, at: usize) -> Stamp {
        let stamp = |started| format!("{}.{started}", release.version);
        let all = release.hooks.iter().filter_map(|hook| hook.last_run.started_at).map(stamp).collect();
        let own = stamp(release.hooks[at].last_run.started_at.unwrap_or_default());
        Stamp { own, all, present: Vec::new() }
    }

    /// Identifies a run at this event, beside the runs of other hooks.
    pub(super) fn during(release: &Release, at: usize, event: HookEvent) -> Stamp {
        // One that has started but is `NotRun` succeeded at its first event, and is to run again.
        let has_run = |hook: &&Hook| hook.events.contains(&event) && hook.last_run.phase != HookPhase::NotRun;
        let started = release.hooks.iter().filter(has_run).filter_map(|hook| hook.last_run.started_at);
        let present = started.map(|started| format!("{}.{started}", release.version)).collect();
        Stamp { present, ..Stamp::of(release, at) }
    }

    /// Returns the runs of which an object of this kind counts. What ran at the action's first event proves nothing about the
    /// second. What does not run is complete, so it does not matter which event it is from.
    pub(super) fn counting(&self, kind: &str) -> &[String] {
        if runs_to_an_end(kind) { &self.present } else { &self.all }
    }

    /// Returns whether the object is one of this run.
    pub(super) fn is_on(&self, live: &Value) -> bool {
        live["metadata"]["annotations"][HOOK_RUN_ANNOTATION] == self.own.as_str()
    }

    /// Returns whether one of these runs made the object.
    fn covers(&self, made_by: MadeBy, live: &Value) -> bool {
        match made_by {
            MadeBy::AnyRun => true,
            MadeBy::Operator => !is_helms(live),
            MadeBy::ThisAction => {
                let stamp = live["metadata"]["annotations"][HOOK_RUN_ANNOTATION].as_str();
                stamp.is_some_and(|stamp| self.all.iter().any(|run| run == stamp))
            }
            MadeBy::RecordedRun => self.is_on(live),
        }
    }
}

/// An object that this run made, as the server has it.
pub(super) struct Made {
    pub(super) path: String,
    pub(super) look: Look,
    /// Whether it has finished, or its deletion was accepted. Objects that do not run have finished once they exist.
    pub(super) is_over: bool,
}

impl Made {
    /// `asked` is when the request was sent that has this answer.
    pub(super) fn of(object: &Object, path: String, live: &Value, asked: Instant) -> Made {
        let is_deleting = live["metadata"]["deletionTimestamp"].is_string();
        let is_over = is_deleting || outcome(&object.kind, &live["status"]).is_some();
        Made { path, look: Look::of(&object.kind, live, asked), is_over }
    }
}

impl Applier {
    /// Finds this run's object by the name that it has from the chart, or that was chosen for it; `None` if it does not
    /// exist.
    pub(super) async fn find(&self, object: &Object, stamp: &Stamp, run: &HookRun<'_>) -> Result<Option<Made>, Error> {
        self.find_made_by(object, (MadeBy::RecordedRun, stamp), run).await
    }

    /// Finds the object of one of these runs by that name.
    pub(super) async fn find_made_by(
        &self,
        object: &Object,
        (made_by, stamp): (MadeBy, &Stamp),
        run: &HookRun<'_>,
    ) -> Result<Option<Made>, Error> {
        let resource = self.mapper.resource(&object.api_version, &object.kind).await?;
        let namespace = run.decoration.namespace_of(object, &resource);
        let Some(name) = name_of(object, stamp, run.decoration) else { return Ok(None) };
        let path = resource.path(namespace, &name)?;
        let asked = Instant::now();
        let live = self.get(&path).await?;
        Ok(live.filter(|live| stamp.covers(made_by, live)).map(|live| Made::of(object, path, &live, asked)))
    }

    /// Creates an object, or finds the one that an earlier request of this run created without getting a response. A
    /// repeated request conflicts with that one, even if its name was left open.
    pub(super) async fn create_once(&self, object: &Object, stamp: &Stamp, run: &HookRun<'_>) -> Result<Made, Error> {
        let error = match self.create_hook(object, stamp, run).await {
            Ok(made) => return Ok(made),
            Err(error) => error,
        };
        match self.find(object, stamp, run).await {
            Ok(Some(made)) => Ok(made),
            // Only a successful search can tell our object from another one.
            Err(unanswered) if error.is_conflict() && unanswered.is_unanswered() => Err(unanswered),
            Ok(None) | Err(_) => Err(error),
        }
    }

    async fn create_hook(&self, object: &Object, stamp: &Stamp, run: &HookRun<'_>) -> Result<Made, Error> {
        let Body { resource, key, json, .. } = self.stamped(object, stamp, run).await?;
        let collection = resource.collection(&key.namespace)?;
        let call = Call::post(format!("{collection}?fieldManager={FIELD_MANAGER}"), bytes(&json));
        let asked = Instant::now();
        let live: Value = self.api().send(call).await?.parse()?;
        let path = resource.path(&key.namespace, live["metadata"]["name"].as_str().unwrap_or(&object.name))?;
        Ok(Made::of(object, path, &live, asked))
    }

    /// Returns the request body for an object of this run; without a path if the chart leaves its name open.
    pub(super) async fn stamped(&self, object: &Object, stamp: &Stamp, run: &HookRun<'_>) -> Result<Body, Error> {
        let resource = self.mapper.resource(&object.api_version, &object.kind).await?;
        let key = key_of(object, run.decoration, &resource);
        let named = !object.name.is_empty();
        let path = if named { resource.path(&key.namespace, &object.name)? } else { String::new() };
        let mut json = run.decoration.decorate(object, &resource);
        json["metadata"]["annotations"][HOOK_RUN_ANNOTATION] = stamp.own.as_str().into();
        if let Some(name) = name_of(object, stamp, run.decoration) {
            json["metadata"]["name"] = name.into();
        }
        let owner = run.decoration.owner.as_ref().map(|owner| owner.uid.clone()).unwrap_or_default();
        Ok(Body { resource, key, path, json, handed_over: Vec::new(), owner })
    }

    /// Deletes an object of this release and waits until it is gone or replaced. Succeeds if it does not exist, or if another
    /// run than `made_by` made it. An object whose name the chart leaves open is found by its `recorded` run. What a former
    /// owner's hook has left makes room for the next run.
    pub(super) async fn delete_hook(
        &self,
        object: &Object,
        (made_by, recorded): (MadeBy, &Stamp),
        clock: &Clock<'_>,
    ) -> Result<(), HookError> {
        let what = format!("{} to be deleted", describe(object));
        let resource = clock.retry(&what, || self.mapper.resource(&object.api_version, &object.kind)).await?;
        let namespace = clock.run.decoration.namespace_of(object, &resource);
        let (path, made_by) = if object.name.is_empty() {
            // Only the stamp shows which name its run chose.
            match clock.retry(&what, || self.find(object, recorded, clock.run)).await? {
                Some(made) => (made.path, MadeBy::RecordedRun),
                None => return Ok(()),
            }
        } else {
            let path = resource.path(namespace, &object.name);
            (path.map_err(|source| HookError::Api { path: clock.hook.path.clone(), source })?, made_by)
        };
        let (mut pause, mut first) = (Pause::default(), None);
        while let Some(metadata) = clock.retry(&what, || self.read_metadata::<Value>(&path)).await? {
            let live = clock.retry(&what, || async { Response::from(bytes(&metadata)).parse::<Live>() }).await?;
            if is_helms(&metadata) && made_by == MadeBy::AnyRun {
                // A person's action that has replaced the revision may have just made it.
                clock.check(&what)?;
            }
            // What somebody has made in its place since then is not what an earlier run left.
            let is_next = *first.get_or_insert_with(|| live.metadata.uid.clone()) != live.metadata.uid;
            if !recorded.covers(made_by, &metadata) || (is_next && matches!(made_by, MadeBy::AnyRun | MadeBy::Operator))
            {
                return Ok(());
            }
            if live.deleting {
                clock.wait(&what, None, &mut pause).await.map_err(HookError::of_deletion)?;
                continue;
            }
            let precedes = made_by == MadeBy::AnyRun;
            if !(precedes && self.has_ended_for_former(object, &path, (&live, &metadata), clock).await?) {
                check_ours(&live, &metadata, object, namespace, clock)?;
            }
            if !clock.retry(&what, || self.delete_if_unchanged(object, &path, &live)).await? {
                clock.wait(&what, None, &mut pause).await.map_err(HookError::of_deletion)?;
            }
        }
        Ok(())
    }

    /// Returns whether a hook of a former owner of the release made this Job or Pod, and it has finished. One that still runs
    /// stays: a live process of that owner may wait for it.
    async fn has_ended_for_former(
        &self,
        object: &Object,
        path: &str,
        (live, metadata): (&Live, &Value),
        clock: &Clock<'_>,
    ) -> Result<bool, HookError> {
        let is_formers = clock.run.decoration.is_of_earlier_owner(live) && !is_helms(metadata);
        if !is_formers || !runs_to_an_end(&object.kind) {
            return Ok(false);
        }
        let what = format!("{} to be found", describe(object));
        let whole = clock.retry(&what, || self.get(path)).await?;
        Ok(whole.is_none_or(|whole| outcome(&object.kind, &whole["status"]).is_some()))
    }

    /// Deletes an object; returns false if it changed since it was read, so that it must be checked again. A Job goes after
    /// its pods: they must not run beside those of the next one.
    async fn delete_if_unchanged(&self, object: &Object, path: &str, live: &Live) -> Result<bool, Error> {
        let how = if object.kind == "Job" { Propagation::Foreground } else { Propagation::Background };
        match self.delete_proven(path, &live.proven(), how).await {
            Err(error) if error.is_conflict() => Ok(false),
            answer => answer.map(|_| true),
        }
    }
}

/// Returns whether Helm or a person made an object: no run of this operator stamped it.
fn is_helms(live: &Value) -> bool {
    live["metadata"]["annotations"][HOOK_RUN_ANNOTATION].is_null()
}

/// Returns kind and name of this run's object. If the chart leaves the name open, it is the one that was chosen.
pub(super) fn called(object: &Object, stamp: &Stamp, decoration: &Decoration) -> String {
    format!("{} {:?}", object.kind, name_of(object, stamp, decoration).unwrap_or_default())
}

/// Returns the name of this run's object: the chart's, or else the one that is chosen for it; `None` if the chart asks for
/// no name.
fn name_of(object: &Object, stamp: &Stamp, decoration: &Decoration) -> Option<String> {
    if !object.name.is_empty() {
        return Some(object.name.clone());
    }
    let prefix = object.body["metadata"]["generateName"].as_str()?;
    // Not the metadata that names chart and owner: they may change before the run is resumed or given up.
    let identity = json!([decoration.namespace, decoration.release, stamp.own, object.body]);
    Some(chosen_name(prefix, &bytes(&identity)))
}

/// Chooses the name of an object with a `generateName`, of at most 63 characters. The server would choose another one
/// for each request, so a request that is repeated because its response was lost would create a second object. Each run
/// has its own name, because its stamp is part of `identity`.
fn chosen_name(prefix: &str, identity: &[u8]) -> String {
    let digest = Sha256::digest(identity);
    let suffix: String = digest.iter().take(SUFFIX_BYTES).map(|byte| format!("{byte:02x}")).collect();
    let prefix: String = prefix.chars().take(MAX_NAME - suffix.len()).collect();
    format!("{prefix}{suffix}")
}

/// Checks that the object in this namespace may be overwritten or deleted: it belongs to this release, or it is an
/// unclaimed hook of Helm's where the release may take over what has no owner. Only Helm's record could tell which
/// release the hook belongs to, and anyone who may write Secrets can write a record.
pub(super) fn check_ours(
    live: &Live,
    metadata: &Value,
    object: &Object,
    namespace: &str,
    clock: &Clock<'_>,
) -> Result<(), HookError> {
    let run = clock.run;
    let rule = Rule::for_new(run.unclaimed).in_namespace(namespace, run.decoration);
    // Helm adds no ownership metadata to hook objects; they have only the chart's annotation.
    let is_hook = metadata["metadata"]["annotations"][HOOK_ANNOTATION].is_string();
    let (path, object) = (clock.hook.path.clone(), describe(object));
    match run.decoration.prove(live, namespace) {
        Err(NotOurs::Unclaimed | NotOurs::Unnamed) if is_hook && matches!(rule, Rule::Adopt(_)) => Ok(()),
        Err(NotOurs::Unclaimed | NotOurs::Unnamed) => {
            Err(HookError::Unclaimed { path, object, annotations: run.decoration.marking(namespace) })
        }
        proven => proven.map_err(|why| HookError::Foreign { path, object, why }),
    }
}
