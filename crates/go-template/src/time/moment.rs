//! Go's `time.Time`.

use std::sync::Arc;

use crate::value::{BadResults, UintType};
use crate::{Field, FuncError, Kind, Object, Param, Scope, Str, Value};

use super::downcast;
use super::duration::{duration_argument, duration_value};
use super::location::{self, location_of, location_value};
use super::named::{MONTH, WEEKDAY, named};
use golibs::time::{Duration, Time, Zone};

/// Wraps a `time.Time` as a value.
pub fn time_value(time: Time) -> Value {
    Value::Object(Arc::new(TimeObject(time)))
}

/// Returns the time, if the value is a `time.Time`.
pub fn time_of(value: &Value) -> Option<Time> {
    downcast::<TimeObject>(value).map(|object| object.0.clone())
}

#[derive(Debug)]
struct TimeObject(Time);

const TIME: Param = Param::Object("time.Time");
const LOCATION: Param = Param::Object(location::TYPE);

impl Object for TimeObject {
    fn type_name(&self) -> &str {
        "time.Time"
    }

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        let params: &[Param] = match method {
            "Format" => &[Param::String],
            "AppendFormat" => &[Param::Bytes, Param::String],
            "AppendText" | "AppendBinary" => &[Param::Bytes],
            "In" => &[LOCATION],
            "Add" | "Round" | "Truncate" => &[Param::Duration],
            "AddDate" => &[Param::Int, Param::Int, Param::Int],
            "Sub" | "Before" | "After" | "Equal" | "Compare" => &[TIME],
            "String" | "GoString" | "IsZero" | "IsDST" | "UTC" | "Local" | "Location" | "Month" | "Weekday" => &[],
            "MarshalText" | "MarshalJSON" | "MarshalBinary" | "GobEncode" => &[],
            "Clock" | "Date" | "ISOWeek" | "Zone" | "ZoneBounds" => &[],
            _ => return self.number(method).map(|_| (&[][..], None)),
        };
        Some((params, None))
    }

    fn bad_results(&self, method: &str) -> Option<BadResults> {
        match method {
            "Clock" | "Date" => Some(BadResults::Count(3)),
            "ISOWeek" | "Zone" => Some(BadResults::Second("int")),
            "ZoneBounds" => Some(BadResults::Second("time.Time")),
            _ => None,
        }
    }

    fn call(&self, _: &mut Scope<'_>, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        if let Some(encoded) = self.encoded(method, args) {
            return Some(encoded.map(|bytes| Value::Bytes(bytes.into())));
        }
        if method == "In" && matches!(args, [Value::Nil]) {
            return Some(Err("time: missing Location in call to Time.In".into()));
        }
        let value = self.number(method).or_else(|| self.plain(method)).or_else(|| self.with_args(method, args));
        value.map(Ok)
    }

    fn fields(&self) -> Vec<Field> {
        let (wall, ext) = self.0.words();
        let location = match self.0.location() {
            Zone::Utc => Value::Nil,
            zone => location_value(zone.clone()),
        };
        let wall = Value::Uint(wall, UintType::Uint64);
        vec![Field::new("wall", wall), Field::new("ext", Value::int64(ext)), Field::new("loc", location)]
    }

    fn go_syntax(&self) -> Option<Str> {
        Some(self.0.go_syntax().into())
    }

    fn display(&self) -> Option<Str> {
        Some(self.0.to_string().into())
    }

    fn data(&self) -> Value {
        self.0.rfc3339().into()
    }
}

impl TimeObject {
    /// Calls a method that returns a number.
    fn number(&self, method: &str) -> Option<Value> {
        let time = &self.0;
        let (date, clock) = time.civil();
        let nanoseconds = || time.unix_seconds().wrapping_mul(1_000_000_000).wrapping_add(time.nanosecond().into());
        Some(match method {
            "Unix" => Value::int64(time.unix_seconds()),
            "UnixMilli" => Value::int64(
                time.unix_seconds().wrapping_mul(1_000).wrapping_add((time.nanosecond() / 1_000_000).into()),
            ),
            "UnixMicro" => Value::int64(
                time.unix_seconds().wrapping_mul(1_000_000).wrapping_add((time.nanosecond() / 1_000).into()),
            ),
            "UnixNano" => Value::int64(nanoseconds()),
            "Year" => Value::int(date.year),
            "Day" => Value::int(date.day.into()),
            "YearDay" => Value::int(date.day_of_year()),
            "Hour" => Value::int(clock.hour.into()),
            "Minute" => Value::int(clock.minute.into()),
            "Second" => Value::int(clock.second.into()),
            "Nanosecond" => Value::int(time.nanosecond().into()),
            _ => return None,
        })
    }

