//! Deletes objects whose immutable fields change, and recreates them. `decide` selects the objects.
//!
//! All objects of a kind are checked before the first is deleted, except in a repair. If the process dies in between,
//! the next attempt finds the object deleted, or being deleted, and creates it. Only objects that have not finished are
//! recorded before: their absence would otherwise look like that of a Job that its TTL has deleted.

mod decide;
#[cfg(test)]
mod tests;

use std::slice::from_ref;
use std::time::Duration;

use futures::future::{BoxFuture, join_all, ready};
use outside::{Call, Error};
use serde_json::Value;
use tokio::time::Instant;

use self::decide::Desired;
use crate::kube::fields::migrate::migrated_managers;
use crate::kube::fields::unapplied::as_applied;
use crate::kube::live_state::live::{Live, Proven};
use crate::kube::live_state::ownership::Rule;
use crate::kube::objects::decorate::FIELD_MANAGER;
use crate::kube::objects::object::{Object, ObjectKey};
use crate::kube::waiting::pause::Pause;
use crate::kube::waiting::slot::without_slot;
use crate::kube::writes::apply::{Applied, Applier, ApplyError, MAX_TRIES, Target, bytes, describe};
use crate::kube::writes::delete::Propagation;
use crate::kube::writes::failures::Failures;
use crate::kube::writes::found::Found;
use crate::kube::writes::limit::WriteLimit;
use crate::kube::writes::write::{AfterFailure, ApplyMethod, Body, Previous, Unchanged, WriteOptions, Written};

pub use decide::Guard;

/// Records which objects an action deletes in order to recreate them.
pub trait Deletions: Send + Sync {
    /// Records that these unfinished objects are about to be deleted, so that a missing one does not count as finished.
    ///
    /// # Errors
    /// The record cannot be written. None of the objects is deleted then.
    fn record<'a>(&'a self, objects: &'a [ObjectKey]) -> BoxFuture<'a, Result<(), DeletionError>>;
}

/// Why a deletion was not recorded.
pub type DeletionError = Box<dyn std::error::Error + Send + Sync>;

/// Records nothing.
impl Deletions for () {
    fn record<'a>(&'a self, _: &'a [ObjectKey]) -> BoxFuture<'a, Result<(), DeletionError>> {
        Box::pin(ready(Ok(())))
    }
}

/// Maximum time that an attempt waits until deleted objects no longer exist. Pods have 30 s to terminate by default.
const LIMIT: Duration = Duration::from_secs(120);

impl ApplyError {
    /// Returns whether an object is still being deleted and only Kubernetes holds it, for example until its Pods are gone.
    pub(crate) fn is_slow_deletion(&self) -> bool {
        let ApplyError::StillDeleting { finalizers, .. } = self else { return false };
        finalizers.iter().all(|finalizer| decide::is_of_kubernetes(finalizer))
    }
}

/// An object whose immutable fields the server refuses to change.
pub(in crate::kube) struct Stuck<'a> {
    pub(in crate::kube) target: &'a Target<'a>,
    pub(in crate::kube) source: Error,
}

impl Stuck<'_> {
    fn guarded(self, guard: Guard) -> ApplyError {
        ApplyError::Guarded { object: describe(self.target.object), guard: guard.into(), source: self.source }
    }

    /// Names the fields, but never their values.
    fn why(&self) -> String {
        match self.source.fields() {
            [] => "its immutable fields change".to_owned(),
            fields => format!("immutable fields change: {}", fields.join(", ")),
        }
    }
}

/// What becomes of an object whose immutable fields the server refuses to change.
enum Verdict {
    /// It is recreated; `None` if it no longer exists or is being deleted.
    Recreate(Option<Deletable>),
    /// It stays as it is: the live object, reduced and whole.
    Leave(Box<Live>, Value),
}

/// A live object that may be deleted.
struct Deletable {
    proven: Proven,
    has_finished: bool,
}

/// An object that may be recreated.
struct Doomed<'a> {
    stuck: Stuck<'a>,
    body: Body,
    /// The live object; `None` if it no longer exists or is being deleted.
    live: Option<Deletable>,
}

impl Applier {
    /// Recreates these objects of one kind, and adds them to `applied`, unless an earlier failure ended the action. With
    /// [`AfterFailure::Continue`], an object that must not be recreated does not prevent the others from being recreated.
    pub(in crate::kube) async fn recreate_each(
        &self,
        stuck: Vec<Stuck<'_>>,
        options: &WriteOptions<'_>,
        applied: &mut Vec<Applied>,
        failures: &mut Failures,
    ) {
        let groups = match options.after_failure {
            AfterFailure::Stop => vec![stuck],
            AfterFailure::Continue => stuck.into_iter().map(|one| vec![one]).collect(),
        };
        for group in groups {
            if failures.stops {
                return;
            }
            if let Err(error) = self.recreate(group, options, applied).await {
                failures.add(error, options);
            }
        }
    }

