//! Decides how far a rollout is, and which releases it may reach now. Pure: what the records and statuses say of each
//! release decides, so a restarted process or a new leader resumes at the same point.
//!
//! A rollout is under way while some release still has the previous inputs. Its steps are the canaries, then growing
//! shares of the others, then the remainder. Steps before the current one are over. The current one ends once all its
//! releases have stopped changing for as long as the watch requires, and the gate is met.

use std::collections::{BTreeMap, BTreeSet};

use controller::runtime::key::ResourceKey;
use jiff::Timestamp;

use crate::watches::{Counts, OnGateFailure, RolloutRule};

/// A release's part in the rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// None: it got the change without the rollout, has no release yet, or is left alone.
    None,
    /// It still has the previous inputs. `failed`: an attempt failed before it changed anything, or was undone.
    Waiting { failed: bool },
    /// Another operator or helm recorded its deployed revision, which is still to be compared, or it is still to be
    /// imported from records elsewhere. It counts as waiting, because the rollout may change it, but begins no rollout.
    /// `failed`: the comparison or the import failed.
    Uncompared { failed: bool },
    /// A person made its deployed revision with helm, and no record shows any longer whether the rollout had reached it
    /// before. It begins no rollout, because a finished one would be judged again. If one is under way, it waits like the
    /// others. `failed`: the upgrade that undoes the change failed.
    MadeWithHelm { failed: bool },
    /// The rollout has reached it. `since`: when it entered this state.
    Reached { state: Reached, since: Option<Timestamp> },
    /// The rollout had reached it, and took it back.
    TakenBack,
}

/// The state of a release that the rollout has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// It is still changing.
    Moving,
    Ready,
    /// It failed, or can no longer become ready.
    Failed,
    /// It was not ready before, so its state proves nothing.
    Ailing,
}

/// How a release got what the rollout brings, by the last revision that this operator made. What helm changes since
/// removes that from the records, but not from the memory of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Got {
    /// It did not, as far as is known.
    #[default]
    Not,
    ByRollout,
    /// By its install, its owner or a request.
    Apart,
    /// By the rollout, which took it back.
    TakenBack,
}

/// A release of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) is_canary: bool,
    pub(crate) part: Part,
    pub(crate) got: Got,
    /// Whether its attempts go on failing for reasons that prove nothing about the release, such as a server that does not
    /// answer.
    pub(crate) is_obstructed: bool,
}

/// All releases of the kind.
pub(crate) type Members = BTreeMap<ResourceKey, Member>;

/// What a rollout is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing: there is no rollout.
    #[default]
    Over,
    /// The step's releases are being upgraded.
    Moving,
    /// They are watched until then.
    Baking(Timestamp),
    /// The gate is not met, so the remaining releases are not upgraded.
    Halted,
    /// The gate is not met, and what was reached is taken back.
    TakingBack,
}

/// How far a rollout is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RolloutProgress {
    pub(crate) phase: Phase,
    /// The step, starting at 0.
    pub(crate) step: usize,
    pub(crate) counts: Counts,
    /// How many releases wait.
    pub(crate) waiting: usize,
    /// Whether no release of the step was reached yet.
    pub(crate) is_untouched: bool,
    /// The waiting releases that may be upgraded now.
    pub(crate) free: BTreeSet<ResourceKey>,
    /// The first release that keeps the step from ending, because it is obstructed.
    pub(crate) obstructed: Option<ResourceKey>,
}

impl Phase {
    /// Returns whether the gate ended the rollout for now.
    pub(crate) fn is_stopped(self) -> bool {
        matches!(self, Phase::Halted | Phase::TakingBack)
    }

    /// Returns the phase's name in metrics; `None` if there is no rollout.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Phase::Over => None,
            Phase::Moving => Some("moving"),
            Phase::Baking(_) => Some("baking"),
            Phase::Halted => Some("halted"),
            Phase::TakingBack => Some("rolled-back"),
        }
    }
}

