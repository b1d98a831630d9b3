use super::*;
use crate::value::{Map, Str};
use golibs::strconv::{format_float, json_float};

fn check(format: &str, args: &[Value], expected: &str) {
    let text = sprintf(format.as_bytes(), args);
    assert_eq!(String::from_utf8_lossy(&text), expected, "{format}");
}

fn checks(cases: &[(&str, Value, &str)]) {
    for (format, arg, expected) in cases {
        check(format, std::slice::from_ref(arg), expected);
    }
}

fn int(v: i64) -> Value {
    Value::int(v)
}

fn mixed() -> Value {
    Value::list(vec![int(1), Value::from("b c"), Value::Nil])
}

fn dict() -> Value {
    [("k", Value::from("v")), ("a", Value::Float(2.5))].into_iter().collect::<Map>().into()
}

fn bytes() -> Value {
    Value::Bytes("hi".into())
}

#[test]
fn v_prints_every_kind_like_go() {
    checks(&[
        ("%v", int(-5), "-5"),
        ("%v", Value::Float(1_000_000.0), "1e+06"),
        ("%v", Value::Float(999_999.5), "999999.5"),
        ("%v", Value::Complex(0.0, 1.0), "(0+1i)"),
        ("%v", Value::Nil, "<nil>"),
        ("%v", mixed(), "[1 b c <nil>]"),
        ("%v", dict(), "map[a:2.5 k:v]"),
        ("%v", bytes(), "[104 105]"),
        ("%+v", mixed(), "[1 b c <nil>]"),
    ]);
}

#[test]
fn sharp_v_prints_go_syntax() {
    checks(&[
        ("%#v", Value::from("q\"x"), "\"q\\\"x\""),
        ("%#v", mixed(), "[]interface {}{1, \"b c\", interface {}(nil)}"),
        ("%#v", dict(), "map[string]interface {}{\"a\":2.5, \"k\":\"v\"}"),
        ("%#v", Value::Float(1e6), "1e+06"),
        ("%#v", Value::Nil, "<nil>"),
        ("%#v", bytes(), "[]byte{0x68, 0x69}"),
        ("%#w", bytes(), "[]uint8{%!w(uint8=0x68), %!w(uint8=0x69)}"),
    ]);
}

#[test]
fn a_wrong_verb_prints_the_type_and_value() {
    checks(&[
        ("%d", Value::Float(2.5), "%!d(float64=2.5)"),
        ("%s", mixed(), "[%!s(int=1) b c <nil>]"),
        ("%d", dict(), "map[%!d(string=a):%!d(float64=2.5) %!d(string=k):%!d(string=v)]"),
        ("%d", Value::Nil, "%!d(<nil>)"),
        ("%p", Value::Float(1e6), "%!p(float64=1e+06)"),
        ("%f", bytes(), "[%!f(uint8=104) %!f(uint8=105)]"),
        ("%w", mixed(), "%!w([]interface {}=[1 b c <nil>])"),
        ("%w", bytes(), "[%!w(uint8=104) %!w(uint8=105)]"),
        ("%z", int(1), "%!z(int=1)"),
    ]);
}

#[test]
fn integers_take_bases_signs_and_zeros() {
    checks(&[
        ("[%05d]", int(-42), "[-0042]"),
        ("[%-5d]", int(42), "[42   ]"),
        ("[%+d]", int(42), "[+42]"),
        ("[% x]", int(255), "[ ff]"),
        ("%#08x", int(255), "0x000000ff"),
        ("%#o", int(255), "0377"),
        ("%O", int(255), "0o377"),
        ("%b", int(-5), "-101"),
        ("%c", int(128_512), "😀"),
        ("%q", int(-5), "'\u{fffd}'"),
        ("%+q", int(233), "'\\u00e9'"),
        ("%#U", int(9731), "U+2603 '☃'"),
    ]);
}

