//! What the steps of one reconcile work with: the resource, its release, and what was found out on the way.

use std::sync::Arc;
use std::time::Duration;

use controller::runtime::key::ResourceKey;
use controller::runtime::priority::Priority;
use helm_release::action::{Candidate, Current, Environment, Interrupted, Options, Refusal};
use helm_release::kube::{Adopt, Applier, Decoration, Slot};
use helm_release::storage::Known;
use serde_json::Value;
use tokio::time::Instant;

use super::shared::Shared;
use crate::mask::Mask;
use crate::reconcile::decide::interruption::{Aim, Running};
use crate::reconcile::decide::state::Inputs;
use crate::reconcile::report::changes::RanHooks;
use crate::rendering::renderer::acting_as;
use crate::values::Spec;
use crate::view::primary::Primary;
use crate::view::release::Revision;

/// A running reconcile.
pub(crate) struct Work<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) key: &'a ResourceKey,
    pub(crate) slot: &'a dyn Slot,
    /// Who the turn is for. Default: any resource.
    pub(crate) priority: Priority,
    /// Reads and writes the objects of the release, as the watch's ServiceAccount if it has one.
    pub(crate) applier: Applier,
    /// Whether that account is gone, so that the operator itself cleans up.
    pub(crate) orphaned: bool,
    /// The rendered candidate for the next revision.
    pub(crate) candidate: Option<Candidate>,
    /// The deployed revision as the chart renders it, if its record has yet to be judged by that.
    pub(crate) rendered: Option<Candidate>,
    /// What comparing or rendering found.
    pub(crate) judged: Option<Inputs>,
    /// The discovery before it rendered.
    pub(crate) discovered: Option<usize>,
    /// The `spec` that the cache does not keep.
    pub(crate) spec: Option<Spec>,
    /// What the sources of values hold.
    pub(crate) loaded: Option<Loaded>,
    /// How far a full reconcile got.
    pub(crate) progress: Progress,
    /// The hooks that ended and no event has named yet.
    pub(crate) ran: Arc<RanHooks>,
    /// The action that runs.
    pub(crate) running: Arc<Running>,
    /// Whether the resource waits for a place among the upgrades.
    pub(crate) in_line: bool,
    /// Deleted objects that still exist.
    pub(crate) awaited: Option<String>,
    /// Whether the resource was read again.
    pub(crate) reread: bool,
    /// When the last step was decided.
    pub(crate) decided: Instant,
    /// How many steps were decided.
    pub(crate) steps: usize,
}

/// How far a full reconcile got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) rendered: bool,
    pub(crate) applied: bool,
}

impl Progress {
    /// The chart was rendered, and what differed was upgraded.
    pub(crate) fn rendered(&mut self) {
        self.rendered = true;
    }
}

/// What a reconcile has read of the sources of values.
pub(crate) struct Loaded {
    /// What stands for the contents in the digest of the inputs.
    pub(crate) digest: Value,
    /// The resource's `spec` over the contents, until it is rendered.
    pub(crate) spec: Option<Spec>,
    /// Hides what Secrets hold.
    pub(crate) mask: Mask,
}

/// When to take the next step.
pub(crate) enum Next {
    /// At once.
    Again,
    /// At once, with nothing that was found out before: the resource has changed.
    Anew,
    /// When something changes, or after the period.
    Done,
    /// When something changes, or at this time if no watch reports the change.
    At(Instant),
}

impl<'a> Work<'a> {
    pub(crate) fn new(shared: &'a Shared, key: &'a ResourceKey, slot: &'a dyn Slot) -> Work<'a> {
        let decided = Instant::now();
        let progress = Progress::default();
        Work {
            shared,
            key,
            slot,
            priority: Priority::Normal,
            applier: acting_as(&shared.applier, shared.settings.account.as_ref(), &key.namespace),
            orphaned: false,
            candidate: None,
            rendered: None,
            judged: None,
            discovered: None,
            spec: None,
            loaded: None,
            progress,
            ran: Arc::default(),
            running: Arc::default(),
            in_line: false,
            awaited: None,
            reread: false,
            decided,
            steps: 0,
        }
    }
}

impl Work<'_> {
    /// What identifies an attempt: different inputs are tried at once.
    pub(crate) fn attempt(&self, primary: &Primary) -> String {
        if primary.deleting {
            // An annotation may be what helps.
            format!("uninstall {:?}", primary.annotations)
        } else {
            format!("{} {:?}", self.inputs_digest(primary), primary.annotations)
        }
    }

