use go_template::{Map, MapType, Value};

use crate::test_call::{call, check};

fn map(entries: &[(&str, Value)]) -> Map {
    entries.iter().map(|(k, v)| (*k, v.clone())).collect()
}

fn int(v: i64) -> Value {
    Value::int(v)
}

#[test]
fn dicts_are_built_from_keys_and_values() {
    check("dict", &["a".into(), int(1), int(2)], Ok("map[2: a:1]"));
    check("pick", &[map(&[("a", int(1)), ("b", int(2))]).into(), "a".into(), "z".into()], Ok("map[a:1]"));
    check("omit", &[map(&[("a", int(1)), ("b", int(2))]).into(), "a".into()], Ok("map[b:2]"));
    check("keys", &[map(&[("b", int(1)), ("a", int(2))]).into()], Ok("[a b]"));
    check("values", &[Value::Nil], Ok("[]"));
    check("pluck", &["a".into(), map(&[("a", int(1))]).into(), Map::default().into()], Ok("[1]"));
    check("get", &[Map::default().into(), "a".into()], Ok(""));
}

#[test]
fn set_and_unset_change_the_map_itself() {
    let shared = map(&[("a", int(1))]);
    check("set", &[shared.clone().into(), "b".into(), int(2)], Ok("map[a:1 b:2]"));
    check("unset", &[shared.clone().into(), "a".into()], Ok("map[b:2]"));
    assert_eq!(shared.len(), 1);
    check("set", &[Value::Nil, "b".into(), int(2)], Err("assignment to entry in nil map"));
}

#[test]
fn dig_follows_keys_and_asserts_types_as_in_go() {
    let nested = Value::from(map(&[("a", map(&[("b", int(2))]).into())]));
    check("dig", &["a".into(), "b".into(), "d".into(), nested.clone()], Ok("2"));
    check("dig", &["z".into(), "b".into(), "d".into(), nested.clone()], Ok("d"));
    check("dig", &["a".into(), nested.clone()], Err("dig needs at least three arguments"));
    check("dig", &[int(1), "d".into(), nested], Err("interface conversion: interface {} is int, not string"));
    let values = Map::default().with_type(MapType::Values);
    let error = "interface conversion: interface {} is common.Values, not map[string]interface {}";
    check("dig", &["a".into(), "d".into(), values.into()], Err(error));
}

#[test]
fn merge_fills_missing_and_empty_values() {
    type Entries<'a> = &'a [(&'a str, Value)];
    let cases: [(Entries, Entries, &str, &str); 6] = [
        (&[("a", int(1))], &[("a", int(2)), ("b", int(3))], "map[a:1 b:3]", "map[a:2 b:3]"),
        (&[("a", "".into())], &[("a", "x".into())], "map[a:x]", "map[a:x]"),
        (&[("a", int(5))], &[("a", int(0)), ("c", Value::Nil)], "map[a:5]", "map[a:0 c:<nil>]"),
        (&[("l", Value::list(vec![int(1)]))], &[("l", Value::list(vec![]))], "map[l:[1]]", "map[l:[]]"),
        (&[("a", map(&[("b", int(1))]).into())], &[("a", int(1))], "map[a:map[b:1]]", "map[a:1]"),
        (
            &[("a", map(&[("b", int(1))]).into())],
            &[("a", map(&[("b", int(9)), ("c", int(2))]).into())],
            "map[a:map[b:1 c:2]]",
            "map[a:map[b:9 c:2]]",
        ),
    ];
    for (dst, src, merged, overwritten) in cases {
        let deep = |entries| map(entries).deep_copy().into();
        check("merge", &[deep(dst), deep(src)], Ok(merged));
        check("mustMergeOverwrite", &[deep(dst), deep(src)], Ok(overwritten));
    }
}

#[test]
fn merge_shares_the_sources_maps() {
    let inner = map(&[("x", int(1))]);
    let dst = Map::default();
    assert!(call("merge", &[dst.clone().into(), map(&[("n", inner.clone().into())]).into()]).is_ok());
    assert!(dst.get("n").is_some_and(|n| n.as_map().is_some_and(|n| n.same(&inner))));
}

#[test]
fn deep_copies_share_nothing_and_stop_at_the_depth_limit() {
    let inner = map(&[("x", int(1))]);
    let Ok(Value::Map(copy)) = call("deepCopy", &[map(&[("n", inner.clone().into())]).into()]) else { unreachable!() };
    assert!(copy.get("n").is_some_and(|n| n.as_map().is_some_and(|n| !n.same(&inner))));
    check("deepCopy", &[Value::Nil], Err("reflect: call of reflect.Value.Type on zero Value"));
    inner.insert("self", inner.clone());
    check("deepCopy", &[inner.clone().into()], Err("limit MAX_VALUE_DEPTH exceeded: values nest more than 500 deep"));
    inner.insert("self", Value::Nil);
}
