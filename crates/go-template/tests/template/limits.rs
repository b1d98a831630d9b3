//! Exceeds every limit: the error names it, and nothing overflows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use go_template::{
    FuncError, FuncMap, Function, LimitError, Limits, List, ListType, MAX_BLOCK_DEPTH, MAX_COPIED_DEPTH,
    MAX_PAREN_DEPTH, Map, Options, Param, Rest, Scope, Str, Templates, Value, parse,
};
use golibs::work::{SlowTime, note_time, note_work};

fn functions() -> FuncMap {
    let mut funcs = FuncMap::default();
    funcs.add("list", |items: Rest<Value>| Value::list(items.0.into_vec()));
    funcs.add("set", |map: Map, key: Str, value: Value| {
        map.insert(key, value);
        map
    });
    funcs.add("map", |items: Rest<Value>| -> Map {
        items.0.into_vec().into_iter().enumerate().map(|(i, item)| (i.to_string(), item)).collect()
    });
    funcs.add("size", |text: Str| text.len() as i64);
    funcs.add("work", || {
        note_work(500);
        ""
    });
    for name in ["sleep", "nap"] {
        funcs.add(name, |seconds: isize| {
            note_time(SlowTime {
                processor: Duration::from_secs(seconds.unsigned_abs() as u64),
                ..SlowTime::default()
            });
            ""
        });
    }
    funcs.add("wait", || {
        note_time(SlowTime { elapsed: Duration::from_secs(60), ..SlowTime::default() });
        ""
    });
    funcs.add("copy", |value: Value| value.try_deep_copy().map_err(FuncError::from));
    funcs.insert(
        "include",
        Function::new(vec![Param::String, Param::Any], None, |scope, args| {
            Ok(Value::String(scope.execute(args[0].as_str().cloned().unwrap_or_default(), &args[1])?.into()))
        }),
    );
    funcs
}

fn render(template: &str, limits: Limits) -> Result<Vec<u8>, FuncError> {
    let parsed = parse("t", template, &functions())?;
    let mut templates = Templates::new("t");
    templates.add(&parsed);
    let options = Options { limits, ..Options::default() };
    Scope::new(Arc::new(templates), options).execute("t", &Value::Map(Map::default()))
}

fn check(template: &str, limits: Limits, expected: &str) {
    let error = render(template, limits).expect_err("the limit is hit");
    assert_eq!(error.limit().map(|limit: &LimitError| limit.name), Some(expected), "{error}");
}

#[test]
fn endless_work_stops_at_the_steps_limit() {
    check("{{range 9223372036854775807}}{{end}}", Limits::default(), "steps");
    let few = || Limits { steps: 100_000, ..Limits::default() };
    check("{{range 1000}}{{range 1000}}{{range 1000}}x{{end}}{{end}}{{end}}", few(), "steps");
    check("{{1}}{{2}}{{3}}", Limits { steps: 2, ..Limits::default() }, "steps");
}

#[test]
fn the_steps_error_says_what_used_them() {
    let limits = || Limits { steps: 1000, ..Limits::default() };
    let large = format!("{{{{$x := {:?}}}}}", "x".repeat(128_000));
    for (template, expected) in [
        ("{{range 1000}}x{{end}}", "loops and includes"),
        (&format!("{large}{{{{range 9}}}}{{{{size $x}}}}{{{{end}}}}"), "large strings and lists"),
        ("{{range 9}}{{work}}{{end}}", "merging, copying, parsing and searching"),
    ] {
        let error = render(template, limits()).expect_err("the limit is hit").to_string();
        let all = format!("limit steps exceeded: 1000 template steps, most of them for {expected}");
        assert!(error.contains(&all), "{error}");
    }
    assert!(render(&format!("{large}{{{{size $x}}}}"), Limits { steps: 1002, ..Limits::default() }).is_err());
    assert!(render(&format!("{large}{{{{size $x}}}}"), Limits { steps: 1004, ..Limits::default() }).is_ok());
}

#[test]
fn long_output_stops_at_the_output_limit() {
    let limits = |output| Limits { output, ..Limits::default() };
    for ten in ["0123456789", "{{print \"0123456789\"}}", "{{include \"ten\" .}}"] {
        let hundred = format!("{{{{define \"ten\"}}}}0123456789{{{{end}}}}{{{{range 100}}}}{ten}{{{{end}}}}");
        check(&hundred, limits(999), "output");
        assert_eq!(render(&hundred, limits(1010)).map(|output| output.len()).ok(), Some(1000), "{ten}");
    }
}

