//! Formats times by a layout. Counterpart: `Time.Format` and `Time.String`.

use std::fmt;

use super::calendar::{Clock, Date};
use super::error::{OffsetError, quote};
use super::layout::{Element, Offset, Precision, next_chunk};
use super::parse::{DAYS, MONTHS};
use super::{Duration, Time, ZERO, Zone};

impl Time {
    /// Formats the time by the layout. Copies text that is not a layout element.
    pub fn format(&self, layout: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(layout.len() + 10);
        let (name, offset) = self.zone();
        let (date, clock) = self.civil();
        let shown = Shown { date, clock, nanoseconds: self.nanoseconds, name, offset };
        let mut rest = layout;
        loop {
            let chunk = next_chunk(rest);
            out.extend_from_slice(chunk.prefix);
            let Some(element) = chunk.element else { return out };
            out.extend(shown.element(element).into_bytes());
            rest = chunk.rest;
        }
    }

    /// Formats the time as RFC 3339 with nanoseconds, as in JSON.
    pub fn rfc3339(&self) -> String {
        String::from_utf8_lossy(&self.format(b"2006-01-02T15:04:05.999999999Z07:00")).into_owned()
    }

    /// Formats the time in Go syntax. Counterpart: `GoString`.
    pub fn go_syntax(&self) -> String {
        let (Date { year, month, day }, Clock { hour, minute, second }) = self.civil();
        let month = MONTHS[usize::from(month) - 1];
        let location = match self.location() {
            Zone::Utc => "time.UTC".to_owned(),
            Zone::Local(_) => "time.Local".to_owned(),
            zone => format!("time.Location({})", quote(zone.name().as_bytes())),
        };
        let nanosecond = self.nanoseconds;
        format!("time.Date({year}, time.{month}, {day}, {hour}, {minute}, {second}, {nanosecond}, {location})")
    }

    /// Encodes the time in Go's binary form. Counterpart: `MarshalBinary`.
    ///
    /// # Errors
    /// The zone's offset is minus one minute, or more than 32,767 minutes.
    pub fn binary(&self) -> Result<Vec<u8>, OffsetError> {
        let offset = self.zone().1;
        let (minutes, seconds) = match self.location() {
            Zone::Utc => (-1, 0),
            _ => match i16::try_from(offset / 60) {
                Ok(minutes) if minutes != -1 => (minutes, (offset % 60) as i8),
                _ => return Err(OffsetError),
            },
        };
        let mut out = vec![if seconds == 0 { 1 } else { 2 }];
        out.extend(self.seconds.wrapping_sub(ZERO).to_be_bytes());
        out.extend(self.nanoseconds.to_be_bytes());
        out.extend(minutes.to_be_bytes());
        out.extend((seconds != 0).then_some(seconds as u8));
        Ok(out)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.format(b"2006-01-02 15:04:05.999999999 -0700 MST");
        write!(f, "{}", String::from_utf8_lossy(&text))?;
        match self.monotonic.map(Duration) {
            Some(Duration(m)) => {
                let sign = if m < 0 { '-' } else { '+' };
                let m = m.unsigned_abs();
                write!(f, " m={sign}{}.{:09}", m / 1_000_000_000, m % 1_000_000_000)
            }
            None => Ok(()),
        }
    }
}

/// The parts of a time that layouts print.
struct Shown {
    date: Date,
    clock: Clock,
    nanoseconds: u32,
    name: String,
    offset: i64,
}

impl Shown {
    fn element(&self, element: Element) -> String {
        let Date { year, month, day } = self.date;
        let Clock { hour, minute, second } = self.clock;
        let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
        let month_name = MONTHS[usize::from(month) - 1];
        let day_name = DAYS[self.date.weekday()];
        match element {
            Element::Year => format!("{:02}", year.unsigned_abs() % 100),
            Element::LongYear if year < 0 => format!("-{:04}", year.unsigned_abs()),
            Element::LongYear => format!("{year:04}"),
            Element::LongMonth => month_name.to_owned(),
            Element::Month => month_name[..3].to_owned(),
            Element::NumMonth => month.to_string(),
            Element::ZeroMonth => format!("{month:02}"),
            Element::LongWeekDay => day_name.to_owned(),
            Element::WeekDay => day_name[..3].to_owned(),
            Element::Day => day.to_string(),
            Element::UnderDay => format!("{day:2}"),
            Element::ZeroDay => format!("{day:02}"),
            Element::UnderYearDay => format!("{:3}", self.date.day_of_year()),
            Element::ZeroYearDay => format!("{:03}", self.date.day_of_year()),
            Element::Hour => format!("{hour:02}"),
            Element::Hour12 => hour12.to_string(),
            Element::ZeroHour12 => format!("{hour12:02}"),
            Element::Minute => minute.to_string(),
            Element::ZeroMinute => format!("{minute:02}"),
            Element::Second => second.to_string(),
            Element::ZeroSecond => format!("{second:02}"),
            Element::UpperPm => if hour >= 12 { "PM" } else { "AM" }.to_owned(),
            Element::LowerPm => if hour >= 12 { "pm" } else { "am" }.to_owned(),
            Element::ZoneName => self.zone_name(),
            Element::Offset(form) => self.zone_offset(form),
            Element::Fraction0(digits, separator) => self.fraction(digits, separator),
            Element::Fraction9(digits, separator) => self.trimmed_fraction(digits, separator),
        }
    }

    fn zone_name(&self) -> String {
        if self.name.is_empty() {
            let form = Offset { zulu: false, colons: false, precision: Precision::Minutes };
            return self.zone_offset(form);
        }
        self.name.clone()
    }

    fn zone_offset(&self, form: Offset) -> String {
        if form.zulu && self.offset == 0 {
            return "Z".to_owned();
        }
        // Go takes the sign from the whole minutes.
        let minutes = self.offset / 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let colon = if form.colons { ":" } else { "" };
        let (minutes, seconds) = (minutes.abs(), self.offset.abs() % 60);
        let mut text = format!("{sign}{:02}", minutes / 60);
        if form.precision != Precision::Hours {
            text.push_str(&format!("{colon}{:02}", minutes % 60));
        }
        if form.precision == Precision::Seconds {
            text.push_str(&format!("{colon}{seconds:02}"));
        }
        text
    }

    /// Formats the separator and this many digits of the fraction, at most nine.
    fn fraction(&self, digits: usize, separator: u8) -> String {
        let all = format!("{:09}", self.nanoseconds);
        format!("{}{}", char::from(separator), &all[..digits.min(9)])
    }

    fn trimmed_fraction(&self, digits: usize, separator: u8) -> String {
        let all = format!("{:09}", self.nanoseconds);
        let kept = all[..digits.min(9)].trim_end_matches('0');
        if kept.is_empty() { String::new() } else { format!("{}{kept}", char::from(separator)) }
    }
}
