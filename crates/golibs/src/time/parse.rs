//! Parses times by a layout. Counterpart: `time.ParseInLocation`.

use super::calendar::{Clock, Date, days_in, is_leap};
use super::error::{ParseError, Problem};
use super::layout::{Chunk, Element, Offset, Precision, next_chunk};
use super::{Time, Zone};

/// The months in order.
pub const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The days of the week, starting with Sunday.
pub const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The reason why an element does not match.
enum Bad {
    /// The text has a different form.
    Form,
    /// The number is out of range.
    Range(&'static str),
}

/// The number of digits that a number must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    /// As many digits as its largest value has.
    Fixed,
    /// At least one digit.
    Variable,
}

impl Width {
    fn of(element: Element) -> Width {
        use Element::{ZeroDay, ZeroHour12, ZeroMinute, ZeroMonth, ZeroSecond, ZeroYearDay};
        match element {
            ZeroMonth | ZeroDay | ZeroYearDay | ZeroHour12 | ZeroMinute | ZeroSecond => Width::Fixed,
            _ => Width::Variable,
        }
    }
}

/// The parts of the time that have been read.
#[derive(Default)]
struct Fields {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanoseconds: u32,
    afternoon: Option<bool>,
    utc: bool,
    offset: Option<i64>,
    zone_name: Option<String>,
}

impl Time {
    /// Parses the text by the layout. Text without an offset or a zone is in the local zone.
    ///
    /// # Errors
    /// The text does not match the layout, or denotes a time that does not exist.
    ///
    /// ```
    /// use golibs::time::Time;
    ///
    /// let time = Time::parse(b"2006-01-02 15:04 -0700", b"2024-02-29 12:30 +0100")?;
    /// assert_eq!(time.unix_seconds(), 1_709_206_200);
    /// assert!(Time::parse(b"2006-01-02", b"2023-02-29").is_err());
    /// # Ok::<(), golibs::time::ParseError>(())
    /// ```
    pub fn parse(layout: &[u8], text: &[u8]) -> Result<Time, ParseError> {
        let fail = |problem| ParseError { layout: layout.to_vec(), value: text.to_vec(), problem };
        let mismatch = |layout_part: &[u8], value_part: &[u8]| Problem::Mismatch {
            layout_part: layout_part.to_vec(),
            value_part: value_part.to_vec(),
        };
        let mut fields = Fields::default();
        let mut reader = Reader { rest: text };
        let mut rest = layout;
        loop {
            let chunk = next_chunk(rest);
            reader.skip(chunk.prefix).map_err(|at| fail(mismatch(chunk.prefix, at)))?;
            let Some(element) = chunk.element else { break };
            let held = reader.rest;
            rest = chunk.rest;
            reader.element(&mut fields, element, &chunk).map_err(|bad| match bad {
                Bad::Form => fail(mismatch(chunk.written, held)),
                Bad::Range(part) => fail(Problem::OutOfRange(part)),
            })?;
        }
        if !reader.rest.is_empty() {
            return Err(fail(Problem::ExtraText(reader.rest.to_vec())));
        }
        fields.time().map_err(fail)
    }
}

struct Reader<'t> {
    rest: &'t [u8],
}

