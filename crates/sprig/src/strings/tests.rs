use go_template::{List, Value};

use crate::test_call::check;

fn checks(function: &str, cases: &[(&[Value], &str)]) {
    for (args, expected) in cases {
        check(function, args, Ok(expected));
    }
}

fn int(v: i64) -> Value {
    Value::int(v)
}

#[test]
fn case_is_mapped_one_to_one_as_in_go() {
    checks("upper", &[(&["straße ŉ ᾳ".into()], "STRAßE ŉ ᾼ")]);
    checks("lower", &[(&["İÉ".into()], "ié")]);
    checks("title", &[(&["don't hello-world ǆ a_b".into()], "Don'T Hello-World ǅ A_b")]);
    checks("untitle", &[(&["Hello World".into()], "hello world")]);
    checks("swapcase", &[(&["aBc dEf".into()], "AbC DeF")]);
    checks("initials", &[(&["first  try é".into()], "ftÃ")]);
}

#[test]
fn words_split_as_in_xstrings() {
    let cases = [
        ("HTTPServer", "http_server"),
        ("http2xx", "http_2xx"),
        ("HTTP20xOK", "http_20x_ok"),
        ("Duration2m3s", "duration_2m3s"),
        ("Bld4Floor3rd", "bld4_floor_3rd"),
        ("GO PATH", "go_path"),
        ("__a", "__a"),
        ("a.b", "a.b"),
        ("", ""),
    ];
    for (text, expected) in cases {
        check("snakecase", &[text.into()], Ok(expected));
    }
    checks("kebabcase", &[(&["FirstName".into()], "first-name")]);
    let cases = [
        ("http_server", "HttpServer"),
        ("_complex__case_", "_Complex_Case_"),
        ("GOLANG_IS", "GolangIs"),
        ("__", "___"),
    ];
    for (text, expected) in cases {
        check("camelcase", &[text.into()], Ok(expected));
    }
}

#[test]
fn cutting_counts_bytes() {
    checks(
        "trunc",
        &[(&[int(2), "abc".into()], "ab"), (&[int(-2), "abc".into()], "bc"), (&[int(9), "abc".into()], "abc")],
    );
    checks("abbrev", &[(&[int(5), "hello world".into()], "he..."), (&[int(3), "hello".into()], "hello")]);
    checks("abbrevboth", &[(&[int(5), int(10), "1234 5678 9123".into()], "...5678...")]);
    checks("substr", &[(&[int(-1), int(2), "abc".into()], "ab"), (&[int(1), int(-1), "abc".into()], "bc")]);
    check("substr", &[int(3), int(1), "abcdef".into()], Err("runtime error: slice bounds out of range [3:1]"));
    check("substr", &[int(10), int(12), "abc".into()], Err("runtime error: slice bounds out of range [10:3]"));
    check(
        "substr",
        &[int(-1), int(9), "abc".into()],
        Err("runtime error: slice bounds out of range [:9] with length 3"),
    );
    checks("trimAll", &[(&["$ ".into(), " $5.00$ ".into()], "5.00"), (&["a".into(), "aaa".into()], "")]);
    checks("nospace", &[(&["é".into()], "é"), (&["é x".into()], "Ã©x")]);
}

#[test]
fn filling_repeats_indents_and_wraps() {
    checks("repeat", &[(&[int(3), "ab".into()], "ababab")]);
    check("repeat", &[int(-1), "a".into()], Err("strings: negative Repeat count"));
    let limit = "limit MAX_STRING_BYTES exceeded: repeat would make more than 16777216 bytes";
    check("repeat", &[int(1 << 40), "a".into()], Err(limit));
    checks("indent", &[(&[int(2), "a\n\nb".into()], "  a\n  \n  b")]);
    checks("nindent", &[(&[int(1), "a".into()], "\n a")]);
    checks(
        "replace",
        &[(&["".into(), "-".into(), "ab".into()], "-a-b-"), (&["a".into(), "".into(), "aba".into()], "b")],
    );
    checks(
        "wrap",
        &[(&[int(5), "hello big world".into()], "hello\nbig\nworld"), (&[int(2), "hello w".into()], "hello\nw")],
    );
    checks("wrapWith", &[(&[int(2), "-".into(), "hello".into()], "he-ll-o")]);
}

#[test]
fn splitting_returns_numbered_keys_or_a_list() {
    checks("split", &[(&[",".into(), "a,b".into()], "map[_0:a _1:b]"), (&["".into(), "".into()], "map[]")]);
    checks(
        "splitn",
        &[(&[",".into(), int(2), "a,b,c".into()], "map[_0:a _1:b,c]"), (&[",".into(), int(0), "a".into()], "map[]")],
    );
    checks("splitList", &[(&["".into(), "aé".into()], "[a é]")]);
    checks(
        "join",
        &[(&["-".into(), Value::list(vec![int(1), Value::Nil, "a".into()])], "1-a"), (&["-".into(), int(5)], "5")],
    );
    checks("sortAlpha", &[(&[Value::list(vec!["b".into(), int(1)])], "[1 b]"), (&[Value::Nil], "[<nil>]")]);
    checks("toStrings", &[(&[List::strings(["a"]).into()], "[a]"), (&[Value::Nil], "[]")]);
}

#[test]
fn quoting_skips_nil() {
    checks("quote", &[(&["a\"b".into(), Value::Nil, int(1)], "\"a\\\"b\" \"1\"")]);
    checks("squote", &[(&["a".into(), Value::Nil, int(1)], "'a' '1'")]);
    checks("cat", &[(&["a".into(), Value::Nil, int(1)], "a 1")]);
}