#[test]
fn output_that_the_host_keeps_counts_as_output() {
    let templates = Arc::new(Templates::default());
    let options = Options { limits: Limits { output: 10, ..Limits::default() }, ..Options::default() };
    let mut scope = Scope::new(Arc::clone(&templates), options.clone());
    assert!(scope.keep_output(6).and_then(|()| scope.keep_output(4)).is_ok());
    let spent = scope.take_spent();
    assert_eq!(scope.keep_output(10), Ok(()), "a run of its own");
    let mut next = Scope::new(templates, options);
    next.set_spent(spent);
    assert_eq!(next.keep_output(1).expect_err("the limit is hit").name, "output");
}

#[test]
fn discarded_text_counts_neither_as_output_nor_as_memory() {
    let limits = || Limits { output: 20, memory: 4000, ..Limits::default() };
    for call in ["print \"0123456789\"", "list 1 2 3", "map 1 2 3", "include \"ten\" ."] {
        let template =
            format!("{{{{define \"ten\"}}}}0123456789{{{{end}}}}{{{{range 1000}}}}{{{{$x := {call}}}}}{{{{end}}}}");
        assert_eq!(render(&template, limits()).map_err(|e| e.to_string()), Ok(Vec::new()), "{call}");
    }
}

#[test]
fn held_results_of_functions_stop_at_the_memory_limit() {
    let limits = || Limits { memory: 100_000, ..Limits::default() };
    for call in ["print \"0123456789\"", "list 1 2 3", "map 1 2 3", "list (map 1) (print \"a\")"] {
        let keep = |times: usize| {
            format!(
                "{{{{$all := map}}}}{{{{range $i := {times}}}}}{{{{$_ := set $all (print $i) ({call})}}}}{{{{end}}}}"
            )
        };
        check(&keep(2000), limits(), "memory");
        assert!(render(&keep(50), limits()).is_ok(), "{call}");
        // The map holds only the last value; the others have been freed.
        let again = keep(2000).replace("(print $i)", "\"key\"");
        assert!(render(&again, limits()).is_ok(), "{call}");
    }
    check(
        "{{range 2000}}{{print \"0123456789\"}}{{$x := list 1}}{{end}}",
        Limits { memory: 9999, ..limits() },
        "memory",
    );
}

#[test]
fn the_memory_error_names_what_holds_it() {
    let template = "{{$all := map}}{{range $i := 99}}{{$_ := set $all (print $i) (print \"0123456789\" $i)}}{{end}}";
    let error = render(&format!("0123456789{template}"), Limits { memory: 5000, ..Limits::default() });
    let error = error.expect_err("the limit is hit").limit().map(LimitError::to_string).unwrap_or_default();
    let (start, end) =
        ("limit memory exceeded: 5000 bytes at once: 10 bytes of output, ", "of values, the largest a string of ");
    assert!(error.starts_with(start) && error.contains(end), "{error}");
}

#[test]
fn a_long_string_stops_at_the_text_limit() {
    let limits = Limits::default;
    check("{{$x := \"0123456789\"}}{{range 100}}{{$x = print $x $x}}{{end}}", limits(), "text");
    let doubled = "{{$x := list \"0123456789abcdef\"}}{{range 21}}{{$x = list $x $x}}{{end}}";
    check(&format!("{doubled}{{{{$x}}}}"), limits(), "text");
}

#[test]
fn slow_functions_stop_at_the_function_time_limit() {
    let limits = || Limits { function_time: Duration::from_secs(30), ..Limits::default() };
    assert!(render("{{range 3}}{{sleep 9}}{{end}}{{nap 3}}", limits()).is_ok());
    let error = render("{{range 3}}{{sleep 9}}{{end}}{{nap 4}}", limits()).expect_err("the limit is hit");
    let expected = "limit function time exceeded: 30s of processor time in slow functions, most of it in sleep; \
                    call it less often: every include of a template that calls it calls it again";
    assert_eq!(error.limit().map(LimitError::to_string).as_deref(), Some(expected));
    check("{{sleep 1}}", Limits { deadline: Some(Instant::now()), ..limits() }, "deadline");
    check("{{sleep 31}}", limits(), "function time");
}

#[test]
fn the_time_of_slow_functions_extends_the_deadline() {
    let limits = || Limits { deadline: Some(Instant::now()), ..Limits::default() };
    check("{{range 9999}}{{end}}{{wait}}", limits(), "deadline");
    assert!(render("{{wait}}{{range 9999}}{{end}}", limits()).is_ok());
    let long_ago = Limits { deadline: Instant::now().checked_sub(Duration::from_secs(90)), ..limits() };
    check("{{wait}}{{range 9999}}{{end}}", long_ago.clone(), "deadline");
    assert!(render("{{wait}}{{wait}}{{range 9999}}{{end}}", long_ago).is_err(), "it had passed at the first");
}

#[test]
fn a_run_stops_at_its_deadline() {
    check("{{range 9999}}{{end}}", Limits { deadline: Some(Instant::now()), ..Limits::default() }, "deadline");
}

