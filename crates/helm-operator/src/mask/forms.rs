//! The forms in which templates and servers print a value: unchanged, quoted, escaped, in hexadecimal and in Base64.

use std::borrow::Cow;

use go_template::escape;
use golibs::{strconv, time};
use k8s_openapi::ByteString;

/// How to search for one form of a word.
pub(super) enum Form<'a> {
    Anywhere(Cow<'a, str>),
    /// Only where neither neighbour is a letter or digit, because the form is short enough to occur by chance.
    Alone(Cow<'a, str>),
}

/// The minimum length of a piece of Base64 or hexadecimal that is searched inside longer ones.
const SHORTEST_CODE: usize = 6;

/// The letter cases in which a word is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// Unchanged. In another case, a configured word is often an ordinary word of the message.
    AsIs,
    /// Also as the functions of templates change it.
    Changed,
}

/// Returns every form of a word, the most likely first.
pub(super) fn forms(word: &str, case: Case) -> impl Iterator<Item = Form<'_>> {
    let escapes = [go, go_time, json, go_json, quoted_json, html, url];
    let escaped = escapes.into_iter().map(|escape| escape(word)).filter(move |form| form != word);
    let plain = std::iter::once(Form::Anywhere(Cow::Borrowed(word)));
    let cases: &[fn(&str) -> String] = if case == Case::Changed { &CASES } else { &[] };
    let cased = cases.iter().map(|change| change(word)).filter(move |form| form != word);
    plain.chain(escaped.chain(cased).map(|form| Form::Anywhere(form.into()))).chain(codes(word))
}

/// The functions `upper`, `lower`, `title`, `untitle` and `swapcase` of templates.
const CASES: [fn(&str) -> String; 5] = [str::to_uppercase, str::to_lowercase, title, untitle, swapped];

/// Ports Go's `strings.Title`.
fn title(word: &str) -> String {
    titled(word, upper, |c| c.is_alphanumeric() || c == '_')
}

/// Ports `Uncapitalize` of Go's package goutils.
fn untitle(word: &str) -> String {
    titled(word, lower, |c| !c.is_whitespace())
}

fn upper(c: char) -> String {
    c.to_uppercase().collect()
}

fn lower(c: char) -> String {
    c.to_lowercase().collect()
}

/// Changes the first letter of each part of the word.
fn titled(word: &str, change: fn(char) -> String, is_part: fn(char) -> bool) -> String {
    let mut is_inside = false;
    let letter = |c: char| {
        let changed = if is_inside { c.to_string() } else { change(c) };
        is_inside = is_part(c);
        changed
    };
    word.chars().map(letter).collect()
}

fn swapped(word: &str) -> String {
    word.chars().map(|c| if c.is_uppercase() { lower(c) } else { upper(c) }).collect()
}

/// Escapes like Go's `%q`, without the quotes.
fn go(word: &str) -> String {
    inner(&strconv::quote(word))
}

/// Escapes like errors of Go's package time.
fn go_time(word: &str) -> String {
    inner(&time::quote(word.as_bytes()))
}

fn json(word: &str) -> String {
    inner(&serde_json::Value::from(word).to_string())
}

/// Removes the quotes.
fn inner(quoted: &str) -> String {
    quoted[1..quoted.len() - 1].to_owned()
}

/// Escapes like Go's JSON, and `toJson` of templates.
fn go_json(word: &str) -> String {
    let characters = json(word).replace('&', "\\u0026");
    characters
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Escapes like JSON inside a string.
fn quoted_json(word: &str) -> String {
    go(&go_json(word))
}

fn html(word: &str) -> String {
    String::from_utf8_lossy(&escape::html(word.as_bytes())).into_owned()
}

/// Escapes like Go's `url.QueryEscape`.
fn url(word: &str) -> String {
    String::from_utf8_lossy(&escape::url_query(word.as_bytes())).into_owned()
}

/// Returns a word in hexadecimal and Base64: alone, and inside a longer text, where Base64 has three alignments.
fn codes<'a>(word: &str) -> Vec<Form<'a>> {
    let hex: String = word.bytes().map(|byte| format!("{byte:02x}")).collect();
    let hex = [hex.to_uppercase(), hex].into_iter().filter(|code| code.len() >= SHORTEST_CODE);
    let inside = (0..3).map(|before| inside(word, before)).filter(|code| code.len() >= SHORTEST_CODE);
    let whole = base64(word.as_bytes());
    let unpadded = whole.trim_end_matches('=').to_owned();
    let alone = [whole, unpadded].into_iter().filter(|code| code.len() >= 4);
    let base64 = alone
        .map(|code| Form::Alone(code.into()))
        .chain(inside.map(|code| Form::Anywhere(code.into())))
        .flat_map(|form| [for_urls(&form), Some(form)])
        .flatten();
    hex.map(|code| Form::Anywhere(code.into())).chain(base64).collect()
}

/// Returns the form in the URL alphabet, if it differs.
fn for_urls<'a>(form: &Form<'_>) -> Option<Form<'a>> {
    let change = |code: &str| code.contains(['+', '/']).then(|| code.replace('+', "-").replace('/', "_").into());
    match form {
        Form::Anywhere(code) => change(code).map(Form::Anywhere),
        Form::Alone(code) => change(code).map(Form::Alone),
    }
}

/// Returns the characters that the word alone determines, after this many bytes of a group of three.
fn inside(word: &str, before: usize) -> String {
    let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(word.bytes()).collect();
    let (first, last) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    base64(&padded).get(first..last).unwrap_or_default().to_owned()
}

fn base64(bytes: &[u8]) -> String {
    match serde_json::to_value(ByteString(bytes.to_vec())) {
        Ok(serde_json::Value::String(code)) => code,
        // A byte string always serialises as a string.
        _ => String::new(),
    }
}
