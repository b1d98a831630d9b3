//! Decides which events a rollout publishes: each step that begins, what holds it up, a halt and the end, once each.
//! Pure.
//!
//! Published events are not recorded. A process that starts infers them from the state that it finds: it announces a
//! step only if no release of the step was reached yet, and no halt that began before its start.

use super::progression::{Phase, RolloutProgress};

/// An event of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Milestone {
    /// The first step begins.
    Started,
    /// Another step begins.
    Step,
    /// A step cannot end, because a release cannot be upgraded now.
    Obstructed,
    /// The gate is not met, so the remaining releases are not upgraded.
    Halted,
    /// It continues after a halt or a rollback.
    Resumed,
    /// The gate is not met, and what was reached is taken back.
    TakenBack,
    /// No release waits for it any more.
    Completed,
}

/// The events that were published about a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announced {
    /// The last step that began; `None` before the first one.
    step: Option<usize>,
    /// Why it is halted.
    stop: Option<Milestone>,
    /// Whether a release that holds the step up was announced, and one has held it up ever since.
    is_obstructed: bool,
}

impl Announced {
    /// Returns what an earlier process must have announced, judging by the present state.
    pub(crate) fn restored(found: &RolloutProgress) -> Announced {
        match found.phase {
            Phase::Over => Announced::default(),
            Phase::Moving if found.is_untouched => {
                Announced { step: found.step.checked_sub(1), ..Announced::default() }
            }
            phase => Announced { step: Some(found.step), stop: stop(phase), ..Announced::default() },
        }
    }

    /// Moves on to the next state; returns what to announce, in this order.
    pub(crate) fn advance(&mut self, now: &RolloutProgress) -> Vec<Milestone> {
        let change = self.change(now);
        change.into_iter().chain(self.obstruction(now)).collect()
    }

    /// Moves on to the next state; returns how the rollout has moved.
    fn change(&mut self, now: &RolloutProgress) -> Option<Milestone> {
        let before = *self;
        if now.phase == Phase::Over {
            *self = Announced::default();
            let is_complete = before.step.is_some() && before.stop != Some(Milestone::TakenBack);
            return is_complete.then_some(Milestone::Completed);
        }
        let is_same_step = before.step >= Some(now.step);
        let is_obstructed = before.is_obstructed && is_same_step && now.obstructed.is_some();
        *self = Announced { step: before.step.max(Some(now.step)), stop: stop(now.phase), is_obstructed };
        match (self.stop, before.stop, before.step) {
            (Some(stop), known, _) => Some(stop).filter(|_| known != self.stop),
            (None, Some(_), _) => Some(Milestone::Resumed),
            (None, None, None) => Some(Milestone::Started),
            (None, None, step) => (step < Some(now.step)).then_some(Milestone::Step),
        }
    }

    /// Returns whether to announce a release that holds the step up.
    fn obstruction(&mut self, now: &RolloutProgress) -> Option<Milestone> {
        let is_new = now.obstructed.is_some() && !self.is_obstructed;
        self.is_obstructed |= is_new;
        is_new.then_some(Milestone::Obstructed)
    }
}

fn stop(phase: Phase) -> Option<Milestone> {
    match phase {
        Phase::Halted => Some(Milestone::Halted),
        Phase::TakingBack => Some(Milestone::TakenBack),
        Phase::Over | Phase::Moving | Phase::Baking(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use controller::runtime::key::ResourceKey;
    use jiff::Timestamp;

    use super::*;
    use Milestone::{Completed, Halted, Obstructed, Resumed, Started, Step, TakenBack};

    fn at(phase: Phase, step: usize) -> RolloutProgress {
        RolloutProgress { phase, step, ..RolloutProgress::default() }
    }

    fn untouched(step: usize) -> RolloutProgress {
        RolloutProgress { is_untouched: true, ..at(Phase::Moving, step) }
    }

    #[test]
    fn each_change_of_a_rollout_is_reported_once() {
        let (moving, halted) = (|step| at(Phase::Moving, step), |step| at(Phase::Halted, step));
        let baking = |step| at(Phase::Baking(Timestamp::UNIX_EPOCH), step);
        let (back, over) = (at(Phase::TakingBack, 0), RolloutProgress::default());
        let obstructed =
            |name: &str| RolloutProgress { obstructed: Some(ResourceKey::new("ns", name)), ..at(Phase::Moving, 0) };
        for (behaviour, states, expected) in [
            ("nothing", vec![over.clone(), over.clone()], vec![]),
            (
                "a whole one",
                vec![moving(0), baking(0), moving(1), moving(2), over.clone()],
                vec![Started, Step, Step, Completed],
            ),
            ("a resource that comes moves a share back", vec![moving(1), moving(0), moving(1)], vec![Started]),
            (
                "a halt",
                vec![moving(0), halted(0), halted(0), moving(0), moving(1)],
                vec![Started, Halted, Resumed, Step],
            ),
            (
                "a halt after a halt",
                vec![moving(0), halted(0), moving(1), halted(1)],
                vec![Started, Halted, Resumed, Halted],
            ),
            ("a rollback", vec![moving(1), back.clone(), back.clone(), over.clone()], vec![Started, TakenBack]),
            ("a halt that becomes a rollback", vec![halted(0), back], vec![Halted, TakenBack]),
            (
                "a release that cannot be upgraded",
                vec![moving(0), obstructed("x"), obstructed("y"), moving(0), obstructed("x"), moving(1)],
                vec![Started, Obstructed, Obstructed, Step],
            ),
            ("one from the beginning", vec![obstructed("x"), obstructed("x")], vec![Started, Obstructed]),
            (
                "another one in the next step",
                vec![obstructed("x"), RolloutProgress { step: 1, ..obstructed("y") }],
                vec![Started, Obstructed, Step, Obstructed],
            ),
        ] {
            let mut announced = Announced::default();
            let heard: Vec<Milestone> = states.iter().flat_map(|state| announced.advance(state)).collect();
            assert_eq!(heard, expected, "{behaviour}");
        }
    }

    #[test]
    fn a_process_that_starts_does_not_repeat_what_its_predecessor_reported() {
        for (found, expected) in [
            (RolloutProgress::default(), None),
            (untouched(0), Some(Started)),
            (untouched(2), Some(Step)),
            (at(Phase::Moving, 0), None),
            (at(Phase::Baking(Timestamp::UNIX_EPOCH), 1), None),
            (at(Phase::Halted, 1), None),
            (at(Phase::TakingBack, 0), None),
        ] {
            assert_eq!(Announced::restored(&found).advance(&found), Vec::from_iter(expected), "{found:?}");
        }
    }
}