    /// What the release, as it is recorded, adds to its objects.
    pub(crate) fn decoration(&self, primary: &Primary) -> Decoration {
        let release = self.release().unwrap_or_default();
        let marks = release.base().or(release.newest()).and_then(|(_, revision)| revision.marks.clone());
        Decoration { tie: marks.map(|marks| marks.tie()).unwrap_or_default(), ..self.shared.decoration(primary) }
    }

    pub(crate) fn environment<'b>(
        &'b self,
        decoration: &'b Decoration,
        primary: &Primary,
        action: &'static str,
    ) -> Environment<'b> {
        self.running.begin(Aim::of(primary, action), self.used_sources(primary));
        let options = Options {
            // A hook is what the account may do, and not what the operator may.
            disable_hooks: self.orphaned || primary.annotations.disable_hooks(action),
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
            before: self.shared.rollout.before(self.key),
            unclaimed_hooks: self.granted(primary) > Adopt::Never || self.release().is_some_and(|r| r.is_taken_over()),
        };
        Environment {
            applier: &self.applier,
            storage: &self.shared.storage,
            decoration,
            live: &self.shared.cache,
            slot: self.slot,
            options,
        }
    }

    /// The refusal of the last attempt, if it had the same inputs.
    fn refused(&self, primary: &Primary) -> Option<Refusal> {
        let history = self.shared.memory.of(self.key);
        let (inputs, refusal) = history.refused.as_deref()?;
        (*inputs == self.attempt(primary)).then(|| refusal.clone())
    }

    /// The release as actions need it; `None` if no revision exists.
    pub(crate) fn current(&self) -> Option<Current> {
        let release = self.release()?;
        let (version, newest) = release.newest()?;
        let base = release.base().map(|(v, _)| v);
        let packed = release.packed.as_ref().filter(|(v, _)| Some(*v) == base).map(|(_, p)| p.clone());
        let unfinished = newest.marks.as_ref().filter(|_| newest.status.is_pending() && newest.is_sealed());
        let deployed = release.deployed();
        Some(Current {
            version,
            pending: newest.status.is_pending(),
            versions: release.revisions.keys().copied().collect(),
            deployed: deployed.map(|(v, _)| v),
            marks: deployed
                .filter(|(_, revision)| revision.is_sealed())
                .and_then(|(_, revision)| revision.marks.clone()),
            outdated: release.outdated(),
            last_good: release.last_good(),
            inventory: release.inventory(),
            packed,
            first_deployed: release.first_deployed(),
            interrupted: unfinished.map(|m| Interrupted { inputs: m.inputs.clone(), hooks_done: m.hooks_done }),
            taken_over: release.is_taken_over(),
            string_overrides: release.has_string_overrides(),
        })
    }

    /// The records of the release.
    pub(crate) fn records(&self) -> Vec<Known> {
        let release = self.release().unwrap_or_default();
        let known = |(version, revision): (&u32, &Revision)| Known {
            version: *version,
            resource_version: Some(revision.resource_version).filter(|version| *version > 0),
        };
        release.revisions.iter().map(known).collect()
    }

    /// The time limit of one of the chart's hooks. An unreadable annotation does not block a deletion.
    fn hook_timeout(&self, primary: &Primary) -> Option<Duration> {
        let asked = primary.annotations.hook_timeout().ok().flatten();
        Some(asked.unwrap_or(self.shared.settings.hook_timeout)).filter(|limit| !limit.is_zero())
    }
}
