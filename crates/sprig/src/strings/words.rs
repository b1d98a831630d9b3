//! `snakecase`, `kebabcase` and `camelcase`. Counterpart: the library `huandu/xstrings`, with its own definition of a word.

use go_template::{FuncError, FuncMap, Str};

use golibs::unicode::{is_letter, is_number, is_punct, is_space, is_upper, to_lower, to_upper};
use golibs::utf8::chars;

use crate::limits::check_list;

pub(super) fn register(map: &mut FuncMap) {
    map.add("snakecase", |s: Str| separated("snakecase", &s, '_'))
        .add("kebabcase", |s: Str| separated("kebabcase", &s, '-'))
        .add("camelcase", |s: Str| camelcase(&s));
}

fn is_connector(c: char) -> bool {
    matches!(c, '-' | '_') || is_space(c)
}

/// Returns whether this is a letter, but not a Chinese character.
fn is_alphabet(c: char) -> bool {
    is_letter(c) && !matches!(c, '\u{4e00}'..='\u{9fcc}' | '\u{3400}'..='\u{4d85}' | '\u{20000}'..='\u{2b81d}')
}

fn camelcase(s: &[u8]) -> String {
    let mut out = String::new();
    let mut rest = chars(s).peekable();
    while let Some(c) = rest.next_if(|c| is_connector(*c)) {
        out.push(c);
    }
    let Some(first) = rest.next() else {
        // xstrings repeats the last character if all characters are connectors.
        out.extend(out.chars().next_back());
        return out;
    };
    let mut in_capitals = is_upper(first);
    let mut previous = to_upper(first);
    for c in rest {
        let mut current = c;
        match (is_connector(c), is_connector(previous)) {
            (true, true) => out.push(previous),
            (_, true) => {
                in_capitals = is_upper(c);
                current = to_upper(c);
            }
            _ => {
                if in_capitals && is_upper(c) {
                    current = to_lower(c);
                } else {
                    in_capitals = false;
                }
                out.push(previous);
            }
        }
        previous = current;
    }
    out.push(previous);
    out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Other,
}

/// Splits text into words. The last letter of a run of capitals belongs to the word after it.
fn words(function: &str, s: &[u8]) -> Result<Vec<(Kind, String)>, FuncError> {
    // xstrings skips invalid UTF-8 inside words.
    let text: Vec<char> = chars(s).filter(|c| *c != char::REPLACEMENT_CHARACTER).collect();
    let mut words = Vec::new();
    let mut rest = text.as_slice();
    while !rest.is_empty() {
        check_list(function, words.len() + 1)?;
        let (kind, length) = first_word(rest);
        words.push((kind, rest[..length].iter().collect()));
        rest = &rest[length..];
    }
    Ok(words)
}

fn first_word(text: &[char]) -> (Kind, usize) {
    let run = |from: usize, test: &dyn Fn(char) -> bool| from + text[from..].iter().take_while(|c| test(**c)).count();
    let small = |c: char| is_alphabet(c) && !is_upper(c);
    let first = text[0];
    if is_connector(first) {
        (Kind::Connector, run(1, &is_connector))
    } else if is_punct(first) {
        (Kind::Punctuation, run(1, &|c| is_punct(c)))
    } else if is_upper(first) {
        let capitals = run(1, &|c| is_upper(c));
        match text.get(capitals) {
            _ if capitals == 1 => (Kind::Upper, run(1, &small)),
            Some(c) if is_alphabet(*c) => (Kind::Upper, capitals - 1),
            _ => (Kind::Upper, capitals),
        }
    } else if is_alphabet(first) {
        (Kind::Alphabet, run(1, &small))
    } else if is_number(first) {
        (Kind::Number, run(1, &|c| is_number(c)))
    } else {
        let other = |c| !(is_connector(c) || is_alphabet(c) || is_number(c) || is_punct(c));
        (Kind::Other, run(1, &other))
    }
}

/// Writes words with a connector between them.
struct Separator {
    out: String,
    connector: char,
}

impl Separator {
    fn word(&mut self, (kind, word): &(Kind, String)) {
        match kind {
            Kind::Upper => self.out.extend(word.chars().map(|c| if is_upper(c) { to_lower(c) } else { c })),
            Kind::Connector => self.out.extend(word.chars().map(|_| self.connector)),
            _ => self.out.push_str(word),
        }
    }

    /// Writes a connector unless the next word is one or is punctuation.
    fn before(&mut self, next: Option<Kind>) {
        if next.is_some_and(|k| !matches!(k, Kind::Connector | Kind::Punctuation)) {
            self.out.push(self.connector);
        }
    }
}

/// Converts words to lower case, separated by connectors. Digits belong to the letters before them unless lower-case letters follow. Counterpart:
/// xstrings' `camelCaseToLowerCase`.
fn separated(function: &str, s: &[u8], connector: char) -> Result<String, FuncError> {
    let words = words(function, s)?;
    let kind = |i: usize| words.get(i).map(|w| w.0);
    let mut to = Separator { out: String::new(), connector };
    let mut i = 0;
    while i + 1 < words.len() {
        to.word(&words[i]);
        let current = words[i].0;
        i += 1;
        match current {
            Kind::Connector | Kind::Punctuation => {}
            Kind::Number => {
                i = letters_and_numbers(&words, i, &mut to);
                to.before(kind(i));
            }
            _ if kind(i) != Some(Kind::Number) => to.before(kind(i)),
            _ if i + 1 >= words.len() => {}
            _ => {
                let number = i;
                i += 1;
                if kind(i) == Some(Kind::Alphabet) {
                    to.out.push(connector);
                    to.word(&words[number]);
                    i = letters_and_numbers(&words, i, &mut to);
                } else {
                    to.word(&words[number]);
                }
                to.before(kind(i));
            }
        }
    }
    if let Some(last) = words.get(i) {
        to.word(last);
    }
    Ok(to.out)
}

fn letters_and_numbers(words: &[(Kind, String)], mut i: usize, to: &mut Separator) -> usize {
    while let Some(word) = words.get(i).filter(|w| matches!(w.0, Kind::Alphabet | Kind::Number)) {
        to.word(word);
        i += 1;
    }
    i
}
