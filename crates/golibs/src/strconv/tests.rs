//! Compares with Go 1.26's answers.

use super::NumError::{Range, Syntax};
use super::*;

#[test]
fn integers_parse_as_in_go() {
    #[rustfmt::skip]
    let cases: &[(&str, u32, Result<i64, NumError>)] = &[
        ("", 0, Err(Syntax)),
        ("0", 0, Ok(0)),
        ("-0", 0, Ok(0)),
        ("+7", 0, Ok(7)),
        ("--7", 0, Err(Syntax)),
        ("0x", 0, Err(Syntax)),
        ("0x_1f", 0, Ok(31)),
        ("0X1F", 0, Ok(31)),
        ("0b101", 0, Ok(5)),
        ("0o17", 0, Ok(15)),
        ("017", 0, Ok(15)),
        ("08", 0, Err(Syntax)),
        ("0_7", 0, Ok(7)),
        ("1_000", 0, Ok(1000)),
        ("1__0", 0, Err(Syntax)),
        ("_1", 0, Err(Syntax)),
        ("1_", 0, Err(Syntax)),
        ("0x1_", 0, Err(Syntax)),
        ("-0x8000000000000000", 0, Ok(-9223372036854775808)),
        ("9223372036854775807", 0, Ok(9223372036854775807)),
        ("9223372036854775808", 0, Err(Range)),
        ("-9223372036854775808", 0, Ok(-9223372036854775808)),
        ("-9223372036854775809", 0, Err(Range)),
        ("99999999999999999999x", 0, Err(Range)),
        ("1e3", 0, Err(Syntax)),
        (" 1", 0, Err(Syntax)),
        ("0b", 0, Err(Syntax)),
        ("0_", 0, Err(Syntax)),
        ("0b2", 0, Err(Syntax)),
        ("é", 0, Err(Syntax)),
        ("", 10, Err(Syntax)),
        ("0", 10, Ok(0)),
        ("-0", 10, Ok(0)),
        ("+7", 10, Ok(7)),
        ("--7", 10, Err(Syntax)),
        ("0x", 10, Err(Syntax)),
        ("0x_1f", 10, Err(Syntax)),
        ("0X1F", 10, Err(Syntax)),
        ("0b101", 10, Err(Syntax)),
        ("0o17", 10, Err(Syntax)),
        ("017", 10, Ok(17)),
        ("08", 10, Ok(8)),
        ("0_7", 10, Err(Syntax)),
        ("1_000", 10, Err(Syntax)),
        ("1__0", 10, Err(Syntax)),
        ("_1", 10, Err(Syntax)),
        ("1_", 10, Err(Syntax)),
        ("0x1_", 10, Err(Syntax)),
        ("-0x8000000000000000", 10, Err(Syntax)),
        ("9223372036854775807", 10, Ok(9223372036854775807)),
        ("9223372036854775808", 10, Err(Range)),
        ("-9223372036854775808", 10, Ok(-9223372036854775808)),
        ("-9223372036854775809", 10, Err(Range)),
        ("99999999999999999999x", 10, Err(Range)),
        ("1e3", 10, Err(Syntax)),
        (" 1", 10, Err(Syntax)),
        ("0b", 10, Err(Syntax)),
        ("0_", 10, Err(Syntax)),
        ("0b2", 10, Err(Syntax)),
        ("é", 10, Err(Syntax)),
        ("", 8, Err(Syntax)),
        ("0", 8, Ok(0)),
        ("-0", 8, Ok(0)),
        ("+7", 8, Ok(7)),
        ("--7", 8, Err(Syntax)),
        ("0x", 8, Err(Syntax)),
        ("0x_1f", 8, Err(Syntax)),
        ("0X1F", 8, Err(Syntax)),
        ("0b101", 8, Err(Syntax)),
        ("0o17", 8, Err(Syntax)),
        ("017", 8, Ok(15)),
        ("08", 8, Err(Syntax)),
        ("0_7", 8, Err(Syntax)),
        ("1_000", 8, Err(Syntax)),
        ("1__0", 8, Err(Syntax)),
        ("_1", 8, Err(Syntax)),
        ("1_", 8, Err(Syntax)),
        ("0x1_", 8, Err(Syntax)),
        ("-0x8000000000000000", 8, Err(Syntax)),
        ("9223372036854775807", 8, Err(Syntax)),
        ("9223372036854775808", 8, Err(Syntax)),
        ("-9223372036854775808", 8, Err(Syntax)),
        ("-9223372036854775809", 8, Err(Syntax)),
        ("99999999999999999999x", 8, Err(Syntax)),
        ("1e3", 8, Err(Syntax)),
        (" 1", 8, Err(Syntax)),
        ("0b", 8, Err(Syntax)),
        ("0_", 8, Err(Syntax)),
        ("0b2", 8, Err(Syntax)),
        ("é", 8, Err(Syntax)),
    ];
    for (text, base, expected) in cases {
        assert_eq!(parse_int(text.as_bytes(), *base), *expected, "{text:?} in base {base}");
    }
}

