//! Each limit is hit here: the error names it, and nothing overflows.

use std::sync::Arc;
use std::time::Instant;

use go_template::{
    FuncError, FuncMap, Function, LimitError, Limits, List, ListType, MAX_BLOCK_DEPTH, MAX_COPIED_DEPTH,
    MAX_PAREN_DEPTH, Map, Options, Param, Rest, Scope, Str, Templates, Value, parse,
};

fn functions() -> FuncMap {
    let mut funcs = FuncMap::default();
    funcs.add("list", |items: Rest<Value>| Value::list(items.0.into_vec()));
    funcs.add("set", |map: Map, key: Str, value: Value| {
        map.insert(key, value);
        map
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
fn endless_work_ends_with_the_limit_of_steps() {
    check("{{range 9223372036854775807}}{{end}}", Limits::default(), "steps");
    let few = || Limits { steps: 100_000, ..Limits::default() };
    check("{{range 1000}}{{range 1000}}{{range 1000}}x{{end}}{{end}}{{end}}", few(), "steps");
    check("{{1}}{{2}}{{3}}", Limits { steps: 2, ..Limits::default() }, "steps");
}

#[test]
fn a_long_output_ends_with_the_limit_of_output() {
    check("{{range 100}}0123456789{{end}}", Limits { output: 999, ..Limits::default() }, "output");
    check("{{range 100}}{{print \"0123456789\"}}{{end}}", Limits { output: 999, ..Limits::default() }, "output");
}

#[test]
fn what_functions_give_counts_as_output() {
    check("{{range 100}}{{$x := print \"0123456789\"}}{{end}}", Limits { output: 999, ..Limits::default() }, "output");
    check("{{range 100}}{{$x := list 1 2}}{{end}}", Limits { output: 999, ..Limits::default() }, "output");
    check("{{$x := \"0123456789\"}}{{range 100}}{{$x = print $x $x}}{{end}}", Limits::default(), "output");
}

#[test]
fn a_deadline_that_has_passed_ends_the_run() {
    check("{{range 9999}}{{end}}", Limits { deadline: Some(Instant::now()), ..Limits::default() }, "deadline");
}

#[test]
fn a_function_that_executes_its_own_template_ends_with_the_limit_of_executions() {
    check("{{define \"a\"}}{{include \"a\" .}}{{end}}{{include \"a\" .}}", Limits::default(), "executions");
    let shown = render("{{define \"a\"}}{{include \"a\" .}}{{end}}{{include \"a\" .}}", Limits::default())
        .map_err(|e| e.to_string());
    assert_eq!(
        shown.map_err(|e| e.ends_with("limit executions exceeded: 5000 templates inside each other")),
        Err(true)
    );
    check(
        "{{define \"a\"}}{{if 1}}{{print (include \"a\" .)}}{{end}}{{end}}{{include \"a\" .}}",
        Limits::default(),
        "executions",
    );
}

#[test]
fn a_template_inside_itself_ends_with_the_error_of_go() {
    let error = render("{{define \"a\"}}{{template \"a\" .}}{{end}}{{template \"a\" .}}", Limits::default());
    let expected =
        "template: t:1:25: executing \"a\" at <{{template \"a\" .}}>: exceeded maximum template depth (100000)";
    assert_eq!(error.map_err(|e| e.to_string()), Err(expected.to_owned()));
}

#[test]
fn parentheses_nest_as_deep_as_in_go_and_no_deeper() {
    let nested = |n| format!("{{{{{}1{}}}}}", "(".repeat(n), ")".repeat(n));
    assert_eq!(render(&nested(MAX_PAREN_DEPTH), Limits::default()).ok(), Some(b"1".to_vec()));
    let error = render(&nested(MAX_PAREN_DEPTH + 1), Limits::default()).map_err(|e| e.to_string());
    assert_eq!(error, Err("template: t:1: max expression depth exceeded".to_owned()));
}

#[test]
fn a_deep_expression_is_shown_in_its_error() {
    let n = MAX_PAREN_DEPTH - 1;
    let error = render(&format!("{{{{1 | len {}1{}}}}}", "(".repeat(n), ")".repeat(n)), Limits::default());
    assert_eq!(error.map_err(|e| e.to_string().contains("wrong number of args for len: want 1 got 2")), Err(true));
}

#[test]
fn blocks_nest_to_a_limit() {
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
fn deep_values_are_built_printed_and_dropped_without_overflow() {
    let deep = "{{$x := list .}}{{range 200000}}{{$x = list $x}}{{end}}";
    assert_eq!(render(&format!("{deep}{{{{len $x}}}}"), Limits::default()).ok(), Some(b"1".to_vec()));
    assert!(render(&format!("{deep}{{{{print $x | len}}}}"), Limits::default()).is_ok());
    check(&format!("{deep}{{{{copy $x}}}}"), Limits::default(), "copied depth");
    let maps = "{{$x := .}}{{range 100000}}{{$x = set (index (list (copy $)) 0) \"a\" $x}}{{end}}{{len $x}}";
    assert_eq!(render(maps, Limits::default()).ok(), Some(b"1".to_vec()));
}

#[test]
fn a_map_that_holds_itself_prints_and_is_not_copied() {
    assert!(render("{{$_ := set . \"self\" .}}{{print . | len}}", Limits::default()).is_ok());
    check("{{$_ := set . \"self\" .}}{{copy .}}", Limits::default(), "copied depth");
    check("{{$_ := set . \"a\" .}}{{$_ := set . \"b\" .}}{{copy .}}", Limits::default(), "copied depth");
}

#[test]
fn one_map_under_many_paths_is_not_copied_without_end() {
    let mut value = Value::Map(Map::default());
    for _ in 0..60 {
        value = Value::List(List::new(ListType::Interface, vec![value.clone(), value]));
    }
    assert_eq!(value.try_deep_copy().map_err(|limit| limit.name).err(), Some("copied values"));
    assert_eq!(MAX_COPIED_DEPTH, 10_000);
}
