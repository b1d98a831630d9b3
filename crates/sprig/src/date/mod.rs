//! Dates, times and durations. Counterpart: Sprig's `date.go`, and the duration functions of Helm's `pkg/engine/funcs.go`.

mod duration;

use go_template::IntType;
use go_template::{FromValue, FuncError, FuncMap, Param, Str, Value};

use go_template::time::{time_of, time_value};
use golibs::time::{Duration, Time, Zone};

pub(super) fn register(map: &mut FuncMap) {
    map.add("now", || time_value(Time::now()));
    map.add("date", |layout: Str, date: Value| in_zone(&layout, &date, b"Local"));
    map.add("htmlDate", |date: Value| in_zone(HTML, &date, b"Local"));
    map.add("htmlDateInZone", |date: Value, zone: Str| in_zone(HTML, &date, &zone));
    for name in ["dateInZone", "date_in_zone"] {
        map.add(name, |layout: Str, date: Value, zone: Str| in_zone(&layout, &date, &zone));
    }
    for name in ["dateModify", "date_modify"] {
        map.add(name, |by: Str, TimeArg(time): TimeArg| {
            time_value(Duration::parse(&by).map_or_else(|_| time.clone(), |by| time.add(by)))
        });
    }
    for name in ["mustDateModify", "must_date_modify"] {
        map.add(name, |by: Str, TimeArg(time): TimeArg| -> Result<Value, FuncError> {
            Duration::parse(&by).map(|by| time_value(time.add(by))).map_err(|e| e.to_string().into())
        });
    }
    map.add("toDate", |layout: Str, text: Str| {
        time_value(Time::parse(&layout, &text).unwrap_or_else(|_| Time::zero()))
    });
    map.add("mustToDate", |layout: Str, text: Str| -> Result<Value, FuncError> {
        Time::parse(&layout, &text).map(time_value).map_err(|e| e.to_string().into())
    });
    map.add("unixEpoch", |TimeArg(time): TimeArg| time.unix_seconds().to_string());
    map.add("ago", |date: Value| ago(&date));
    duration::register(map);
}

const HTML: &[u8] = b"2006-01-02";

/// An argument of type `time.Time`.
struct TimeArg(Time);

impl FromValue for TimeArg {
    const PARAM: Param = Param::Object("time.Time");
    fn from_value(value: &Value) -> Self {
        TimeArg(time_of(value).unwrap_or_else(Time::zero))
    }
}

/// Formats a date in a zone. For a value that is not a date, uses the current time; for an unknown zone, UTC.
fn in_zone(layout: &[u8], date: &Value, zone: &[u8]) -> Vec<u8> {
    let time = match date {
        Value::Int(seconds, IntType::Int | IntType::Int32 | IntType::Int64) => Time::unix(*seconds, 0),
        other => time_of(other).unwrap_or_else(Time::now),
    };
    let zone = std::str::from_utf8(zone).ok().and_then(Zone::load).unwrap_or(Zone::Utc);
    time.in_zone(zone).format(layout)
}

fn ago(date: &Value) -> String {
    let now = Time::now();
    let time = match date {
        Value::Int(seconds, IntType::Int | IntType::Int64) => Time::unix(*seconds, 0),
        other => time_of(other).unwrap_or_else(|| now.clone()),
    };
    now.since(&time).round(Duration(1_000_000_000)).to_string()
}
