//! Arithmetic, conversions and sequences of numbers. Counterpart: Sprig's `numeric.go`.

mod decimal;
mod sequence;
#[cfg(test)]
mod tests;

use go_template::{FuncError, FuncMap, Rest, Str, Value, fmt};

use golibs::math::ldexp;
use golibs::strconv::{parse_int, parse_int_or_nearest};

use super::cast::{to_float64, to_int64};

pub(super) fn register(map: &mut FuncMap) {
    conversions(map);
    integers(map);
    floats(map);
    decimal::register(map);
    sequence::register(map);
}

fn conversions(map: &mut FuncMap) {
    map.add("atoi", |s: Str| parse_int_or_nearest(&s, 10) as isize)
        .add("int64", |v: Value| to_int64(&v))
        .add("int", |v: Value| to_int64(&v) as isize)
        .add("float64", |v: Value| to_float64(&v))
        .add("toDecimal", |v: Value| parse_int(&fmt::sprint(&[v]), 8).unwrap_or(0));
}

fn integers(map: &mut FuncMap) {
    map.add("add", |Rest(values): Rest<Value>| values.iter().map(to_int64).fold(0, i64::wrapping_add))
        .add("add1", |v: Value| to_int64(&v).wrapping_add(1))
        .add("sub", |a: Value, b: Value| to_int64(&a).wrapping_sub(to_int64(&b)))
        .add("mul", |a: Value, Rest(values): Rest<Value>| {
            values.iter().map(to_int64).fold(to_int64(&a), i64::wrapping_mul)
        })
        .add("div", |a: Value, b: Value| Ok::<_, FuncError>(to_int64(&a).wrapping_div(divisor(&b)?)))
        .add("mod", |a: Value, b: Value| Ok::<_, FuncError>(to_int64(&a).wrapping_rem(divisor(&b)?)))
        .add("min", |a: Value, Rest(values): Rest<Value>| values.iter().map(to_int64).fold(to_int64(&a), i64::min));
    for name in ["max", "biggest"] {
        map.add(name, |a: Value, Rest(values): Rest<Value>| values.iter().map(to_int64).fold(to_int64(&a), i64::max));
    }
}

fn divisor(value: &Value) -> Result<i64, FuncError> {
    match to_int64(value) {
        0 => Err(FuncError::new("runtime error: integer divide by zero")),
        divisor => Ok(divisor),
    }
}

fn floats(map: &mut FuncMap) {
    map.add("maxf", |a: Value, Rest(values): Rest<Value>| values.iter().map(to_float64).fold(to_float64(&a), max))
        .add("minf", |a: Value, Rest(values): Rest<Value>| {
            values.iter().map(to_float64).fold(to_float64(&a), |a, b| -max(-a, -b))
        })
        .add("ceil", |v: Value| to_float64(&v).ceil())
        .add("floor", |v: Value| to_float64(&v).floor())
        .add("round", round);
}

/// Returns the greater number. Infinity beats NaN, which beats everything else; 0 is greater than -0. Counterpart: `math.Max`.
fn max(a: f64, b: f64) -> f64 {
    if a == f64::INFINITY || b == f64::INFINITY {
        f64::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == 0.0 && b == 0.0 {
        if a.is_sign_negative() { b } else { a }
    } else {
        a.max(b)
    }
}

/// Rounds up if the fraction is at least `on` (0.5 by default), else down. As in Sprig, negative numbers always round down.
fn round(value: Value, places: isize, Rest(on): Rest<f64>) -> f64 {
    let on = on.first().copied().unwrap_or(0.5);
    let power = power_of_ten(places);
    let digit = power * to_float64(&value);
    let rounded = if digit.fract() >= on { digit.ceil() } else { digit.floor() };
    rounded / power
}

/// Returns `10^n`. Counterpart: `math.Pow(10, n)`, whose last bit differs from that of other libraries.
fn power_of_ten(n: isize) -> f64 {
    if n == 1 {
        return 10.0;
    }
    // 10 is 0.625 × 2^4.
    let (mut base, mut base_exponent) = (0.625f64, 4i32);
    let (mut result, mut exponent) = (1.0f64, 0i32);
    let mut left = n.unsigned_abs();
    while left != 0 {
        if base_exponent > 1 << 12 {
            exponent += base_exponent;
            break;
        }
        if left & 1 == 1 {
            result *= base;
            exponent += base_exponent;
        }
        base *= base;
        base_exponent <<= 1;
        if base < 0.5 {
            base += base;
            base_exponent -= 1;
        }
        left >>= 1;
    }
    if n < 0 { ldexp(1.0 / result, -exponent) } else { ldexp(result, exponent) }
}
