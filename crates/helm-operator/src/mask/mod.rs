//! Redacts values in text for users: error messages of charts and of the API server, and notes.
//!
//! Words come from Secrets and from what users configure. Each is searched in the text, unchanged and in the forms of
//! `forms`. A template can still disguise a value (`trunc`, `sha256sum`, one letter at a time), but a chart's author
//! can publish it anyway.

mod forms;
mod published;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use go_encoding::json;
use go_template::Value;
use golibs::shorten::shorten;
use helm::sequence::GROUP;
use helm_release::kube::{Object, objects_of};
use helm_release::release::Hook;
use k8s_openapi::ByteString;

use forms::{Case, Form, forms};
pub use published::Published;

/// The replacement of a redacted value.
const STARS: &str = "****";
/// Shorter words are redacted only as whole words, because inside others they would garble messages.
const SHORTEST_INSIDE: usize = 4;
/// Configured words of lower-case letters up to this length may be names or ordinary words, so they are also redacted
/// only as whole words.
const ORDINARY: usize = 7;
/// The minimum length of a word's end that is redacted where a text was cut.
const SHORTEST_PIECE: usize = 4;
/// Words that reveal nothing, and that the operator's own messages contain.
const EVERYDAY: [&str; 4] = ["true", "false", "null", "default"];
/// The maximum number of words in a mask. With more of them, users see only where rendering failed, and no message.
const MAX_WORDS: usize = 20_000;
/// The maximum of words times bytes of text that a search may cost. Longer texts are cut first. With 1,000 words, a
/// search reads 20 KiB, in about 50 ms.
const MAX_SEARCH: usize = 20 << 20;
/// Searches for at least this many words run on a separate thread.
const MANY_WORDS: usize = 200;
/// Replaces a message when there are too many words to redact.
const TOO_MANY: &str =
    "the message is not shown: it may quote any of more than 10000 values of the resource, its sources and Secrets";
/// Replaces a message when some of the values to redact are unknown.
const UNREAD: &str = "the message is hidden: the values to hide in it could not be read";
/// Marks the cut in a long text.
const CUT: char = '…';

/// The words to redact, and the names that stay although a value repeats them.
#[derive(Clone, Default)]
pub(crate) struct Mask {
    words: Vec<Word>,
    /// Whether there were more words than are kept.
    is_full: bool,
    /// Names of the release and its objects, one per line.
    public: String,
    /// What the chart itself publishes.
    published: Arc<Published>,
    /// Why some of the words are unknown. Then no text is shown.
    unread: Option<String>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Word {
    text: String,
    /// Whether a user or the operator configured it, and no Secret contains it.
    configured: bool,
    /// Whether it is redacted only as a whole word.
    alone: bool,
}

impl Word {
    fn case(&self) -> Case {
        if self.configured { Case::AsIs } else { Case::Changed }
    }
}

/// Never shows the words.
impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STARS)
    }
}

impl Mask {
    /// Redacts every string and number in a value from a Secret, as a whole and line by line.
    pub(crate) fn add_secret(&mut self, value: &Value) {
        match value {
            Value::Map(map) => map.snapshot().iter().for_each(|(_, inner)| self.add_secret(inner)),
            Value::List(list) => list.iter().for_each(|inner| self.add_secret(inner)),
            Value::Nil | Value::Bool(_) => {}
            Value::String(text) => self.add_secret_text(&text.to_text()),
            scalar => self.add_secret_text(&json::to_serde(scalar).to_string()),
        }
    }

    /// Redacts what values do not share with `shown`, as if it came from a Secret.
    pub(crate) fn add_secrets_beside(&mut self, values: &serde_json::Value, shown: &serde_json::Value) {
        match values {
            serde_json::Value::Object(map) => {
                map.iter().for_each(|(key, inner)| self.add_secrets_beside(inner, &shown[key]));
            }
            serde_json::Value::Array(list) => {
                list.iter().enumerate().for_each(|(at, inner)| self.add_secrets_beside(inner, &shown[at]));
            }
            // Go has one number where JSON has 1 and 1.0.
            scalar if scalar == shown || (scalar.is_number() && scalar.as_f64() == shown.as_f64()) => {}
            scalar => self.add_secret(&json::from_serde(scalar)),
        }
    }

    /// Redacts the strings in values that users or the operator configure. Numbers and short words stay, because messages
    /// need them.
    pub(crate) fn add_values(&mut self, values: &serde_json::Value) {
        match values {
            serde_json::Value::Object(map) => map.values().for_each(|inner| self.add_values(inner)),
            serde_json::Value::Array(list) => list.iter().for_each(|inner| self.add_values(inner)),
            serde_json::Value::String(text) => self.add_value_text(text),
            _ => {}
        }
    }