impl RolloutProgress {
    /// Describes the rollout for people: `step 2 of 4 (10% of the others)`.
    pub(crate) fn text(&self, rollout: &RolloutRule) -> String {
        let at = self.step_text(rollout);
        match self.phase {
            Phase::Over => "no rollout is under way".to_owned(),
            Phase::Moving if self.obstructed.is_some() => {
                format!("{at}, held up by a release that cannot be upgraded now")
            }
            Phase::Moving => at,
            Phase::Baking(until) => format!("{at}, baking until {}", until.strftime("%Y-%m-%dT%H:%M:%SZ")),
            Phase::Halted => format!("halted at {at}"),
            Phase::TakingBack => "taken back".to_owned(),
        }
    }

    /// Describes the step: `step 2 of 4 (10% of the others)`.
    pub(crate) fn step_text(&self, rollout: &RolloutRule) -> String {
        let all = titles(rollout);
        let title = all.get(self.step);
        title.map(|title| format!("step {} of {} ({title})", self.step + 1, all.len())).unwrap_or_default()
    }

    /// Says that the gate is not met, and by which numbers.
    pub(crate) fn unmet(&self, rollout: &RolloutRule) -> String {
        let gate = rollout.gate();
        match self.counts.updated {
            0 => format!("its gate was not met ({gate})"),
            _ => format!("its gate is not met ({gate}): {}", self.counts),
        }
    }
}

pub(crate) fn titles(rollout: &RolloutRule) -> Vec<String> {
    let canaries = rollout.canary.as_ref().map(|_| "canaries".to_owned());
    let others = if rollout.canary.is_some() { " of the others" } else { " of the releases" };
    let shares = rollout.steps.iter().map(|share| format!("{share}%{others}"));
    canaries.into_iter().chain(shares).chain(["the remainder".to_owned()]).collect()
}

/// Returns the releases of each step, in the order of the titles, if a change reaches all of these.
pub(crate) fn outline(
    canaries: &[ResourceKey],
    others: &[ResourceKey],
    rollout: &RolloutRule,
) -> Vec<(String, Vec<ResourceKey>)> {
    let mut titles = titles(rollout).into_iter();
    let mut steps = Vec::new();
    if rollout.canary.is_some() {
        steps.push((titles.next().unwrap_or_default(), canaries.to_vec()));
    }
    let mut from = 0;
    for (title, share) in titles.zip(rollout.steps.iter().copied().chain([100])) {
        let to = part_of(others.len(), share).max(from);
        steps.push((title, others[from..to].to_vec()));
        from = to;
    }
    steps
}

/// Returns how far the rollout is.
pub(crate) fn progress(members: &Members, rollout: &RolloutRule, now: Timestamp) -> RolloutProgress {
    let groups = Groups::of(members);
    let last = titles(rollout).len().saturating_sub(1);
    let at = |phase, step, free: &[Waiting<'_>]| {
        let counts = groups.counts(free.iter().filter(|one| one.failed).count());
        let waiting = groups.canaries.len() + groups.others.len();
        let is_untouched = groups.is_untouched(rollout, step);
        let free: BTreeSet<ResourceKey> = free.iter().map(|one| one.key.clone()).collect();
        let obstructed = if phase == Phase::Moving { first_obstructed(members, &free) } else { None };
        RolloutProgress { phase, step, counts, waiting, is_untouched, free, obstructed }
    };
    if groups.is_taken_back {
        return at(Phase::TakingBack, 0, &[]);
    }
    if !groups.is_under_way {
        return RolloutProgress { counts: groups.counts(0), ..RolloutProgress::default() };
    }
    let mut step = groups.first_step(rollout);
    while step < last {
        let window = groups.window(rollout, step);
        let failed: Vec<Waiting<'_>> = window.iter().filter(|one| one.failed).copied().collect();
        let has_failed = groups.failed > 0 || !failed.is_empty();
        // Failed releases may be retried, so that a halted rollout can resume.
        let stop = || match rollout.on_failure {
            OnGateFailure::Halt => at(Phase::Halted, step, &failed),
            OnGateFailure::Rollback => at(Phase::TakingBack, step, &[]),
        };
        if has_failed && !rollout.is_met(&groups.hoped(&window)) {
            return stop();
        }
        if groups.moving > 0 || window.iter().any(|one| !one.failed) {
            return at(Phase::Moving, step, &window);
        }
        let baked = groups.since.and_then(|since| since.checked_add(rollout.bake_for).ok());
        if let Some(until) = baked.filter(|until| now < *until) {
            return at(Phase::Baking(until), step, &window);
        }
        if !rollout.is_met(&groups.counts(window.len())) {
            return stop();
        }
        step += 1;
    }
    at(Phase::Moving, last, &groups.window(rollout, last))
}

