//! The elements of Go's layouts, such as `2006`, `Jan`, `_2`, `15`, `.000` and `Z07:00`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekDay,
    WeekDay,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    /// The zone's abbreviation.
    ZoneName,
    /// The zone's offset.
    Offset(Offset),
    /// `.000`: this many digits after the separator.
    Fraction0(usize, u8),
    /// `.999`: at most this many digits, without trailing zeros.
    Fraction9(usize, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    /// `Z` for UTC.
    pub(super) zulu: bool,
    pub(super) colons: bool,
    pub(super) precision: Precision,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Hours,
    Minutes,
    Seconds,
}

/// A layout split at its first element.
pub(super) struct Chunk<'l> {
    pub(super) prefix: &'l [u8],
    pub(super) element: Option<Element>,
    /// The element as written.
    pub(super) written: &'l [u8],
    pub(super) rest: &'l [u8],
}

/// Splits the layout at its first element. Counterpart: `nextStdChunk`.
pub(super) fn next_chunk(layout: &[u8]) -> Chunk<'_> {
    for i in 0..layout.len() {
        let Some((skipped, length, element)) = element_at(&layout[i..]) else { continue };
        let (prefix, rest) = layout.split_at(i + skipped);
        let (written, rest) = rest.split_at(length);
        return Chunk { prefix, element: Some(element), written, rest };
    }
    Chunk { prefix: layout, element: None, written: b"", rest: b"" }
}

/// Recognizes the leading element; returns the number of bytes to skip before it, its length and the element.
fn element_at(text: &[u8]) -> Option<(usize, usize, Element)> {
    // A short name followed by a lower-case letter is part of a word.
    let word_goes_on = || text.get(3).is_some_and(u8::is_ascii_lowercase);
    let plain: &[(&[u8], Element)] = match text.first()? {
        b'J' if text.starts_with(b"Jan") && (text.starts_with(b"January") || !word_goes_on()) => {
            &[(b"January", Element::LongMonth), (b"Jan", Element::Month)]
        }
        b'M' if text.starts_with(b"Mon") && (text.starts_with(b"Monday") || !word_goes_on()) => {
            &[(b"Monday", Element::LongWeekDay), (b"Mon", Element::WeekDay)]
        }
        b'M' => &[(b"MST", Element::ZoneName)],
        b'0' => &[
            (b"01", Element::ZeroMonth),
            (b"02", Element::ZeroDay),
            (b"03", Element::ZeroHour12),
            (b"04", Element::ZeroMinute),
            (b"05", Element::ZeroSecond),
            (b"06", Element::Year),
            (b"002", Element::ZeroYearDay),
        ],
        b'1' => &[(b"15", Element::Hour), (b"1", Element::NumMonth)],
        b'2' => &[(b"2006", Element::LongYear), (b"2", Element::Day)],
        b'_' if text.starts_with(b"_2006") => return Some((1, 4, Element::LongYear)),
        b'_' => &[(b"_2", Element::UnderDay), (b"__2", Element::UnderYearDay)],
        b'3' => &[(b"3", Element::Hour12)],
        b'4' => &[(b"4", Element::Minute)],
        b'5' => &[(b"5", Element::Second)],
        b'P' => &[(b"PM", Element::UpperPm)],
        b'p' => &[(b"pm", Element::LowerPm)],
        b'-' | b'Z' => return offset_at(text),
        b'.' | b',' => return fraction_at(text),
        _ => return None,
    };
    plain.iter().find(|(written, _)| text.starts_with(written)).map(|(written, element)| (0, written.len(), *element))
}

fn offset_at(text: &[u8]) -> Option<(usize, usize, Element)> {
    let forms: [(&[u8], bool, Precision); 5] = [
        (b"070000", false, Precision::Seconds),
        (b"07:00:00", true, Precision::Seconds),
        (b"0700", false, Precision::Minutes),
        (b"07:00", true, Precision::Minutes),
        (b"07", false, Precision::Hours),
    ];
    let (written, colons, precision) = forms.into_iter().find(|(written, ..)| text[1..].starts_with(written))?;
    Some((0, written.len() + 1, Element::Offset(Offset { zulu: text[0] == b'Z', colons, precision })))
}

/// Parses a separator followed by zeros or nines, and by no other digit.
fn fraction_at(text: &[u8]) -> Option<(usize, usize, Element)> {
    let digit = *text.get(1)?;
    let count = text[1..].iter().take_while(|b| **b == digit).count();
    if text.get(1 + count).is_some_and(u8::is_ascii_digit) {
        return None;
    }
    match digit {
        b'0' => Some((0, count + 1, Element::Fraction0(count, text[0]))),
        b'9' => Some((0, count + 1, Element::Fraction9(count, text[0]))),
        _ => None,
    }
}
