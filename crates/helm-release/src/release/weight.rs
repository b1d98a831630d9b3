//! Estimates the memory of a parsed JSON text: a few bytes of text can stand for hundreds in memory.

/// The memory of a value in an array, in bytes.
const VALUE: usize = 32;
/// The memory of an object's smallest node, which has a capacity of eleven entries.
const NODE: usize = 640;
/// The memory of each further entry of an object: its share of a node.
const ENTRY: usize = 64;

/// Returns an estimate of the memory of the text's values, in bytes, without strings, which are as long as in the text.
pub(super) fn weight(json: &[u8]) -> usize {
    let (mut weight, mut quoted, mut escaped) = (VALUE, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' => weight += NODE,
            b'[' | b',' => weight += VALUE,
            b':' => weight += ENTRY,
            _ => {}
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_count_and_text_does_not() {
        let check = |json: &str, expected: usize| assert_eq!(weight(json.as_bytes()), expected, "{json}");
        check("1", VALUE);
        check("[1,2]", 3 * VALUE);
        check(r#"{"a":1}"#, VALUE + NODE + ENTRY);
        check(r#""[{,:\"[{,:\\""#, VALUE);
        check(r#"["\\",[]]"#, 4 * VALUE);
    }
}
