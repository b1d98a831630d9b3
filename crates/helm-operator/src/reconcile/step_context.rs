//! What the steps of one reconcile work with: the resource, its release, and what earlier steps found.

use std::sync::Arc;
use std::time::Duration;

use controller::client::AsOf;
use controller::runtime::key::ResourceKey;
use controller::runtime::priority::Priority;
use helm_release::action::{Action, Current, Environment, Options, Refusal};
use helm_release::kube::{Api, Applier, Decoration, ObjectKey, Owner, Slot, digest_json};
use helm_release::storage::{Known, MarkedObject, Marks, Storage};
use tokio::time::Instant;

use super::controller_context::ControllerContext;
use super::ownership;
use crate::plan::account::Recorder;
use crate::reconcile::changes::{LeftObjects, RanHooks};
use crate::reconcile::decide::action_room::Reservation;
use crate::reconcile::decide::interruption::{Aim, Running};
use crate::reconcile::decide::last_failure::MAX_OBSTRUCTIONS;
use crate::reconcile::decide::recorded::was_never_deployed;
use crate::reconcile::learned::{Findings, Learned};
use crate::rendering::renderer::acting_as;
use crate::view::primary::Primary;
use crate::view::release::{ReleaseRecords, Revision};

/// Why an object whose definition is gone is not ready.
pub(super) const UNSERVED: &str = "the server does not serve its kind";

/// What every step of a reconcile works with. Only the loop changes it, between two steps.
#[derive(Clone)]
pub(crate) struct StepContext<'a> {
    pub(crate) shared: &'a ControllerContext,
    pub(crate) key: &'a ResourceKey,
    pub(crate) slot: &'a dyn Slot,
    /// The class of resources that the permit is for. Default: any resource.
    pub(crate) priority: Priority,
    /// Sends the requests of the last decision until contact with the server is lost.
    pub(crate) api: Arc<dyn Api>,
    /// Reads and writes the objects of the release, as the watch's ServiceAccount if it has one.
    pub(crate) applier: Applier,
    /// Reads and writes the release's records.
    pub(crate) storage: Storage,
    /// Whether that account is deleted, so that the operator itself cleans up.
    pub(crate) orphaned: bool,
    /// The hooks that ended and that no event has named yet.
    pub(crate) ran: Arc<RanHooks>,
    /// The objects that were left and that no event has named yet.
    pub(crate) left: Arc<LeftObjects>,
    /// Notes what the running action writes.
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) running: Arc<Running>,
    /// The memory that the reconcile's action may keep while it waits.
    pub(crate) room: Arc<Reservation>,
    /// When the last step was decided.
    pub(crate) decided: Instant,
    /// The newest revision by then; 0 if there was none.
    pub(crate) newest: u32,
    pub(crate) found: Findings,
}

impl<'a> StepContext<'a> {
    pub(crate) fn new(shared: &'a ControllerContext, key: &'a ResourceKey, slot: &'a dyn Slot) -> StepContext<'a> {
        let (decided, contact) = (Instant::now(), shared.contact.clone());
        let api: Arc<dyn Api> = Arc::new(AsOf { api: shared.api_for(key), contact, decided });
        let recorder = Arc::new(Recorder::new(api.clone(), shared.applier.mapper.clone()));
        let applier = shared.applier.through(recorder.clone());
        StepContext {
            shared,
            key,
            slot,
            priority: Priority::Normal,
            applier: acting_as(&applier, shared.settings.service_account.as_ref(), &key.namespace),
            recorder,
            storage: shared.storage.clone().through(api.clone()),
            api,
            orphaned: false,
            ran: Arc::default(),
            left: Arc::default(),
            running: Arc::default(),
            room: Arc::default(),
            decided,
            newest: newest(shared, key),
            found: Findings::default(),
        }
    }

    /// Begins a decision: from now on, requests are sent as long as contact with the server lasts.
    pub(crate) fn begin_decision(&mut self) {
        let StepContext { api, applier, recorder, storage, decided, newest, .. } =
            StepContext::new(self.shared, self.key, self.slot);
        (self.api, self.applier, self.recorder) = (api, applier, recorder);
        (self.storage, self.decided, self.newest) = (storage, decided, newest);
    }

    /// Returns whether the server may have been restored since the last decision.
    pub(crate) fn is_outdated(&self) -> bool {
        self.shared.contact.was_lost_since(self.decided)
    }

    /// Returns the context for the rest of a step that has already learned something.
    pub(crate) fn knowing<'l>(&self, learned: impl IntoIterator<Item = &'l Learned>) -> StepContext<'a> {
        let mut context = self.clone();
        learned.into_iter().for_each(|learned| context.found.learn(learned.clone()));
        context
    }
}

