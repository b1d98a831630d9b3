//! Time zones: offsets, abbreviations and daylight saving time.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time zone. Counterpart: `*time.Location`.
#[derive(Clone, Debug, PartialEq)]
pub enum Zone {
    /// UTC.
    Utc,
    /// The local zone.
    Local(TimeZone),
    /// A fixed offset east of UTC in seconds, with a name that may be empty.
    Fixed(String, i64),
    /// A zone of the system's database.
    Named(TimeZone),
}

impl Zone {
    /// Returns the local zone: the one in `TZ`, else the system's, else UTC.
    pub fn local() -> Zone {
        if IN_BROWSER {
            return Zone::Local(TimeZone::UTC);
        }
        TimeZone::try_system().map_or(Zone::Utc, Zone::Local)
    }

    /// Returns Go's name for the zone, which may be empty for a fixed offset. The local zone is `Local` unless `TZ` names it.
    pub fn name(&self) -> String {
        match self {
            Zone::Utc => "UTC".to_owned(),
            Zone::Local(zone) => local_name(zone, variable().as_deref()),
            Zone::Fixed(name, _) => name.clone(),
            Zone::Named(zone) => zone.iana_name().unwrap_or_default().to_owned(),
        }
    }

    /// Returns whether daylight saving time is in effect at this Unix time.
    pub(super) fn is_dst_at(&self, seconds: i64) -> bool {
        match self {
            Zone::Utc | Zone::Fixed(..) => false,
            Zone::Local(zone) | Zone::Named(zone) => zone.to_offset_info(timestamp(seconds)).dst().is_dst(),
        }
    }

    /// Loads a zone by name, which is case-sensitive as in Go. Counterpart: `time.LoadLocation`.
    pub fn load(name: &str) -> Option<Zone> {
        match name {
            "" | "UTC" => return Some(Zone::Utc),
            "Local" => return Some(Zone::local()),
            _ => {}
        }
        let zone = TimeZone::get(name).ok()?;
        (zone.iana_name() == Some(name)).then_some(Zone::Named(zone))
    }

    /// Returns the abbreviation, and the offset in seconds east of UTC, at this Unix time.
    pub(super) fn offset_at(&self, seconds: i64) -> (String, i64) {
        match self {
            Zone::Utc => ("UTC".to_owned(), 0),
            Zone::Fixed(name, offset) => (name.clone(), *offset),
            Zone::Local(zone) | Zone::Named(zone) => {
                let info = zone.to_offset_info(timestamp(seconds));
                (info.abbreviation().to_owned(), i64::from(info.offset().seconds()))
            }
        }
    }

    /// Returns the offset that the abbreviation denotes in this zone around the given local time.
    pub(super) fn offset_named(&self, name: &str, shown: i64) -> Option<i64> {
        let around = timestamp(shown);
        let known: Vec<i64> = match self {
            Zone::Utc | Zone::Fixed(..) => vec![shown],
            Zone::Local(zone) | Zone::Named(zone) => {
                let transitions = zone.preceding(around).take(4).chain(zone.following(around).take(4));
                std::iter::once(shown).chain(transitions.map(|t| t.timestamp().as_second())).collect()
            }
        };
        let offsets =
            known.into_iter().map(|at| self.offset_at(at)).filter(|(n, _)| n == name).map(|(_, offset)| offset);
        let offsets: Vec<i64> = offsets.collect();
        let in_effect = offsets.iter().find(|offset| self.offset_at(shown - **offset).0 == name);
        in_effect.or(offsets.first()).copied()
    }
}

/// Whether this is a page. Its local zone is UTC, as in most containers: a chart's output must not depend on where it
/// is rendered.
const IN_BROWSER: bool = cfg!(all(target_family = "wasm", target_os = "unknown"));

/// Returns the variable that names the local zone.
fn variable() -> Option<String> {
    if IN_BROWSER { Some("UTC".to_owned()) } else { std::env::var("TZ").ok() }
}

/// Returns Go's name for the local zone, derived from the zone and `TZ`.
fn local_name(zone: &TimeZone, tz: Option<&str>) -> String {
    let name = match tz.map(|tz| tz.strip_prefix(':').unwrap_or(tz)) {
        None | Some("/etc/localtime") => "Local",
        Some(name) if *zone != TimeZone::UTC => name,
        Some(_) => "UTC",
    };
    name.to_owned()
}

/// The seconds in 400 years, after which the calendar and the rules of daylight saving time repeat.
const CYCLE: i64 = 146_097 * 86_400;

/// Maps a Unix time into jiff's range, which ends with the year 9999, to a time at which the same rules apply.
fn timestamp(seconds: i64) -> Timestamp {
    let last = Timestamp::MAX.as_second();
    let beyond = seconds.saturating_sub(last).max(0);
    let cycles = beyond / CYCLE + i64::from(beyond % CYCLE > 0);
    Timestamp::from_second(seconds - cycles * CYCLE).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_zone_has_gos_name() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        for (zone, tz, expected) in [
            (&berlin, None, "Local"),
            (&berlin, Some("Europe/Berlin"), "Europe/Berlin"),
            (&berlin, Some(":Europe/Berlin"), "Europe/Berlin"),
            (&berlin, Some("/etc/localtime"), "Local"),
            (&TimeZone::UTC, Some(""), "UTC"),
            (&TimeZone::UTC, Some("UTC"), "UTC"),
            (&TimeZone::UTC, Some("Not/AZone"), "UTC"),
        ] {
            assert_eq!(local_name(zone, tz), expected, "{tz:?}");
        }
    }

    #[test]
    fn zones_are_bundled_for_systems_without_a_database() {
        let bundled = jiff::tz::TimeZoneDatabase::bundled().get("Europe/Berlin").unwrap();
        assert_eq!(bundled.iana_name(), Some("Europe/Berlin"));
    }

    #[test]
    fn daylight_saving_time_follows_the_zone() {
        let berlin = Zone::load("Europe/Berlin").unwrap();
        assert_eq!((berlin.is_dst_at(1_719_792_000), berlin.is_dst_at(1_704_067_200)), (true, false));
        assert!(!Zone::Utc.is_dst_at(1_719_792_000));
    }
}