    /// Redacts the data of a Secret or ConfigMap, from the server or from a chart.
    pub(crate) fn add_data(&mut self, object: &serde_json::Value) {
        ["data", "stringData", "binaryData"].into_iter().for_each(|part| self.add_texts(&object[part]));
    }

    /// Redacts the texts in one part of such data, as they are and decoded.
    pub(crate) fn add_texts(&mut self, part: &serde_json::Value) {
        for value in part.as_object().into_iter().flat_map(|data| data.values()) {
            let Some(text) = value.as_str() else { continue };
            self.add_secret_text(text);
            if let Ok(ByteString(bytes)) = serde_json::from_value(value.clone()) {
                self.add_secret_text(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    /// Redacts the data of rendered Secrets, and keeps the objects' names and those of their groups.
    pub(crate) fn add_objects(&mut self, objects: &[Object]) {
        for object in objects {
            self.keep([&*object.kind, &object.name, object.namespace.as_deref().unwrap_or_default()]);
            self.keep(object.annotation(GROUP));
            if object.kind == "Secret" {
                self.add_data(&object.body);
            }
        }
    }

    /// Does the same for the objects of hooks.
    pub(crate) fn add_hooks(&mut self, hooks: &[Hook]) {
        let objects = hooks.iter().filter_map(|hook| objects_of(&hook.manifest).ok());
        objects.for_each(|objects| self.add_objects(&objects));
    }

    /// Keeps these names in messages, and words that are part of them.
    pub(crate) fn keep<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            self.public.push_str(name);
            self.public.push('\n');
        }
    }

    /// Keeps what a chart publishes: the paths of its templates, and configured values that equal its defaults.
    pub(crate) fn keep_published(&mut self, by: &Arc<Published>) {
        self.published = by.clone();
    }

    /// Redacts whole texts from now on, because words to redact could not be read. `why` may be empty.
    pub(crate) fn hide_all(&mut self, why: &str) {
        self.unread.get_or_insert_with(|| why.to_owned());
    }

    /// Returns whether all words to redact are known.
    pub(crate) fn is_complete(&self) -> bool {
        self.unread.is_none() && !self.is_full
    }

    fn add_secret_text(&mut self, text: &str) {
        self.add(text, false, |word| word.len() < SHORTEST_INSIDE);
        self.add_parts(text, false, |part| part.len() >= SHORTEST_INSIDE);
    }

    fn add_value_text(&mut self, text: &str) {
        let is_ordinary = |word: &str| word.len() <= ORDINARY && word.bytes().all(|b| b.is_ascii_lowercase());
        if text.trim().len() >= SHORTEST_INSIDE {
            self.add(text, true, is_ordinary);
            self.add_parts(text, true, |part| part.len() > SHORTEST_INSIDE && looks_generated(part));
        }
    }

    /// Redacts parts of a text that parsers quote individually.
    fn add_parts(&mut self, text: &str, configured: bool, is_hidden: impl Fn(&str) -> bool) {
        let parts =
            text.split(|c: char| !c.is_alphanumeric()).filter(|part| part.len() < text.len() && is_hidden(part));
        parts.for_each(|part| self.push(Word { text: part.to_owned(), configured, alone: true }));
    }

    fn push(&mut self, word: Word) {
        if self.is_full {
            return;
        }
        if self.words.len() >= MAX_WORDS {
            self.words.sort();
            self.words.dedup();
            self.is_full = self.words.len() > MAX_WORDS / 2;
        }
        match self.is_full {
            // Nothing will be searched for. Sorting the words again on each addition would take minutes of everyone's
            // time.
            true => self.words = Vec::new(),
            false => self.words.push(word),
        }
    }

    fn add(&mut self, text: &str, configured: bool, alone: impl Fn(&str) -> bool) {
        let whole = text.trim();
        let lines = text.lines().map(str::trim).filter(|line| *line != whole && line.len() >= SHORTEST_INSIDE);
        let words = std::iter::once(whole).chain(lines).filter(|word| !word.is_empty());
        words.for_each(|word| self.push(Word { text: word.to_owned(), configured, alone: alone(word) }));
    }

    fn is_public(&self, word: &Word) -> bool {
        EVERYDAY.contains(&&*word.text)
            || self.public.contains(&word.text)
            || self.published.has_path_with(&word.text)
            || (word.configured && self.published.is_default(&word.text))
    }

    /// Returns the text without the words. A long text is cut in the middle.
    pub(crate) fn hide(&self, text: String) -> String {
        if let Some(why) = &self.unread {
            let hidden = format!("{}{UNREAD}", self.published.place(&text));
            return match &**why {
                "" => hidden,
                why if text == why => text,
                why => format!("{why}; {hidden}"),
            };
        }
        if self.is_full {
            return format!("{}{TOO_MANY}", self.published.place(&text));
        }
        let mut words: Vec<&Word> = self.words.iter().collect();
        words.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then_with(|| a.cmp(b)));
        words.dedup();
        let text = shorten(&text, MAX_SEARCH / words.len().max(1)).into_owned();
        words.into_iter().fold(text, |text, word| self.hide_word(text, word))
    }

    /// Does what [`hide`](Self::hide) does, without delaying other tasks.
    pub(crate) async fn hide_apart(self, text: String) -> String {
        if self.words.len() < MANY_WORDS {
            return self.hide(text);
        }
        let hidden = outside::apart(move || self.hide(text)).await;
        // It panicked, or the process is ending.
        hidden.unwrap_or_else(|| "the message is not shown: hiding values in it failed".to_owned())
    }

    /// Redacts one word. Whether the word is public is checked last, because most words are not in the text.
    fn hide_word(&self, text: String, word: &Word) -> String {
        let hidden = forms(&word.text, word.case()).fold(text.clone(), |text, form| replace(text, &form, word.alone));
        if hidden != text && self.is_public(word) { text } else { hidden }
    }
}

/// Returns whether a word has both letters and digits, as passwords have and ordinary words do not.
fn looks_generated(word: &str) -> bool {
    word.contains(|c: char| c.is_ascii_digit()) && word.contains(char::is_alphabetic)
}

fn replace(text: String, form: &Form, alone: bool) -> String {
    let (Form::Alone(word) | Form::Anywhere(word)) = form;
    let text = match form {
        Form::Anywhere(_) if !alone && text.contains(&**word) => text.replace(&**word, STARS),
        Form::Anywhere(_) if !alone => text,
        _ => replace_alone(text, word),
    };
    without_pieces(text, word)
}

/// Replaces the word where neither neighbour is a letter or digit.
fn replace_alone(text: String, word: &str) -> String {
    let is_alone = |at: usize| {
        let (before, after) = (text[..at].chars().next_back(), text[at + word.len()..].chars().next());
        ![before, after].into_iter().flatten().any(char::is_alphanumeric)
    };
    let found: Vec<usize> = text.match_indices(word).map(|(at, _)| at).filter(|at| is_alone(*at)).collect();
    let mut shown = text.clone();
    for at in found.into_iter().rev() {
        shown.replace_range(at..at + word.len(), STARS);
    }
    shown
}

/// Redacts the ends of a form that remain where the text was cut: at `…` and at `[… 5 bytes left out …]`.
fn without_pieces(text: String, form: &str) -> String {
    if !text.contains(CUT) {
        return text;
    }
    let parts: Vec<&str> = text.split(CUT).collect();
    let last = parts.len() - 1;
    let hidden = parts.iter().enumerate().map(|(at, part)| {
        let part = if at < last { without_start_of(part, form) } else { (*part).to_owned() };
        if at > 0 { without_end_of(&part, form) } else { part }
    });
    hidden.collect::<Vec<_>>().join(&CUT.to_string())
}

/// Redacts the start of a form at the end of a text.
fn without_start_of(text: &str, form: &str) -> String {
    let (text, note) = text.strip_suffix(" [").map_or((text, ""), |text| (text, " ["));
    let lengths = (SHORTEST_PIECE..=form.len().min(text.len())).rev().filter(|at| form.is_char_boundary(*at));
    let found = lengths.into_iter().find(|length| text.ends_with(&form[..*length]));
    found.map_or(format!("{text}{note}"), |length| format!("{}{STARS}{note}", &text[..text.len() - length]))
}

/// Redacts a cut-off form with whose end the text begins.
fn without_end_of(text: &str, form: &str) -> String {
    let (text, note) = text.strip_prefix("] ").map_or((text, ""), |text| (text, "] "));
    let lengths = (SHORTEST_PIECE..=form.len().min(text.len())).rev();
    let starts = lengths.map(|length| form.len() - length).filter(|at| form.is_char_boundary(*at));
    let found = starts.into_iter().find(|at| text.starts_with(&form[*at..]));
    found.map_or(format!("{note}{text}"), |at| format!("{note}{STARS}{}", &text[form.len() - at..]))
}