impl StepContext<'_> {
    /// Returns what identifies an attempt. Different inputs are tried immediately.
    pub(crate) fn attempt(&self, primary: &Primary) -> String {
        let action = if primary.deleting { "uninstall".to_owned() } else { self.inputs_digest(primary) };
        // Annotations are part of the identity, because one may be the remedy. Each failed resource keeps a digest only.
        digest_json(&format!("{action} {:?}", primary.annotations).into())
    }

    /// Returns what the recorded release adds to its objects.
    pub(crate) fn decoration(&self, primary: &Primary) -> Decoration {
        let release = self.release().unwrap_or_default();
        let marks = release.base().or(release.newest()).and_then(|(_, revision)| revision.marks.clone());
        Decoration {
            tie: marks.map(|marks| marks.tie()).unwrap_or_default(),
            former: release.former_owners(&primary.owner()),
            ..ownership::decoration(self.shared, primary)
        }
    }

    pub(crate) fn environment(&self, primary: &Primary, action: Action) -> Environment<'_> {
        self.running.begin(Aim::of(primary, action), self.used_sources(primary), self.found.candidate.clone());
        self.recorder.begin();
        let options = Options {
            // A hook may do what the account may do, and not what the operator may.
            disable_hooks: self.orphaned || primary.annotations.disable_hooks(action),
            leave_unended: !primary.deleting && self.has_waited_for_refused(primary),
            leave_succeeded: self.leaves_succeeded(primary),
            adopt: self.granted(primary),
            description: primary.annotations.description(action),
            max_history: self.shared.settings.max_history,
            hook_timeout: self.hook_timeout(primary),
            apply: self.shared.settings.apply,
            crds: self.shared.settings.crds,
            recreate: self.shared.settings.recreate.clone(),
            reach: self.shared.settings.reach.clone(),
            ignore: self.shared.settings.drift.ignore.clone(),
            refused: self.refused(primary),
            before: self.state_before(primary),
            tests: self.shared.settings.chart_tests.enable,
            rejected: None,
            cause: Arc::default(),
            group_timeout: Some(self.shared.settings.progress_timeout).filter(|limit| !limit.is_zero()),
            unclaimed_hooks: self.unclaimed_hooks(primary),
        };
        Environment {
            applier: &self.applier,
            storage: &self.storage,
            decoration: self.decoration(primary),
            live: self,
            slot: self.slot,
            account: &*self.recorder,
            options,
        }
    }

    /// Returns whether the server has refused for long enough to let the action end a hook, or delete what one left. The
    /// action may then go on beside that, except a deletion beside a hook that was not ended: its message names the
    /// annotation that is the remedy.
    fn has_waited_for_refused(&self, primary: &Primary) -> bool {
        let memory = self.shared.memory.of(self.key);
        // Checked first, because few resources have waited, and the digest of the inputs costs more.
        let has_waited = memory.failure.as_ref().is_some_and(|failure| failure.refused_ends >= MAX_OBSTRUCTIONS);
        has_waited && memory.refused_ends(&self.attempt(primary)) >= MAX_OBSTRUCTIONS
    }

    /// Returns whether the action may go on beside an object of a hook that succeeded. A deletion that waits for objects
    /// gets here again and again, and does not wait for that one again.
    fn leaves_succeeded(&self, primary: &Primary) -> bool {
        let has_left = || self.shared.memory.of(self.key).release.uninstall.has_left_succeeded();
        (primary.deleting && has_left()) || self.has_waited_for_refused(primary)
    }

    /// Returns the refusal of the last attempt, if it had the same inputs.
    pub(crate) fn refused(&self, primary: &Primary) -> Option<Refusal> {
        let memory = self.shared.memory.of(self.key);
        let (inputs, refusal) = memory.refused.as_deref()?;
        (*inputs == self.attempt(primary)).then(|| refusal.clone())
    }

    /// Returns the release in the form that actions need; `None` if no revision exists. The unfinished action of an
    /// earlier resource with this name is not continued: its objects were deleted with that resource.
    pub(crate) fn current(&self, primary: &Primary) -> Option<Current> {
        let release = self.release()?;
        let (version, newest) = release.newest()?;
        let base = release.base().map(|(v, _)| v);
        let deployed = release.deployed();
        // A deletion that ran the chart's hooks has made a later one, to which nothing returns.
        let merged = deployed.map(|(version, _)| version).or(base);
        let packed = merged.and_then(|version| release.record(version).cloned());
        let unfinished = release.unfinished().and_then(|(_, newest)| newest.marks.as_ref());
        let interrupted = unfinished.filter(|marks| *marks.owner == *primary.uid());
        // A revision that is deployed after it ends its uninstall.
        let leaving = release.begun_uninstall().map(|(version, _)| version);
        let owner = primary.owner();
        let inventory = inventory(&release, &owner);
        Some(Current {
            version,
            pending: newest.status.is_pending(),
            abandoned: release.abandoned(),
            records: self.records(),
            deployed: deployed.map(|(v, _)| v),
            marks: deployed
                .filter(|(_, revision)| revision.is_sealed())
                .and_then(|(_, revision)| revision.marks.clone()),
            outdated: release.outdated().into_iter().chain(leaving).collect(),
            last_good: release.last_good(),
            never_deployed: was_never_deployed(&release),
            finished_for_former: finished_for_former(&release, &inventory, &owner),
            inventory,
            packed,
            first_deployed: release.first_deployed(),
            interrupted: interrupted.map(|marks| marks.inputs.clone()),
            taken_over: release.is_taken_over(),
            string_overrides: release.has_string_overrides(primary),
        })
    }

    pub(crate) fn records(&self) -> Vec<Known> {
        let release = self.release().unwrap_or_default();
        let known = |(version, revision): (&u32, &Revision)| Known {
            version: *version,
            resource_version: Some(revision.resource_version).filter(|version| *version > 0),
        };
        release.revisions.iter().map(known).collect()
    }

    /// Returns the time limit for one of the chart's hooks. An invalid annotation does not block a deletion.
    fn hook_timeout(&self, primary: &Primary) -> Option<Duration> {
        let asked = primary.annotations.hook_timeout().ok().flatten();
        Some(asked.unwrap_or(self.shared.settings.hook_timeout)).filter(|limit| !limit.is_zero())
    }
}