    /// Calls a method that returns bytes, which are appended to its argument if it has one.
    fn encoded(&self, method: &str, args: &[Value]) -> Option<Result<Vec<u8>, FuncError>> {
        let time = &self.0;
        let bytes = match method {
            "MarshalText" | "AppendText" => Ok(time.rfc3339().into_bytes()),
            "MarshalJSON" => Ok(format!("\"{}\"", time.rfc3339()).into_bytes()),
            "MarshalBinary" | "AppendBinary" | "GobEncode" => {
                time.binary().map_err(|error| FuncError::new(error.to_string()))
            }
            "AppendFormat" => Ok(time.format(args.get(1).and_then(Value::as_str)?)),
            _ => return None,
        };
        let before = match args.first() {
            Some(Value::Bytes(bytes)) => bytes,
            _ => &[][..],
        };
        Some(bytes.map(|bytes| [before, &bytes].concat()))
    }

    /// Calls one of the other methods without arguments.
    fn plain(&self, method: &str) -> Option<Value> {
        let time = &self.0;
        Some(match method {
            "String" => time.to_string().into(),
            "GoString" => time.go_syntax().into(),
            "IsZero" => time.is_zero().into(),
            "IsDST" => time.is_dst().into(),
            "Location" => location_value(time.location().clone()),
            "UTC" => time_value(time.in_zone(Zone::Utc)),
            "Local" => time_value(time.in_zone(Zone::local())),
            "Month" => named(&MONTH, time.civil().0.month.into()),
            "Weekday" => named(&WEEKDAY, time.civil().0.weekday() as i64),
            _ => return None,
        })
    }

    fn with_args(&self, method: &str, args: &[Value]) -> Option<Value> {
        let time = &self.0;
        let first = args.first()?;
        let int = |i: usize| match args.get(i) {
            Some(Value::Int(n, _)) => *n,
            _ => 0,
        };
        let duration = || duration_argument(first);
        let other = || time_of(first);
        Some(match method {
            "In" => time_value(time.in_zone(location_of(first)?)),
            "Format" => Value::String(time.format(first.as_str()?).into()),
            "Add" => time_value(time.add(duration()?)),
            "Round" => time_value(time.round(duration()?)),
            "Truncate" => time_value(time.truncate(duration()?)),
            "AddDate" => time_value(time.add_date(int(0), int(1), int(2))),
            "Sub" => duration_value(time.since(&other()?)),
            "Before" => (time.since(&other()?) < Duration(0)).into(),
            "After" => (time.since(&other()?) > Duration(0)).into(),
            "Equal" => (*time == other()?).into(),
            "Compare" => Value::int(time.since(&other()?).0.signum()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_and_weekdays_have_names_and_numbers() {
        let time = TimeObject(Time::parse(b"2006-01-02", b"2024-03-05").unwrap());
        for (method, name, number) in [("Month", "March", 3), ("Weekday", "Tuesday", 2)] {
            let Some(Value::Object(object)) = time.plain(method) else { panic!("{method} is missing") };
            assert_eq!(object.display().unwrap(), name);
            assert!(matches!(object.data(), Value::Int(n, _) if n == number), "{object:?}");
        }
    }

    #[test]
    fn methods_take_durations_and_constants() {
        let time = TimeObject(Time::parse(b"2006-01-02", b"2024-03-05").unwrap());
        for argument in [Value::int64(1_000_000_000), duration_value(Duration(1_000_000_000))] {
            let later = time_of(&time.with_args("Add", &[argument]).unwrap()).unwrap();
            assert_eq!(later.unix_seconds(), 1_709_596_801);
        }
    }
}
