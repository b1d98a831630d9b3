//! The whole policy as a pure function: from the observed state of a resource to the next step.
//!
//! Counterpart: fluxcd/helm-controller's `state.go` and `atomic_release.go`; the rules are operator-sdk's and
//! helm-operator-plugins'.
//!
//! It is one file, because a rule makes sense only next to what it observes and the step that it chooses.

use std::fmt;

use strum::Display;

use super::gate::Gate;

/// What is true of a resource and its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    /// The resource is being deleted.
    pub(crate) deleting: bool,
    /// It has our finalizer, or an upstream's.
    pub(crate) finalizer: bool,
    /// Its annotation suspends it.
    pub(crate) suspended: bool,
    /// Its annotation or the author's code pauses it, including its deletion.
    pub(crate) paused: bool,
    /// Whether its annotation requests a plan instead of an action.
    pub(crate) planning: Planning,
    /// The newest revision of the release.
    pub(crate) release: Recorded,
    /// How the revision's inputs compare with the resource's.
    pub(crate) inputs: Inputs,
    /// How the live objects compare with the revision's.
    pub(crate) objects: Objects,
    pub(crate) invalid_annotation: bool,
    /// The same inputs failed, and it is too early to retry.
    pub(crate) held: bool,
    /// The first list of a kind in the release is still running.
    pub(crate) listing: bool,
    /// What to do even if nothing differs.
    pub(crate) again: Again,
    /// Whether an upgrade that is subject to the rollout limit may start.
    pub(crate) upgrade_slot: UpgradeSlot,
    /// Whether the resource's dependencies are met.
    pub(crate) awaits: Awaits,
    /// Resources that depend on it must be deleted first, or may have to: they are not listed yet.
    pub(crate) needed: bool,
    /// The last attempt failed, or a plan is due, and this permit is not reserved for retries.
    pub(crate) yields: bool,
    /// A render of this reconcile was postponed, and its permit is not reserved for retries.
    pub(crate) postponed: bool,
    /// Another process created the newest revision, and this one has not yet waited for it.
    pub(crate) contested: bool,
    /// Someone else keeps recording this release, this process has replaced that too often, and has not yet waited
    /// before it replaces the newest record.
    pub(crate) disputed: bool,
    /// Changes of its records go unnoticed, because the server refuses to list or watch them.
    pub(crate) blind: bool,
    /// Revisions older than the deployed one are also recorded as deployed.
    pub(crate) outdated: bool,
    /// What the tests of the newest revision require.
    pub(crate) gate: Gate,
    /// The next action cannot begin, because other actions use the memory that it needs.
    pub(crate) crowded: bool,
}

/// Whether to plan instead of acting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planning {
    /// No.
    Off,
    /// Yes, and what a plan depends on has changed since the last one.
    Due,
    /// Yes, and the last plan is up to date.
    Done,
}

/// What to do even if nothing differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Nothing,
    /// Render, then apply, because a user requested it.
    Render,
    /// Apply everything.
    Apply,
}

/// Whether a rollout-limited upgrade may start, which is one caused by something outside the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UpgradeSlot {
    /// Allowed, or not subject to the limit.
    NotNeeded,
    /// Needs one of the limited slots.
    Needed,
    /// Queued for a slot, not in turn, or not to queue before all releases are known.
    Waiting,
}

/// Whether a resource's dependencies allow an install or upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// There are none, or all are met.
    Nothing,
    /// Some are unknown.
    Unread,
    /// Some are not met.
    Missing,
}

/// The newest revision of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Recorded {
    /// No revision exists.
    #[strum(to_string = "absent")]
    None,
    /// Its records disappeared, but we did not uninstall it.
    Lost,
    #[strum(to_string = "someone else's")]
    Foreign,
    /// Someone else is working on it: a person with `helm`, or an upstream operator.
    #[strum(to_string = "somebody else at work")]
    InFlight,
    #[strum(to_string = "being installed")]
    PendingInstall,
    /// An upgrade or rollback is unfinished.
    #[strum(to_string = "being changed")]
    Pending,
    /// The last action failed, and an older revision is deployed.
    Failed,
    /// The last action failed, and nothing is deployed.
    #[strum(to_string = "failed to install")]
    FailedInstall,
    /// It is uninstalled, but its record is kept.
    Uninstalled,
    /// Revisions that may have live objects have no marks, because Helm or an upstream operator wrote them.
    #[strum(to_string = "without marks")]
    Unmarked,
    Deployed,
}

/// How a revision's inputs compare with the resource's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Inputs {
    /// The inputs are equal, so a render would produce the same objects.
    #[strum(to_string = "unchanged")]
    Same,
    /// Recorded by Helm, an upstream operator, or an operator with another digest scheme. Only the record itself can be
    /// compared.
    #[strum(to_string = "not compared")]
    Uncompared,
    /// A value source has changed since it was read, or is missing.
    #[strum(to_string = "not read")]
    Unread,
    /// Different, and not rendered yet.
    Changed,
    /// Rendered, with the revision's objects as the result.
    #[strum(to_string = "render the same")]
    RenderedSame,
    /// Rendered, with other objects as the result.
    #[strum(to_string = "rendered")]
    RenderedOther,
}

/// How live objects compare with a revision's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Objects {
    /// As we left them, as far as we know.
    Intact,
    /// Applied by someone else for this release.
    #[strum(to_string = "not marked as ours")]
    Unmarked,
    /// Of a revision that this operator recorded, but not known to be as we left them, or tied to an earlier resource of
    /// the same name.
    #[strum(to_string = "not taken over")]
    Unclaimed,
    /// Some objects are missing, or have lost fields of ours.
    Drifted,
    /// Some objects whose drift is only reported have drifted, and it is not known how.
    #[strum(to_string = "drifted, and not reported yet")]
    Unreported,
    /// They keep drifting, and it is too early to repair them.
    #[strum(to_string = "drifting again and again")]
    Looping,
    /// As we left them, but the events of our writes are overdue.
    #[strum(to_string = "not confirmed")]
    Unconfirmed,
}

