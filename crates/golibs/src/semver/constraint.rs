//! Version constraints: comparisons, tildes, carets, wildcards and hyphen ranges, in groups.
//!
//! Spaces and commas mean "and", `||` means "or". A prerelease satisfies only a group that contains a prerelease.

use std::str::FromStr;

use crate::strconv::quote;

use super::{Error, Version, prerelease};

/// Maximum length of a constraint, in bytes: Masterminds' `MaxConstraintLen`.
pub const MAX_CONSTRAINT_LENGTH: usize = 512;

/// Maximum number of groups: Masterminds' `MaxConstraintGroups`.
pub const MAX_CONSTRAINT_GROUPS: usize = 32;

/// A constraint on versions.
#[derive(Clone, Debug)]
pub struct Constraint {
    groups: Vec<Group>,
}

#[derive(Clone, Debug)]
struct Group {
    comparisons: Vec<Comparison>,
    names_prerelease: bool,
}

#[derive(Clone, Debug)]
struct Comparison {
    operator: Operator,
    version: Version,
    wildcard: Wildcard,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    TildeOrEqual,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

/// The first segment of a constraint's version that is missing or a wildcard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wildcard {
    None,
    Major,
    Minor,
    Patch,
}

impl Constraint {
    /// Parses a constraint, such as `>=1.19-0`, `^1.2 || ~3.4.x` or `1.2 - 1.4.5`.
    ///
    /// # Errors
    /// The text is not a constraint, or exceeds [`MAX_CONSTRAINT_LENGTH`] or [`MAX_CONSTRAINT_GROUPS`].
    pub fn parse(text: &str) -> Result<Constraint, Error> {
        if text.len() > MAX_CONSTRAINT_LENGTH {
            return Err(Error::ConstraintTooLong);
        }
        let text = rewrite_ranges(text);
        if text.split("||").count() > MAX_CONSTRAINT_GROUPS {
            return Err(Error::TooManyGroups);
        }
        Ok(Constraint { groups: text.split("||").map(parse_group).collect::<Result<_, _>>()? })
    }

    /// Returns whether the constraint allows the version.
    pub fn check(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| {
            let eligible = version.prerelease().is_empty() || group.names_prerelease;
            eligible && group.comparisons.iter().all(|c| c.holds(version))
        })
    }
}

impl FromStr for Constraint {
    type Err = Error;
    fn from_str(text: &str) -> Result<Constraint, Error> {
        Constraint::parse(text)
    }
}

impl Comparison {
    fn holds(&self, v: &Version) -> bool {
        let exact = self.wildcard == Wildcard::None;
        match self.operator {
            Operator::TildeOrEqual if exact => *v == self.version,
            Operator::TildeOrEqual | Operator::Tilde => self.tilde(v),
            Operator::NotEqual => self.not_equal(v),
            Operator::Greater => self.greater(v),
            Operator::Less => *v < self.version,
            Operator::GreaterOrEqual => *v >= self.version,
            Operator::LessOrEqual if exact => *v <= self.version,
            Operator::LessOrEqual => {
                let same_minor_or_less = self.wildcard == Wildcard::Minor || v.minor() <= self.version.minor();
                v.major() < self.version.major() || v.major() == self.version.major() && same_minor_or_less
            }
            Operator::Caret => self.caret(v),
        }
    }

    fn greater(&self, v: &Version) -> bool {
        let c = &self.version;
        match self.wildcard {
            Wildcard::None => v > c,
            _ if v.major() != c.major() => v.major() > c.major(),
            Wildcard::Minor => false,
            Wildcard::Patch => v.minor() > c.minor(),
            Wildcard::Major => v > c,
        }
    }

    fn not_equal(&self, v: &Version) -> bool {
        let c = &self.version;
        match self.wildcard {
            Wildcard::None | Wildcard::Major => v != c,
            _ if v.major() != c.major() => true,
            Wildcard::Minor => false,
            Wildcard::Patch => v.minor() != c.minor() || prerelease::compare(v.prerelease(), c.prerelease()).is_ne(),
        }
    }

    /// Checks `~`: `~1.2.3` allows later patches, `~1` later minor versions, `~*` any version.
    fn tilde(&self, v: &Version) -> bool {
        let c = &self.version;
        if v < c {
            return false;
        }
        let all_zero = c.major() == 0 && c.minor() == 0 && c.patch() == 0;
        // Masterminds does not distinguish `~*` from `~0.0.0`: both allow every version.
        if all_zero && matches!(self.wildcard, Wildcard::None | Wildcard::Major) {
            return true;
        }
        v.major() == c.major() && (v.minor() == c.minor() || self.wildcard == Wildcard::Minor)
    }

    /// Checks `^`: `^1.2.3` allows later versions that keep the first nonzero number.
    fn caret(&self, v: &Version) -> bool {
        let c = &self.version;
        if v < c || v.major() != c.major() {
            return false;
        }
        if c.major() > 0 || self.wildcard == Wildcard::Minor {
            return true;
        }
        if c.minor() > 0 || self.wildcard == Wildcard::Patch {
            return v.minor() == c.minor();
        }
        v.minor() == 0 && v.patch() == c.patch()
    }
}

