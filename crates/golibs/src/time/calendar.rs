//! Dates and times of day without zones, in the proleptic Gregorian calendar.

/// A date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
}

/// A time of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

const DAYS_PER_400_YEARS: i64 = 146_097;

/// Days from 1 March of the year 0 to 1970.
const DAYS_TO_1970: i64 = 719_468;

impl Date {
    /// Returns the date this many days after the start of 1970.
    pub(super) fn from_days(days: i64) -> Date {
        // Counts years from March, so that the leap day comes last.
        let days = days.saturating_add(DAYS_TO_1970);
        let (era, day_of_era) = (days.div_euclid(DAYS_PER_400_YEARS), days.rem_euclid(DAYS_PER_400_YEARS));
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Date { year: year_of_era + era * 400 + i64::from(month <= 2), month: month as u8, day: day as u8 }
    }

    /// Returns the number of days since the start of 1970.
    pub fn days(self) -> i64 {
        let (month, day) = (i64::from(self.month), i64::from(self.day));
        let year = self.year - i64::from(month <= 2);
        let year_of_era = year.rem_euclid(400);
        let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        year.div_euclid(400).saturating_mul(DAYS_PER_400_YEARS).saturating_add(day_of_era - DAYS_TO_1970)
    }

    /// Returns the day of the year: 1 on 1 January.
    pub fn day_of_year(self) -> i64 {
        self.days() - Date { year: self.year, month: 1, day: 1 }.days() + 1
    }

    /// Returns the day of the week: 0 on Sundays.
    pub fn weekday(self) -> usize {
        (self.days() + 4).rem_euclid(7) as usize
    }
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

pub(super) fn days_in(year: i64, month: u8) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Clock {
    /// Returns the time this many seconds after midnight.
    pub fn from_seconds(seconds: i64) -> Clock {
        Clock { hour: (seconds / 3600) as u8, minute: (seconds / 60 % 60) as u8, second: (seconds % 60) as u8 }
    }

    /// Returns the number of seconds since midnight.
    pub fn seconds(self) -> i64 {
        i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second)
    }
}
