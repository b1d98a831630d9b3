//! Parses repetitions, `*`, `+`, `?` and `{n,m}`, and enforces Go's limit on them.

/// Go's limit on the product of nested counted repetitions: `maxRepeat` in `regexp/syntax`.
const MAX_REPETITIONS: usize = 1000;

/// The number of repetitions of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    min: usize,
    max: Option<usize>,
    /// Whether it was written as `{n}`, `{n,}` or `{n,m}`, which Go limits.
    counted: bool,
}

impl Count {
    pub(super) fn of_operator(c: char) -> Count {
        let (min, max) = match c {
            '*' => (0, None),
            '+' => (1, None),
            _ => (0, Some(1)),
        };
        Count { min, max, counted: false }
    }

    /// Returns whether `min` does not exceed `max`, and both are within Go's limit.
    pub(super) fn is_allowed(self) -> bool {
        self.min.max(self.max.unwrap_or(0)) <= MAX_REPETITIONS && self.max.is_none_or(|max| self.min <= max)
    }

    /// Multiplies the repetitions of an item by this count; returns `None` beyond Go's limit.
    pub(super) fn times(self, inner: usize) -> Option<usize> {
        match self.max.unwrap_or(self.min) {
            _ if !self.counted => Some(inner),
            0 => Some(1),
            1 => Some(inner),
            n => n.checked_mul(inner).filter(|all| *all <= MAX_REPETITIONS),
        }
    }

    /// Returns the repetition in the `regex` crate's syntax.
    pub(super) fn written(self) -> String {
        match (self.min, self.max) {
            (0, None) if !self.counted => "*".to_owned(),
            (1, None) if !self.counted => "+".to_owned(),
            (0, Some(1)) if !self.counted => "?".to_owned(),
            (min, None) => format!("{{{min},}}"),
            (min, Some(max)) => format!("{{{min},{max}}}"),
        }
    }
}

/// Parses a leading `{n}`, `{n,}` or `{n,m}`; also returns its length. Anything else in braces is literal text.
pub(super) fn parse(text: &str) -> Option<(Count, usize)> {
    let end = text.find('}')?;
    let inner = text[..end].strip_prefix('{')?;
    let (min, max) = match inner.split_once(',') {
        None => (number(inner)?, Some(number(inner)?)),
        Some((min, "")) => (number(min)?, None),
        Some((min, max)) => (number(min)?, Some(number(max)?)),
    };
    Some((Count { min, max, counted: true }, end + 1))
}

/// Parses a number without leading zeros. A number that does not fit becomes the largest one, which is never allowed.
fn number(text: &str) -> Option<usize> {
    let is_number =
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'));
    is_number.then(|| text.parse().unwrap_or(usize::MAX))
}
