//! Measures a JSON text before it is parsed: its depth, and its memory, because a few bytes of text can stand for hundreds
//! in memory.

/// The memory of a value in an array, in bytes.
const VALUE: usize = 32;
/// The memory of an object's smallest node, which has a capacity of eleven entries.
const NODE: usize = 640;
/// The memory of each further entry of an object: its share of a node.
const ENTRY: usize = 64;

/// Returns an estimate of the memory of the text's values, in bytes, without strings, which are as long as in the text.
pub(super) fn weight(json: &[u8]) -> usize {
    let mut weight = VALUE;
    for byte in outside_strings(json) {
        match byte {
            b'{' => weight += NODE,
            b'[' | b',' => weight += VALUE,
            b':' => weight += ENTRY,
            _ => {}
        }
    }
    weight
}

/// Returns how deep the text's arrays and objects nest.
pub(super) fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in outside_strings(json) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn outside_strings(json: &[u8]) -> impl Iterator<Item = u8> {
    let (mut quoted, mut escaped) = (false, false);
    json.iter().copied().filter(move |byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            _ => return !quoted,
        }
        false
    })
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

    #[test]
    fn only_open_values_count_as_depth() {
        let check = |json: &str, expected: usize| assert_eq!(depth(json.as_bytes()), expected, "{json}");
        check("1", 0);
        check("[[],{},[]]", 2);
        check(r#"{"a":[{"b":1}],"c":[[]]}"#, 3);
        check(r#"["[{\"[{", 1]"#, 1);
    }
}
