//! Finds the definitions and branches of a template in its text, which need not be a valid template.

use std::ops::Range;

/// Splits a text where definitions begin and end.
pub(super) fn definitions(text: &str) -> Vec<&str> {
    let (mut parts, mut from) = (Vec::new(), 0);
    // For each open block, whether it is a definition.
    let mut open: Vec<bool> = Vec::new();
    for action in actions(text) {
        let cut = match word(&text[action.start + 2..action.end]) {
            "define" | "block" => {
                open.push(true);
                Some(action.start)
            }
            "if" | "with" | "range" => {
                open.push(false);
                None
            }
            "end" => open.pop().filter(|is_definition| *is_definition).map(|_| action.end),
            _ => None,
        };
        if let Some(at) = cut {
            parts.push(&text[from..at]);
            from = at;
        }
    }
    parts.push(&text[from..]);
    parts
}

/// Splits a text at the end of a branch that began before the text: `a/v1{{ else }}apiVersion: b/v1{{ end }}`.
pub(super) fn branch(text: &str) -> (&str, &str) {
    let mut depth = 0_usize;
    for (at, _) in text.match_indices("{{") {
        match word(&text[at + 2..]) {
            "if" | "with" | "range" | "block" => depth += 1,
            // If this action has no end, no later one has.
            "else" | "end" if depth == 0 => {
                return if text[at..].contains("}}") { text.split_at(at) } else { (text, "") };
            }
            "end" => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    (text, "")
}

/// Returns the word with which an action begins; empty if it begins with anything else.
fn word(action: &str) -> &str {
    let action = action.strip_prefix('-').unwrap_or(action).trim_start();
    action.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()
}

/// Returns the ranges of a text's actions, comments included.
fn actions(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text[from..].find("{{")?;
        from = start + 2 + length(&text[start + 2..]);
        Some(start..from)
    })
}

/// Returns the length of an action after its opening braces. Braces in comments and strings do not end it.
fn length(action: &str) -> usize {
    let is_comment = action.strip_prefix('-').unwrap_or(action).trim_start().starts_with("/*");
    let from = if is_comment { action.find("*/").unwrap_or(action.len()) } else { 0 };
    let mut quote = None;
    let mut chars = action[from..].char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (None, '}') if action[from + at..].starts_with("}}") => return from + at + 2,
            (None, '"' | '\'' | '`') => quote = Some(c),
            (Some('"' | '\''), '\\') => _ = chars.next(),
            // Only the text of something else than a template leaves a string open.
            (Some('"' | '\''), '\n') => quote = None,
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
    }
    action.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_ends_where_its_own_block_does() {
        let check = |parts: &[&str]| assert_eq!(definitions(&parts.concat()), parts);
        check(&["a{{ if .x }}b{{ end }}"]);
        check(&["a\n", "{{- define \"d\" -}}\nb{{ if .x }}c{{ else if .y }}d{{ end }}e{{- end -}}", "\nf{{ end }}"]);
        check(&["{{ if .x }}", "{{ block \"b\" . }}{{ range .y }}c{{ end }}{{end}}", "{{ end }}d"]);
        check(&["", "{{ define \"a\" }}b{{ end }}", "", "{{ define \"c\" }}d{{ end }}", ""]);
        check(&["", "{{\n define \"a\" }}{{ with\n.x }}b{{ end }}{{ end }}", "c"]);
        check(&["{{/* {{ define \"a\" }} don't */}}", "{{ define \"b\" }}"]);
        check(&["{{ \"}}{{ define\" }}{{ `\"` }}{{ '\"' }}{{ \"\\\"}}\" }}", "{{ define \"b\" }}"]);
        check(&["{{ don't }}\n}}", "{{ define \"a\" }}é"]);
        check(&["{{ end }}{{"]);
    }

    #[test]
    fn a_branch_ends_at_an_action_of_an_outer_block() {
        let check = |own: &str, rest: &str| assert_eq!(branch(&format!("{own}{rest}")), (own, rest));
        check("a/v1", "{{ else }}b/v1{{ end }}");
        check("{{ if .x }}a{{ else }}b{{ end }}c", "{{- end }}");
        check("a{{ .else }}{{ endless }}{{ end", "");
    }
}