#[test]
fn unsigned_integers_take_no_sign() {
    assert_eq!(parse_uint(b"18446744073709551615", 10), Ok(u64::MAX));
    assert_eq!(parse_uint(b"18446744073709551616", 10), Err(Range));
    assert_eq!(parse_uint(b"+1", 0), Err(Syntax));
    assert_eq!(parse_uint(b"-1", 0), Err(Syntax));
}

/// Compares numbers by their bits.
#[test]
fn floats_parse_as_in_go() {
    #[rustfmt::skip]
    let cases: &[(&str, Result<u64, NumError>)] = &[
        ("", Err(Syntax)),
        (".", Err(Syntax)),
        ("1.", Ok(0x3ff0000000000000)),
        (".5", Ok(0x3fe0000000000000)),
        ("-.5e-3", Ok(0xbf40624dd2f1a9fc)),
        ("1e", Err(Syntax)),
        ("1e+", Err(Syntax)),
        ("1_000.5", Ok(0x408f440000000000)),
        ("1_e5", Err(Syntax)),
        ("1e1_0", Ok(0x4202a05f20000000)),
        ("0x1p-2", Ok(0x3fd0000000000000)),
        ("0x1", Err(Syntax)),
        ("0x.8p0", Ok(0x3fe0000000000000)),
        ("0x1.8P+3", Ok(0x4028000000000000)),
        ("0x_1p0", Ok(0x3ff0000000000000)),
        ("0x1_p0", Err(Syntax)),
        ("0x1p-1074", Ok(0x0000000000000001)),
        ("0x1p-1075", Ok(0x0000000000000000)),
        ("0x1.8p-1074", Ok(0x0000000000000002)),
        ("0x1.8p-1075", Ok(0x0000000000000001)),
        ("0x1.00000000000000001p-1075", Ok(0x0000000000000001)),
        ("0x1p1024", Err(Range)),
        ("0x1.fffffffffffff8p1023", Err(Range)),
        ("0x1.fffffffffffff7p1023", Ok(0x7fefffffffffffff)),
        ("0x1.00000000000008p0", Ok(0x3ff0000000000000)),
        ("0x1.00000000000018p0", Ok(0x3ff0000000000002)),
        ("0x1.0000000000000800000000001p0", Ok(0x3ff0000000000001)),
        ("0x3.0000000000000cp-1074", Ok(0x0000000000000003)),
        ("0x0p99999999999999999999", Ok(0x0000000000000000)),
        ("0x1p99999999999999999999", Err(Range)),
        ("0x1p-99999999999999999999", Ok(0x0000000000000000)),
        ("inf", Ok(0x7ff0000000000000)),
        ("-Infinity", Ok(0xfff0000000000000)),
        ("+INF", Ok(0x7ff0000000000000)),
        ("infi", Err(Syntax)),
        ("1e309", Err(Range)),
        ("-1e309", Err(Range)),
        ("1e-400", Ok(0x0000000000000000)),
        ("1e99999999999999999999", Err(Range)),
        ("0b1p0", Err(Syntax)),
        ("++1", Err(Syntax)),
        ("1.5x", Err(Syntax)),
        ("1.2.3", Err(Syntax)),
        ("4.9406564584124654e-324", Ok(0x0000000000000001)),
        ("2.2250738585072011e-308", Ok(0x000fffffffffffff)),
        ("é", Err(Syntax)),
    ];
    for (text, expected) in cases {
        assert_eq!(parse_float(text.as_bytes()).map(f64::to_bits), *expected, "{text:?}");
    }
    assert!(parse_float(b"NaN").unwrap().is_nan());
    assert_eq!(parse_float(b"-nan"), Err(Syntax));
}

#[test]
fn quoting_and_unquoting_are_inverse() {
    for text in [&b"plain"[..], b"\"\\\n\x00\x7f", "é\u{ad}\u{e0001}世".as_bytes(), b"\xff\xc3", b""] {
        assert_eq!(unquote(quote(text).as_bytes()).as_deref(), Some(text), "{}", quote(text));
    }
}

#[test]
fn only_the_literals_own_quote_may_be_escaped() {
    assert_eq!(unquote_char(br"\'x", b'\''), Some((Unquoted::Byte(b'\''), &b"x"[..])));
    assert_eq!(unquote_char(br"\'x", b'"'), None);
    assert_eq!(unquote_char(br"\ud800", b'"'), None);
    assert_eq!(unquote_char(br"\400", b'"'), None);
}