/// Returns the number of a release's newest revision; 0 if it has none.
fn newest(shared: &ControllerContext, key: &ResourceKey) -> u32 {
    let release = shared.cache.release(key).unwrap_or_default();
    release.newest().map_or(0, |(version, _)| version)
}

/// Returns the objects that may be live. If the release was never deployed, a Job counts as finished only if it ran for
/// this owner.
fn inventory(release: &ReleaseRecords, owner: &Owner) -> Marks {
    let mut inventory = release.inventory();
    if was_never_deployed(release) {
        let finished = inventory.objects.iter_mut().filter(|object| object.expires);
        finished.for_each(|object| object.expires = has_run(release, &object.key, owner));
    }
    inventory
}

/// Returns the Jobs in an inventory that finished for a resource other than this owner.
pub(crate) fn finished_for_former(release: &ReleaseRecords, inventory: &Marks, owner: &Owner) -> Vec<ObjectKey> {
    if !inventory.is_anothers(owner) {
        return Vec::new();
    }
    // One that was noted for this owner, and has finished since then, ran for it.
    let is_owners =
        |object: &MarkedObject| inventory.is_noted_for(object, &owner.uid) || has_run(release, &object.key, owner);
    let is_formers = |object: &&MarkedObject| object.expires && !is_owners(object);
    inventory.objects.iter().filter(is_formers).map(|object| object.key.clone()).collect()
}

/// Returns whether a revision says that a Job ran for this owner.
fn has_run(release: &ReleaseRecords, job: &ObjectKey, owner: &Owner) -> bool {
    let own = release.revisions.values().filter(|revision| revision.is_marked_for(&owner.uid));
    let mut marks = own.filter_map(|revision| revision.marks.as_ref());
    marks.any(|marks| marks.find(job).is_some_and(|known| known.expires))
}
