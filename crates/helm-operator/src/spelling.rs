//! Finds the known word that a mistyped one was meant to be.

/// Only this many characters of a word are compared.
const LENGTH: usize = 64;

/// Returns the known word that differs from `word` in at most a third of its letters, ignoring case.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let (distance, near) = known.into_iter().map(|k| (distance(word, k), k)).min()?;
    (distance * 3 <= near.len()).then_some(near)
}

/// Lists the known keys of a mapping, and suggests the one that was probably meant.
pub(crate) fn unknown_key(key: &str, known: &[&'static str]) -> String {
    let meant =
        nearest(key, known.iter().copied()).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
    format!("unknown key {key:?}; the keys are {}{meant}", known.join(", "))
}

/// Returns how many letters must be inserted, removed or replaced to turn `a` into `b`, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().take(LENGTH).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().take(LENGTH).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let exchanged = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_meant_that_differs_in_few_letters() {
        let known = ["suspend", "pause", "reconcile-now"];
        for (word, expected) in [
            ("suspnd", Some("suspend")),
            ("Pause", Some("pause")),
            ("reconcileNow", Some("reconcile-now")),
            ("unrelated", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest("a", []), None);
    }
}
