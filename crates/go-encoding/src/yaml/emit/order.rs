//! Orders keys like yaml.v2: letters after everything else, and numbers inside keys by value.
//!
//! This is not a total order (`9a < 010 < 0B < 9a`), so Go's output may depend on the random order of its maps. This sort is deterministic: for a few
//! keys, it gives the result that Go gives when it visits them in byte order.

use std::borrow::Cow;
use std::cmp::Ordering;

use golibs::unicode::{is_digit, is_letter};

use super::Dialect;

/// Number of items up to which Go uses insertion sort.
const INSERTION: usize = 12;

/// Sorts entries by key. They must be in byte order initially.
pub(super) fn sort<V: Copy>(entries: &mut Vec<(Cow<'_, str>, V)>, dialect: Dialect) {
    if entries.windows(2).all(|pair| natural_order(&pair[0].0, &pair[1].0, dialect) != Ordering::Greater) {
        return;
    }
    let taken = std::mem::take(entries);
    *entries = merge_sort(taken, &|a, b| natural_order(&a.0, &b.0, dialect));
}

fn merge_sort<T>(mut items: Vec<T>, order: &impl Fn(&T, &T) -> Ordering) -> Vec<T> {
    if items.len() <= INSERTION {
        insertion_sort(&mut items, order);
        return items;
    }
    let right = items.split_off(items.len() / 2);
    let left = merge_sort(items, order);
    let right = merge_sort(right, order);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(l), Some(r)) = (left.peek(), right.peek()) {
        let from_right = order(r, l) == Ordering::Less;
        merged.extend(if from_right { right.next() } else { left.next() });
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

fn insertion_sort<T>(items: &mut [T], order: &impl Fn(&T, &T) -> Ordering) {
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && order(&items[at], &items[at - 1]) == Ordering::Less {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

/// Compares two keys. After a number, yaml.v3 sorts letters before everything else.
fn natural_order(a: &str, b: &str, dialect: Dialect) -> Ordering {
    let mut common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    while !a.is_char_boundary(common) || !b.is_char_boundary(common) {
        common -= 1;
    }
    let (before, a, b) = (&a[..common], &a[common..], &b[common..]);
    let (Some(first), Some(second)) = (a.chars().next(), b.chars().next()) else {
        return a.len().cmp(&b.len());
    };
    let letters_first = dialect == Dialect::V3 && before.chars().next_back().is_some_and(is_digit);
    match (is_letter(first), is_letter(second)) {
        (true, true) => first.cmp(&second),
        (true, false) if letters_first => Ordering::Less,
        (false, true) if letters_first => Ordering::Greater,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => compare_numbers(before, a, b).then(first.cmp(&second)),
    }
}

/// Compares the numbers that start here, then their lengths.
fn compare_numbers(before: &str, a: &str, b: &str) -> Ordering {
    // A zero directly after a number belongs to that number.
    let inside = (a.starts_with('0') || b.starts_with('0'))
        && before.chars().rev().take_while(|c| is_digit(*c)).any(|c| c != '0');
    let (a_value, a_digits) = leading_number(a, i64::from(inside));
    let (b_value, b_digits) = leading_number(b, i64::from(inside));
    a_value.cmp(&b_value).then(a_digits.cmp(&b_digits))
}

fn leading_number(text: &str, start: i64) -> (i64, usize) {
    let mut digits = 0;
    let mut value = start;
    for c in text.chars().take_while(|c| is_digit(*c)) {
        value = value.wrapping_mul(10).wrapping_add(i64::from(u32::from(c)) - i64::from(b'0'));
        digits += 1;
    }
    (value, digits)
}
