//! Go's `time`: instants in a zone, durations, and the layouts that format and parse them (`2006-01-02 15:04:05`).
//!
//! Reads zones from the system's database with jiff. As in Go, years are unlimited. Leaves out timers.

mod calendar;
mod duration;
mod error;
mod format;
mod layout;
mod parse;
#[cfg(test)]
mod tests;
mod zone;

use std::sync::LazyLock;

use crate::clock::{Instant, SystemTime, UNIX_EPOCH};

pub use calendar::{Clock, Date};
pub use duration::Duration;
pub use error::{DurationError, OffsetError, ParseError, quote};
pub use parse::{DAYS, MONTHS};
pub use zone::Zone;

/// An instant and the zone that it displays in. Counterpart: `time.Time`.
#[derive(Clone, Debug)]
pub struct Time {
    /// Seconds since 1970.
    seconds: i64,
    /// Nanoseconds within the second.
    nanoseconds: u32,
    zone: Zone,
    /// Monotonic nanoseconds since the process started, if the time was read from the clock: Go prints them.
    monotonic: Option<i64>,
}

/// The first second of the year 1: Go's zero time.
const ZERO: i64 = -62_135_596_800;

/// The start of 1885, from which Go counts the seconds of a time with a monotonic reading.
const WALL_START: i64 = -2_682_288_000;

/// The start of Go's monotonic clock.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Time {
    /// Returns the current time in the local zone.
    pub fn now() -> Time {
        let monotonic = i64::try_from(START.elapsed().as_nanos()).unwrap_or(i64::MAX).max(1);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Time { seconds, nanoseconds: since.subsec_nanos(), zone: Zone::local(), monotonic: Some(monotonic) }
    }

    /// Returns the time this many seconds and nanoseconds after the start of 1970, in the local zone.
    pub fn unix(seconds: i64, nanoseconds: u32) -> Time {
        Time { seconds, nanoseconds, zone: Zone::local(), monotonic: None }
    }

    /// Returns Go's zero time: the start of the year 1 in UTC.
    pub fn zero() -> Time {
        Time { seconds: ZERO, nanoseconds: 0, zone: Zone::Utc, monotonic: None }
    }

    /// Returns the instant at which clocks in the zone show this date and time.
    fn from_civil(date: Date, clock: Clock, nanoseconds: u32, zone: Zone) -> Time {
        let shown = date.days().saturating_mul(86_400).saturating_add(clock.seconds());
        let mut seconds = shown;
        let offset = zone.offset_at(shown).1;
        if offset != 0 {
            // Like Go, look again: the first guess may lie on the other side of a transition.
            seconds = shown.saturating_sub(zone.offset_at(shown.saturating_sub(offset)).1);
        }
        Time { seconds, nanoseconds, zone, monotonic: None }
    }

    /// Returns the same instant in another zone.
    pub fn in_zone(&self, zone: Zone) -> Time {
        Time { zone, monotonic: None, ..self.clone() }
    }

    /// Returns the time this duration later.
    pub fn add(&self, duration: Duration) -> Time {
        let nanoseconds = i64::from(self.nanoseconds) + duration.0 % 1_000_000_000;
        let seconds =
            self.seconds.wrapping_add(duration.0 / 1_000_000_000).wrapping_add(nanoseconds.div_euclid(1_000_000_000));
        let monotonic = self.monotonic.and_then(|m| m.checked_add(duration.0));
        Time { seconds, nanoseconds: nanoseconds.rem_euclid(1_000_000_000) as u32, zone: self.zone.clone(), monotonic }
    }

    /// Adds years, months and days. As in Go, days past the end of a month continue into the next.
    pub fn add_date(&self, years: i64, months: i64, days: i64) -> Time {
        let (date, clock) = self.civil();
        let months = date
            .year
            .saturating_add(years)
            .saturating_mul(12)
            .saturating_add(i64::from(date.month) - 1)
            .saturating_add(months);
        let first = Date { year: months.div_euclid(12), month: months.rem_euclid(12) as u8 + 1, day: 1 };
        let date = Date::from_days(first.days().saturating_add(i64::from(date.day) - 1).saturating_add(days));
        Time::from_civil(date, clock, self.nanoseconds, self.zone.clone())
    }

    /// Returns the duration since the other time, clamped to about 292 years.
    pub fn since(&self, other: &Time) -> Duration {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanoseconds = seconds * 1_000_000_000 + i128::from(self.nanoseconds) - i128::from(other.nanoseconds);
        Duration(nanoseconds.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// Rounds down to a multiple of the duration since the zero time. A duration that is not positive only removes the monotonic reading.
    pub fn truncate(&self, multiple: Duration) -> Time {
        if multiple.0 <= 0 {
            return Time { monotonic: None, ..self.clone() };
        }
        Time { monotonic: None, ..self.add(Duration(-self.rest(multiple))) }
    }

    /// Rounds half up to a multiple of the duration since the zero time. A duration that is not positive only removes the monotonic reading.
    pub fn round(&self, multiple: Duration) -> Time {
        if multiple.0 <= 0 {
            return Time { monotonic: None, ..self.clone() };
        }
        let rest = self.rest(multiple);
        let step = if rest < multiple.0 - rest { -rest } else { multiple.0 - rest };
        Time { monotonic: None, ..self.add(Duration(step)) }
    }

    /// Returns the time since the last multiple of the duration, in nanoseconds.
    fn rest(&self, multiple: Duration) -> i64 {
        let since_zero = (i128::from(self.seconds) - i128::from(ZERO)) * 1_000_000_000 + i128::from(self.nanoseconds);
        since_zero.rem_euclid(multiple.0.into()) as i64
    }

    /// Returns the seconds since 1970.
    pub fn unix_seconds(&self) -> i64 {
        self.seconds
    }

    /// Returns the nanoseconds within the second.
    pub fn nanosecond(&self) -> u32 {
        self.nanoseconds
    }

    /// Returns whether this is Go's zero time.
    pub fn is_zero(&self) -> bool {
        self.seconds == ZERO && self.nanoseconds == 0
    }

    /// Returns the date and the time of day in its zone.
    pub fn civil(&self) -> (Date, Clock) {
        let shown = self.seconds.saturating_add(self.zone().1);
        (Date::from_days(shown.div_euclid(86_400)), Clock::from_seconds(shown.rem_euclid(86_400)))
    }

    /// Returns the zone that the time displays in.
    pub fn location(&self) -> &Zone {
        &self.zone
    }

    /// Returns whether daylight saving time is in effect in its zone.
    pub fn is_dst(&self) -> bool {
        self.zone.is_dst_at(self.seconds)
    }

    /// Returns Go's fields `wall` and `ext`, which include the monotonic reading if there is one.
    pub fn words(&self) -> (u64, i64) {
        let nanoseconds = u64::from(self.nanoseconds);
        match self.monotonic {
            Some(m) => (1 << 63 | ((self.seconds - WALL_START) as u64) << 30 | nanoseconds, m),
            None => (nanoseconds, self.seconds.wrapping_sub(ZERO)),
        }
    }

    /// Returns the zone's abbreviation and its offset at this time, in seconds east of UTC.
    pub fn zone(&self) -> (String, i64) {
        self.zone.offset_at(self.seconds)
    }
}

impl PartialEq for Time {
    fn eq(&self, other: &Time) -> bool {
        (self.seconds, self.nanoseconds) == (other.seconds, other.nanoseconds)
    }
}