    /// Deletes these objects of one kind, waits until they and their dependents no longer exist, and creates them. Adds
    /// each to `applied`, even if others fail. Releases the worker slot while waiting.
    ///
    /// An object that someone else creates in between is checked like any other, and not overwritten. With
    /// [`Unchanged::Left`], an object that the chart has not changed is not recreated; a release that takes it over
    /// changes only its metadata.
    ///
    /// # Errors
    /// [`ApplyError::Guarded`] if one of them must not be deleted, or [`ApplyError::Unrecorded`]; then none of them is
    /// deleted. If the server refuses a deletion, or one of them has changed meanwhile, those before it are deleted.
    /// [`ApplyError::StillDeleting`] if a deletion is not complete in time. Otherwise as [`Applier::apply`].
    async fn recreate(
        &self,
        stuck: Vec<Stuck<'_>>,
        options: &WriteOptions<'_>,
        applied: &mut Vec<Applied>,
    ) -> Result<(), ApplyError> {
        let mut doomed = Vec::with_capacity(stuck.len());
        for one in stuck {
            let body = self.body(one.target.object, options.decoration).await?;
            match self.judge(one.target, &body, options).await? {
                Ok(Verdict::Recreate(live)) => doomed.push(Doomed { stuck: one, body, live }),
                Ok(Verdict::Leave(live, whole)) => {
                    applied.push(self.left(one.target, body, (*live, whole), options).await?);
                }
                Err(guard) => return Err(one.guarded(guard)),
            }
        }
        if doomed.is_empty() {
            return Ok(());
        }
        record(&doomed, options).await?;
        let mut gone = Vec::with_capacity(doomed.len());
        for one in doomed {
            gone.push((one.stuck.target, one.body.path.clone()));
            self.delete_doomed(one, options).await?;
        }
        without_slot(options.slot, self.wait_until_gone(&gone, options)).await?;
        let limit = WriteLimit::new();
        let made = join_all(gone.iter().map(|(target, _)| limit.within(self.create_anew(target, options)))).await;
        let mut first = Ok(());
        for one in made {
            match one {
                Ok(made) => applied.extend(made),
                Err(error) => first = first.and(Err(error)),
            }
        }
        first
    }

    /// Checks whether a rejected object may be recreated, and whether the server would delete it. Writes nothing.
    ///
    /// # Errors
    /// `refused` itself if it rejects more than immutable fields; otherwise [`ApplyError::Guarded`].
    pub(crate) async fn check_recreation(
        &self,
        target: &Target<'_>,
        refused: ApplyError,
        options: &WriteOptions<'_>,
    ) -> Result<(), ApplyError> {
        let source = match refused {
            ApplyError::Failed { source, .. } if source.is_immutable() => source,
            other => return Err(other),
        };
        let body = self.body(target.object, options.decoration).await?;
        let refused = match self.judge(target, &body, options).await? {
            Ok(Verdict::Recreate(Some(live))) => self.refused_deletion(target, &body, &live).await?,
            judged => judged.err(),
        };
        refused.map_or(Ok(()), |guard| Err(Stuck { target, source }.guarded(guard)))
    }

    /// Asks the server whether it would delete the live object; returns why not.
    async fn refused_deletion(
        &self,
        target: &Target<'_>,
        body: &Body,
        live: &Deletable,
    ) -> Result<Option<Guard>, ApplyError> {
        match self.dry_run_delete(&body.path, &live.proven).await {
            // One that has just changed is checked again before its deletion.
            Err(source) if source.is_transient() && !source.is_conflict() => {
                Err(ApplyError::Failed { verb: "delete", object: describe(target.object), source })
            }
            answer => Ok(answer.err().and_then(|error| decide::rejection(&error)).map(Guard::Undeletable)),
        }
    }