fn parse_group(text: &str) -> Result<Group, Error> {
    let improper = || Error::ImproperConstraint(quote(text));
    let mut comparisons = Vec::new();
    let mut rest = skip_space(text);
    loop {
        let (comparison, after) = parse_comparison(rest).ok_or_else(improper)?;
        comparisons.push(comparison);
        rest = skip_space(after);
        if rest.is_empty() {
            break;
        }
        rest = match rest.strip_prefix(',') {
            Some(after_comma) => skip_space(after_comma),
            None if rest.len() < after.len() => rest,
            None => return Err(improper()),
        };
    }
    let comparisons = comparisons.into_iter().map(Parsed::build).collect::<Result<Vec<_>, _>>()?;
    let names_prerelease = comparisons.iter().any(|c| !c.version.prerelease().is_empty());
    Ok(Group { comparisons, names_prerelease })
}

/// The operator and version of a comparison, as written.
struct Parsed<'a> {
    operator: Operator,
    segments: [Option<&'a str>; 3],
    prerelease: &'a str,
}

/// Splits off the leading comparison.
fn parse_comparison(text: &str) -> Option<(Parsed<'_>, &str)> {
    let length = text.find(|c| !"=!<>~^".contains(c)).unwrap_or(text.len());
    let operator = match &text[..length] {
        "" | "=" => Operator::TildeOrEqual,
        "!=" => Operator::NotEqual,
        ">" => Operator::Greater,
        "<" => Operator::Less,
        ">=" | "=>" => Operator::GreaterOrEqual,
        "<=" | "=<" => Operator::LessOrEqual,
        "~" | "~>" => Operator::Tilde,
        "^" => Operator::Caret,
        _ => return None,
    };
    let (segments, prerelease, rest) = parse_partial(skip_space(&text[length..]))?;
    Some((Parsed { operator, segments, prerelease }, rest))
}

/// Splits off the leading version, which may have wildcards and missing segments; returns its segments, its prerelease and the rest.
fn parse_partial(text: &str) -> Option<([Option<&str>; 3], &str, &str)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (first, mut rest) = take_while(text, is_wild)?;
    let mut segments = [Some(first), None, None];
    for segment in &mut segments[1..] {
        let Some((found, after)) = rest.strip_prefix('.').and_then(|r| take_while(r, is_wild)) else { break };
        (*segment, rest) = (Some(found), after);
    }
    let (prerelease, rest) = rest.strip_prefix('-').and_then(identifiers).unwrap_or(("", rest));
    let (_, rest) = rest.strip_prefix('+').and_then(identifiers).unwrap_or(("", rest));
    Some((segments, prerelease, rest))
}

/// Splits off the leading dotted identifiers.
fn identifiers(text: &str) -> Option<(&str, &str)> {
    let identifier = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let (_, mut rest) = take_while(text, identifier)?;
    while let Some((_, after)) = rest.strip_prefix('.').and_then(|r| take_while(r, identifier)) {
        rest = after;
    }
    Some((&text[..text.len() - rest.len()], rest))
}

/// Splits off the longest prefix whose characters all pass; returns `None` if it is empty.
fn take_while(text: &str, pass: impl Fn(char) -> bool) -> Option<(&str, &str)> {
    let end = text.find(|c| !pass(c)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Returns whether this is a digit or a wildcard. Masterminds' character class also has a stray `|`, which later fails to parse as a version.
fn is_wild(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, 'x' | 'X' | '*' | '|')
}

/// Returns whether Go's `\s` matches the character.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

fn skip_space(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

impl Parsed<'_> {
    fn build(self) -> Result<Comparison, Error> {
        let set = |s: Option<&str>| s.is_some_and(|s| !matches!(s, "x" | "X" | "*"));
        let numbers = self.segments.map(|s| s.unwrap_or("0"));
        let (wildcard, kept) = match self.segments.map(set) {
            [false, ..] => (Wildcard::Major, 0),
            [_, false, _] => (Wildcard::Minor, 1),
            [_, _, false] => (Wildcard::Patch, 2),
            _ => (Wildcard::None, 3),
        };
        let core: Vec<&str> = (0..3).map(|i| if i < kept { numbers[i] } else { "0" }).collect();
        let dash = if self.prerelease.is_empty() { "" } else { "-" };
        let text = format!("{}{dash}{}", core.join("."), self.prerelease);
        let version = Version::parse(&text).map_err(|_| Error::ConstraintVersion)?;
        Ok(Comparison { operator: self.operator, version, wildcard })
    }
}

/// Rewrites `a - b` as `>= a, <= b `, as Masterminds does before parsing.
fn rewrite_ranges(text: &str) -> String {
    let mut out = text.to_owned();
    let mut at = 0;
    while at < text.len() {
        match hyphen_range(text, at) {
            Some(range) => {
                out = out.replacen(&text[at..range.end], &format!(">= {}, <= {} ", range.low, range.high), 1);
                at = range.end;
            }
            None => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    out
}

struct HyphenRange<'a> {
    low: &'a str,
    high: &'a str,
    end: usize,
}

/// Finds a hyphen range at this offset, including the spaces around it.
fn hyphen_range(text: &str, at: usize) -> Option<HyphenRange<'_>> {
    let (low, after_low) = written_version(skip_space(&text[at..]))?;
    let dash = skip_space(after_low);
    let after_dash = dash.strip_prefix('-').filter(|_| dash.len() < after_low.len())?;
    let second = skip_space(after_dash);
    let (high, rest) = written_version(second).filter(|_| second.len() < after_dash.len())?;
    Some(HyphenRange { low, high, end: text.len() - skip_space(rest).len() })
}

/// Splits off the leading version, as written.
fn written_version(text: &str) -> Option<(&str, &str)> {
    let (_, _, rest) = parse_partial(text)?;
    Some(text.split_at(text.len() - rest.len()))
}
