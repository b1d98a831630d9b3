//! Which releases of a kind a rollout may upgrade now. Tracks the known state of each release, and the rollout's
//! progress ([`super::progression`]).

use std::sync::{Arc, Mutex, OnceLock};

use controller::runtime::key::ResourceKey;
use jiff::Timestamp;
use outside::sync;

use super::milestones::{Announced, Milestone};
use super::progression::{Got, Member, Members, Part, Phase, RolloutProgress, progress};
use crate::watches::RolloutRule;

/// The turns of one controller's releases.
#[derive(Default)]
pub(crate) struct Turns {
    /// The steps of rollouts; `None` if upgrades do not take turns.
    rule: Option<Arc<RolloutRule>>,
    /// The digest of what a rollout brings.
    edition: OnceLock<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    members: Members,
    progress: RolloutProgress,
    /// Whether a rollout has been under way since some release had yet to be compared. Such a release is part of that
    /// rollout, even if no other is left.
    has_begun: bool,
    announced: Announced,
    /// Milestones that are not published yet.
    milestones: Vec<(Milestone, RolloutProgress)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RolloutTurn {
    /// The release may be upgraded.
    Free,
    /// The release must not change yet.
    Held(RolloutProgress),
    /// The release returns to its previous revision.
    TakenBack,
}

impl Turns {
    pub(crate) fn new(rule: Option<Arc<RolloutRule>>) -> Turns {
        Turns { rule, ..Turns::default() }
    }

    pub(crate) fn rule(&self) -> Option<&RolloutRule> {
        self.rule.as_deref()
    }

    /// Returns the digest of what a rollout brings, which does not change while the process runs.
    pub(crate) fn edition(&self, compute: impl FnOnce() -> String) -> &str {
        self.edition.get_or_init(compute)
    }

    /// Stores the state of all releases whose resources are still known, at startup or once the remaining resources are
    /// known. Drops pending events about only a part of them.
    pub(crate) fn restore(&self, is_known: impl Fn(&ResourceKey) -> bool, members: Members, now: Timestamp) {
        let Some(rule) = &self.rule else { return };
        let mut state = sync::lock(&self.state);
        state.members = members;
        state.members.retain(|key, _| is_known(key));
        state.members.values_mut().for_each(|member| member.settle(None, now));
        state.announced = Announced::restored(&progress(&state.members, rule, now));
        state.milestones.clear();
        state.replan(rule, now);
    }

    /// Returns whether the release is known.
    pub(crate) fn knows(&self, key: &ResourceKey) -> bool {
        self.rule.is_none() || sync::lock(&self.state).members.contains_key(key)
    }

    /// Returns the part of a release, as far as it is known.
    pub(crate) fn part(&self, key: &ResourceKey) -> Option<Part> {
        sync::lock(&self.state).members.get(key).map(|member| member.part)
    }

    /// Returns how a release got what the rollout brings, as far as it is known.
    pub(crate) fn got(&self, key: &ResourceKey) -> Got {
        sync::lock(&self.state).members.get(key).map_or(Got::Not, |member| member.got)
    }

    /// Stores the state of a release; `None` means that it no longer exists. Returns the releases whose turn that
    /// changes.
    pub(crate) fn note(&self, key: &ResourceKey, member: Option<Member>, now: Timestamp) -> Vec<ResourceKey> {
        self.note_if(|| true, key, member, now)
    }

    /// Stores the state of a release as [`note`](Self::note) does, if its resource is still known. No release can be
    /// forgotten between the check and the change: a release that was forgotten earlier would hold its place forever.
    pub(crate) fn note_if(
        &self,
        is_known: impl FnOnce() -> bool,
        key: &ResourceKey,
        member: Option<Member>,
        now: Timestamp,
    ) -> Vec<ResourceKey> {
        let Some(rule) = &self.rule else { return Vec::new() };
        let mut state = sync::lock(&self.state);
        if !is_known() {
            return Vec::new();
        }
        let before = state.members.get(key).copied();
        let member = member.map(|mut member| {
            member.settle(before.as_ref(), now);
            member
        });
        if before == member {
            return Vec::new();
        }
        match member {
            Some(member) => state.members.insert(key.clone(), member),
            None => state.members.remove(key),
        };
        state.replan(rule, now)
    }