/// The next step, which the log names: `install`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Step {
    /// Nothing is left to do.
    Nothing,
    /// Too early; the requeue time is set.
    Wait,
    /// Wait until other actions have given memory back.
    #[strum(to_string = "wait for memory")]
    AwaitRoom,
    /// Report that the release belongs to someone else.
    Refuse,
    #[strum(to_string = "report invalid annotation")]
    ReportInvalidAnnotation,
    /// Report that the records cannot be watched.
    #[strum(to_string = "report that records cannot be watched")]
    ReportBlindness,
    /// Report that someone else is working on the release, and how long that is respected.
    #[strum(to_string = "leave alone")]
    LeaveAlone,
    /// Add our finalizer to the resource.
    #[strum(to_string = "add finalizer")]
    AddFinalizer,
    /// Read the records that Helm or an upstream operator wrote.
    #[strum(to_string = "read record")]
    Read,
    #[strum(to_string = "read sources of values")]
    ReadSources,
    /// Read the dependencies that are unknown.
    #[strum(to_string = "read dependencies")]
    ReadDependencies,
    #[strum(to_string = "wait for dependencies")]
    AwaitDependencies,
    /// Wait until the resources that depend on this one are deleted.
    #[strum(to_string = "wait for dependents")]
    AwaitDependents,
    /// Compare chart and values with those in the record.
    #[strum(to_string = "compare with record")]
    Compare,
    /// Take one of the limited upgrade slots, or queue for one.
    #[strum(to_string = "wait for other upgrades")]
    Queue,
    /// Wait before replacing the revision of another process.
    #[strum(to_string = "give way")]
    GiveWay,
    /// Wait for a permit that is reserved for retries.
    #[strum(to_string = "wait for other retries")]
    Retry,
    /// Plan the next reconcile.
    Plan,
    Render,
    /// Create the first revision, or continue its installation.
    Install,
    /// Create the next revision.
    Upgrade,
    /// Run the tests of the deployed revision.
    Test,
    /// Roll back the deployed revision, whose tests failed.
    #[strum(to_string = "roll back")]
    RollBack,
    #[strum(to_string = "take objects over")]
    TakeOwnership,
    Repair,
    /// Apply every object again.
    #[strum(to_string = "apply again")]
    Reapply,
    /// Determine who changed which fields, and report it.
    #[strum(to_string = "report drift")]
    Detect,
    /// Read objects that we wrote and whose events are overdue.
    #[strum(to_string = "confirm own writes")]
    Confirm,
    /// Mark replaced revisions superseded.
    #[strum(to_string = "supersede old revisions")]
    Supersede,
    /// Delete the objects and the records.
    Uninstall,
    /// Remove our finalizer from the resource.
    #[strum(to_string = "remove finalizer")]
    RemoveFinalizer,
}

impl Step {
    /// Returns whether the step is an action, or the slot or the render for one.
    fn is_action(self) -> bool {
        use Step::{Install, Queue, Render, RollBack, Test, Uninstall, Upgrade};
        matches!(self, Queue | Render | Install | Upgrade | RollBack | Test | Uninstall)
    }

    /// Returns whether the step would be wrong if the known records were not the release's newest. An install or upgrade is
    /// not listed, because it follows a render, which is.
    pub(crate) fn trusts_records(self) -> bool {
        use Step::{Compare, Detect, LeaveAlone, Plan, Read, Reapply, RemoveFinalizer, Render, Repair};
        use Step::{RollBack, Supersede, TakeOwnership, Test, Uninstall};
        let changes = matches!(self, Render | Test | RollBack | TakeOwnership | Repair | Reapply | Supersede);
        let reads = matches!(self, LeaveAlone | Read | Compare | Plan | Detect);
        changes || reads || matches!(self, Uninstall | RemoveFinalizer)
    }

    /// Returns whether the step uses the values of the resource.
    pub(crate) fn reads_values(self) -> bool {
        use Step::{Compare, Install, ReadSources, Render, TakeOwnership, Uninstall, Upgrade};
        matches!(self, ReadSources | Compare | Render | Install | Upgrade | TakeOwnership | Uninstall)
    }
}

impl Observed {
    /// Returns whether there is nothing to do until something changes.
    pub(crate) fn is_idle(&self) -> bool {
        let is_left = self.suspended || self.planning != Planning::Off;
        self.paused || if self.deleting { !self.finalizer } else { is_left }
    }

    /// Returns whether at most drift is left to repair or report. Then whatever failed before has succeeded since.
    pub(crate) fn only_drifts(&self) -> bool {
        let repaired = Observed { objects: Objects::Intact, ..self.clone() };
        let is_owned = !matches!(self.objects, Objects::Unmarked | Objects::Unclaimed);
        let is_known = self.release == Recorded::Deployed && is_owned;
        is_known && !self.is_idle() && wanted_step(&repaired) == Step::Nothing
    }
}

/// Formats the observation for the log: `release deployed, inputs changed, objects intact, held`.
impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "release {}, inputs {}, objects {}", self.release, self.inputs, self.objects)?;
        let flags = [
            (self.deleting, "deleting"),
            (!self.finalizer, "without finalizer"),
            (self.suspended, "suspended"),
            (self.paused, "paused"),
            (self.planning == Planning::Due, "plan due"),
            (self.planning == Planning::Done, "planned"),
            (self.held, "held"),
            (self.listing, "objects not listed yet"),
            (self.yields, "without a permit for retries"),
            (self.postponed, "render postponed"),
            (self.contested, "made by another operator"),
            (self.disputed, "made by others again and again"),
            (self.blind, "records not watched"),
            (self.outdated, "with outdated revisions"),
            (self.gate == Gate::Test, "tests due"),
            (matches!(self.gate, Gate::Pin | Gate::Pinned), "pinned"),
            (matches!(self.gate, Gate::RollBack | Gate::Closed), "tests failed"),
            (self.awaits == Awaits::Unread, "dependencies not read"),
            (self.awaits == Awaits::Missing, "dependencies missing"),
            (self.needed, "needed by others"),
            (self.crowded, "without memory for an action"),
        ];
        flags.iter().filter(|(set, _)| *set).try_for_each(|(_, word)| write!(f, ", {word}"))
    }
}

/// Returns the next step. An attempt starts with a render. If it may fail again, it uses a permit for retries, so that
/// it does not delay others. A plan always does: it holds all objects that it would write, so the process makes one at a
/// time.
pub(crate) fn next_step(observed: &Observed) -> Step {
    match wanted_step(observed) {
        step if observed.crowded && step.is_action() => while_crowded(observed),
        Step::Render | Step::Plan if observed.yields => Step::Retry,
        // Most of these need no render.
        Step::Compare | Step::TakeOwnership | Step::Uninstall if observed.postponed => Step::Retry,
        step => step,
    }
}

/// Decides while the next action waits for memory: the deployed revision is maintained meanwhile.
fn while_crowded(observed: &Observed) -> Step {
    match (observed.release, observed.objects) {
        _ if observed.deleting => Step::AwaitRoom,
        (Recorded::Deployed | Recorded::Failed, Objects::Drifted) => Step::Repair,
        (Recorded::Deployed, Objects::Unreported) => Step::Detect,
        _ => Step::AwaitRoom,
    }
}