    /// Reads the live object and decides.
    async fn judge(
        &self,
        target: &Target<'_>,
        body: &Body,
        options: &WriteOptions<'_>,
    ) -> Result<Result<Verdict, Guard>, ApplyError> {
        let failed = |verb| move |source| ApplyError::Failed { verb, object: describe(target.object), source };
        let asked = decide::check_chart(target.object, &body.key, options.recreate);
        if target.observed.is_adopted() {
            return Ok(asked.and(Err(Guard::Adopted)));
        }
        let answer = match self.api.send(Call::get(&body.path)).await {
            Err(error) if error.is_missing_object() => return Ok(asked.map(|()| Verdict::Recreate(None))),
            answer => answer.map_err(failed("read"))?,
        };
        let live: Live = answer.parse().map_err(failed("read"))?;
        if live.deleting {
            return Ok(asked.map(|()| Verdict::Recreate(None)));
        }
        let whole: Value = answer.parse().map_err(failed("read"))?;
        let desired = self.desired(target, body, options).await.map_err(failed("read"))?;
        let is_as_applied = || decide::is_as_applied(&live, &body.key, desired, options.decoration);
        // Another object may have taken the name since the rule admitted one.
        let is_admitted = || target.rule.admits(options.decoration, &live, &body.key.namespace).is_ok();
        if options.unchanged == Unchanged::Left && is_as_applied() && is_admitted() {
            return Ok(Ok(Verdict::Leave(live.into(), whole)));
        }
        let checked = asked.and_then(|()| decide::check_live(&live, &whole, &body.key, desired, options.decoration));
        let has_finished = live.has_finished(&body.key.group, &body.key.kind);
        let deletable = match checked {
            Ok(proven) => Some(Deletable { proven, has_finished }),
            Err(guard) => return Ok(Err(guard)),
        };
        match self.dry_run_create(body).await {
            Err(error) if error.is_transient() => Err(failed("apply")(error)),
            Err(error) => Ok(match decide::rejection(&error) {
                Some(why) => Err(Guard::Rejected(why)),
                None => Ok(Verdict::Recreate(deletable)),
            }),
            Ok(()) => Ok(Ok(Verdict::Recreate(deletable))),
        }
    }

    /// Compares the chart's object with what earlier revisions may have applied.
    async fn desired(&self, target: &Target<'_>, body: &Body, options: &WriteOptions<'_>) -> Result<Desired, Error> {
        if target.changed {
            return Ok(Desired::Changed);
        }
        let namespace = &options.decoration.namespace;
        let bases = options.bases.of(&body.key).await?;
        let is_other = |base: &Object| base.digest(namespace) != target.object.digest(namespace);
        let is_changed = bases.is_empty() || bases.iter().any(is_other);
        Ok(match target.rule {
            _ if is_changed => Desired::Changed,
            Rule::Import | Rule::Adopt(_) if options.unchanged == Unchanged::Left => Desired::TakenOver,
            Rule::Keep | Rule::Import | Rule::Adopt(_) => Desired::Unchanged,
        })
    }

    /// Describes an object that stays as it is, with the method that wrote it. If an earlier writer applied it, makes it
    /// part of the release.
    async fn left(
        &self,
        target: &Target<'_>,
        mut body: Body,
        (mut live, whole): (Live, Value),
        options: &WriteOptions<'_>,
    ) -> Result<Applied, ApplyError> {
        tracing::info!(object = %body.key, "left an object as it is: immutable fields differ from the chart, but not because the chart changed");
        let before = live.resource_version();
        if target.rule != Rule::Keep {
            if live.kept {
                body.tie_by_annotations(target.object, options.decoration);
            }
            let failed = |source| ApplyError::Failed { verb: "apply", object: describe(target.object), source };
            live = self.take_over(&body, whole).await.map_err(failed)?;
        }
        let method = match target.previous {
            Previous::Apply => ApplyMethod::Server,
            Previous::Client { .. } => ApplyMethod::Client { refused: None },
        };
        let changed = live.resource_version() != before;
        Ok(Applied::of(target, body, Written { live, method, changed }, options.decoration))
    }

    /// Makes an object part of the release without changing any field that the chart sets: earlier writers' fields
    /// become ours, and the metadata names the release.
    async fn take_over(&self, body: &Body, mut live: Value) -> Result<Live, Error> {
        let managers = &live["metadata"]["managedFields"];
        let migrated = migrated_managers(managers, &body.owner);
        // No apply follows, so field ownership is settled here.
        let settled = as_applied(migrated.as_ref().unwrap_or(managers)).or(migrated);
        if let Some(managers) = settled {
            live = self.set_managers_of(&live, &body.path, &managers).await?.parse()?;
        }
        if let Some(patch) = decide::tying(&body.json["metadata"], &live["metadata"]) {
            let call = Call::merge(format!("{}?fieldManager={FIELD_MANAGER}", body.path), bytes(&patch));
            live = self.api.send(call).await?.parse()?;
        }
        serde_json::from_value(live).map_err(Error::Json)
    }

