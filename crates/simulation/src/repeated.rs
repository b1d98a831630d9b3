//! Plays seeds twice in one process, with others in between: what outlives a run must not change another one.

use std::collections::VecDeque;

use crate::run::play_kept;
use crate::script::Script;

/// How many other seeds are played in between.
const BETWEEN: usize = 3;

/// How many steps before a difference are shown.
const CONTEXT: usize = 12;

/// Seeds that are played twice.
pub struct Repeated {
    next: u64,
    /// The seeds that were played once, with their steps.
    once: VecDeque<(u64, Vec<String>)>,
    count: usize,
}

impl Repeated {
    /// Starts with this seed.
    pub fn starting(seed: u64) -> Repeated {
        Repeated { next: seed, once: VecDeque::new(), count: 0 }
    }

    /// Returns how many seeds were played twice.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Plays the next seed, and an earlier one again; returns how the latter differs, if it does.
    pub fn play(&mut self) -> Option<String> {
        self.once.push_back((self.next, steps(self.next)));
        self.next += 1;
        if self.once.len() <= BETWEEN {
            return None;
        }
        let (seed, first) = self.once.pop_front()?;
        self.count += 1;
        difference(&first, &steps(seed)).map(|how| format!("seed {seed} differs:\n{how}"))
    }
}

fn steps(seed: u64) -> Vec<String> {
    play_kept(&Script::of(seed)).1
}

/// Returns the first difference between the steps of two runs, with what came before it.
pub fn difference(first: &[String], second: &[String]) -> Option<String> {
    let at = first.iter().zip(second).position(|(one, other)| one != other).unwrap_or(first.len().min(second.len()));
    if at == first.len() && at == second.len() {
        return None;
    }
    let before = first[at.saturating_sub(CONTEXT)..at].iter().map(|line| format!("  {line}"));
    let [one, other] = [(first, '-'), (second, '+')]
        .map(|(steps, sign)| format!("{sign} {}", steps.get(at).map_or("(the end)", String::as_str)));
    Some(before.chain([one, other]).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_different_step_is_shown_after_those_before_it() {
        let steps = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let first = steps(&["a", "b", "c"]);
        assert_eq!(difference(&first, &first), None);
        assert_eq!(difference(&first, &steps(&["a", "x"])).as_deref(), Some("  a\n- b\n+ x"));
        assert_eq!(difference(&first, &steps(&["a", "b"])).as_deref(), Some("  a\n  b\n- c\n+ (the end)"));
    }
}