fn wanted_step(observed: &Observed) -> Step {
    if observed.paused {
        return Step::Nothing;
    }
    if observed.deleting {
        return when_deleting(observed);
    }
    if observed.suspended {
        return Step::Nothing;
    }
    if observed.invalid_annotation && observed.release != Recorded::Foreign {
        return if observed.held { Step::Wait } else { Step::ReportInvalidAnnotation };
    }
    if observed.blind {
        return when_blind(observed);
    }
    // The live objects are not known yet.
    if observed.listing {
        return Step::Wait;
    }
    match observed.planning {
        Planning::Off => {}
        _ if observed.inputs == Inputs::Unread => return Step::ReadSources,
        Planning::Due => return Step::Plan,
        Planning::Done => return Step::Nothing,
    }
    match observed.release {
        Recorded::Deployed if observed.finalizer => when_deployed(observed),
        Recorded::InFlight if observed.finalizer => Step::LeaveAlone,
        // A failure holds every step except repairs, which have their own hold.
        Recorded::Failed if observed.held && is_repaired(observed) => Step::Repair,
        _ if observed.held => Step::Wait,
        Recorded::Foreign => Step::Refuse,
        _ if !observed.finalizer => Step::AddFinalizer,
        Recorded::Unmarked => Step::Read,
        recorded => when_not_deployed(recorded, observed),
    }
}

/// Decides while the records cannot be watched. They may be outdated, so acting on them could undo someone else's
/// change, or leave objects behind that were never seen.
fn when_blind(observed: &Observed) -> Step {
    if observed.held { Step::Wait } else { Step::ReportBlindness }
}

/// Returns whether what was deployed before a failed upgrade is repaired while no other may begin.
fn is_repaired(observed: &Observed) -> bool {
    observed.finalizer && !observed.disputed && observed.objects == Objects::Drifted
}

fn when_deleting(observed: &Observed) -> Step {
    match observed.release {
        _ if !observed.finalizer => Step::Nothing,
        _ if observed.blind => when_blind(observed),
        // Objects that the other action is about to create would be left behind.
        Recorded::InFlight => Step::LeaveAlone,
        _ if observed.held => Step::Wait,
        Recorded::None | Recorded::Foreign => Step::RemoveFinalizer,
        Recorded::Unmarked => Step::Read,
        _ if observed.needed => Step::AwaitDependents,
        _ => Step::Uninstall,
    }
}

fn when_not_deployed(recorded: Recorded, observed: &Observed) -> Step {
    let rendered = matches!(observed.inputs, Inputs::RenderedSame | Inputs::RenderedOther);
    // An action that has begun is completed, even if dependencies are no longer met.
    let is_begun = matches!(recorded, Recorded::Pending | Recorded::PendingInstall);
    let waits = observed.upgrade_slot == UpgradeSlot::Waiting || observed.awaits == Awaits::Missing;
    match recorded {
        Recorded::Failed | Recorded::FailedInstall | Recorded::Pending | Recorded::PendingInstall
            if observed.disputed =>
        {
            Step::GiveWay
        }
        _ if matches!(observed.gate, Gate::RollBack | Gate::Pin) => Step::RollBack,
        // The next upgrade would recreate missing objects, but may have to wait for long.
        Recorded::Failed if waits && observed.objects == Objects::Drifted => Step::Repair,
        // A failed upgrade is followed by another, which begins like an upgrade of a deployed revision.
        Recorded::Failed if observed.upgrade_slot == UpgradeSlot::Waiting => Step::Wait,
        _ if observed.awaits == Awaits::Unread && !is_begun => Step::ReadDependencies,
        _ if observed.awaits == Awaits::Missing && !is_begun => Step::AwaitDependencies,
        _ if observed.inputs == Inputs::Unread => Step::ReadSources,
        Recorded::Failed | Recorded::FailedInstall if observed.contested => Step::GiveWay,
        Recorded::Failed if observed.upgrade_slot == UpgradeSlot::Needed => Step::Queue,
        _ if !rendered => Step::Render,
        Recorded::None
        | Recorded::Lost
        | Recorded::PendingInstall
        | Recorded::FailedInstall
        | Recorded::Uninstalled => Step::Install,
        _ => Step::Upgrade,
    }
}

fn when_deployed(observed: &Observed) -> Step {
    let is_changed = matches!(observed.inputs, Inputs::Changed | Inputs::RenderedOther);
    let is_missing = is_changed && observed.awaits == Awaits::Missing;
    let stops = observed.held || observed.gate == Gate::Closed || observed.upgrade_slot == UpgradeSlot::Waiting;
    let waits = stops || is_missing;
    let is_kept = observed.gate == Gate::Closed && observed.again == Again::Apply && !observed.held;
    match (observed.inputs, observed.objects) {
        // Nothing follows that would do it.
        (_, Objects::Intact | Objects::Looping) if observed.gate == Gate::Closed && observed.outdated => {
            Step::Supersede
        }
        (_, Objects::Drifted) if observed.gate == Gate::Pin && observed.held => Step::Repair,
        _ if observed.gate == Gate::Pin && observed.held => Step::Wait,
        _ if observed.gate == Gate::Pin && observed.disputed => Step::GiveWay,
        _ if observed.gate == Gate::Pin => Step::RollBack,
        // The deployed revision is maintained even while the next one cannot be created.
        (inputs, Objects::Drifted) if differs(inputs) && waits => Step::Repair,
        (inputs, Objects::Unreported) if differs(inputs) && waits => Step::Detect,
        (inputs, Objects::Unclaimed) if differs(inputs) && waits && !observed.held => Step::TakeOwnership,
        // The rejected revision is not tried again, so what is deployed is applied instead.
        (_, objects) if is_kept && objects != Objects::Unmarked => Step::Reapply,
        (inputs, _) if differs(inputs) && stops => Step::Wait,
        // A rollback waits for no dependency.
        _ if is_missing && observed.gate == Gate::RollBack => Step::RollBack,
        _ if is_missing => Step::AwaitDependencies,
        _ if is_changed && observed.awaits == Awaits::Unread => Step::ReadDependencies,
        (Inputs::Unread, _) => Step::ReadSources,
        (Inputs::Uncompared, _) => Step::Compare,
        (Inputs::Changed | Inputs::RenderedOther, _) if observed.contested || observed.disputed => Step::GiveWay,
        (Inputs::Changed | Inputs::RenderedOther, _) if observed.upgrade_slot == UpgradeSlot::Needed => Step::Queue,
        (Inputs::Changed, _) => Step::Render,
        (Inputs::RenderedOther, _) => Step::Upgrade,
        (_, Objects::Unmarked | Objects::Unclaimed) if observed.held => Step::Wait,
        (_, Objects::Unmarked | Objects::Unclaimed) if observed.disputed => Step::GiveWay,
        (_, Objects::Unmarked | Objects::Unclaimed) => Step::TakeOwnership,
        // Drift may never end.
        _ if observed.outdated && !observed.held => Step::Supersede,
        _ if observed.gate == Gate::RollBack && !observed.held => Step::RollBack,
        _ if observed.again == Again::Apply && !observed.held => Step::Reapply,
        (_, Objects::Drifted) => Step::Repair,
        (_, Objects::Unreported) => Step::Detect,
        (_, Objects::Looping) => Step::Wait,
        (_, Objects::Unconfirmed) => Step::Confirm,
        // These are held.
        (_, Objects::Intact) if observed.outdated || observed.again == Again::Apply => Step::Wait,
        (_, Objects::Intact) if matches!(observed.gate, Gate::Test | Gate::RollBack) && observed.held => Step::Wait,
        (_, Objects::Intact) if observed.gate == Gate::Test => Step::Test,
        (_, Objects::Intact) => Step::Nothing,
    }
}

