//! Estimates the memory of a parsed review. Hostile JSON can grow a hundredfold when it is parsed.

/// The memory of an object besides its text: a map node.
const OBJECT: usize = 640;

/// The memory of a value besides its text.
const VALUE: usize = 32;

/// Returns an upper bound of the memory that a JSON text takes as values. Reads it once, without parsing.
pub(super) fn weigh(text: &[u8]) -> usize {
    let (mut weight, mut is_string, mut is_escaped) = (text.len(), false, false);
    for byte in text {
        match (is_string, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => is_string = !is_string,
            (false, b'{') => weight += OBJECT,
            (false, b'[' | b',' | b':') => weight += VALUE,
            _ => {}
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_weighs_and_text_does_not() {
        assert_eq!(weigh(br#""{[,:\"{""#), 9, "all of it is text");
        assert_eq!(weigh(br#"{"a\\":[1,{}]}"#), 14 + 2 * OBJECT + 3 * VALUE);
        assert!(weigh(&br#"{"":0},"#.repeat(1000)) > 600_000);
    }
}