    /// Asks the server whether it would accept the object under an unused name.
    async fn dry_run_create(&self, body: &Body) -> Result<(), Error> {
        let mut json = body.json.clone();
        if let Some(metadata) = json["metadata"].as_object_mut() {
            metadata.remove("name");
            metadata.insert("generateName".into(), format!("{}-", body.key.name).into());
        }
        let path = body.resource.collection(&body.key.namespace)?;
        let path = format!("{path}?dryRun=All&fieldManager={FIELD_MANAGER}");
        self.api.send(Call::post(path, bytes(&json))).await.map(drop)
    }

    /// Deletes the object in the state that was checked. If it changed since then, it is checked again.
    async fn delete_doomed(&self, mut doomed: Doomed<'_>, options: &WriteOptions<'_>) -> Result<(), ApplyError> {
        let mut tries = 0;
        while let Some(Deletable { proven, .. }) = &doomed.live {
            tries += 1;
            match self.delete_proven(&doomed.body.path, proven, Propagation::Foreground).await {
                Ok(_) => {
                    options.slot.recreating(&doomed.body.key, &doomed.stuck.why());
                    break;
                }
                Err(error) if error.is_conflict() && tries < MAX_TRIES => {}
                Err(source) => {
                    let refused = decide::rejection(&source).filter(|_| !source.is_transient());
                    let object = describe(doomed.stuck.target.object);
                    return Err(match refused {
                        Some(why) => doomed.stuck.guarded(Guard::Undeletable(why)),
                        None => ApplyError::Failed { verb: "delete", object, source },
                    });
                }
            }
            match self.judge(doomed.stuck.target, &doomed.body, options).await? {
                Ok(Verdict::Recreate(live)) => doomed.live = live,
                Ok(Verdict::Leave(..)) => return Err(doomed.stuck.guarded(Guard::Unchanged)),
                Err(guard) => return Err(doomed.stuck.guarded(guard)),
            }
            record(from_ref(&doomed), options).await?;
        }
        Ok(())
    }

    async fn wait_until_gone(
        &self,
        objects: &[(&Target<'_>, String)],
        options: &WriteOptions<'_>,
    ) -> Result<(), ApplyError> {
        let deadline = Instant::now() + LIMIT;
        for (target, path) in objects {
            let object = describe(target.object);
            let mut pause = Pause::default();
            while let Some(finalizers) = self.finalizers_of_deleted(path, &object).await? {
                if Instant::now() >= deadline {
                    return Err(ApplyError::StillDeleting { object, seconds: LIMIT.as_secs(), finalizers });
                }
                options.slot.waiting_for(&format!("{object} to be deleted, to create it anew"), "");
                options.slot.pause(pause.next()).await;
            }
        }
        Ok(())
    }

    /// Returns the finalizers of an object that is being deleted; `None` once it no longer exists, or someone has
    /// created another one.
    async fn finalizers_of_deleted(&self, path: &str, object: &str) -> Result<Option<Vec<String>>, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "read", object: object.to_owned(), source };
        let live = self.read_metadata::<Live>(path).await.map_err(failed)?;
        Ok(live.filter(|live| live.deleting).map(|live| live.metadata.finalizers.unwrap_or_default()))
    }

    /// Creates the object. If it exists anyway, it must have the metadata of this release.
    async fn create_anew(
        &self,
        target: &Target<'_>,
        options: &WriteOptions<'_>,
    ) -> Result<Option<Applied>, ApplyError> {
        let rule = if matches!(target.rule, Rule::Adopt(_)) { target.rule } else { Rule::Import };
        self.apply(&Target { rule, observed: Found::Absent, expires: false, ..target.clone() }, options).await
    }
}

/// Records which of these objects have not finished, before they are deleted.
async fn record(doomed: &[Doomed<'_>], options: &WriteOptions<'_>) -> Result<(), ApplyError> {
    let is_unfinished = |one: &&Doomed<'_>| one.live.as_ref().is_some_and(|live| !live.has_finished);
    let unfinished: Vec<ObjectKey> = doomed.iter().filter(is_unfinished).map(|one| one.body.key.clone()).collect();
    if unfinished.is_empty() {
        return Ok(());
    }
    options.deletions.record(&unfinished).await.map_err(|source| {
        let objects: Vec<String> = unfinished.iter().map(ToString::to_string).collect();
        ApplyError::Unrecorded { objects: objects.join(", "), source }
    })
}
