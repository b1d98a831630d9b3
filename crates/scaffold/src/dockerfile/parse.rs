//! Parses a Dockerfile's instructions and stages.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{Copy, HOME};
use crate::kustomize::joined;

#[derive(Clone, Debug)]
pub(crate) struct Dockerfile {
    pub(crate) instructions: Vec<Instruction>,
}

#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    /// In upper case.
    pub(crate) keyword: String,
    /// The rest of the instruction, with continued lines joined.
    pub(crate) args: String,
    /// Its first line, from 1.
    pub(crate) line: usize,
    /// Its byte range in the file, including all of its lines.
    pub(crate) range: Range<usize>,
    /// The number of its stage, from 1; 0 before the first `FROM`.
    pub(crate) stage: usize,
}

impl Instruction {
    /// Returns the words after the flags.
    pub(crate) fn words(&self) -> impl Iterator<Item = &str> {
        self.args.split_whitespace().skip_while(|word| word.starts_with("--"))
    }

    /// Returns the value of a flag such as `--from`.
    pub(crate) fn flag(&self, name: &str) -> Option<&str> {
        let flags = self.args.split_whitespace().take_while(|word| word.starts_with("--"));
        flags.filter_map(|flag| flag.strip_prefix(name)?.strip_prefix('=')).next()
    }
}

impl Dockerfile {
    pub(crate) fn parse(text: &str) -> Dockerfile {
        let mut instructions: Vec<Instruction> = Vec::new();
        let mut lines = Lines { text, at: 0, number: 0 };
        let mut stage = 0;
        while let Some((line, start, first)) = lines.next() {
            let content = first.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let all = lines.continued(content);
            let (keyword, args) = all.split_once(char::is_whitespace).unwrap_or((&all, ""));
            lines.skip_here_documents(args);
            let keyword = keyword.to_uppercase();
            stage += usize::from(keyword == "FROM");
            let range = start..lines.at;
            instructions.push(Instruction { keyword, args: args.trim().to_owned(), line, range, stage });
        }
        Dockerfile { instructions }
    }

    pub(crate) fn all<'a>(&'a self, keyword: &'a str) -> impl Iterator<Item = &'a Instruction> {
        self.instructions.iter().filter(move |one| one.keyword == keyword)
    }

    /// Returns the image of a `FROM`, with defaults of arguments substituted.
    pub(crate) fn image(&self, from: &Instruction) -> String {
        let arguments = self.all("ARG").filter(|arg| arg.stage == 0);
        let mut values = BTreeMap::new();
        for argument in arguments {
            set(&mut values, &argument.args);
        }
        expand(from.words().next().unwrap_or_default(), &values)
    }

    /// Returns all copies from the project, in all stages.
    pub(crate) fn copies(&self) -> Vec<Copy> {
        let mut values = BTreeMap::new();
        let mut folder = HOME[1..].to_owned();
        let mut found = Vec::new();
        for one in &self.instructions {
            match one.keyword.as_str() {
                "FROM" => {
                    folder = HOME[1..].to_owned();
                    values = BTreeMap::from([("HOME".to_owned(), HOME.to_owned())]);
                }
                "ARG" | "ENV" => set(&mut values, &one.args),
                "WORKDIR" => folder = absolute(&folder, &expand(one.args.trim(), &values)),
                "COPY" | "ADD" if one.flag("--from").is_none() => {
                    let words: Vec<String> = list(one).iter().map(|word| expand(word, &values)).collect();
                    if let Some((target, sources)) = words.split_last().filter(|(_, sources)| !sources.is_empty()) {
                        let sources = sources.iter().map(|source| joined("", source)).collect();
                        found.push(Copy { sources, target: absolute(&folder, target) });
                    }
                }
                _ => {}
            }
        }
        found
    }
}

/// Returns the words of an instruction, which may be a JSON list.
fn list(one: &Instruction) -> Vec<String> {
    let rest = one.words().collect::<Vec<_>>().join(" ");
    match rest.starts_with('[') {
        true => serde_json::from_str(&rest).unwrap_or_default(),
        false => one.words().map(|word| word.trim_matches('"').to_owned()).collect(),
    }
}

fn absolute(folder: &str, path: &str) -> String {
    if path.starts_with('/') { joined("", path) } else { joined(folder, path) }
}

/// Sets the variables of an `ARG` or `ENV`: `A=b C="d"`, or `A b`.
fn set(values: &mut BTreeMap<String, String>, args: &str) {
    if !args.contains('=') {
        if let Some((name, value)) = args.trim().split_once(char::is_whitespace) {
            let value = expand(value.trim(), values);
            values.insert(name.to_owned(), value);
        }
        return;
    }
    for pair in args.split_whitespace() {
        if let Some((name, value)) = pair.split_once('=') {
            let value = expand(value.trim_matches(['"', '\'']), values);
            values.insert(name.to_owned(), value);
        }
    }
}

/// Replaces `$name`, `${name}` and `${name:-default}`. Unknown names expand to nothing.
fn expand(text: &str, values: &BTreeMap<String, String>) -> String {
    let Some((before, rest)) = text.split_once('$') else { return text.to_owned() };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (name, default, after) = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((inner, after)) => match inner.split_once(":-").or_else(|| inner.split_once(":+")) {
            Some((name, default)) => (name, default, after),
            None => (inner, "", after),
        },
        None => {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            (&rest[..end], "", &rest[end..])
        }
    };
    let value = values.get(name).map(String::as_str).filter(|value| !value.is_empty()).unwrap_or(default);
    format!("{before}{value}{}", expand(after, values))
}

struct Lines<'a> {
    text: &'a str,
    at: usize,
    number: usize,
}

impl<'a> Lines<'a> {
    /// Returns the next line: its number from 1, its start, and its text.
    fn next(&mut self) -> Option<(usize, usize, &'a str)> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let line = rest.split_inclusive('\n').next()?;
        let start = self.at;
        self.at += line.len();
        self.number += 1;
        Some((self.number, start, line))
    }

    /// Returns the line joined with its continuations. Comments and empty lines between them are skipped.
    fn continued(&mut self, first: &str) -> String {
        let mut all = first.to_owned();
        while let Some(open) = all.strip_suffix('\\') {
            all.truncate(open.len());
            let Some((_, _, line)) = self.next() else { break };
            let line = line.trim();
            match line.is_empty() || line.starts_with('#') {
                true => all.push('\\'),
                false => all = format!("{} {line}", all.trim_end()),
            }
        }
        all
    }

    /// Skips the bodies of here-documents such as `<<EOF`.
    fn skip_here_documents(&mut self, args: &str) {
        for (at, _) in args.match_indices("<<") {
            let name = args[at + 2..].trim_start_matches(['-', '"', '\'']);
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            if end > 0 && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                while self.next().is_some_and(|(_, _, line)| line.trim() != &name[..end]) {}
            }
        }
    }
}
