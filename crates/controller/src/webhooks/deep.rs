//! Lets objects be converted that nest more deeply than serde_json reads values: one that cannot be converted would
//! fail every list of its kind.
//!
//! What is too deep becomes a string for the conversion, and is put back as text afterwards.

use std::borrow::Cow;

/// How many levels serde_json reads. An API server accepts 10,000.
const LEVELS: usize = 127;

/// The text of an object, with a string in place of each part that is too deep.
pub(super) struct Shallow<'a> {
    pub(super) text: Cow<'a, str>,
    parts: Vec<&'a str>,
    /// How these strings begin, which the object cannot know.
    mark: String,
}

impl<'a> Shallow<'a> {
    /// Cuts the valid JSON text of an object.
    pub(super) fn of(text: &'a str) -> Shallow<'a> {
        let mark = format!("deep-{:016x}-", outside::random());
        let (mut shallow, mut parts, mut copied) = (String::new(), Vec::new(), 0);
        let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
        for (at, byte) in text.bytes().enumerate() {
            match (is_string, byte) {
                (true, _) if is_escaped => is_escaped = false,
                (true, b'\\') => is_escaped = true,
                (_, b'"') => is_string = !is_string,
                (false, b'{' | b'[') => {
                    if depth == LEVELS {
                        shallow += &text[copied..at];
                        copied = at;
                    }
                    depth += 1;
                }
                (false, b'}' | b']') => {
                    depth = depth.saturating_sub(1);
                    if depth == LEVELS {
                        shallow.extend(["\"", &mark, &parts.len().to_string(), "\""]);
                        parts.push(&text[copied..=at]);
                        copied = at + 1;
                    }
                }
                _ => {}
            }
        }
        if parts.is_empty() {
            return Shallow { text: text.into(), parts, mark };
        }
        shallow += &text[copied..];
        Shallow { text: shallow.into(), parts, mark }
    }

    /// Puts the parts back into the converted object. Returns `None` if the conversion changed their placeholders, such
    /// as when it keeps a whole field as text in an annotation.
    pub(super) fn restored(&self, converted: String) -> Option<String> {
        if self.parts.is_empty() {
            return Some(converted);
        }
        let begin = format!("\"{}", self.mark);
        let mut pieces = converted.split(&*begin);
        let mut whole = pieces.next()?.to_owned();
        for piece in pieces {
            let (number, rest) = piece.split_once('"')?;
            whole += self.parts.get(number.parse::<usize>().ok()?).copied()?;
            whole += rest;
        }
        (!whole.contains(&self.mark)).then_some(whole)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns an object with this many levels.
    fn nested(levels: usize) -> String {
        format!("{}{}", r#"{"\"a{":1,"b":["#.repeat(levels / 2), "]}".repeat(levels / 2))
    }

    #[test]
    fn what_is_too_deep_for_values_returns_as_it_was() {
        for (text, parts) in [(nested(100), 0), (format!(r#"{{"a":{0},"b":{0}}}"#, nested(600)), 2)] {
            let shallow = Shallow::of(&text);
            assert_eq!(shallow.parts.len(), parts);
            let value: Value = serde_json::from_str(&shallow.text).unwrap();
            let restored = shallow.restored(value.to_string()).unwrap();
            assert_eq!((restored == text, restored.len()), (true, text.len()));
        }
        for levels in [LEVELS, LEVELS + 1] {
            let text = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            assert_eq!(Shallow::of(&text).parts.len(), levels - LEVELS);
            assert_eq!(serde_json::from_str::<Value>(&text).is_ok(), levels == LEVELS);
        }
    }

    #[test]
    fn a_conversion_that_changes_what_stands_for_a_part_loses_nothing_silently() {
        let text = format!(r#"{{"a":{}}}"#, nested(600));
        let shallow = Shallow::of(&text);
        let quoted = Value::from(&*shallow.text).to_string();
        for changed in [quoted, shallow.text.replace("deep-", "see deep-"), shallow.text.replace("-0\"", "-1\"")] {
            assert_eq!(shallow.restored(changed), None);
        }
        assert_eq!(shallow.restored("{}".to_owned()).as_deref(), Some("{}"), "a field that is dropped");
    }
}