impl<'t> Reader<'t> {
    /// Skips literal text, in which a run of spaces matches any number of spaces. An error holds the rest of the text.
    fn skip(&mut self, mut literal: &[u8]) -> Result<(), &'t [u8]> {
        while let Some(first) = literal.first() {
            if *first == b' ' {
                if self.rest.first().is_some_and(|b| *b != b' ') {
                    return Err(self.rest);
                }
                literal = trim_spaces(literal);
                self.rest = trim_spaces(self.rest);
                continue;
            }
            if self.rest.first() != Some(first) {
                return Err(self.rest);
            }
            (literal, self.rest) = (&literal[1..], &self.rest[1..]);
        }
        Ok(())
    }

    fn element(&mut self, fields: &mut Fields, element: Element, chunk: &Chunk<'_>) -> Result<(), Bad> {
        match element {
            Element::Year => {
                let year = signed(self.take(2)?)?;
                fields.year = if year >= 69 { year + 1900 } else { year + 2000 };
            }
            Element::LongYear => {
                let is_number = self.rest.first().is_some_and(u8::is_ascii_digit);
                fields.year = signed(if is_number { self.take(4)? } else { return Err(Bad::Form) })?;
            }
            Element::Month => fields.month = Some(self.name(&MONTHS, 3)? + 1),
            Element::LongMonth => fields.month = Some(self.name(&MONTHS, usize::MAX)? + 1),
            Element::WeekDay => drop(self.name(&DAYS, 3)?),
            Element::LongWeekDay => drop(self.name(&DAYS, usize::MAX)?),
            Element::NumMonth | Element::ZeroMonth => {
                let month = self.number(Width::of(element))?;
                fields.month = Some(within(month, 1..=12, "month")?);
            }
            Element::Day | Element::UnderDay | Element::ZeroDay => {
                self.pad(usize::from(element == Element::UnderDay));
                fields.day = Some(self.number(Width::of(element))?);
            }
            Element::UnderYearDay | Element::ZeroYearDay => {
                self.pad(if element == Element::UnderYearDay { 2 } else { 0 });
                fields.day_of_year = Some(self.day_of_year(Width::of(element))?);
            }
            Element::Hour => fields.hour = within(self.number(Width::Variable)?, 0..=23, "hour")?,
            Element::Hour12 | Element::ZeroHour12 => {
                fields.hour = within(self.number(Width::of(element))?, 0..=12, "hour")?;
            }
            Element::Minute | Element::ZeroMinute => {
                fields.minute = within(self.number(Width::of(element))?, 0..=59, "minute")?;
            }
            Element::Second | Element::ZeroSecond => {
                fields.second = within(self.number(Width::of(element))?, 0..=59, "second")?;
                self.unannounced_fraction(fields, chunk.rest)?;
            }
            Element::UpperPm => fields.afternoon = Some(self.half_day(b"AM", b"PM")?),
            Element::LowerPm => fields.afternoon = Some(self.half_day(b"am", b"pm")?),
            Element::Offset(form) => self.offset(fields, form)?,
            Element::ZoneName => self.zone_name(fields)?,
            Element::Fraction0(digits, _) => {
                let text = self.take(digits + 1)?;
                fields.nanoseconds = fraction(text)?;
            }
            Element::Fraction9(..) => self.fraction(fields)?,
        }
        Ok(())
    }

    fn take(&mut self, length: usize) -> Result<&'t [u8], Bad> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Bad::Form)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Skips at most this many spaces.
    fn pad(&mut self, most: usize) {
        for _ in 0..most {
            self.rest = self.rest.strip_prefix(b" ").unwrap_or(self.rest);
        }
    }

    /// Reads one of the names, abbreviated to this many letters and in upper or lower case; returns its index.
    fn name(&mut self, names: &[&str], letters: usize) -> Result<i64, Bad> {
        for (i, name) in names.iter().enumerate() {
            let name = &name[..letters.min(name.len())];
            if self.rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name.as_bytes())) {
                self.rest = &self.rest[name.len()..];
                return Ok(i as i64);
            }
        }
        Err(Bad::Form)
    }

    /// Reads one or two digits.
    fn number(&mut self, width: Width) -> Result<i64, Bad> {
        let digits = self.digits(2);
        if digits == 0 || width == Width::Fixed && digits == 1 {
            return Err(Bad::Form);
        }
        signed(self.take(digits)?)
    }

    fn day_of_year(&mut self, width: Width) -> Result<i64, Bad> {
        let digits = self.digits(3);
        if digits == 0 || width == Width::Fixed && digits != 3 {
            return Err(Bad::Form);
        }
        signed(self.take(digits)?)
    }

    fn digits(&self, most: usize) -> usize {
        self.rest.iter().take(most).take_while(|b| b.is_ascii_digit()).count()
    }

    fn half_day(&mut self, morning: &[u8], afternoon: &[u8]) -> Result<bool, Bad> {
        match self.take(2)? {
            text if text == morning => Ok(false),
            text if text == afternoon => Ok(true),
            _ => Err(Bad::Form),
        }
    }

    /// Reads a fraction of a second that the layout does not mention, which Go allows.
    fn unannounced_fraction(&mut self, fields: &mut Fields, layout: &[u8]) -> Result<(), Bad> {
        let announced = matches!(next_chunk(layout).element, Some(Element::Fraction0(..) | Element::Fraction9(..)));
        if announced { Ok(()) } else { self.fraction(fields) }
    }

    /// Reads a fraction of any length, if there is one.
    fn fraction(&mut self, fields: &mut Fields) -> Result<(), Bad> {
        let is_fraction = matches!(self.rest, [b'.' | b',', digit, ..] if digit.is_ascii_digit());
        if is_fraction {
            let digits = self.rest[1..].iter().take_while(|b| b.is_ascii_digit()).count();
            fields.nanoseconds = fraction(self.take(digits + 1)?)?;
        }
        Ok(())
    }

    fn offset(&mut self, fields: &mut Fields, form: Offset) -> Result<(), Bad> {
        if form.zulu && self.rest.first() == Some(&b'Z') {
            self.rest = &self.rest[1..];
            fields.utc = true;
            return Ok(());
        }
        let parts = match form.precision {
            Precision::Hours => 1,
            Precision::Minutes => 2,
            Precision::Seconds => 3,
        };
        let step = if form.colons { 3 } else { 2 };
        let text = self.take(1 + 2 + step * (parts - 1))?;
        if form.colons && (1..parts).any(|i| text[3 * i] != b':') {
            return Err(Bad::Form);
        }
        let mut numbers = [0; 3];
        let mut malformed = false;
        for (i, number) in numbers.iter_mut().enumerate().take(parts) {
            let start = 1 + i * step;
            match text[start..start + 2] {
                [a, b] if a.is_ascii_digit() && b.is_ascii_digit() => {
                    *number = i64::from(a - b'0') * 10 + i64::from(b - b'0')
                }
                _ => {
                    malformed = true;
                    break;
                }
            }
        }
        // Go reports the last part that is out of range.
        within(numbers[2], 0..=60, "time zone offset second")?;
        within(numbers[1], 0..=60, "time zone offset minute")?;
        within(numbers[0], 0..=24, "time zone offset hour")?;
        let seconds = (numbers[0] * 60 + numbers[1]) * 60 + numbers[2];
        fields.offset = match text[0] {
            _ if malformed => return Err(Bad::Form),
            b'+' => Some(seconds),
            b'-' => Some(-seconds),
            _ => return Err(Bad::Form),
        };
        Ok(())
    }

    fn zone_name(&mut self, fields: &mut Fields) -> Result<(), Bad> {
        if let Some(rest) = self.rest.strip_prefix(b"UTC") {
            self.rest = rest;
            fields.utc = true;
            return Ok(());
        }
        let length = zone_name_length(self.rest).ok_or(Bad::Form)?;
        fields.zone_name = Some(String::from_utf8_lossy(self.take(length)?).into_owned());
        Ok(())
    }
}