/// Returns whether the next revision has yet to be created, as far as is known.
fn differs(inputs: Inputs) -> bool {
    !matches!(inputs, Inputs::Same | Inputs::RenderedSame)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Observed = Observed {
        deleting: false,
        finalizer: true,
        suspended: false,
        paused: false,
        planning: Planning::Off,
        release: Recorded::Deployed,
        inputs: Inputs::Same,
        objects: Objects::Intact,
        invalid_annotation: false,
        held: false,
        listing: false,
        again: Again::Nothing,
        upgrade_slot: UpgradeSlot::NotNeeded,
        awaits: Awaits::Nothing,
        needed: false,
        yields: false,
        postponed: false,
        contested: false,
        disputed: false,
        blind: false,
        outdated: false,
        gate: Gate::Open,
        crowded: false,
    };

    fn check(cases: &[(&str, Observed, Step)]) {
        for (behaviour, observed, expected) in cases {
            assert_eq!(next_step(observed), *expected, "{behaviour}");
        }
    }

    #[test]
    fn a_resource_without_a_release_gets_its_finalizer_before_the_install() {
        let new = Observed { release: Recorded::None, inputs: Inputs::Changed, finalizer: false, ..FINE };
        check(&[
            ("finalizer before anything", new.clone(), Step::AddFinalizer),
            ("then render", Observed { finalizer: true, ..new.clone() }, Step::Render),
            (
                "its sources before it is rendered",
                Observed { finalizer: true, inputs: Inputs::Unread, ..new.clone() },
                Step::ReadSources,
            ),
            ("then install", Observed { finalizer: true, inputs: Inputs::RenderedOther, ..new.clone() }, Step::Install),
            ("not while held", Observed { finalizer: true, held: true, ..new.clone() }, Step::Wait),
            ("not while suspended", Observed { suspended: true, ..new.clone() }, Step::Nothing),
            ("not while paused", Observed { paused: true, ..new.clone() }, Step::Nothing),
        ]);
    }

    #[test]
    fn only_the_attempts_of_failed_resources_wait_for_a_turn_of_their_own() {
        let failed = Observed { yields: true, ..FINE };
        let new = Observed { release: Recorded::None, inputs: Inputs::Changed, ..failed.clone() };
        check(&[
            ("an install", new.clone(), Step::Retry),
            ("an upgrade", Observed { inputs: Inputs::Changed, ..failed.clone() }, Step::Retry),
            ("not before its time", Observed { held: true, ..new.clone() }, Step::Wait),
            ("what is deployed is repaired", Observed { objects: Objects::Drifted, ..failed.clone() }, Step::Repair),
            (
                "what was rendered is installed",
                Observed { inputs: Inputs::RenderedOther, ..new.clone() },
                Step::Install,
            ),
            ("a deletion", Observed { deleting: true, release: Recorded::FailedInstall, ..new }, Step::Uninstall),
            ("nothing", failed, Step::Nothing),
        ]);
    }

    #[test]
    fn an_action_without_memory_waits_while_what_is_deployed_is_maintained() {
        let crowded = Observed { crowded: true, ..FINE };
        let changed = Observed { inputs: Inputs::Changed, ..crowded.clone() };
        let given_up = Observed { release: Recorded::Pending, ..changed.clone() };
        let begun = Observed { release: Recorded::Pending, inputs: Inputs::RenderedOther, ..FINE };
        check(&[
            ("before a render", changed.clone(), Step::AwaitRoom),
            ("even as a retry", Observed { yields: true, ..changed.clone() }, Step::AwaitRoom),
            ("without a slot", Observed { upgrade_slot: UpgradeSlot::Needed, ..changed.clone() }, Step::AwaitRoom),
            ("not its turn", Observed { upgrade_slot: UpgradeSlot::Waiting, ..changed.clone() }, Step::Wait),
            ("an upgrade", Observed { inputs: Inputs::RenderedOther, ..changed.clone() }, Step::AwaitRoom),
            ("what replaces an interrupted one", given_up, Step::AwaitRoom),
            ("not what was interrupted itself", begun, Step::Upgrade),
            ("an install", Observed { release: Recorded::None, ..changed.clone() }, Step::AwaitRoom),
            ("tests", Observed { gate: Gate::Test, ..crowded.clone() }, Step::AwaitRoom),
            ("a rollback", Observed { gate: Gate::RollBack, ..crowded.clone() }, Step::AwaitRoom),
            ("a deletion", Observed { deleting: true, ..changed.clone() }, Step::AwaitRoom),
            ("drift is repaired", Observed { objects: Objects::Drifted, ..changed.clone() }, Step::Repair),
            ("or reported", Observed { objects: Objects::Unreported, ..changed.clone() }, Step::Detect),
            ("not of a deletion", Observed { deleting: true, objects: Objects::Drifted, ..changed }, Step::AwaitRoom),
            ("what is in line stays", crowded, Step::Nothing),
        ]);
    }

    #[test]
    fn what_needs_a_render_that_was_postponed_waits_for_a_turn_of_its_own() {
        let postponed = Observed { yields: true, postponed: true, ..FINE };
        let taken_over = Observed { objects: Objects::Unmarked, ..postponed.clone() };
        check(&[
            ("an upgrade", Observed { inputs: Inputs::Changed, ..postponed.clone() }, Step::Retry),
            ("a comparison", Observed { inputs: Inputs::Uncompared, ..postponed.clone() }, Step::Retry),
            ("what is taken over", taken_over.clone(), Step::Retry),
            ("a deletion whose hooks the chart knows", Observed { deleting: true, ..postponed.clone() }, Step::Retry),
            ("a repair needs none", Observed { objects: Objects::Drifted, ..postponed }, Step::Repair),
            ("with a turn of its own", Observed { yields: false, postponed: false, ..taken_over }, Step::TakeOwnership),
        ]);
    }

    #[test]
    fn an_unfinished_action_is_done_again_at_once() {
        let rendered = |release| Observed { release, inputs: Inputs::RenderedOther, ..FINE };
        check(&[
            ("install", rendered(Recorded::PendingInstall), Step::Install),
            ("failed install", rendered(Recorded::FailedInstall), Step::Install),
            ("record kept after uninstall", rendered(Recorded::Uninstalled), Step::Install),
            ("upgrade or rollback", rendered(Recorded::Pending), Step::Upgrade),
            ("failed upgrade", rendered(Recorded::Failed), Step::Upgrade),
            ("same inputs are rendered again", Observed { release: Recorded::Pending, ..FINE }, Step::Render),
            (
                "and those of another scheme",
                Observed { release: Recorded::Pending, inputs: Inputs::Uncompared, ..FINE },
                Step::Render,
            ),
        ]);
    }

    #[test]
    fn what_was_deployed_before_a_failed_upgrade_is_repaired_while_that_may_not_be_tried_again() {
        let failed = Observed { release: Recorded::Failed, inputs: Inputs::Changed, held: true, ..FINE };
        let drifted = Observed { objects: Objects::Drifted, ..failed.clone() };
        check(&[
            ("nothing drifts", failed.clone(), Step::Wait),
            ("its repair is held as well", Observed { objects: Objects::Looping, ..failed }, Step::Wait),
            ("an object is missing", drifted.clone(), Step::Repair),
            ("another process disputes it", Observed { disputed: true, ..drifted.clone() }, Step::Wait),
            ("the upgrade may be tried again", Observed { held: false, ..drifted }, Step::Render),
        ]);
    }

    #[test]
    fn a_deployed_release_is_left_alone_unless_something_differs() {
        check(&[
            ("nothing differs", FINE, Step::Nothing),
            ("inputs differ", Observed { inputs: Inputs::Changed, ..FINE }, Step::Render),
            ("a source of values changed", Observed { inputs: Inputs::Unread, ..FINE }, Step::ReadSources),
            ("a source is missing", Observed { inputs: Inputs::Unread, held: true, ..FINE }, Step::Wait),
            (
                "a source is missing, and drift",
                Observed { inputs: Inputs::Unread, objects: Objects::Drifted, held: true, ..FINE },
                Step::Repair,
            ),
            ("inputs of another scheme", Observed { inputs: Inputs::Uncompared, ..FINE }, Step::Compare),
            (
                "inputs of another scheme, and drift",
                Observed { inputs: Inputs::Uncompared, objects: Objects::Drifted, ..FINE },
                Step::Compare,
            ),
            ("not while held", Observed { inputs: Inputs::Uncompared, held: true, ..FINE }, Step::Wait),
            (
                "but drift is repaired",
                Observed { inputs: Inputs::Uncompared, objects: Objects::Drifted, held: true, ..FINE },
                Step::Repair,
            ),
            ("but not the objects", Observed { inputs: Inputs::RenderedSame, ..FINE }, Step::Nothing),
            ("the objects differ", Observed { inputs: Inputs::RenderedOther, ..FINE }, Step::Upgrade),
            (
                "upgrade wins over drift",
                Observed { inputs: Inputs::RenderedOther, objects: Objects::Drifted, ..FINE },
                Step::Upgrade,
            ),
            ("drift", Observed { objects: Objects::Drifted, ..FINE }, Step::Repair),
            ("drift that is only reported", Observed { objects: Objects::Unreported, ..FINE }, Step::Detect),
            (
                "even while an upgrade is held",
                Observed { inputs: Inputs::Changed, objects: Objects::Unreported, held: true, ..FINE },
                Step::Detect,
            ),
            ("drift again and again", Observed { objects: Objects::Looping, ..FINE }, Step::Wait),
            (
                "drift while an upgrade is held",
                Observed { inputs: Inputs::Changed, objects: Objects::Drifted, held: true, ..FINE },
                Step::Repair,
            ),
            ("held", Observed { inputs: Inputs::Changed, held: true, ..FINE }, Step::Wait),
            ("replaced revisions", Observed { outdated: true, ..FINE }, Step::Supersede),
            ("but not at once again", Observed { outdated: true, held: true, ..FINE }, Step::Wait),
            ("whatever drifts", Observed { outdated: true, objects: Objects::Drifted, ..FINE }, Step::Supersede),
            ("and however often", Observed { outdated: true, objects: Objects::Looping, ..FINE }, Step::Supersede),
            (
                "without delaying a repair",
                Observed { outdated: true, held: true, objects: Objects::Drifted, ..FINE },
                Step::Repair,
            ),
            ("own writes without events", Observed { objects: Objects::Unconfirmed, ..FINE }, Step::Confirm),
            (
                "a hold of other steps lets repairs through",
                Observed { objects: Objects::Drifted, held: true, ..FINE },
                Step::Repair,
            ),
            (
                "taking objects over failed just now",
                Observed { objects: Objects::Unmarked, held: true, ..FINE },
                Step::Wait,
            ),
            ("reading failed just now", Observed { release: Recorded::Unmarked, held: true, ..FINE }, Step::Wait),
            ("refused just now", Observed { release: Recorded::Foreign, held: true, ..FINE }, Step::Wait),
            ("objects not listed yet", Observed { inputs: Inputs::Changed, listing: true, ..FINE }, Step::Wait),
            ("no finalizer yet", Observed { finalizer: false, ..FINE }, Step::AddFinalizer),
            ("the finalizer failed just now", Observed { finalizer: false, held: true, ..FINE }, Step::Wait),
            ("an upstream's record", Observed { release: Recorded::Unmarked, ..FINE }, Step::Read),
            (
                "an upstream's objects",
                Observed { inputs: Inputs::RenderedSame, objects: Objects::Unmarked, ..FINE },
                Step::TakeOwnership,
            ),
            ("someone else's", Observed { release: Recorded::Foreign, finalizer: false, ..FINE }, Step::Refuse),
        ]);
    }

    #[test]
    fn tests_run_once_everything_is_settled_and_their_failure_is_undone_once() {
        let due = Observed { gate: Gate::Test, ..FINE };
        let failed = Observed { gate: Gate::RollBack, ..FINE };
        let undone = Observed { gate: Gate::Closed, inputs: Inputs::Changed, ..FINE };
        check(&[
            ("due", due.clone(), Step::Test),
            ("not before a repair", Observed { objects: Objects::Drifted, ..due.clone() }, Step::Repair),
            ("not of what is replaced", Observed { inputs: Inputs::Changed, ..due.clone() }, Step::Render),
            ("not just after an outage", Observed { held: true, ..due.clone() }, Step::Wait),
            ("not while suspended", Observed { suspended: true, ..due.clone() }, Step::Nothing),
            ("deleted", Observed { deleting: true, ..due }, Step::Uninstall),
            ("failed", failed.clone(), Step::RollBack),
            ("with drift", Observed { objects: Objects::Drifted, ..failed.clone() }, Step::RollBack),
            ("not just after that failed", Observed { held: true, ..failed.clone() }, Step::Wait),
            (
                "interrupted",
                Observed { release: Recorded::Pending, inputs: Inputs::Changed, ..failed.clone() },
                Step::RollBack,
            ),
            (
                "it failed",
                Observed { release: Recorded::Failed, inputs: Inputs::Changed, ..failed.clone() },
                Step::RollBack,
            ),
            ("not tried again", undone.clone(), Step::Wait),
            ("nor read for it", Observed { inputs: Inputs::Unread, ..undone.clone() }, Step::Wait),
            ("but repaired", Observed { objects: Objects::Drifted, ..undone.clone() }, Step::Repair),
            ("and the one that it undid is marked so", Observed { outdated: true, ..undone.clone() }, Step::Supersede),
        ]);
        let asked = Observed { again: Again::Apply, ..undone };
        check(&[
            ("what stays is applied again on request", asked.clone(), Step::Reapply),
            ("drift again and again", Observed { objects: Objects::Looping, ..asked.clone() }, Step::Reapply),
            ("not before it is ours", Observed { objects: Objects::Unclaimed, ..asked.clone() }, Step::TakeOwnership),
            ("nor somebody else's record", Observed { objects: Objects::Unmarked, ..asked.clone() }, Step::Wait),
            ("not just after that failed", Observed { held: true, ..asked }, Step::Wait),
        ]);
    }

    #[test]
    fn a_resource_that_was_created_again_gets_its_release_back_before_its_next_revision() {
        let changed = Observed { inputs: Inputs::Changed, objects: Objects::Unclaimed, ..FINE };
        for (behaviour, held_back, if_unread) in [
            ("rejected inputs", Observed { gate: Gate::Closed, ..changed.clone() }, Step::TakeOwnership),
            ("not its turn", Observed { upgrade_slot: UpgradeSlot::Waiting, ..changed.clone() }, Step::TakeOwnership),
            ("a dependency is missing", Observed { awaits: Awaits::Missing, ..changed.clone() }, Step::ReadSources),
        ] {
            check(&[
                (behaviour, Observed { finalizer: false, ..held_back.clone() }, Step::AddFinalizer),
                (behaviour, held_back.clone(), Step::TakeOwnership),
                (behaviour, Observed { inputs: Inputs::Unread, ..held_back.clone() }, if_unread),
                (behaviour, Observed { held: true, ..held_back }, Step::Wait),
            ]);
        }
        let waits = Observed { upgrade_slot: UpgradeSlot::Waiting, ..changed.clone() };
        check(&[
            ("nothing holds it back", changed.clone(), Step::Render),
            ("nothing has changed", Observed { inputs: Inputs::Same, ..changed }, Step::TakeOwnership),
            ("somebody else's record", Observed { objects: Objects::Unmarked, ..waits }, Step::Wait),
        ]);
    }

    #[test]
    fn a_pinned_release_returns_to_its_revision_and_stays_there() {
        let pin = Observed { gate: Gate::Pin, inputs: Inputs::Unread, ..FINE };
        let pinned = Observed { gate: Gate::Pinned, ..FINE };
        check(&[
            ("whatever the inputs are", pin.clone(), Step::RollBack),
            ("after a failure", Observed { release: Recorded::Failed, ..pin.clone() }, Step::RollBack),
            ("or an interruption", Observed { release: Recorded::Pending, ..pin.clone() }, Step::RollBack),
            ("not just after that failed", Observed { held: true, ..pin.clone() }, Step::Wait),
            (
                "not before a person's record is read",
                Observed { release: Recorded::Unmarked, ..pin.clone() },
                Step::Read,
            ),
            ("not while suspended", Observed { suspended: true, ..pin.clone() }, Step::Nothing),
            ("deleted", Observed { deleting: true, ..pin }, Step::Uninstall),
            ("there", pinned.clone(), Step::Nothing),
            ("with drift", Observed { objects: Objects::Drifted, ..pinned }, Step::Repair),
        ]);
    }

    #[test]
    fn everything_is_applied_again_on_request_whatever_the_objects_look_like() {
        let again = Observed { again: Again::Apply, ..FINE };
        check(&[
            ("intact", again.clone(), Step::Reapply),
            ("drifting again and again", Observed { objects: Objects::Looping, ..again.clone() }, Step::Reapply),
            ("after an upgrade", Observed { inputs: Inputs::RenderedSame, ..again.clone() }, Step::Reapply),
            ("not before it", Observed { inputs: Inputs::RenderedOther, ..again.clone() }, Step::Upgrade),
            ("not just after it failed", Observed { held: true, ..again.clone() }, Step::Wait),
            ("not while suspended", Observed { suspended: true, ..again }, Step::Nothing),
        ]);
    }

    #[test]
    fn an_upgrade_waits_for_its_place_while_drift_is_repaired() {
        let wanted = Observed { inputs: Inputs::Changed, upgrade_slot: UpgradeSlot::Needed, ..FINE };
        let is_queued = Observed { upgrade_slot: UpgradeSlot::Waiting, ..wanted.clone() };
        check(&[
            ("a place before rendering", wanted.clone(), Step::Queue),
            ("or before the upgrade", Observed { inputs: Inputs::RenderedOther, ..wanted.clone() }, Step::Queue),
            ("not while held", Observed { held: true, ..wanted.clone() }, Step::Wait),
            ("none for what is unchanged", Observed { inputs: Inputs::Same, ..wanted }, Step::Nothing),
            ("queued", is_queued.clone(), Step::Wait),
            ("queued, with drift", Observed { objects: Objects::Drifted, ..is_queued }, Step::Repair),
        ]);
    }

    #[test]
    fn an_upgrade_after_a_failed_one_waits_for_its_place_but_one_that_has_begun_does_not() {
        let wanted =
            Observed { release: Recorded::Failed, inputs: Inputs::Changed, upgrade_slot: UpgradeSlot::Needed, ..FINE };
        let waits = Observed { upgrade_slot: UpgradeSlot::Waiting, ..wanted.clone() };
        check(&[
            ("a place before rendering", wanted.clone(), Step::Queue),
            ("or before the upgrade", Observed { inputs: Inputs::RenderedOther, ..wanted.clone() }, Step::Queue),
            ("with its sources", Observed { inputs: Inputs::Unread, ..wanted.clone() }, Step::ReadSources),
            (
                "not without its dependencies",
                Observed { awaits: Awaits::Missing, ..wanted.clone() },
                Step::AwaitDependencies,
            ),
            ("queued, or not its turn", waits.clone(), Step::Wait),
            ("what is missing comes back", Observed { objects: Objects::Drifted, ..waits.clone() }, Step::Repair),
            (
                "also without its dependencies",
                Observed { objects: Objects::Drifted, awaits: Awaits::Missing, ..wanted.clone() },
                Step::Repair,
            ),
            ("or by the upgrade", Observed { objects: Objects::Drifted, ..wanted }, Step::Queue),
            ("to be rolled back", Observed { gate: Gate::RollBack, ..waits.clone() }, Step::RollBack),
            ("begun", Observed { release: Recorded::Pending, ..waits }, Step::Render),
        ]);
    }

    #[test]
    fn an_action_starts_once_its_dependencies_are_met() {
        let new = Observed { release: Recorded::None, inputs: Inputs::Changed, ..FINE };
        let missing = Observed { awaits: Awaits::Missing, ..new.clone() };
        let changed = Observed { awaits: Awaits::Missing, inputs: Inputs::Changed, ..FINE };
        check(&[
            ("unknown ones are read", Observed { awaits: Awaits::Unread, ..new.clone() }, Step::ReadDependencies),
            ("missing ones are awaited", missing.clone(), Step::AwaitDependencies),
            ("and sources later", Observed { inputs: Inputs::Unread, ..missing.clone() }, Step::AwaitDependencies),
            ("the finalizer comes first", Observed { finalizer: false, ..missing.clone() }, Step::AddFinalizer),
            (
                "a failed install waits",
                Observed { release: Recorded::FailedInstall, ..missing.clone() },
                Step::AwaitDependencies,
            ),
            (
                "one that was begun goes on",
                Observed { release: Recorded::PendingInstall, ..missing.clone() },
                Step::Render,
            ),
            ("an upgrade, too", Observed { release: Recorded::Pending, ..missing.clone() }, Step::Render),
            ("a failure holds longer", Observed { held: true, ..missing.clone() }, Step::Wait),
            ("a deletion waits for nothing", Observed { deleting: true, ..missing }, Step::RemoveFinalizer),
            ("an upgrade", changed.clone(), Step::AwaitDependencies),
            (
                "one that is rendered",
                Observed { inputs: Inputs::RenderedOther, ..changed.clone() },
                Step::AwaitDependencies,
            ),
            (
                "it takes no place meanwhile",
                Observed { upgrade_slot: UpgradeSlot::Needed, ..changed.clone() },
                Step::AwaitDependencies,
            ),
            ("drift is repaired", Observed { objects: Objects::Drifted, ..changed.clone() }, Step::Repair),
            ("tests failed", Observed { gate: Gate::RollBack, ..changed.clone() }, Step::RollBack),
            ("nothing to upgrade", Observed { inputs: Inputs::Same, ..changed.clone() }, Step::Nothing),
            ("not known whether", Observed { inputs: Inputs::Uncompared, ..changed.clone() }, Step::Compare),
            ("unknown before an upgrade", Observed { awaits: Awaits::Unread, ..changed }, Step::ReadDependencies),
        ]);
    }

    #[test]
    fn a_deletion_waits_for_the_resources_that_need_it() {
        let needed = Observed { deleting: true, needed: true, ..FINE };
        check(&[
            ("deployed", needed.clone(), Step::AwaitDependents),
            (
                "without a release, there is nothing to keep",
                Observed { release: Recorded::None, ..needed.clone() },
                Step::RemoveFinalizer,
            ),
            ("until they are gone", Observed { needed: false, ..needed }, Step::Uninstall),
        ]);
    }

    #[test]
    fn somebody_elses_action_is_left_alone_until_it_ends() {
        let theirs = Observed { release: Recorded::InFlight, objects: Objects::Drifted, ..FINE };
        check(&[
            ("whatever else is to be done", Observed { inputs: Inputs::Changed, ..theirs.clone() }, Step::LeaveAlone),
            ("what it makes would outlive a deletion", Observed { deleting: true, ..theirs.clone() }, Step::LeaveAlone),
            ("even while held", Observed { held: true, ..theirs.clone() }, Step::LeaveAlone),
            ("but the finalizer is ours", Observed { finalizer: false, ..theirs.clone() }, Step::AddFinalizer),
            ("suspended", Observed { suspended: true, ..theirs }, Step::Nothing),
            ("then its record is read", Observed { release: Recorded::Unmarked, ..FINE }, Step::Read),
            ("before a deletion, too", Observed { release: Recorded::Unmarked, deleting: true, ..FINE }, Step::Read),
            (
                "unless that failed just now",
                Observed { release: Recorded::Unmarked, deleting: true, held: true, ..FINE },
                Step::Wait,
            ),
        ]);
    }

    #[test]
    fn nothing_is_done_while_the_records_cannot_be_watched() {
        let blind = Observed { blind: true, ..FINE };
        check(&[
            ("drift", Observed { objects: Objects::Drifted, ..blind.clone() }, Step::ReportBlindness),
            ("a change", Observed { inputs: Inputs::Changed, ..blind.clone() }, Step::ReportBlindness),
            (
                "no record was ever seen",
                Observed { release: Recorded::None, finalizer: false, ..blind.clone() },
                Step::ReportBlindness,
            ),
            ("a deletion", Observed { deleting: true, ..blind.clone() }, Step::ReportBlindness),
            (
                "nor is it taken for uninstalled",
                Observed { deleting: true, release: Recorded::None, ..blind.clone() },
                Step::ReportBlindness,
            ),
            ("said just now", Observed { held: true, ..blind.clone() }, Step::Wait),
            ("released", Observed { deleting: true, finalizer: false, ..blind.clone() }, Step::Nothing),
            ("suspended", Observed { suspended: true, ..blind.clone() }, Step::Nothing),
            ("paused", Observed { paused: true, ..blind }, Step::Nothing),
        ]);
    }

    #[test]
    fn an_invalid_annotation_stops_everything_but_deletion() {
        let bad = Observed { invalid_annotation: true, ..FINE };
        check(&[
            ("deployed", bad.clone(), Step::ReportInvalidAnnotation),
            (
                "new",
                Observed { release: Recorded::None, finalizer: false, ..bad.clone() },
                Step::ReportInvalidAnnotation,
            ),
            ("somebody else's", Observed { release: Recorded::Foreign, ..bad.clone() }, Step::Refuse),
            ("said just now", Observed { held: true, ..bad.clone() }, Step::Wait),
            ("suspended", Observed { suspended: true, ..bad.clone() }, Step::Nothing),
            ("deleted", Observed { deleting: true, ..bad }, Step::Uninstall),
        ]);
    }

    #[test]
    fn a_deleted_resource_is_released_after_its_release_is_uninstalled() {
        let deleting = Observed { deleting: true, ..FINE };
        check(&[
            ("deployed", deleting.clone(), Step::Uninstall),
            ("pending", Observed { release: Recorded::PendingInstall, ..deleting.clone() }, Step::Uninstall),
            ("even if not listed yet", Observed { listing: true, ..deleting.clone() }, Step::Uninstall),
            ("even if suspended", Observed { suspended: true, ..deleting.clone() }, Step::Uninstall),
            ("but not while paused", Observed { paused: true, ..deleting.clone() }, Step::Nothing),
            ("failed just now", Observed { held: true, ..deleting.clone() }, Step::Wait),
            ("nothing recorded", Observed { release: Recorded::None, ..deleting.clone() }, Step::RemoveFinalizer),
            ("record lost", Observed { release: Recorded::Lost, ..deleting.clone() }, Step::Uninstall),
            (
                "the finalizer failed just now",
                Observed { release: Recorded::None, held: true, ..deleting.clone() },
                Step::Wait,
            ),
            ("someone else's", Observed { release: Recorded::Foreign, ..deleting.clone() }, Step::RemoveFinalizer),
            ("another finalizer only", Observed { finalizer: false, ..deleting }, Step::Nothing),
        ]);
    }

    #[test]
    fn a_revision_of_another_process_is_replaced_only_after_a_wait() {
        let contested = Observed { contested: true, ..FINE };
        let changed = Observed { inputs: Inputs::Changed, ..contested.clone() };
        check(&[
            ("as this process would have made it", contested.clone(), Step::Nothing),
            ("otherwise", changed.clone(), Step::GiveWay),
            (
                "rendered before it was known",
                Observed { inputs: Inputs::RenderedOther, ..changed.clone() },
                Step::GiveWay,
            ),
            ("not compared yet", Observed { inputs: Inputs::Uncompared, ..changed.clone() }, Step::Compare),
            ("while waiting", Observed { held: true, ..changed.clone() }, Step::Wait),
            ("waited for", Observed { contested: false, ..changed.clone() }, Step::Render),
            ("failed", Observed { release: Recorded::Failed, ..changed.clone() }, Step::GiveWay),
            (
                "failed, and what was deployed before is as it would be made now",
                Observed { release: Recorded::Failed, ..contested.clone() },
                Step::GiveWay,
            ),
            (
                "until it was waited for",
                Observed { release: Recorded::Failed, contested: false, ..contested },
                Step::Render,
            ),
            ("to be continued", Observed { release: Recorded::Pending, ..changed.clone() }, Step::Render),
            ("at work", Observed { release: Recorded::InFlight, ..changed.clone() }, Step::LeaveAlone),
            ("being deleted", Observed { deleting: true, ..changed }, Step::Uninstall),
        ]);
    }

    #[test]
    fn what_others_record_again_and_again_is_replaced_only_after_a_wait() {
        let disputed = Observed { disputed: true, ..FINE };
        let unmarked = Observed { objects: Objects::Unmarked, ..disputed.clone() };
        let pinned = Observed { gate: Gate::Pin, ..disputed.clone() };
        check(&[
            ("nothing is replaced", disputed.clone(), Step::Nothing),
            ("an upgrade", Observed { inputs: Inputs::Changed, ..disputed.clone() }, Step::GiveWay),
            ("one that is rendered", Observed { inputs: Inputs::RenderedOther, ..disputed.clone() }, Step::GiveWay),
            ("not compared yet", Observed { inputs: Inputs::Uncompared, ..disputed.clone() }, Step::Compare),
            ("a seal", unmarked.clone(), Step::GiveWay),
            ("while waiting", Observed { held: true, ..unmarked }, Step::Wait),
            ("a return to the pinned revision", pinned.clone(), Step::GiveWay),
            ("while waiting for it", Observed { held: true, ..pinned.clone() }, Step::Wait),
            ("from a failed one", Observed { release: Recorded::Failed, ..pinned }, Step::GiveWay),
            ("an unfinished one", Observed { release: Recorded::Pending, ..disputed.clone() }, Step::GiveWay),
            ("drift", Observed { objects: Objects::Drifted, ..disputed.clone() }, Step::Repair),
            ("being deleted", Observed { deleting: true, ..disputed }, Step::Uninstall),
        ]);
    }

    #[test]
    fn a_resource_whose_annotation_asks_for_a_plan_is_planned_once_and_left_alone() {
        let due = Observed { planning: Planning::Due, ..FINE };
        let new = Observed { release: Recorded::None, inputs: Inputs::Changed, finalizer: false, ..due.clone() };
        check(&[
            ("a plan of what is deployed", due.clone(), Step::Plan),
            ("and nothing more", Observed { planning: Planning::Done, ..due.clone() }, Step::Nothing),
            ("a new resource gets no finalizer", new.clone(), Step::Plan),
            ("and no release", Observed { planning: Planning::Done, ..new.clone() }, Step::Nothing),
            ("its sources first", Observed { inputs: Inputs::Unread, ..new.clone() }, Step::ReadSources),
            ("drift stays", Observed { planning: Planning::Done, objects: Objects::Drifted, ..FINE }, Step::Nothing),
            ("an unfinished upgrade, too", Observed { release: Recorded::Pending, ..due.clone() }, Step::Plan),
            ("what was held before is planned", Observed { held: true, ..due.clone() }, Step::Plan),
            ("with the permit for retries", Observed { yields: true, ..due.clone() }, Step::Retry),
            ("not before the objects are listed", Observed { listing: true, ..due.clone() }, Step::Wait),
            ("not what cannot be seen", Observed { blind: true, ..due.clone() }, Step::ReportBlindness),
            ("not while suspended", Observed { suspended: true, ..due.clone() }, Step::Nothing),
            ("not while paused", Observed { paused: true, ..due.clone() }, Step::Nothing),
            ("a deletion is not only planned", Observed { deleting: true, ..due.clone() }, Step::Uninstall),
        ]);
        assert!(Observed { planning: Planning::Done, ..FINE }.is_idle());
        assert!(!Observed { deleting: true, ..due }.is_idle());
    }

    #[test]
    fn only_a_change_wakes_a_suspended_or_released_resource() {
        let check = |observed: Observed, expected| assert_eq!(observed.is_idle(), expected, "{observed}");
        check(FINE, false);
        check(Observed { suspended: true, ..FINE }, true);
        check(Observed { suspended: true, deleting: true, ..FINE }, false);
        check(Observed { paused: true, deleting: true, ..FINE }, true);
        check(Observed { deleting: true, finalizer: false, ..FINE }, true);
        check(Observed { finalizer: false, ..FINE }, false);
    }

    #[test]
    fn a_failure_is_over_once_at_most_drift_is_left() {
        let drifted = |objects| Observed { objects, ..FINE };
        for over in [Objects::Intact, Objects::Drifted, Objects::Unreported, Objects::Looping, Objects::Unconfirmed] {
            assert!(drifted(over).only_drifts(), "{over}");
        }
        let looping = drifted(Objects::Looping);
        for left in [
            drifted(Objects::Unmarked),
            drifted(Objects::Unclaimed),
            Observed { outdated: true, ..looping.clone() },
            Observed { inputs: Inputs::Changed, held: true, ..looping.clone() },
            Observed { gate: Gate::Test, ..looping.clone() },
            Observed { release: Recorded::Failed, ..looping.clone() },
            Observed { deleting: true, ..looping.clone() },
            Observed { suspended: true, ..looping.clone() },
            Observed { paused: true, ..looping },
        ] {
            assert!(!left.only_drifts(), "{left}");
        }
    }

    #[test]
    fn steps_and_observations_have_words_for_the_log() {
        let said = |observed: Observed| format!("{}: {observed}", next_step(&observed));
        assert_eq!(said(FINE), "nothing: release deployed, inputs unchanged, objects intact");
        let held = Observed { inputs: Inputs::Changed, held: true, objects: Objects::Looping, ..FINE };
        assert_eq!(said(held), "wait: release deployed, inputs changed, objects drifting again and again, held");
        let new = Observed { release: Recorded::None, finalizer: false, suspended: true, deleting: true, ..FINE };
        let expected =
            "nothing: release absent, inputs unchanged, objects intact, deleting, without finalizer, suspended";
        assert_eq!(said(new), expected);
    }
}
