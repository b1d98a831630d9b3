//! Finds the known word that a mistyped one was meant to be.

/// Only this many characters of a word are compared.
const LENGTH: usize = 64;

/// Returns the known word that differs from `word` in at most a third of its letters, ignoring case.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let start: String = word.chars().take(LENGTH).collect();
    helm::reads::near(&start, known)
}

/// Lists the known keys of a mapping, and suggests the one that was probably meant.
pub(crate) fn unknown_key(key: &str, known: &[&'static str]) -> String {
    let meant =
        nearest(key, known.iter().copied()).map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
    format!("unknown key {key:?}; the keys are {}{meant}", known.join(", "))
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
