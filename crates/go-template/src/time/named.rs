//! Go's `time.Month` and `time.Weekday`.

use std::sync::Arc;

use crate::{FuncError, Kind, Object, Param, Scope, Str, Value};

use golibs::time::{DAYS, MONTHS};

/// A type of named numbers: Go's `time.Month` or `time.Weekday`.
#[derive(Debug)]
pub(super) struct NamedType {
    name: &'static str,
    /// The prefix with which Go prints numbers that are out of range.
    short: &'static str,
    first: i64,
    names: &'static [&'static str],
}

pub(super) static MONTH: NamedType = NamedType { name: "time.Month", short: "Month", first: 1, names: &MONTHS };
pub(super) static WEEKDAY: NamedType = NamedType { name: "time.Weekday", short: "Weekday", first: 0, names: &DAYS };

/// A month or a weekday.
#[derive(Debug)]
struct Named {
    ty: &'static NamedType,
    number: i64,
}

pub(super) fn named(ty: &'static NamedType, number: i64) -> Value {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_name_prints_with_its_type() {
        assert_eq!(Named { ty: &MONTH, number: 12 }.text(), "December");
        assert_eq!(Named { ty: &MONTH, number: 0 }.text(), "%!Month(0)");
    }
}
