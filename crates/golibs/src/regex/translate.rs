//! Translates patterns from Go's syntax to that of the `regex` crate, and rejects exactly what Go rejects.
//!
//! Classes and literals are expanded, so that only syntax that both share remains. Counterpart: `regexp/syntax/parse.go`.

use super::repeat::Count;
use super::{Error, class, escape, repeat, unicode};

/// Maximum length of a pattern, in bytes.
pub const MAX_PATTERN_LENGTH: usize = 64 << 10;

/// Maximum nesting of groups. Go allows about 1,000, but the `regex` crate's compiler is recursive.
pub const MAX_NESTING: usize = 200;

/// A translated pattern.
pub(super) struct Translation {
    pub(super) regex: String,
    pub(super) names: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_newline: bool,
    non_greedy: bool,
}

/// The last item of a sequence: where it starts in the output, and the maximum repetitions of its inner parts.
#[derive(Clone, Copy)]
struct Item {
    start: usize,
    repetitions: usize,
    repeated: bool,
}

/// An open group, with the state to restore when it closes.
struct Group {
    flags: Flags,
    start: usize,
    repetitions: usize,
}

struct Translator<'p> {
    pattern: &'p str,
    rest: &'p str,
    out: String,
    names: Vec<String>,
    flags: Flags,
    /// Whether the flags changed since the last item.
    flags_pending: bool,
    /// The flags in effect in the output.
    flags_written: Flags,
    groups: Vec<Group>,
    last: Option<Item>,
    /// The maximum repetitions of any item in the open group.
    repetitions: usize,
    /// The pattern from the repetition operator just read, if one was.
    after_repeat: Option<&'p str>,
}

pub(super) fn translate(pattern: &[u8]) -> Result<Translation, Error> {
    let text = match std::str::from_utf8(pattern) {
        Ok(text) => text,
        Err(e) => return Err(Error::new("invalid UTF-8", &String::from_utf8_lossy(&pattern[e.valid_up_to()..]))),
    };
    if text.len() > MAX_PATTERN_LENGTH {
        return Err(Error::new("expression too large", text));
    }
    let flags = Flags { fold_case: false, multi_line: false, dot_newline: false, non_greedy: false };
    let mut translator = Translator {
        pattern: text,
        rest: text,
        out: String::with_capacity(text.len() * 2),
        names: vec![String::new()],
        flags,
        flags_pending: false,
        flags_written: flags,
        groups: Vec::new(),
        last: None,
        repetitions: 1,
        after_repeat: None,
    };
    translator.run()?;
    Ok(Translation { regex: translator.out, names: translator.names })
}

impl<'p> Translator<'p> {
    fn run(&mut self) -> Result<(), Error> {
        while let Some(c) = self.rest.chars().next() {
            let after_repeat = self.after_repeat.take();
            match c {
                '*' | '+' | '?' => self.repeat(Count::of_operator(c), 1, after_repeat)?,
                '{' => self.braces(after_repeat)?,
                '(' => self.open()?,
                ')' => self.close()?,
                '|' => self.alternate(),
                '^' | '$' | '.' => self.item(1, &c.to_string()),
                '[' => self.class()?,
                '\\' => self.backslash()?,
                c => self.literal(c, c.len_utf8()),
            }
        }
        if self.groups.is_empty() { Ok(()) } else { Err(Error::new("missing closing )", self.pattern)) }
    }

    /// Skips this many bytes.
    fn skip(&mut self, length: usize) {
        self.rest = &self.rest[length..];
    }

    /// Appends the translation of the next `length` bytes as one item.
    fn item(&mut self, length: usize, text: &str) {
        self.write_flags();
        self.last = Some(Item { start: self.out.len(), repetitions: 1, repeated: false });
        self.out.push_str(text);
        self.skip(length);
    }

    fn literal(&mut self, c: char, length: usize) {
        self.item(length, &regex::escape(c.encode_utf8(&mut [0; 4])));
    }

    /// Writes changed flags, right before the next item: Go lets `a(?i)*` repeat the `a`.
    fn write_flags(&mut self) {
        if std::mem::take(&mut self.flags_pending) {
            self.out.push_str(&format!("(?{})", self.flags.written()));
            self.flags_written = self.flags;
        }
    }

    fn alternate(&mut self) {
        self.out.push('|');
        self.last = None;
        self.skip(1);
    }

    fn class(&mut self) -> Result<(), Error> {
        let (class, rest) = class::translate(self.rest)?;
        self.item(self.rest.len() - rest.len(), &class);
        Ok(())
    }

    fn backslash(&mut self) -> Result<(), Error> {
        match self.rest[1..].chars().next() {
            Some('A') => self.item(2, "\\A"),
            Some('z') => self.item(2, "\\z"),
            Some('b') => self.item(2, "(?-u:\\b)"),
            Some('B') => self.item(2, "(?-u:\\B)"),
            Some('C') => return Err(Error::new("invalid escape sequence", "\\C")),
            Some('Q') => self.quoted(),
            Some('p' | 'P') => {
                let (class, rest) = unicode::translate(self.rest)?;
                self.item(self.rest.len() - rest.len(), &class);
            }
            Some(c) if class::perl(c).is_some() => self.item(2, &format!("[{}]", class::perl(c).unwrap_or_default())),
            _ => {
                let (character, rest) = escape::parse(self.rest)?;
                let length = self.rest.len() - rest.len();
                match char::from_u32(character) {
                    Some(c) => self.literal(c, length),
                    None => self.item(length, class::NEVER),
                }
            }
        }
        Ok(())
    }

