//! Hides values of Secrets in text that a chart's templates print: error messages and notes.

use std::fmt;

use go_encoding::json;
use go_template::Value;

/// Shorter words are too common: hiding them would garble messages and prove what they are.
const SHORTEST: usize = 4;
/// What hidden values look like.
const STARS: &str = "****";

/// The words to hide, the longest first.
#[derive(Clone, Default)]
pub(crate) struct Mask(Vec<String>);

/// Never the words.
impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

impl Mask {
    /// Hides every string and number in a value, line by line.
    pub(crate) fn add(&mut self, value: &Value) {
        match value {
            Value::Map(map) => map.snapshot().iter().for_each(|(_, inner)| self.add(inner)),
            Value::List(list) => list.iter().for_each(|inner| self.add(inner)),
            Value::Nil | Value::Bool(_) => {}
            Value::String(text) => self.add_text(&text.to_text()),
            scalar => self.add_text(&json::to_serde(scalar).to_string()),
        }
    }

    fn add_text(&mut self, text: &str) {
        let lines = text.lines().map(str::trim).filter(|line| line.len() >= SHORTEST);
        self.0.extend(lines.map(str::to_owned));
        self.0.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.0.dedup();
    }

    /// The text without the words.
    pub(crate) fn hide(&self, text: String) -> String {
        self.0.iter().fold(text, |text, word| if text.contains(word) { text.replace(word, STARS) } else { text })
    }
}

#[cfg(test)]
mod tests {
    use go_encoding::yaml;

    use super::*;

    #[test]
    fn strings_and_numbers_of_a_value_are_hidden_and_short_words_stay() {
        let mut mask = Mask::default();
        mask.add(
            &yaml::parse(b"a: {password: hunter2, port: 54321, on: true}\nl: [abc, hunter2-long, \"k1k1\\n  k2k2\"]")
                .unwrap(),
        );
        let text = "hunter2-long hunter2 54321 true abc\n  k1k1\n  k2k2";
        assert_eq!(mask.hide(text.into()), "**** **** **** true abc\n  ****\n  ****");
        assert_eq!(format!("{mask:?}"), "****");
    }
}
