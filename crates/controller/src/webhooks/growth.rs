//! Refuses objects that are too large to be changed after they are stored: the review of an update has both states, so
//! not even a finalizer could be removed.

use outside::Headed;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::serve::{MAX_ADMISSION, MAX_TOTAL};
use super::weight::weigh;

/// What the rest of a review takes, and what an object gains when it is deleted and its finalizers are removed: a time
/// and managed fields.
const ROOM: usize = 1 << 20;

/// A question about an object, as text.
#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: States<'a>,
}

/// The new and the stored state of an object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct States<'a> {
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    old_object: Option<&'a RawValue>,
}

/// Checks that the object that an admission review would store can be updated later. An object that becomes lighter or
/// is being deleted passes, so that it can be shortened or deleted. `weight` is the whole review's.
pub(super) fn check(review: &[u8], weight: usize) -> Result<(), &'static str> {
    // Most reviews are small as a whole. One that cannot be read is refused afterwards.
    if is_changeable(review.len(), weight) || grown(review).is_none_or(|(size, weight)| is_changeable(size, weight)) {
        return Ok(());
    }
    Err("the object is too large to be updated later")
}

/// Returns the size and the weight of a review's object if it is new or becomes heavier, and is not being deleted.
fn grown(review: &[u8]) -> Option<(usize, usize)> {
    let States { object, old_object } = serde_json::from_slice::<Review<'_>>(review).ok()?.request;
    let object = object?.get();
    let weight = weigh(object.as_bytes());
    let grows = old_object.is_none_or(|old| weight > weigh(old.get().as_bytes()));
    (grows && !is_going(object)).then_some((object.len(), weight))
}

/// Returns whether the review of an update, with an object of this size and weight twice, is within the limits.
fn is_changeable(size: usize, weight: usize) -> bool {
    let text = 2 * size + ROOM;
    text <= MAX_ADMISSION && text + 4 * weight <= MAX_TOTAL
}

fn is_going(object: &str) -> bool {
    serde_json::from_str::<Headed>(object).is_ok_and(|object| object.metadata.deletion_timestamp.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an object with this many small items.
    fn object(items: usize, metadata: &str) -> String {
        format!(r#"{{"metadata":{metadata},"spec":[{}0]}}"#, r#"{"":0},"#.repeat(items))
    }

    #[test]
    fn an_object_that_is_new_or_grows_must_be_light_enough_for_an_update() {
        let refused = |review: &str| check(review.as_bytes(), weigh(review.as_bytes())).is_err();
        let of = |items: usize| object(items, "{}");
        let going = object(24_000, r#"{"deletionTimestamp":"2026-01-01T00:00:00Z"}"#);
        let null = || "null".to_owned();
        for (behaviour, new, old, expected) in [
            ("a new object at the limit", of(23_000), null(), false),
            ("a new object beyond it", of(24_000), null(), true),
            ("a small one becomes large", of(24_000), of(1), true),
            ("a large one grows", of(25_000), of(24_000), true),
            ("a large one shrinks", of(24_000), of(25_000), false),
            ("a large one keeps its weight", of(24_000), of(24_000), false),
            ("a large one that is being deleted gains a field", going, of(23_900), false),
            ("a large one is deleted", null(), of(30_000), false),
            ("a text that an update has twice", format!("\"{}\"", "a".repeat(4 << 20)), null(), true),
        ] {
            let review = format!(r#"{{"request":{{"uid":"u","object":{new},"oldObject":{old}}}}}"#);
            assert_eq!(refused(&review), expected, "{behaviour}");
        }
        assert!(!refused(&of(24_000)[1..]), "one that cannot be read");
    }
}
