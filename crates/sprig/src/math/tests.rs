use go_template::Value;

use crate::test_call::check;

fn int(v: i64) -> Value {
    Value::int(v)
}

fn float(v: f64) -> Value {
    Value::Float(v)
}

#[test]
fn integers_parse_as_in_cast() {
    let cases = [
        (float(-5.9), "-5"),
        (float(1e19), "-9223372036854775808"),
        (float(f64::NAN), "-9223372036854775808"),
        ("010".into(), "8"),
        ("08".into(), "0"),
        ("0x1F".into(), "31"),
        ("1_000".into(), "1000"),
        ("1__0".into(), "0"),
        ("1.0".into(), "1"),
        ("1.".into(), "0"),
        ("100".into(), "100"),
        ("+5".into(), "5"),
        ("".into(), "0"),
        ("9223372036854775808".into(), "0"),
        ("-9223372036854775808".into(), "-9223372036854775808"),
        (Value::Bool(true), "1"),
        (Value::list(vec![int(1)]), "0"),
    ];
    for (value, expected) in cases {
        check("int64", &[value], Ok(expected));
    }
    check("atoi", &["9223372036854775808".into()], Ok("9223372036854775807"));
    // Go reports the overflow before it reads the letter.
    check("atoi", &["99999999999999999999x".into()], Ok("9223372036854775807"));
    check("toDecimal", &[int(777)], Ok("511"));
}

#[test]
fn floats_parse_as_in_go() {
    let cases = [
        ("1.", "1"),
        (".5", "0.5"),
        ("-0", "-0"),
        ("Infinity", "+Inf"),
        ("-inf", "-Inf"),
        ("nan", "NaN"),
        ("+nan", "0"),
        ("1e400", "0"),
        ("0x1p4", "16"),
        ("0x1F", "0"),
        ("0x1.8p-1", "0.75"),
        ("1_000", "1000"),
        ("1_.5", "0"),
        ("--1", "0"),
        (".", "0"),
    ];
    for (text, expected) in cases {
        check("float64", &[text.into()], Ok(expected));
    }
}

#[test]
fn integer_arithmetic_wraps_and_refuses_zero() {
    check("add", &[int(1), "2".into(), float(3.9)], Ok("6"));
    check("add1", &[int(i64::MAX)], Ok("-9223372036854775808"));
    check("div", &[int(i64::MIN), int(-1)], Ok("-9223372036854775808"));
    check("mod", &[int(-5), int(3)], Ok("-2"));
    check("div", &[int(1), int(0)], Err("runtime error: integer divide by zero"));
    check("biggest", &[int(1), int(3), int(2)], Ok("3"));
    check("min", &[int(1), int(3), int(-2)], Ok("-2"));
}

#[test]
fn decimal_arithmetic_is_exact() {
    check("addf", &[float(0.1), float(0.2)], Ok("0.3"));
    check("subf", &[float(7.5), int(2), int(3)], Ok("2.5"));
    check("mulf", &[float(1.1), int(3)], Ok("3.3"));
    check("divf", &[int(10), int(3)], Ok("3.3333333333333335"));
    check("divf", &[int(-2), int(3)], Ok("-0.6666666666666667"));
    check("divf", &[int(1), int(0)], Err("decimal division by 0"));
    check("addf", &[float(f64::INFINITY)], Err("Cannot create a Decimal from +Inf"));
    check("add1f", &[float(-1.0)], Ok("0"));
}

#[test]
fn rounding_goes_up_from_a_half_or_a_given_fraction() {
    check("round", &[float(2.5), int(0)], Ok("3"));
    check("round", &[float(-1.5), int(0)], Ok("-2"));
    check("round", &[float(123.5555), int(3), float(0.6)], Ok("123.555"));
    check("round", &[float(1234.5678), int(-2)], Ok("1200"));
    check("round", &[float(2.675), int(2)], Ok("2.68"));
    check("maxf", &[float(f64::NAN), float(1.0)], Ok("NaN"));
    check("minf", &[float(0.5), int(2)], Ok("0.5"));
}

#[test]
fn sequences_exclude_their_end_and_stop_at_the_limit() {
    check("until", &[int(-2)], Ok("[0 -1]"));
    check("untilStep", &[int(0), int(5), int(2)], Ok("[0 2 4]"));
    check("untilStep", &[int(0), int(5), int(-1)], Ok("[]"));
    check("untilStep", &[int(0), int(5), int(0)], Ok("[]"));
    check("until", &[int(1 << 40)], Err("limit MAX_LIST_ITEMS exceeded: until would make more than 1000000 items"));
    check("seq", &[int(0)], Ok("1 0"));
    check("seq", &[int(2), int(2)], Ok("2"));
    check("seq", &[int(10), int(-3), int(0)], Ok("10 7 4 1"));
    check("seq", &[int(5), int(1), int(0)], Ok(""));
    check("seq", &[], Ok(""));
}
