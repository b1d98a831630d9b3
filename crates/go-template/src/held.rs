//! Accounts for the values that functions created and that the run still holds.
//!
//! Values are reference-counted: a value is held while something other than this account refers to it. Most runs create so little that the total
//! suffices. Above a threshold, the account records each value and checks from time to time which of them are still held.

use crate::error::LimitError;
use crate::limits::{Limits, Size};
use crate::value::Value;

/// Only the total is counted up to this fraction of the limit (1 / `UNRECORDED_FRACTION`).
const UNRECORDED_FRACTION: usize = 16;

/// A check is due once functions have created this fraction (1 / `CHECK_FRACTION`) of the held bytes since the last check.
const CHECK_FRACTION: usize = 8;

/// The values that a run holds.
#[derive(Debug, Default)]
pub(crate) struct Held {
    recorded: Vec<(Value, usize)>,
    /// Bytes created before values were recorded. They count until the run ends.
    unrecorded: usize,
    /// An upper bound of the held bytes: those at the last check, plus bytes created since.
    pub(crate) bytes: usize,
    /// Number of bytes above which the next check is due.
    check_at: usize,
}

impl Held {
    /// Adds a value that nothing else holds yet. `limit` is the number of bytes that the run may hold.
    pub(crate) fn add(&mut self, value: &Value, limit: usize) {
        let before = self.bytes;
        let recorded = (before >= limit / UNRECORDED_FRACTION).then_some(&mut self.recorded);
        self.bytes = before.saturating_add(count(value, recorded));
        if before < limit / UNRECORDED_FRACTION {
            self.unrecorded = self.bytes;
            self.check_at = self.next_check(limit);
        }
    }

    pub(crate) fn is_check_due(&self) -> bool {
        self.bytes > self.check_at
    }

    /// Drops values that nothing else holds. Returns the number of values it checked.
    pub(crate) fn check(&mut self, limit: usize) -> usize {
        let checked = self.recorded.len();
        let (mut bytes, mut held) = (self.unrecorded, Vec::new());
        // A value is recorded after its parts. Popped first, it no longer holds them when they are popped.
        while let Some((value, size)) = self.recorded.pop() {
            if value.is_shared() {
                bytes += size;
                held.push((value, size));
            }
        }
        held.reverse();
        self.recorded = held;
        self.bytes = bytes;
        self.check_at = self.next_check(limit);
        checked
    }

    /// Returns the error of a run that holds too much in addition to this many bytes of output.
    #[cold]
    pub(crate) fn exceeded(&self, output: usize, limits: &Limits) -> LimitError {
        let (most, output, values) = (Size(limits.memory), Size(output), Size(self.bytes));
        let mut message = format!("{most} at once: {output} of output, {values} of values");
        if let Some((value, bytes)) = self.recorded.iter().max_by_key(|(_, bytes)| bytes) {
            message.push_str(&format!(", the largest a {} of {}", value.kind().name(), Size(*bytes)));
        }
        message.push_str("; keep less in variables, lists and maps");
        LimitError { name: "memory", message }
    }

    fn next_check(&self, limit: usize) -> usize {
        self.bytes.saturating_add(self.bytes / CHECK_FRACTION).saturating_add(limit / UNRECORDED_FRACTION)
    }
}

/// Returns the size of the value in bytes. If there is a list to record values in, also records the value and its large parts.
fn count(value: &Value, recorded: Option<&mut Vec<(Value, usize)>>) -> usize {
    let mut parts = 0;
    let Some(recorded) = recorded else {
        return value.own_bytes(&mut |_, bytes| parts += bytes) + parts;
    };
    let own = value.own_bytes(&mut |part, bytes| {
        parts += bytes;
        recorded.push((part.clone(), bytes));
    });
    let own = own + size_of::<(Value, usize)>();
    recorded.push((value.clone(), own));
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
    fn small_totals_are_counted_and_never_checked() {
        let mut held = Held::default();
        (0..10).for_each(|_| held.add(&text(), LIMIT));
        assert_eq!((held.bytes, held.is_check_due(), held.check(LIMIT)), (10_000, false, 0));
        assert_eq!(held.bytes, 10_000);
    }

    #[test]
    fn unreferenced_values_are_forgotten_at_the_next_check() {
        let mut held = Held::default();
        let texts: Vec<Value> = (0..15).map(|_| text()).collect();
        texts.iter().for_each(|text| held.add(text, LIMIT));
        let each = 1000 + size_of::<(Value, usize)>();
        assert_eq!(held.bytes, 10_000 + 5 * each);
        drop(texts.into_iter().skip(12).collect::<Vec<_>>());
        assert_eq!(held.check(LIMIT), 5);
        assert_eq!(held.bytes, 10_000, "the others are gone as well");
        let kept = text();
        held.add(&kept, LIMIT);
        (0..9).for_each(|_| held.add(&text(), LIMIT));
        assert_eq!(held.check(LIMIT), 10);
        assert_eq!((held.bytes, held.check(LIMIT)), (10_000 + each, 1));
    }

    #[test]
    fn a_check_is_due_after_a_fraction_of_the_limit_was_made() {
        let mut held = Held::default();
        let texts: Vec<Value> = (0..100).map(|_| text()).collect();
        texts.iter().for_each(|text| held.add(text, LIMIT));
        assert!(held.is_check_due());
        held.check(LIMIT);
        let (bytes, mut added) = (held.bytes, 0);
        while !held.is_check_due() {
            held.add(&text(), LIMIT);
            added += 1;
        }
        assert_eq!(added, (bytes / CHECK_FRACTION + LIMIT / UNRECORDED_FRACTION) / 1032 + 1);
    }

    #[test]
    fn large_parts_can_outlive_the_whole() {
        let mut held = Held::default();
        (0..10).for_each(|_| held.add(&text(), LIMIT));
        let large = "x".repeat(5000);
        let list = Value::list(vec![large.into(), "small".into()]);
        held.add(&list, LIMIT);
        let part = list.as_list().map(|list| list[0].clone());
        drop(list);
        assert_eq!(held.check(LIMIT), 2);
        assert_eq!(held.bytes, 10_000 + 5032);
        drop(part);
        held.check(LIMIT);
        assert_eq!(held.bytes, 10_000);
    }

    #[test]
    fn parts_of_an_unreferenced_value_are_forgotten_with_it() {
        let mut held = Held::default();
        (0..10).for_each(|_| held.add(&text(), LIMIT));
        let nested = (0..9).fold(text(), |inner, _| Value::list(vec!["x".repeat(2000).into(), inner]));
        held.add(&nested, LIMIT);
        drop(nested);
        assert!(held.check(LIMIT) > 9);
        assert_eq!((held.bytes, held.check(LIMIT)), (10_000, 0));
    }

    #[test]
    fn the_error_names_the_largest_value() {
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
