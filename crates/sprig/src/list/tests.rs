use go_template::{List, Map, Value};

use crate::test_call::{call, check};

fn int(v: i64) -> Value {
    Value::int(v)
}

fn ints(values: &[i64]) -> Value {
    Value::list(values.iter().map(|v| int(*v)).collect())
}

#[test]
fn parts_of_lists_are_new_lists() {
    check("append", &[ints(&[1]), int(2)], Ok("[1 2]"));
    check("prepend", &[ints(&[1]), int(0)], Ok("[0 1]"));
    check("first", &[ints(&[1, 2])], Ok("1"));
    check("first", &[ints(&[])], Ok("<nil>"));
    check("last", &[ints(&[1, 2])], Ok("2"));
    check("rest", &[ints(&[1, 2])], Ok("[2]"));
    check("initial", &[ints(&[1, 2])], Ok("[1]"));
    check("reverse", &[ints(&[1, 2])], Ok("[2 1]"));
    check("concat", &[ints(&[1]), List::strings(["a"]).into()], Ok("[1 a]"));
    check("slice", &[ints(&[1, 2, 3]), int(1), "2".into()], Ok("[2]"));
}

#[test]
fn empty_lists_are_nil_where_they_are_in_go() {
    for (function, args) in [("rest", vec![ints(&[])]), ("initial", vec![ints(&[])]), ("concat", vec![])] {
        let Ok(Value::List(list)) = call(function, &args) else { unreachable!("{function}") };
        assert!(list.is_nil(), "{function}");
    }
}

#[test]
fn items_compare_deeply() {
    check("uniq", &[ints(&[1, 2, 1])], Ok("[1 2]"));
    check("uniq", &[Value::list(vec!["a".into(), "a".into(), int(1)])], Ok("[a 1]"));
    check("without", &[ints(&[1, 2, 3]), int(1), int(3)], Ok("[2]"));
    check("has", &[ints(&[1]), Value::list(vec![ints(&[1])])], Ok("true"));
    check("has", &[int(1), Value::Nil], Ok("false"));
    check("compact", &[Value::list(vec!["".into(), int(0), "a".into()])], Ok("[a]"));
}

#[test]
fn other_values_than_lists_fail_with_sprigs_words() {
    let cases = [
        ("append", Value::from("x"), "Cannot push on type string"),
        ("mustPrepend", int(1), "Cannot prepend on type int"),
        ("first", Map::default().into(), "Cannot find first on type map"),
        ("uniq", Value::Nil, "runtime error: invalid memory address or nil pointer dereference"),
        ("compact", Value::Bool(true), "Cannot compact on type bool"),
        ("slice", Value::from("x"), "list should be type of slice or array but string"),
        ("concat", Value::from("x"), "Cannot concat type string as list"),
    ];
    for (function, list, error) in cases {
        check(function, &[list, int(1)], Err(error));
    }
    check("slice", &[ints(&[1, 2]), int(1), int(5)], Err("reflect.Value.Slice: slice index out of bounds"));
}

#[test]
fn the_number_of_chunks_is_computed_with_floats() {
    check("chunk", &[int(2), ints(&[1, 2, 3])], Ok("[[1 2] [3]]"));
    check("chunk", &[int(5), ints(&[])], Ok("[]"));
    check("chunk", &[int(-1), ints(&[1, 2])], Ok("[]"));
    check("chunk", &[int(-5), ints(&[1])], Ok("[[1]]"));
    for (size, list) in [(0, ints(&[1])), (0, ints(&[])), (-1, ints(&[])), (0, ints(&[1, 2]))] {
        check("chunk", &[int(size), list], Err("runtime error: makeslice: len out of range"));
    }
}

#[test]
fn repeatedly_doubled_lists_reach_the_limit() {
    let long = Value::list(vec![Value::Nil; 600_000]);
    check(
        "concat",
        &[long.clone(), long],
        Err("limit MAX_LIST_ITEMS exceeded: concat would make more than 1000000 items"),
    );
}