    /// Translates `\Q...\E`, whose content is literal.
    fn quoted(&mut self) {
        let text = &self.rest[2..];
        let end = text.find("\\E").unwrap_or(text.len());
        self.skip(2);
        for c in text[..end].chars() {
            self.literal(c, c.len_utf8());
        }
        self.skip(2.min(self.rest.len()));
    }

    fn braces(&mut self, after_repeat: Option<&'p str>) -> Result<(), Error> {
        match repeat::parse(self.rest) {
            None => self.literal('{', 1),
            Some((count, length)) => {
                if !count.is_allowed() {
                    return Err(Error::new("invalid repeat count", &self.rest[..length]));
                }
                self.repeat(count, length, after_repeat)?;
            }
        }
        Ok(())
    }

    /// Repeats the last item. The operator takes up `length` bytes.
    fn repeat(&mut self, count: Count, length: usize, after_repeat: Option<&'p str>) -> Result<(), Error> {
        let operator = self.rest;
        self.skip(length);
        let lazy = self.rest.starts_with('?');
        self.skip(usize::from(lazy));
        if let Some(previous) = after_repeat {
            return Err(Error::new(
                "invalid nested repetition operator",
                &previous[..previous.len() - self.rest.len()],
            ));
        }
        let written = &operator[..operator.len() - self.rest.len()];
        let Some(mut item) = self.last else {
            return Err(Error::new("missing argument to repetition operator", written));
        };
        item.repetitions = count.times(item.repetitions).ok_or_else(|| Error::new("invalid repeat count", written))?;
        if std::mem::replace(&mut item.repeated, true) {
            self.out.insert_str(item.start, "(?:");
            self.out.push(')');
        }
        self.out.push_str(&count.written());
        // Go applies the flags set before the operator; the `regex` crate applies those written before the item.
        let swapped = self.flags.non_greedy != self.flags_written.non_greedy;
        self.out.push_str(if lazy != swapped { "?" } else { "" });
        self.repetitions = self.repetitions.max(item.repetitions);
        self.last = Some(item);
        self.after_repeat = Some(operator);
        Ok(())
    }

    fn open(&mut self) -> Result<(), Error> {
        if !self.rest.starts_with("(?") {
            self.skip(1);
            self.names.push(String::new());
            return self.enter("(");
        }
        let named =
            self.rest.len() > 4 && self.rest.starts_with("(?P<") || self.rest.len() > 3 && self.rest.starts_with("(?<");
        if named { self.open_named() } else { self.flags() }
    }

    fn open_named(&mut self) -> Result<(), Error> {
        let start = if self.rest.starts_with("(?P") { 4 } else { 3 };
        let end = self.rest.find('>').ok_or_else(|| Error::new("invalid named capture", self.rest))?;
        let name = &self.rest[start..end];
        if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
            return Err(Error::new("invalid named capture", &self.rest[..=end]));
        }
        self.names.push(name.to_owned());
        self.skip(end + 1);
        self.enter("(")
    }

    fn enter(&mut self, opening: &str) -> Result<(), Error> {
        if self.groups.len() == MAX_NESTING {
            return Err(Error::new("expression nests too deeply", self.pattern));
        }
        self.write_flags();
        self.groups.push(Group { flags: self.flags, start: self.out.len(), repetitions: self.repetitions });
        self.out.push_str(opening);
        (self.last, self.repetitions) = (None, 1);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        let group = self.groups.pop().ok_or_else(|| Error::new("unexpected )", self.pattern))?;
        self.out.push(')');
        self.skip(1);
        self.last = Some(Item { start: group.start, repetitions: self.repetitions, repeated: false });
        self.repetitions = self.repetitions.max(group.repetitions);
        (self.flags, self.flags_written, self.flags_pending) = (group.flags, group.flags, false);
        Ok(())
    }

    /// Parses flags: `(?i)` for the rest of the group, or `(?i:...)` for a new group.
    fn flags(&mut self) -> Result<(), Error> {
        let mut flags = self.flags;
        let (mut on, mut seen) = (true, false);
        let mut end = 2;
        for c in self.rest[2..].chars() {
            end += c.len_utf8();
            match c {
                'i' => flags.fold_case = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_newline = on,
                'U' => flags.non_greedy = on,
                '-' if on => {
                    (on, seen) = (false, false);
                    continue;
                }
                ':' | ')' if on || seen => return self.apply(flags, c == ':', end),
                _ => break,
            }
            seen = true;
        }
        Err(Error::new("invalid or unsupported Perl syntax", &self.rest[..end]))
    }

    fn apply(&mut self, flags: Flags, group: bool, length: usize) -> Result<(), Error> {
        self.skip(length);
        if group {
            self.enter(&format!("(?{}:", flags.written()))?;
            (self.flags, self.flags_written) = (flags, flags);
        } else {
            self.flags_pending |= self.flags != flags;
            self.flags = flags;
        }
        Ok(())
    }
}

impl Flags {
    /// Returns all flags, those set and those cleared, in the `regex` crate's syntax.
    fn written(self) -> String {
        let all = [(self.fold_case, 'i'), (self.multi_line, 'm'), (self.dot_newline, 's'), (self.non_greedy, 'U')];
        let pick = |wanted: bool| all.iter().filter(|(set, _)| *set == wanted).map(|(_, c)| *c).collect::<String>();
        let off = pick(false);
        if off.is_empty() { pick(true) } else { format!("{}-{off}", pick(true)) }
    }
}
