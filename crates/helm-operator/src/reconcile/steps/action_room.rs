//! Reserves memory for an action before it begins. An action that waits for hooks and groups keeps what was rendered and
//! holds no worker, so nothing else limits how many wait at a time.

use std::time::Duration;

use helm_release::action::{Action, Candidate};
use helm_release::release::Status;
use tokio::time::Instant;

use crate::dependencies::Waiting;
use crate::reconcile::decide::action_room::{ActionStart, Guest};
use crate::reconcile::decide::gate::Gate;
use crate::reconcile::decide::held::{Lacking, Waits, of_upgrade};
use crate::reconcile::decide::inputs;
use crate::reconcile::decide::state::Step;
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;
use crate::watches::OnFailure;

/// The reason while an action waits for memory.
const QUEUED: &str = "ActionQueued";

const WHY: &str = "waiting for memory: other actions that wait for hooks or groups hold it, and this one begins within \
    30 seconds after enough of them have ended";

/// How often a resource looks for room, which costs no request.
const AGAIN: Duration = Duration::from_secs(30);

impl StepContext<'_> {
    /// Reserves the memory that a step's action needs while it waits. Returns whether there was room; otherwise, the
    /// action must not begin.
    pub(crate) async fn has_room_for(&self, step: Step, primary: &Primary) -> bool {
        let bytes = match (step, &self.found.candidate) {
            (Step::Install, Some(candidate)) => self.waits(primary, Action::Install).bytes(candidate),
            (Step::Upgrade, Some(candidate)) => {
                let remedy = self.held_by_remedy(primary).await;
                of_upgrade(candidate, self.waits(primary, Action::Upgrade), remedy)
            }
            (Step::RollBack, _) => {
                let to = self.rollback_target(primary);
                self.held_by_record(primary, to, self.waits(primary, Action::Rollback)).await
            }
            (Step::Test, _) => {
                let deployed = self.release().and_then(|release| release.deployed().map(|(version, _)| version));
                self.held_by_record(primary, deployed, self.waits(primary, Action::Test)).await
            }
            _ => return true,
        };
        self.reserve(primary, bytes)
    }

    /// Reserves this much memory until the reconcile ends, in place of what an earlier action of it held. Returns whether
    /// there was room, or the action has begun; if not, the resource waits for it.
    pub(crate) fn reserve(&self, primary: &Primary, bytes: Option<usize>) -> bool {
        let has_room = self.takes_room(primary, bytes);
        let lacking = bytes.filter(|_| !has_room).map(|bytes| Lacking { attempt: self.attempt(primary), bytes });
        let is_there = || self.shared.cache.has_primary(self.key, primary.uid());
        self.shared.memory.change_if(is_there, self.key, |memory| memory.lacking = lacking.map(Box::new));
        has_room
    }

    /// Reserves the memory for the rollback after a failed render, which no action has reserved.
    pub(crate) async fn has_room_for_remedy(&self, primary: &Primary) -> bool {
        let bytes = self.held_by_remedy(primary).await;
        self.takes_room(primary, bytes)
    }

    /// Reserves memory for the action; returns whether it may begin. A plan reserves none.
    fn takes_room(&self, primary: &Primary, bytes: Option<usize>) -> bool {
        let (room, start) = (&self.shared.action_room, self.action_start(primary));
        self.shared.settings.rehearses || self.room.replace(room, guest(primary), bytes, start)
    }

    /// Returns whether the next action continues the one that the newest record describes. An action with other inputs
    /// does not: it gives up that action's hooks.
    fn action_start(&self, primary: &Primary) -> ActionStart {
        let release = self.release();
        let Some(release) = release.as_deref() else { return ActionStart::New };
        let unfinished = release.unfinished().and_then(|(_, newest)| newest.marks.as_ref());
        let has_begun = match self.gate(primary, Some(release)) {
            _ if primary.deleting => release.revisions.values().any(|one| one.status == Status::Uninstalling),
            Gate::RollBack | Gate::Pin => unfinished.is_some_and(|marks| marks.rolled_back_to.is_some()),
            _ => unfinished.is_some_and(|marks| {
                inputs::is_equal(&marks.inputs, &self.inputs_digest(primary))
                    || self.differs_by_chance(&marks.inputs, primary)
            }),
        };
        if has_begun { ActionStart::Begun } else { ActionStart::New }
    }

    /// Returns whether there is too little memory to begin the next action. How much it needs is known only after an
    /// attempt to begin it.
    pub(crate) fn is_crowded(&self, primary: &Primary) -> bool {
        let lacking = self.lacking(primary).filter(|_| self.action_start(primary) == ActionStart::New);
        lacking.is_some_and(|bytes| !self.shared.action_room.admits(guest(primary), bytes))
    }

    /// Forgets that the next action lacks memory, because the resource waits for something else.
    pub(crate) fn wants_no_room(&self, primary: &Primary) {
        if self.shared.memory.change(self.key, |memory| memory.lacking.take()).is_some() {
            self.shared.action_room.leave(guest(primary));
        }
    }

    /// Returns what the resource waits for, if its next action lacks memory.
    pub(crate) fn waits_for_room(&self, primary: &Primary) -> Option<Waiting> {
        self.lacking(primary).map(|_| Waiting { reason: QUEUED, message: WHY.to_owned(), is_final: false })
    }

    /// Returns when to look for room again.
    pub(crate) fn room_at(&self, primary: &Primary) -> Option<Instant> {
        self.lacking(primary).map(|_| Instant::now() + AGAIN)
    }

    fn lacking(&self, primary: &Primary) -> Option<usize> {
        let memory = self.shared.memory.of(self.key);
        let lacking = memory.lacking.as_ref()?;
        (lacking.attempt == self.attempt(primary)).then_some(lacking.bytes)
    }

    /// Returns what an action waits for. A hook may do what the account may do, and not what the operator may.
    pub(crate) fn waits(&self, primary: &Primary, action: Action) -> Waits {
        self.with_hooks_of(primary, action, Waits::of(action))
    }

    fn with_hooks_of(&self, primary: &Primary, action: Action, waits: Waits) -> Waits {
        let are_disabled = self.orphaned || primary.annotations.disable_hooks(action);
        if are_disabled { waits.without_hooks() } else { waits }
    }

    /// Returns the memory of what follows if an upgrade fails; `None` if that does not wait for long.
    async fn held_by_remedy(&self, primary: &Primary) -> Option<usize> {
        let waits = match self.shared.settings.on_failure {
            OnFailure::Keep => return None,
            // The annotation of upgrades also disables these hooks.
            OnFailure::Rollback => self.with_hooks_of(primary, Action::Upgrade, Waits::of(Action::Rollback)),
            OnFailure::Uninstall => self.waits(primary, Action::Uninstall),
        };
        let release = self.release()?;
        let deployed = release.deployed().map(|(version, _)| version);
        self.held_by_record(primary, deployed, waits).await
    }

    /// Returns the memory of an action with what a revision recorded; `None` if the record cannot be read now. Then the
    /// action most often fails as well, because it reads it again; if it does not, it runs without a reservation.
    pub(crate) async fn held_by_record(&self, primary: &Primary, version: Option<u32>, waits: Waits) -> Option<usize> {
        let version = version?;
        let marks = self.release()?.revisions.get(&version)?.marks.clone()?;
        let recorded = self.stored(primary, version).await.ok()?.sealed()?;
        // Most actions wait for nothing, and a manifest takes long to parse.
        if !waits.are_long_for(&recorded.get().hooks, &marks) {
            return None;
        }
        waits.bytes(&Candidate::recorded(recorded, &marks.inputs, &marks).ok()?)
    }
}

fn guest(primary: &Primary) -> Guest<'_> {
    Guest { namespace: primary.namespace(), uid: primary.uid(), now: Instant::now() }
}