    /// Returns the turn of a release, and the releases whose turn changes because a pause is over. The waiting ones look
    /// at that time themselves; those that were reached do not, and may have to go back.
    pub(crate) fn turn(&self, key: &ResourceKey, now: Timestamp) -> (RolloutTurn, Vec<ResourceKey>) {
        let Some(rule) = &self.rule else { return (RolloutTurn::Free, Vec::new()) };
        let mut state = sync::lock(&self.state);
        let is_over = matches!(state.progress.phase, Phase::Baking(until) if until <= now);
        let woken = if is_over { state.replan(rule, now) } else { Vec::new() };
        (state.turn(key), woken)
    }

    /// Returns how far the rollout is.
    pub(crate) fn progress(&self) -> RolloutProgress {
        sync::lock(&self.state).progress.clone()
    }

    /// Returns what has happened since the last call, each with how far the rollout was then.
    pub(crate) fn take_milestones(&self) -> Vec<(Milestone, RolloutProgress)> {
        std::mem::take(&mut sync::lock(&self.state).milestones)
    }
}

impl Member {
    /// Sets the time since when a release is at rest, if neither its record nor its status has one.
    fn settle(&mut self, before: Option<&Member>, now: Timestamp) {
        let known = match before.map(|member| member.part) {
            Some(Part::Reached { state, since }) => Some((state, since)),
            _ => None,
        };
        if let Part::Reached { state, since } = &mut self.part
            && since.is_none()
        {
            *since = known.filter(|(of, _)| of == state).and_then(|(_, since)| since).or(Some(now));
        }
    }
}

impl State {
    /// Returns the turn of a release.
    fn turn(&self, key: &ResourceKey) -> RolloutTurn {
        let is_taking_back = self.progress.phase == Phase::TakingBack;
        let waits = || self.progress.phase != Phase::Over && !self.progress.free.contains(key);
        match self.members.get(key).map(|member| member.part) {
            Some(Part::Reached { .. }) if is_taking_back => RolloutTurn::TakenBack,
            Some(Part::Waiting { .. }) if waits() => RolloutTurn::Held(self.progress.clone()),
            Some(Part::TakenBack) => RolloutTurn::Held(self.progress.clone()),
            // A release that must be compared is compared first.
            _ => RolloutTurn::Free,
        }
    }

    /// Decides how far the rollout is. Returns the releases whose turn that changes.
    fn replan(&mut self, rule: &RolloutRule, now: Timestamp) -> Vec<ResourceKey> {
        let next = self.advance(rule, now);
        let before = std::mem::replace(&mut self.progress, next);
        for milestone in self.announced.advance(&self.progress) {
            self.milestones.push((milestone, self.progress.clone()));
        }
        let (old, new) = (&before, &self.progress);
        if old.phase != new.phase || old.step != new.step {
            report(rule, new);
        }
        let stops = old.phase.is_stopped() || new.phase.is_stopped();
        let is_other = stops && old.phase != new.phase;
        // Each waiting release sets a timer when a pause begins.
        let bakes = matches!(new.phase, Phase::Baking(_)) && old.phase != new.phase;
        let is_freed = |key: &ResourceKey| new.free.contains(key) && !old.free.contains(key);
        let wakes = |(key, member): (&ResourceKey, &Member)| match member.part {
            // While a rollout is under way, no release is `MadeWithHelm`.
            Part::None | Part::Uncompared { .. } | Part::MadeWithHelm { .. } => false,
            Part::Waiting { .. } => is_other || bakes || is_freed(key),
            Part::Reached { .. } | Part::TakenBack => is_other,
        };
        self.members.iter().filter(|one| wakes(*one)).map(|(key, _)| key.clone()).collect()
    }