#[test]
fn a_function_that_executes_its_own_template_stops_at_the_executions_limit() {
    check("{{define \"a\"}}{{include \"a\" .}}{{end}}{{include \"a\" .}}", Limits::default(), "executions");
    let shown = render("{{define \"a\"}}{{include \"a\" .}}{{end}}{{include \"a\" .}}", Limits::default())
        .map_err(|e| e.to_string());
    assert_eq!(shown.map_err(|e| e.ends_with("limit executions exceeded: 5000 nested executions")), Err(true));
    check(
        "{{define \"a\"}}{{if 1}}{{print (include \"a\" .)}}{{end}}{{end}}{{include \"a\" .}}",
        Limits::default(),
        "executions",
    );
}

#[test]
fn a_template_that_calls_itself_fails_with_go_s_error() {
    let error = render("{{define \"a\"}}{{template \"a\" .}}{{end}}{{template \"a\" .}}", Limits::default());
    let expected =
        "template: t:1:25: executing \"a\" at <{{template \"a\" .}}>: exceeded maximum template depth (100000)";
    assert_eq!(error.map_err(|e| e.to_string()), Err(expected.to_owned()));
}

#[test]
fn parentheses_nest_exactly_as_deep_as_in_go() {
    let nested = |n| format!("{{{{{}1{}}}}}", "(".repeat(n), ")".repeat(n));
    assert_eq!(render(&nested(MAX_PAREN_DEPTH), Limits::default()).ok(), Some(b"1".to_vec()));
    let error = render(&nested(MAX_PAREN_DEPTH + 1), Limits::default()).map_err(|e| e.to_string());
    assert_eq!(error, Err("template: t:1: max expression depth exceeded".to_owned()));
}

#[test]
fn an_error_shows_a_deep_expression() {
    let n = MAX_PAREN_DEPTH - 1;
    let error = render(&format!("{{{{1 | len {}1{}}}}}", "(".repeat(n), ")".repeat(n)), Limits::default());
    assert_eq!(error.map_err(|e| e.to_string().contains("wrong number of args for len: want 1 got 2")), Err(true));
}

#[test]
fn blocks_nest_up_to_the_limit() {
    let nested = |n| format!("{}x{}", "{{if 1}}".repeat(n), "{{end}}".repeat(n));
    assert_eq!(render(&nested(MAX_BLOCK_DEPTH), Limits::default()).ok(), Some(b"x".to_vec()));
    let chain = |n| format!("{{{{if 0}}}}{}{{{{else}}}}x{{{{end}}}}", "{{else if 0}}".repeat(n));
    assert_eq!(render(&chain(MAX_BLOCK_DEPTH - 1), Limits::default()).ok(), Some(b"x".to_vec()));
    for text in [nested(MAX_BLOCK_DEPTH + 1), chain(MAX_BLOCK_DEPTH)] {
        let error = render(&text, Limits::default()).map_err(|e| e.to_string());
        assert_eq!(error, Err("template: t:1: max block depth exceeded".to_owned()));
    }
}

#[test]
fn building_printing_and_dropping_deep_values_does_not_overflow() {
    let deep = "{{$x := list .}}{{range 200000}}{{$x = list $x}}{{end}}";
    assert_eq!(render(&format!("{deep}{{{{len $x}}}}"), Limits::default()).ok(), Some(b"1".to_vec()));
    assert!(render(&format!("{deep}{{{{print $x | len}}}}"), Limits::default()).is_ok());
    check(&format!("{deep}{{{{copy $x}}}}"), Limits::default(), "copied depth");
    let maps = "{{$x := .}}{{range 100000}}{{$x = set (index (list (copy $)) 0) \"a\" $x}}{{end}}{{len $x}}";
    assert_eq!(render(maps, Limits::default()).ok(), Some(b"1".to_vec()));
}

#[test]
fn a_map_that_contains_itself_prints_and_cannot_be_copied() {
    assert!(render("{{$_ := set . \"self\" .}}{{print . | len}}", Limits::default()).is_ok());
    check("{{$_ := set . \"self\" .}}{{copy .}}", Limits::default(), "copied depth");
    check("{{$_ := set . \"a\" .}}{{$_ := set . \"b\" .}}{{copy .}}", Limits::default(), "copied depth");
}

#[test]
fn copying_one_map_under_many_paths_stops_at_the_limit() {
    let mut value = Value::Map(Map::default());
    for _ in 0..60 {
        value = Value::List(List::new(ListType::Interface, vec![value.clone(), value]));
    }
    assert_eq!(value.try_deep_copy().map_err(|limit| limit.name).err(), Some("copied values"));
    assert_eq!(MAX_COPIED_DEPTH, 10_000);
}
