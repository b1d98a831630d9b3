//! Finds a shorter script that violates the same invariant.

use crate::run::{Report, play};
use crate::script::{Action, Script, Step};

/// Maximum number of scripts to try.
const TRIES: usize = 300;

/// Shrinks a script whose run ended in a violation; returns it with its report.
pub fn shrink(script: &Script, report: &Report) -> (Script, Report) {
    let Some(violation) = &report.violation else { return (script.clone(), report.clone()) };
    let mut search = Search { best: script.clone(), report: report.clone(), class: class(&violation.what), tries: 0 };
    loop {
        let before = search.best.clone();
        search.drop_steps();
        search.simplify();
        if search.best == before || search.tries >= TRIES {
            return (search.best, search.report);
        }
    }
}

/// Returns the class of a violation: its invariant.
fn class(what: &str) -> String {
    what.split(' ').next().unwrap_or_default().to_owned()
}

struct Search {
    best: Script,
    report: Report,
    class: String,
    tries: usize,
}

impl Search {
    /// Keeps a script if it violates the same invariant; returns whether it does.
    fn attempt(&mut self, script: Script) -> bool {
        if self.tries >= TRIES || script == self.best {
            return false;
        }
        self.tries += 1;
        let report = play(&script);
        let is_alike = report.violation.as_ref().is_some_and(|violation| class(&violation.what) == self.class);
        if is_alike {
            (self.best, self.report) = (script, report);
        }
        is_alike
    }

    /// Removes sequences of consecutive steps, longest first.
    fn drop_steps(&mut self) {
        let mut length = self.best.steps.len().div_ceil(2);
        while length > 0 {
            let mut at = self.best.steps.len();
            while at > 0 {
                at = at.saturating_sub(length);
                let mut script = self.best.clone();
                script.steps.drain(at..(at + length).min(script.steps.len()));
                self.attempt(script);
            }
            length /= 2;
        }
    }

    /// Simplifies the rest: fewer processes, default configurations, earlier steps, faults that affect every request.
    fn simplify(&mut self) {
        let mut fewer = self.best.clone();
        fewer.setups.truncate(1);
        self.attempt(fewer);
        for number in 0..self.best.setups.len() {
            let mut usual = self.best.clone();
            usual.setups[number] = Default::default();
            self.attempt(usual);
        }
        for at in 0..self.best.steps.len() {
            for simpler in simpler(&self.best.steps, at) {
                let mut script = self.best.clone();
                script.steps[at].what = simpler;
                self.attempt(script);
            }
            self.hurry(at);
        }
    }

    /// Moves a step and all later ones to an earlier time.
    fn hurry(&mut self, at: usize) {
        let before = at.checked_sub(1).map_or(0, |before| self.best.steps[before].at_ms);
        let pause = self.best.steps[at].at_ms - before;
        for shorter in [pause / 10, pause / 2].into_iter().filter(|_| pause > 100) {
            let mut script = self.best.clone();
            script.steps[at..].iter_mut().for_each(|step| step.at_ms -= pause - shorter);
            if self.attempt(script) {
                return;
            }
        }
    }
}

fn simpler(steps: &[Step], at: usize) -> Vec<Action> {
    match &steps[at].what {
        Action::Fault(fault) if fault.of_ten < 10 => {
            let always = crate::faults::Fault { of_ten: 10, ..fault.clone() };
            vec![Action::Fault(always)]
        }
        Action::Restart(process, down, _) => vec![Action::Kill(*process, *down)],
        Action::Delete(name, how) if !how.is_empty() => vec![Action::Delete(name.clone(), String::new())],
        Action::Stop(process, down) => vec![Action::Kill(*process, *down)],
        Action::Kill(process, down) if *down > 0 => vec![Action::Kill(*process, 0)],
        _ => Vec::new(),
    }
}