/// Returns the first release that is obstructed among those that are being upgraded, or may be.
fn first_obstructed(members: &Members, free: &BTreeSet<ResourceKey>) -> Option<ResourceKey> {
    let is_moving = |part: Part| matches!(part, Part::Reached { state: Reached::Moving, .. });
    let mut obstructed = members.iter().filter(|(_, member)| member.is_obstructed);
    obstructed.find(|(key, member)| free.contains(*key) || is_moving(member.part)).map(|(key, _)| key.clone())
}

/// Returns this share of a number, rounded up.
fn part_of(all: usize, share: u8) -> usize {
    (all * usize::from(share)).div_ceil(100)
}

/// A release that waits for its turn.
#[derive(Clone, Copy, Debug)]
struct Waiting<'m> {
    key: &'m ResourceKey,
    failed: bool,
}

/// The releases of a rollout, sorted by their part in it.
#[derive(Default)]
struct Groups<'m> {
    /// Whether a release is known to wait.
    is_under_way: bool,
    /// The waiting releases, in the order in which the rollout reaches them.
    canaries: Vec<Waiting<'m>>,
    others: Vec<Waiting<'m>>,
    /// Number of releases that were reached.
    reached_canaries: usize,
    reached_others: usize,
    moving: usize,
    ready: usize,
    failed: usize,
    ailing: usize,
    /// When the last of them stopped changing.
    since: Option<Timestamp>,
    is_taken_back: bool,
}

impl<'m> Groups<'m> {
    fn of(members: &'m Members) -> Groups<'m> {
        let mut groups = Groups::default();
        for (key, Member { is_canary, part, .. }) in members {
            groups.is_under_way |= matches!(part, Part::Waiting { .. });
            match *part {
                Part::None => {}
                Part::TakenBack => groups.is_taken_back = true,
                Part::Waiting { failed } | Part::Uncompared { failed } | Part::MadeWithHelm { failed } => {
                    let group = if *is_canary { &mut groups.canaries } else { &mut groups.others };
                    group.push(Waiting { key, failed });
                }
                Part::Reached { state, since } => groups.add(*is_canary, state, since),
            }
        }
        groups
    }

    fn add(&mut self, is_canary: bool, state: Reached, since: Option<Timestamp>) {
        *(if is_canary { &mut self.reached_canaries } else { &mut self.reached_others }) += 1;
        let count = match state {
            Reached::Moving => &mut self.moving,
            Reached::Ready => &mut self.ready,
            Reached::Failed => &mut self.failed,
            Reached::Ailing => &mut self.ailing,
        };
        *count += 1;
        self.since = self.since.max(since);
    }

    /// Returns the first step that may still be under way: no release of a later step has been upgraded.
    fn first_step(&self, rollout: &RolloutRule) -> usize {
        let canaries = usize::from(rollout.canary.is_some());
        let has_canaries = self.canaries.len() + self.reached_canaries > 0;
        if canaries == 1 && has_canaries && self.reached_others == 0 {
            return 0;
        }
        let all = self.others.len() + self.reached_others;
        let is_over = |share: &&u8| part_of(all, **share) < self.reached_others.max(1);
        canaries + rollout.steps.iter().take_while(is_over).count()
    }

    /// Returns whether no release of a step was reached.
    fn is_untouched(&self, rollout: &RolloutRule, step: usize) -> bool {
        let Some(index) = step.checked_sub(usize::from(rollout.canary.is_some())) else {
            return self.reached_canaries + self.reached_others == 0;
        };
        let all = self.others.len() + self.reached_others;
        let before =
            index.checked_sub(1).and_then(|before| rollout.steps.get(before)).map_or(0, |share| part_of(all, *share));
        self.reached_others <= before
    }

    /// Returns the waiting releases of a step. A canary that is late is never beyond it.
    fn window(&self, rollout: &RolloutRule, step: usize) -> Vec<Waiting<'m>> {
        let share = match step.checked_sub(usize::from(rollout.canary.is_some())) {
            None => 0,
            Some(index) => rollout.steps.get(index).copied().unwrap_or(100),
        };
        let all = self.others.len() + self.reached_others;
        let room = part_of(all, share).saturating_sub(self.reached_others);
        self.canaries.iter().chain(self.others.iter().take(room)).copied().collect()
    }