    /// Returns how far the rollout is now. Once one is under way, it includes the releases that a person changed with
    /// helm: otherwise they would be upgraded without its gate as soon as no other release waits.
    fn advance(&mut self, rule: &RolloutRule, now: Timestamp) -> RolloutProgress {
        let mut next = progress(&self.members, rule, now);
        if (self.has_begun || next.phase != Phase::Over) && self.enlist() {
            next = progress(&self.members, rule, now);
        }
        let is_uncompared = |member: &Member| matches!(member.part, Part::Uncompared { .. });
        let goes_on = self.has_begun && self.members.values().any(is_uncompared);
        self.has_begun = goes_on || next.phase != Phase::Over;
        next
    }

    /// Lets each release that a person changed with helm wait for its turn. Returns whether there is one.
    fn enlist(&mut self) -> bool {
        let mut is_any = false;
        for member in self.members.values_mut() {
            if let Part::MadeWithHelm { failed } = member.part {
                member.part = Part::Waiting { failed };
                is_any = true;
            }
        }
        is_any
    }
}

fn report(rule: &RolloutRule, progress: &RolloutProgress) {
    let text = progress.text(rule);
    let (updated, ready, failed) = (progress.counts.updated, progress.counts.ready, progress.counts.failed);
    match progress.phase.is_stopped() {
        true => tracing::warn!(gate = rule.gate(), updated, ready, failed, "Rollout {text}: its gate is not met"),
        false => tracing::info!(updated, ready, failed, "Rollout: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::reconcile::decide::progression::Reached;
    use crate::watches::{OnGateFailure, rollout_of};

    fn key(name: &str) -> ResourceKey {
        ResourceKey::new("ns", name)
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn member(part: Part) -> Option<Member> {
        Some(Member { is_canary: false, part, got: Got::Not, is_obstructed: false })
    }

    fn turns(on_failure: OnGateFailure) -> Turns {
        let rule = RolloutRule { bake_for: Duration::from_secs(60), ..rollout_of(None, &[30], "", on_failure) };
        let turns = Turns::new(Some(Arc::new(rule)));
        let members = ["a", "b", "c"].map(|name| (key(name), member(Part::Waiting { failed: false }).unwrap()));
        turns.restore(|_| true, members.into(), at(0));
        turns
    }

    #[test]
    fn the_next_releases_are_woken_when_it_is_their_turn() {
        let turns = turns(OnGateFailure::Halt);
        let is_held = |name: &str, second| matches!(turns.turn(&key(name), at(second)).0, RolloutTurn::Held(_));
        assert!(!is_held("a", 0) && is_held("b", 0) && !turns.knows(&key("d")));
        let moving = member(Part::Reached { state: Reached::Moving, since: None });
        assert_eq!(turns.note(&key("a"), moving, at(10)), []);
        let ready = member(Part::Reached { state: Reached::Ready, since: None });
        assert_eq!(turns.note(&key("a"), ready, at(20)), [key("b"), key("c")], "each has a timer");
        assert_eq!(turns.note(&key("a"), ready, at(50)), [], "the pause does not begin again");
        assert!(is_held("b", 79) && !is_held("b", 80) && !is_held("c", 80));
    }

    #[test]
    fn whoever_ends_a_pause_wakes_what_goes_back_then() {
        let gate = "releases.ready / releases.updated >= 0.5";
        let rule = rollout_of(None, &[30], gate, OnGateFailure::Rollback);
        let turns = Turns::new(Some(Arc::new(RolloutRule { bake_for: Duration::from_secs(60), ..rule })));
        let members = ["a", "b", "c"].map(|name| (key(name), member(Part::Waiting { failed: false }).unwrap()));
        turns.restore(|_| true, members.into(), at(0));
        let ailing = member(Part::Reached { state: Reached::Ailing, since: None });
        assert_eq!(turns.note(&key("a"), ailing, at(20)), [key("b"), key("c")]);
        assert_eq!(turns.turn(&key("b"), at(79)).1, []);
        let (turn, woken) = turns.turn(&key("b"), at(80));
        assert!(matches!(turn, RolloutTurn::Held(progress) if progress.phase == Phase::TakingBack));
        assert_eq!(woken, ["a", "b", "c"].map(key));
        assert_eq!(turns.turn(&key("a"), at(80)), (RolloutTurn::TakenBack, Vec::new()));
    }

    #[test]
    fn a_release_is_compared_at_once_and_waits_for_its_turn_if_it_differs() {
        let turns = turns(OnGateFailure::Halt);
        let (uncompared, waits) = (Part::Uncompared { failed: false }, Part::Waiting { failed: false });
        assert_eq!(turns.note(&key("d"), member(uncompared), at(10)), [key("b")], "30% of four are two");
        assert_eq!(turns.part(&key("d")), Some(uncompared));
        assert_eq!(turns.turn(&key("d"), at(10)).0, RolloutTurn::Free);
        assert_eq!(turns.note(&key("d"), member(waits), at(20)), []);
        assert!(matches!(turns.turn(&key("d"), at(20)).0, RolloutTurn::Held(_)));
        assert_eq!(turns.note(&key("d"), member(Part::None), at(30)), [], "it would be the same");
        assert_eq!(turns.turn(&key("d"), at(30)).0, RolloutTurn::Free);
    }

    #[test]
    fn a_release_that_a_person_changed_with_helm_waits_only_for_a_rollout_of_others() {
        let (turns, d) = (turns(OnGateFailure::Halt), key("d"));
        assert_eq!(turns.note(&d, member(Part::MadeWithHelm { failed: false }), at(10)), [key("b")]);
        assert!(matches!(turns.turn(&d, at(10)).0, RolloutTurn::Held(_)), "30% of four are two");
        for (gone, woken) in [("a", vec![]), ("b", vec![key("c")]), ("c", vec![d.clone()])] {
            assert_eq!(turns.note(&key(gone), None, at(20)), woken, "{gone}");
        }
        assert_eq!(turns.turn(&d, at(20)).0, RolloutTurn::Free);
    }

    #[test]
    fn a_release_that_a_person_changed_with_helm_stays_in_a_rollout_that_has_begun() {
        let (changed, uncompared) = (Part::MadeWithHelm { failed: false }, Part::Uncompared { failed: false });
        for (first, state, is_held) in [
            (Some(changed), Reached::Failed, true),
            (Some(uncompared), Reached::Failed, true),
            (None, Reached::Ready, false),
        ] {
            let (turns, d) = (turns(OnGateFailure::Halt), key("d"));
            turns.note(&d, first.and_then(member), at(10));
            for gone in ["b", "c"] {
                turns.note(&key(gone), None, at(20));
            }
            turns.note(&key("a"), member(Part::Reached { state, since: None }), at(30));
            turns.note(&d, member(changed), at(40));
            let is_halted =
                matches!(turns.turn(&d, at(40)).0, RolloutTurn::Held(progress) if progress.phase == Phase::Halted);
            assert_eq!(is_halted, is_held, "{first:?}");
        }
    }

    #[test]
    fn a_release_that_goes_while_the_process_starts_has_no_turn() {
        let rule = rollout_of(None, &[30], "", OnGateFailure::Halt);
        let turns = Turns::new(Some(Arc::new(rule)));
        let members = ["a", "b"].map(|name| (key(name), member(Part::Waiting { failed: false }).unwrap()));
        turns.restore(|known| *known != key("a"), members.into(), at(0));
        assert!(!turns.knows(&key("a")) && turns.knows(&key("b")));
        assert_eq!(turns.turn(&key("b"), at(0)).0, RolloutTurn::Free, "it is the first");
    }

    #[test]
    fn all_are_woken_when_a_rollout_stops_and_when_it_goes_on() {
        let failed = member(Part::Reached { state: Reached::Failed, since: None });
        let turns = turns(OnGateFailure::Rollback);
        assert_eq!(turns.note(&key("a"), failed, at(10)), ["a", "b", "c"].map(key));
        assert_eq!(turns.turn(&key("a"), at(10)).0, RolloutTurn::TakenBack);
        assert_eq!(turns.note(&key("a"), member(Part::TakenBack), at(20)), []);
        assert!(matches!(turns.turn(&key("a"), at(20)).0, RolloutTurn::Held(_)));
        assert_eq!(turns.note(&key("a"), None, at(30)), ["b", "c"].map(key), "it is deleted");
        assert_eq!(turns.turn(&key("b"), at(30)).0, RolloutTurn::Free);
    }
}
