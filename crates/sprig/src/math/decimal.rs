//! Decimal arithmetic, in which `addf 0.1 0.2` is 0.3. Counterpart: the library `shopspring/decimal`.

use go_template::{FuncError, FuncMap, Rest, Value};
use num_bigint::{BigInt, Sign};

use golibs::work::spend;

use crate::cast::to_float64;
use crate::limits::exceeded;

/// The number of digits after the point in a quotient.
const DIVISION_PLACES: i64 = 16;

/// Maximum size of the digits of an intermediate result, in bits: far more than floats need. Each operation reads all of them.
const MAX_BITS: u64 = 1 << 16;

type Operation = fn(&Decimal, &Decimal) -> Result<Decimal, FuncError>;

pub(super) fn register(map: &mut FuncMap) {
    map.add("addf", |Rest(values): Rest<Value>| fold(0.0, &values, Decimal::add))
        .add("add1f", |v: Value| fold(to_float64(&v), &[Value::int(1)], Decimal::add));
    let folds: [(&str, Operation); 3] = [("subf", Decimal::sub), ("divf", Decimal::div), ("mulf", Decimal::mul)];
    for (name, operation) in folds {
        map.add(name, move |a: Value, Rest(values): Rest<Value>| fold(to_float64(&a), &values, operation));
    }
}

fn fold(first: f64, values: &[Value], operation: Operation) -> Result<f64, FuncError> {
    let mut result = Decimal::from_float(first)?;
    for value in values {
        result = operation(&result, &Decimal::from_float(to_float64(value))?)?;
        if result.digits.bits() > MAX_BITS {
            return Err(exceeded("MAX_BITS", format!("an intermediate result has more than {MAX_BITS} bits")));
        }
        spend(1 + result.digits.bits() / 256)?;
    }
    Ok(result.to_float())
}

/// `digits × 10^exponent`.
struct Decimal {
    digits: BigInt,
    exponent: i64,
}

impl Decimal {
    /// Returns the shortest decimal number that parses to the float.
    fn from_float(v: f64) -> Result<Decimal, FuncError> {
        if !v.is_finite() {
            let text = golibs::strconv::format_float(v, b'g', None);
            return Err(FuncError::new(format!("Cannot create a Decimal from {text}")));
        }
        let text = format!("{v:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let places = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i64);
        let digits = mantissa.replace('.', "").parse().unwrap_or_default();
        Ok(Decimal { digits, exponent: exponent.parse().unwrap_or(0) - places })
    }

    fn to_float(&self) -> f64 {
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or(0.0)
    }

    /// Scales both numbers to the smaller exponent.
    fn aligned(&self, other: &Decimal) -> (BigInt, BigInt, i64) {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |d: &Decimal| &d.digits * power_of_ten(d.exponent - exponent);
        (scaled(self), scaled(other), exponent)
    }

    fn add(&self, other: &Decimal) -> Result<Decimal, FuncError> {
        let (a, b, exponent) = self.aligned(other);
        Ok(Decimal { digits: a + b, exponent })
    }

    fn sub(&self, other: &Decimal) -> Result<Decimal, FuncError> {
        let (a, b, exponent) = self.aligned(other);
        Ok(Decimal { digits: a - b, exponent })
    }

    fn mul(&self, other: &Decimal) -> Result<Decimal, FuncError> {
        Ok(Decimal { digits: &self.digits * &other.digits, exponent: self.exponent + other.exponent })
    }

    /// Divides to 16 digits after the point, rounding half away from zero.
    fn div(&self, other: &Decimal) -> Result<Decimal, FuncError> {
        if other.digits.sign() == Sign::NoSign {
            return Err(FuncError::new("decimal division by 0"));
        }
        let shift = self.exponent - other.exponent + DIVISION_PLACES;
        let a = &self.digits * power_of_ten(shift.max(0));
        let b = &other.digits * power_of_ten((-shift).max(0));
        let (mut quotient, remainder) = (&a / &b, &a % &b);
        if remainder.magnitude() * 2u32 >= *b.magnitude() {
            quotient += if (a.sign() == Sign::Minus) == (b.sign() == Sign::Minus) { 1 } else { -1 };
        }
        Ok(Decimal { digits: quotient, exponent: -DIVISION_PLACES })
    }
}

fn power_of_ten(exponent: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent).unwrap_or(0))
}