#[test]
fn floats_take_precision_and_the_sharp_flag() {
    checks(&[
        ("%.0f", Value::Float(2.5), "2"),
        ("%08.2f", Value::Float(7.239_61), "00007.24"),
        ("%.3g", Value::Float(1_234_567.0), "1.23e+06"),
        ("%G", Value::Float(1e-7), "1E-07"),
        ("%x", Value::Float(2.5), "0x1.4p+01"),
        ("%X", Value::Float(1e6), "0X1.E848P+19"),
        ("%b", Value::Float(2.5), "5629499534213120p-51"),
        ("%#g", Value::Float(1.0), "1.00000"),
        ("%#.0f", Value::Float(1.0), "1."),
        ("%+08.1f", Value::Float(f64::INFINITY), "    +Inf"),
        ("%v", Value::Float(f64::NAN), "NaN"),
        ("%v", Value::Float(-0.0), "-0"),
    ]);
}

#[test]
fn precision_and_width_of_strings_count_characters() {
    checks(&[
        ("[%10s]", Value::from("héllo"), "[     héllo]"),
        ("[%.3s]", Value::from("héllo"), "[hél]"),
        ("[%05s]", Value::from("ab"), "[000ab]"),
        ("[%#q]", Value::from("a b"), "[`a b`]"),
        ("[%+q]", Value::from("é✓"), "[\"\\u00e9\\u2713\"]"),
        ("[% #x]", Value::from("ab"), "[0x61 0x62]"),
        ("[%q]", Value::String(Str::from(&b"\xff\x00\n\xc2\xad"[..])), "[\"\\xff\\x00\\n\\u00ad\"]"),
    ]);
}

#[test]
fn errors_in_the_format_appear_in_the_text() {
    check("%!", &[], "%!!(MISSING)");
    check("abc%", &[int(1)], "abc%!(NOVERB)%!(EXTRA int=1)");
    check("%d %d", &[int(1)], "1 %!d(MISSING)");
    check("a", &["b".into(), Value::Nil], "a%!(EXTRA string=b, <nil>)");
    check("%[3]d", &[int(1)], "%!d(BADINDEX)");
    check("%[x]d", &[int(1)], "%!d(BADINDEX)");
    check("%*d", &["x".into(), int(1)], "%!(BADWIDTH)1");
    check("%.*d", &[int(-1), int(1)], "%!(BADPREC)1");
    check("%*d", &[int(1_000_001), int(1)], "%!(BADWIDTH)1");
    check("%100000000d", &[int(1)], "%!(NOVERB)%!(EXTRA int=1)");
}

#[test]
fn indexes_and_stars_select_arguments() {
    check("%[2]s-%[1]s", &["a".into(), "b".into()], "b-a");
    check("%-*d|", &[int(5), int(42)], "42   |");
    check("%*d|", &[int(-5), int(42)], "42   |");
    check("%.*f", &[int(2), Value::Float(7.239_61)], "7.24");
    check("%[1]d %[1]x", &[int(255)], "255 ff");
}

#[test]
fn sprint_puts_spaces_between_operands_that_are_not_strings() {
    let args = ["a".into(), int(1), int(2), "b".into(), Value::Nil, Value::Nil];
    assert_eq!(sprint(&args), b"a1 2b<nil> <nil>");
    assert_eq!(sprintln(&["a".into(), int(1)]), b"a 1\n");
    assert_eq!(sprintln(&[]), b"\n");
}

#[test]
fn printing_a_map_that_contains_itself_stops_at_the_depth_limit() {
    let map = Map::default();
    map.insert("self", Value::Map(map.clone()));
    let text = sprint(&[Value::Map(map.clone())]);
    assert!(String::from_utf8_lossy(&text).contains("%!(DEPTH)"));
    map.insert("self", Value::Nil);
}

#[test]
fn floats_print_like_go() {
    for case in shared_cases::lines("vectors/float.jsonl") {
        let field = |name: &str| case[name].as_str().unwrap_or_default().to_owned();
        let value: f64 = field("float").parse().expect("a number");
        assert_eq!(String::from_utf8_lossy(&sprint(&[Value::Float(value)])), field("print"));
        assert_eq!(json_float(value).unwrap_or_default(), field("json"));
        assert_eq!(format_float(value, b'f', None), field("fixed"));
    }
}
