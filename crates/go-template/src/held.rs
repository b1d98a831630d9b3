//! What functions made and the run still holds.
//!
//! Values are reference-counted: what was made is held as long as something besides this account refers to it. Most runs make so little in all
//! that nobody needs to know what of it is still held; only beyond that each value is noted, and looked at again from time to time.

use crate::error::LimitError;
use crate::limits::{Limits, Size};
use crate::value::Value;

/// This part of the limit is counted without being looked at again.
const GRAIN: usize = 16;

/// After each such part of what is held was made anew, all of it is looked at.
const LOOK: usize = 8;

/// What was made and is held.
#[derive(Debug, Default)]
pub(crate) struct Held {
    noted: Vec<(Value, usize)>,
    /// Bytes that were made before anything was noted, and count for good.
    early: usize,
    /// What was held at the last look, and what was made since.
    bytes: usize,
    /// When there are more bytes than these, it is time to look.
    look_at: usize,
}

impl Held {
    /// Bytes that are held at most.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts a value that nothing else holds yet, of a run that may hold so many bytes.
    pub(crate) fn add(&mut self, value: &Value, limit: usize) {
        let before = self.bytes;
        let noted = (before >= limit / GRAIN).then_some(&mut self.noted);
        self.bytes = before.saturating_add(count(value, noted));
        if before < limit / GRAIN {
            self.early = self.bytes;
            self.look_at = self.next_look(limit);
        }
    }

    /// Whether so much was made that some of it may be held no longer.
    pub(crate) fn is_due(&self) -> bool {
        self.bytes > self.look_at
    }

    /// Looks what is still held; gives how many values were looked at.
    pub(crate) fn look(&mut self, limit: usize) -> usize {
        let looked = self.noted.len();
        let (mut bytes, mut held) = (self.early, Vec::new());
        // A value was noted after its parts: taken first, it no longer holds them when they are looked at.
        while let Some((value, size)) = self.noted.pop() {
            if value.is_shared() {
                bytes += size;
                held.push((value, size));
            }
        }
        held.reverse();
        self.noted = held;
        self.bytes = bytes;
        self.look_at = self.next_look(limit);
        looked
    }

    /// The error of a run that holds too much, with so many bytes of output.
    #[cold]
    pub(crate) fn exceeded(&self, output: usize, limits: &Limits) -> LimitError {
        let (most, output, values) = (Size(limits.memory), Size(output), Size(self.bytes));
        let mut message = format!("{most} at once: {output} of output, {values} of values");
        if let Some((value, bytes)) = self.noted.iter().max_by_key(|(_, bytes)| bytes) {
            message.push_str(&format!(", the largest a {} of {}", value.kind().name(), Size(*bytes)));
        }
        message.push_str("; keep less in variables, lists and maps");
        LimitError { name: "memory", message }
    }

    fn next_look(&self, limit: usize) -> usize {
        self.bytes.saturating_add(self.bytes / LOOK).saturating_add(limit / GRAIN)
    }
}

/// The bytes of the value, which is noted with its large parts where there is a list for it.
fn count(value: &Value, noted: Option<&mut Vec<(Value, usize)>>) -> usize {
    let mut parts = 0;
    let Some(noted) = noted else {
        return value.own_bytes(&mut |_, bytes| parts += bytes) + parts;
    };
    let own = value.own_bytes(&mut |part, bytes| {
        parts += bytes;
        noted.push((part.clone(), bytes));
    });
    let own = own + size_of::<(Value, usize)>();
    noted.push((value.clone(), own));
    own + parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 160_000;

    fn text() -> Value {
        Value::from("x".repeat(968))
    }

    #[test]
    fn little_is_counted_and_never_looked_at() {
        let mut held = Held::default();
        (0..10).for_each(|_| held.add(&text(), LIMIT));
        assert_eq!((held.bytes(), held.is_due(), held.look(LIMIT)), (10_000, false, 0));
        assert_eq!(held.bytes(), 10_000);
    }

    #[test]
    fn what_nobody_holds_is_forgotten_at_the_next_look() {
        let mut held = Held::default();
        let texts: Vec<Value> = (0..15).map(|_| text()).collect();
        texts.iter().for_each(|text| held.add(text, LIMIT));
        let each = 1000 + size_of::<(Value, usize)>();
        assert_eq!(held.bytes(), 10_000 + 5 * each);
        drop(texts.into_iter().skip(12).collect::<Vec<_>>());
        assert_eq!(held.look(LIMIT), 5);
        assert_eq!(held.bytes(), 10_000, "the others are gone as well");
        let kept = text();
        held.add(&kept, LIMIT);
        (0..9).for_each(|_| held.add(&text(), LIMIT));
        assert_eq!(held.look(LIMIT), 10);
        assert_eq!((held.bytes(), held.look(LIMIT)), (10_000 + each, 1));
    }

    #[test]
    fn a_look_is_due_when_a_part_of_the_limit_was_made_anew() {
        let mut held = Held::default();
        let texts: Vec<Value> = (0..100).map(|_| text()).collect();
        texts.iter().for_each(|text| held.add(text, LIMIT));
        assert!(held.is_due());
        held.look(LIMIT);
        let (bytes, mut added) = (held.bytes(), 0);
        while !held.is_due() {
            held.add(&text(), LIMIT);
            added += 1;
        }
        assert_eq!(added, (bytes / LOOK + LIMIT / GRAIN) / 1032 + 1);
    }

    #[test]
    fn large_parts_are_held_on_their_own() {
        let mut held = Held::default();
        (0..10).for_each(|_| held.add(&text(), LIMIT));
        let large = "x".repeat(5000);
        let list = Value::list(vec![large.into(), "small".into()]);
        held.add(&list, LIMIT);
        let part = list.as_list().map(|list| list[0].clone());
        drop(list);
        assert_eq!(held.look(LIMIT), 2);
        assert_eq!(held.bytes(), 10_000 + 5032);
        drop(part);
        held.look(LIMIT);
        assert_eq!(held.bytes(), 10_000);
    }

    #[test]
    fn parts_of_what_nobody_holds_are_forgotten_with_it() {
        let mut held = Held::default();
        (0..10).for_each(|_| held.add(&text(), LIMIT));
        let nested = (0..9).fold(text(), |inner, _| Value::list(vec!["x".repeat(2000).into(), inner]));
        held.add(&nested, LIMIT);
        drop(nested);
        assert!(held.look(LIMIT) > 9);
        assert_eq!((held.bytes(), held.look(LIMIT)), (10_000, 0));
    }

    #[test]
    fn the_error_names_the_largest() {
        let mut held = Held::default();
        let limits = Limits { memory: 16, ..Limits::default() };
        let none = "limit memory exceeded: 16 bytes at once: 20 bytes of output, 0 bytes of values; keep less in variables, lists and maps";
        assert_eq!(held.exceeded(20, &limits).to_string(), none);
        held.add(&text(), 16);
        let list = Value::list(vec![Value::Nil; 99]);
        held.add(&list, 16);
        assert!(held.exceeded(20, &limits).to_string().contains("the largest a slice of "));
    }
}
