//! Times, durations, months and weekdays as templates see them, with Go's methods.

use std::any::Any;
use std::sync::Arc;

use go_template::{FuncError, Kind, Object, Param, Scope, Str, Value};

use crate::time::{DAYS, Duration, MONTHS, Time, Zone};

/// A `time.Time`.
pub(crate) fn time_value(time: Time) -> Value {
    Value::Object(Arc::new(TimeObject(time)))
}

/// A `time.Duration`.
pub(super) fn duration_value(duration: Duration) -> Value {
    Value::Object(Arc::new(DurationObject(duration)))
}

/// The time, if the value is one.
pub(super) fn time_of(value: &Value) -> Option<Time> {
    downcast::<TimeObject>(value).map(|object| object.0.clone())
}

/// The duration, if the value is one.
pub(super) fn duration_of(value: &Value) -> Option<Duration> {
    downcast::<DurationObject>(value).map(|object| object.0)
}

/// The duration that a method was given: an object, or a constant.
fn duration_argument(value: &Value) -> Option<Duration> {
    match value {
        Value::Int(nanoseconds, _) => Some(Duration(*nanoseconds)),
        other => duration_of(other),
    }
}

fn downcast<T: Object>(value: &Value) -> Option<&T> {
    match value {
        Value::Object(object) => object.as_any().downcast_ref(),
        _ => None,
    }
}

#[derive(Debug)]
struct TimeObject(Time);

const TIME: Param = Param::Object("time.Time");

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
            "Add" | "Round" | "Truncate" => &[Param::Duration],
            "AddDate" => &[Param::Int, Param::Int, Param::Int],
            "Sub" | "Before" | "After" | "Equal" | "Compare" => &[TIME],
            "String" | "IsZero" | "UTC" | "Local" | "Month" | "Weekday" | "MarshalText" | "MarshalJSON" => &[],
            _ => return self.number(method).map(|_| (&[][..], None)),
        };
        Some((params, None))
    }

    fn call(&self, _: &mut Scope<'_>, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        let value = self.number(method).or_else(|| self.plain(method)).or_else(|| self.with_args(method, args));
        value.map(Ok)
    }

    fn display(&self) -> Option<Str> {
        Some(self.0.to_string().into())
    }

    fn data(&self) -> Value {
        self.0.rfc3339().into()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl TimeObject {
    /// The methods that give a number.
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

    /// The other methods without arguments.
    fn plain(&self, method: &str) -> Option<Value> {
        let time = &self.0;
        Some(match method {
            "String" => time.to_string().into(),
            "MarshalText" => Value::Bytes(time.rfc3339().into()),
            "MarshalJSON" => Value::Bytes(format!("\"{}\"", time.rfc3339()).into()),
            "IsZero" => time.is_zero().into(),
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

#[derive(Debug)]
struct DurationObject(Duration);

impl Object for DurationObject {
    fn type_name(&self) -> &str {
        "time.Duration"
    }

    fn kind(&self) -> Kind {
        Kind::Int64
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        match method {
            "Round" | "Truncate" => Some((&[Param::Duration], None)),
            _ => self.plain(method).map(|_| (&[][..], None)),
        }
    }

    fn call(&self, _: &mut Scope<'_>, method: &str, args: &[Value]) -> Option<Result<Value, FuncError>> {
        let multiple = || args.first().and_then(duration_argument);
        let value = match method {
            "Round" => duration_value(self.0.round(multiple()?)),
            "Truncate" => duration_value(self.0.truncate(multiple()?)),
            _ => self.plain(method)?,
        };
        Some(Ok(value))
    }

    fn display(&self) -> Option<Str> {
        Some(self.0.to_string().into())
    }

    fn data(&self) -> Value {
        Value::int64(self.0.0)
    }

    fn with_number(&self, number: i64) -> Option<Value> {
        Some(duration_value(Duration(number)))
    }

    fn is_true(&self) -> bool {
        self.0.0 != 0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl DurationObject {
    fn plain(&self, method: &str) -> Option<Value> {
        let duration = self.0;
        Some(match method {
            "Hours" => Value::Float(duration.hours()),
            "Minutes" => Value::Float(duration.minutes()),
            "Seconds" => Value::Float(duration.seconds()),
            "Milliseconds" => Value::int64(duration.0 / 1_000_000),
            "Microseconds" => Value::int64(duration.0 / 1_000),
            "Nanoseconds" => Value::int64(duration.0),
            "Abs" => duration_value(duration.abs()),
            "String" => duration.to_string().into(),
            _ => return None,
        })
    }
}

/// A type whose numbers have names: Go's `time.Month` and `time.Weekday`.
#[derive(Debug)]
struct NamedType {
    name: &'static str,
    /// What its numbers out of range print as.
    short: &'static str,
    first: i64,
    names: &'static [&'static str],
}

static MONTH: NamedType = NamedType { name: "time.Month", short: "Month", first: 1, names: &MONTHS };
static WEEKDAY: NamedType = NamedType { name: "time.Weekday", short: "Weekday", first: 0, names: &DAYS };

/// A number of such a type.
#[derive(Debug)]
struct Named {
    ty: &'static NamedType,
    number: i64,
}

fn named(ty: &'static NamedType, number: i64) -> Value {
    Value::Object(Arc::new(Named { ty, number }))
}

impl Named {
    fn text(&self) -> String {
        let index = usize::try_from(self.number - self.ty.first).ok();
        let name = index.and_then(|i| self.ty.names.get(i));
        name.map_or_else(|| format!("%!{}({})", self.ty.short, self.number), |name| (*name).to_owned())
    }
}

impl Object for Named {
    fn type_name(&self) -> &str {
        self.ty.name
    }

    fn kind(&self) -> Kind {
        Kind::Int
    }

    fn signature(&self, method: &str) -> Option<(&[Param], Option<Param>)> {
        (method == "String").then_some((&[], None))
    }

    fn call(&self, _: &mut Scope<'_>, method: &str, _: &[Value]) -> Option<Result<Value, FuncError>> {
        (method == "String").then(|| Ok(self.text().into()))
    }

    fn display(&self) -> Option<Str> {
        Some(self.text().into())
    }

    fn data(&self) -> Value {
        Value::int(self.number)
    }

    fn with_number(&self, number: i64) -> Option<Value> {
        Some(named(self.ty, number))
    }

    fn is_true(&self) -> bool {
        self.number != 0
    }

    fn as_any(&self) -> &dyn Any {
        self
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
        assert_eq!(Named { ty: &MONTH, number: 0 }.text(), "%!Month(0)");
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