impl Fields {
    /// Combines the fields into a time.
    fn time(mut self) -> Result<Time, Problem> {
        match self.afternoon {
            Some(true) if self.hour < 12 => self.hour += 12,
            Some(false) if self.hour == 12 => self.hour = 0,
            _ => {}
        }
        let (month, day) = self.month_and_day()?;
        if day < 1 || day > i64::from(days_in(self.year, month as u8)) {
            return Err(Problem::OutOfRange("day"));
        }
        let date = Date { year: self.year, month: month as u8, day: day as u8 };
        let clock = Clock { hour: self.hour as u8, minute: self.minute as u8, second: self.second as u8 };
        Ok(self.locate(date, clock))
    }

    fn month_and_day(&self) -> Result<(i64, i64), Problem> {
        let Some(day_of_year) = self.day_of_year else {
            return Ok((self.month.unwrap_or(1), self.day.unwrap_or(1)));
        };
        if day_of_year < 1 || day_of_year > 365 + i64::from(is_leap(self.year)) {
            return Err(Problem::OutOfRange("day-of-year"));
        }
        let first = Date { year: self.year, month: 1, day: 1 };
        let date = Date::from_days(first.days() + day_of_year - 1);
        let (month, day) = (i64::from(date.month), i64::from(date.day));
        if self.month.is_some_and(|m| m != month) {
            return Err(Problem::DayOfYear("month"));
        }
        if self.day.is_some_and(|d| d != day) {
            return Err(Problem::DayOfYear("day"));
        }
        Ok((month, day))
    }