    /// Returns the counts if this many waiting releases have failed.
    fn counts(&self, failed: usize) -> Counts {
        let total = self.canaries.len() + self.others.len() + self.reached_canaries + self.reached_others;
        let updated = self.moving + self.ready + self.failed + failed;
        Counts { total, updated, ready: self.ready, failed: self.failed + failed }
    }

    /// Returns the step's counts in the best case: no further release fails.
    fn hoped(&self, window: &[Waiting<'_>]) -> Counts {
        let failed = window.iter().filter(|one| one.failed).count();
        let to_come = window.len() - failed;
        let Counts { total, updated, ready, failed } = self.counts(failed);
        Counts { total, updated: updated + to_come, ready: ready + self.moving + to_come, failed }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::core::Selector;

    use super::*;
    use crate::watches::rollout_of;
    use Part::{MadeWithHelm, TakenBack, Uncompared, Waiting as Held};
    use Reached::{Ailing, Failed, Moving, Ready};

    const WAITS: Part = Held { failed: false };
    const BROKEN: Part = Held { failed: true };
    const UNKNOWN: Part = Uncompared { failed: false };
    const CHANGED: Part = MadeWithHelm { failed: false };

    /// The rest of the second share of 20.
    const EIGHT_MORE: &str = "r02 r03 r04 r05 r06 r07 r08 r09";

    fn reached(state: Reached) -> Part {
        Part::Reached { state, since: Some(at(100)) }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn rollout(on_failure: OnGateFailure) -> RolloutRule {
        let canary = Selector::from_iter([("tier", "canary")]);
        let gate = "releases.ready / releases.updated >= 0.5 && releases.failed <= 1";
        RolloutRule { bake_for: Duration::from_secs(60), ..rollout_of(Some(canary), &[10, 50], gate, on_failure) }
    }

    /// Returns members named `c00`, `c01` and so on, which are canaries, and others named `r00` and so on.
    fn members(canaries: &[Part], others: &[Part]) -> Members {
        let named = |letter: &str, index: usize| ResourceKey::new("ns", &format!("{letter}{index:02}"));
        let member =
            |is_canary: bool, part: &Part| Member { is_canary, part: *part, got: Got::Not, is_obstructed: false };
        let canaries = canaries.iter().enumerate().map(|(i, part)| (named("c", i), member(true, part)));
        let others = others.iter().enumerate().map(|(i, part)| (named("r", i), member(false, part)));
        canaries.chain(others).collect()
    }

    /// Returns others of which the first are these and the rest, up to this number, wait.
    fn first(parts: &[(usize, Part)], all: usize) -> Vec<Part> {
        let known = parts.iter().flat_map(|(count, part)| std::iter::repeat_n(*part, *count));
        known.chain(std::iter::repeat(WAITS)).take(all).collect()
    }

    fn free(progress: &RolloutProgress) -> String {
        progress.free.iter().map(|key| &*key.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn steps_follow_each_other_when_their_releases_rest_and_the_gate_is_met() {
        let done = reached(Ready);
        let baked = 160;
        for (behaviour, canaries, others, second, expected, free_now) in [
            ("nothing differs", vec![Part::None], vec![Part::None; 20], baked, (Phase::Over, 0), ""),
            ("canaries first", vec![WAITS; 2], vec![WAITS; 20], baked, (Phase::Moving, 0), "c00 c01"),
            ("all canaries", vec![done, WAITS], vec![WAITS; 20], baked, (Phase::Moving, 0), "c01"),
            ("until they rest", vec![done, reached(Moving)], vec![WAITS; 20], baked, (Phase::Moving, 0), ""),
            ("then a pause", vec![done; 2], vec![WAITS; 20], 159, (Phase::Baking(at(160)), 0), ""),
            ("then the first share", vec![done; 2], vec![WAITS; 20], baked, (Phase::Moving, 1), "r00 r01"),
            ("without canaries", vec![], vec![WAITS; 20], baked, (Phase::Moving, 1), "r00 r01"),
            ("what is under way", vec![done], first(&[(1, reached(Moving))], 20), baked, (Phase::Moving, 1), "r01"),
            ("the share bakes, too", vec![done], first(&[(2, done)], 20), 100, (Phase::Baking(at(160)), 1), ""),
            ("the next share", vec![done], first(&[(2, done)], 12), baked, (Phase::Moving, 2), "r02 r03 r04 r05"),
            ("beyond it, no pause", vec![done], first(&[(3, done)], 8), 100, (Phase::Moving, 2), "r03"),
            ("the remainder", vec![done], first(&[(4, done)], 8), baked, (Phase::Moving, 3), "r04 r05 r06 r07"),
            ("it is not judged", vec![done], first(&[(7, reached(Failed))], 8), 100, (Phase::Moving, 3), "r07"),
            ("it is over", vec![reached(Failed)], vec![reached(Failed); 8], 100, (Phase::Over, 0), ""),
            ("a late canary is free", vec![done, WAITS], first(&[(7, done)], 8), baked, (Phase::Moving, 3), "c01 r07"),
            (
                "releases that were not ready before are no evidence",
                vec![reached(Ailing), done],
                vec![WAITS; 2],
                baked,
                (Phase::Moving, 1),
                "r00",
            ),
        ] {
            let now = progress(&members(&canaries, &others), &rollout(OnGateFailure::Halt), at(second));
            assert_eq!(((now.phase, now.step), free(&now).as_str()), (expected, free_now), "{behaviour}");
        }
    }

    #[test]
    fn releases_that_are_not_compared_yet_hold_their_place_but_begin_no_rollout() {
        let (done, beyond_repair) = (reached(Ready), Uncompared { failed: true });
        for (behaviour, canaries, others, expected, free_now) in [
            ("nothing is known to differ", vec![UNKNOWN; 2], vec![UNKNOWN; 20], (Phase::Over, 0), ""),
            ("nor after a rollout", vec![done], vec![done, UNKNOWN, beyond_repair], (Phase::Over, 0), ""),
            ("nor if helm changed some", vec![done], vec![reached(Failed), CHANGED], (Phase::Over, 0), ""),
            ("canaries first", vec![UNKNOWN, CHANGED], vec![WAITS; 20], (Phase::Moving, 0), "c00 c01"),
            ("all canaries", vec![done, UNKNOWN], vec![WAITS; 20], (Phase::Moving, 0), "c01"),
            ("a share of all", vec![], first(&[(1, UNKNOWN)], 20), (Phase::Moving, 1), "r00 r01"),
            ("and the next one", vec![done], first(&[(2, done), (17, UNKNOWN)], 20), (Phase::Moving, 2), EIGHT_MORE),
            ("one that fails is judged", vec![beyond_repair; 2], vec![WAITS; 2], (Phase::Halted, 0), "c00 c01"),
        ] {
            let now = progress(&members(&canaries, &others), &rollout(OnGateFailure::Halt), at(160));
            assert_eq!(((now.phase, now.step), free(&now).as_str()), (expected, free_now), "{behaviour}");
        }
    }

    #[test]
    fn an_unmet_gate_holds_the_others_and_takes_back_what_was_reached_if_asked_for() {
        let (done, bad) = (reached(Ready), reached(Failed));
        for (behaviour, canaries, others, expected, free_now) in [
            ("one failure is allowed", vec![done, bad], vec![WAITS; 2], (Phase::Moving, 1), "r00"),
            ("two are not", vec![done, done, bad, bad], vec![WAITS; 2], (Phase::Halted, 0), ""),
            ("nor is a render that fails", vec![done, bad, BROKEN], vec![WAITS; 2], (Phase::Halted, 0), "c02"),
            ("before the step ends", vec![bad, bad, WAITS, reached(Moving)], vec![WAITS; 2], (Phase::Halted, 0), ""),
            ("in a share", vec![done; 4], first(&[(2, bad)], 20), (Phase::Halted, 1), ""),
            ("half must be ready", vec![done, BROKEN], vec![WAITS; 2], (Phase::Moving, 1), "c01 r00"),
            ("a failure in its turn", vec![done; 4], first(&[(2, BROKEN)], 20), (Phase::Halted, 1), "r00 r01"),
            ("one that is not", vec![WAITS], first(&[(1, WAITS), (9, BROKEN)], 20), (Phase::Moving, 0), "c00"),
        ] {
            let members = members(&canaries, &others);
            let now = progress(&members, &rollout(OnGateFailure::Halt), at(160));
            assert_eq!(((now.phase, now.step), free(&now).as_str()), (expected, free_now), "{behaviour}");
            let back = progress(&members, &rollout(OnGateFailure::Rollback), at(160));
            assert_eq!(back.phase == Phase::TakingBack, now.phase == Phase::Halted, "{behaviour}");
        }
        let taken = progress(&members(&[TakenBack, done], &[WAITS]), &rollout(OnGateFailure::Halt), at(160));
        assert_eq!((taken.phase, free(&taken).as_str()), (Phase::TakingBack, ""));
    }

    #[test]
    fn a_step_names_the_release_that_cannot_be_upgraded_now() {
        let (moving, done) = (reached(Moving), reached(Ready));
        for (behaviour, canaries, others, second, obstructed, expected) in [
            ("none", [WAITS; 2], [WAITS; 2], 160, "", ""),
            ("one that waits for its turn", [WAITS; 2], [WAITS; 2], 160, "r00", ""),
            ("one whose turn it is", [WAITS; 2], [WAITS; 2], 160, "c01 r00", "c01"),
            ("one that is being upgraded", [moving, done], [WAITS; 2], 160, "c00", "c00"),
            ("one that was upgraded", [done; 2], [WAITS; 2], 160, "c00", ""),
        ] {
            let mut members = members(&canaries, &others);
            members
                .iter_mut()
                .for_each(|(key, one)| one.is_obstructed = obstructed.split(' ').any(|o| o == &*key.name));
            let now = progress(&members, &rollout(OnGateFailure::Halt), at(second));
            assert_eq!(now.obstructed.map_or(String::new(), |key| key.name.to_string()), expected, "{behaviour}");
        }
    }

    #[test]
    fn an_outline_names_each_release_once() {
        let key = |name: &str| ResourceKey::new("ns", name);
        let others: Vec<ResourceKey> = ["a", "b", "c"].map(key).into();
        let steps = outline(&[key("x")], &others, &rollout(OnGateFailure::Halt));
        let named: Vec<(&str, usize)> = steps.iter().map(|(title, keys)| (title.as_str(), keys.len())).collect();
        let expected = [("canaries", 1), ("10% of the others", 1), ("50% of the others", 1), ("the remainder", 1)];
        assert_eq!(named, expected);
    }
}
