//! Text that is safe on a terminal: names, messages and charts come from people whom the reader need not trust.

/// What takes the place of a control character.
const REPLACEMENT: char = '\u{fffd}';

/// Replaces characters that control a terminal or the direction of text, line breaks included.
pub(crate) fn plain(text: &str) -> String {
    replaced(text, |c| if c == '\t' { ' ' } else { REPLACEMENT })
}

/// Does what [`plain`] does, but keeps line breaks and tabs.
pub(crate) fn plain_lines(text: &str) -> String {
    replaced(text, |c| if matches!(c, '\n' | '\t') { c } else { REPLACEMENT })
}

fn replaced(text: &str, with: impl Fn(char) -> char) -> String {
    let is_control = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_control(c) { with(c) } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_controls_no_terminal_and_only_one_of_several_lines_keeps_its_breaks() {
        let text = "a\tb\r\nc \u{1b}[2J\u{9b}31m\u{7f} \u{202e}é";
        assert_eq!(plain(text), "a b\u{fffd}\u{fffd}c \u{fffd}[2J\u{fffd}31m\u{fffd} \u{fffd}é");
        assert_eq!(plain_lines(text), "a\tb\u{fffd}\nc \u{fffd}[2J\u{fffd}31m\u{fffd} \u{fffd}é");
    }
}