    /// Places the date and time in the zone that was read: the local one if it agrees, else a fixed one.
    fn locate(self, date: Date, clock: Clock) -> Time {
        let local = Zone::local();
        let at = |zone| Time::from_civil(date, clock, self.nanoseconds, zone);
        if self.utc {
            return at(Zone::Utc);
        }
        let shown = at(Zone::Utc).seconds;
        if let Some(offset) = self.offset {
            let (name, local_offset) = local.offset_at(shown - offset);
            let agrees = local_offset == offset && self.zone_name.as_ref().is_none_or(|n| *n == name);
            let zone = if agrees { local } else { Zone::Fixed(self.zone_name.clone().unwrap_or_default(), offset) };
            return Time { seconds: shown - offset, nanoseconds: self.nanoseconds, zone, monotonic: None };
        }
        let Some(name) = self.zone_name.clone() else { return at(local) };
        if let Some(offset) = local.offset_named(&name, shown) {
            return Time { seconds: shown - offset, nanoseconds: self.nanoseconds, zone: local, monotonic: None };
        }
        // Like Go, keeps the offset for display but reads the clock as UTC.
        let offset = name.strip_prefix("GMT").and_then(|hours| hours.parse::<i64>().ok()).unwrap_or(0) * 3600;
        Time { seconds: shown, nanoseconds: self.nanoseconds, zone: Zone::Fixed(name, offset), monotonic: None }
    }
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|b| **b == b' ').count();
    &text[spaces..]
}

fn within(number: i64, range: std::ops::RangeInclusive<i64>, what: &'static str) -> Result<i64, Bad> {
    if range.contains(&number) { Ok(number) } else { Err(Bad::Range(what)) }
}

/// Parses a number with an optional sign.
fn signed(text: &[u8]) -> Result<i64, Bad> {
    std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()).ok_or(Bad::Form)
}

/// Parses a separator and up to nine digits as nanoseconds. As in Go, a sign may precede the digits or stand alone.
fn fraction(text: &[u8]) -> Result<u32, Bad> {
    let [b'.' | b',', number @ ..] = text else { return Err(Bad::Form) };
    let number = &number[..number.len().min(9)];
    let digits = number.strip_prefix(b"+").or_else(|| number.strip_prefix(b"-")).unwrap_or(number);
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Bad::Form);
    }
    let value = digits.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0'));
    if value > 0 && number.starts_with(b"-") {
        return Err(Bad::Range("fractional second"));
    }
    Ok(value * 10u32.pow(9 - number.len() as u32))
}

/// Returns the length of the leading zone abbreviation.
fn zone_name_length(text: &[u8]) -> Option<usize> {
    if text.len() < 3 {
        return None;
    }
    if text.starts_with(b"ChST") || text.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix(b"GMT") {
        return Some(3 + signed_hours(rest));
    }
    if matches!(text[0], b'+' | b'-') {
        return Some(signed_hours(text)).filter(|n| *n > 0);
    }
    let capitals = text.iter().take(6).take_while(|b| b.is_ascii_uppercase()).count();
    match capitals {
        3 => Some(3),
        4 if text[3] == b'T' || text.starts_with(b"WITA") => Some(4),
        5 if text[4] == b'T' => Some(5),
        _ => None,
    }
}

/// Returns the length of a leading sign with at most 23 hours, or 0.
fn signed_hours(text: &[u8]) -> usize {
    let [b'+' | b'-', digits @ ..] = text else { return 0 };
    let count = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let hours = std::str::from_utf8(&digits[..count]).ok().and_then(|d| d.parse::<u64>().ok());
    if hours.is_some_and(|h| h <= 23) { count + 1 } else { 0 }
}
