//! Compares with output and errors of Go: `fixtures/go.jsonl`, recorded with go1.26.8. `GOLDEN=file` checks another such file.
//!
//! The first line is the data for cases without data.

use std::fs;
use std::sync::Arc;

use go_template::{
    FuncError, FuncMap, Function, List, ListType, Map, MissingKey, Options, Param, Rest, Scope, Str, Templates, Value,
    parse,
};
use serde_json::Value as Json;

use crate::value;

/// Returns the functions that the cases use.
fn functions() -> FuncMap {
    let mut funcs = FuncMap::default();
    funcs.add("list", |items: Rest<Value>| Value::list(items.0.into_vec()));
    funcs.add("dict", |items: Rest<Value>| {
        items
            .0
            .chunks_exact(2)
            .map(|pair| (pair[0].as_str().cloned().unwrap_or_default(), pair[1].clone()))
            .collect::<Map>()
    });
    funcs.add("set", |map: Map, key: Str, value: Value| {
        map.insert(key, value);
        map
    });
    funcs.add("strs", |items: Rest<Str>| List::strings(items.0));
    funcs.add("ints", |items: Rest<isize>| {
        List::new(ListType::Int, items.0.into_iter().map(|i| Value::int(i as i64)).collect())
    });
    funcs.add("smap", |key: Str, value: Str| {
        [(key, Value::String(value))].into_iter().collect::<Map>().with_type(go_template::MapType::String)
    });
    funcs.add("up", |s: Str| s.to_text().to_uppercase());
    funcs.add("addi", |a: isize, b: isize| a + b);
    funcs.add("i64", |a: i64| a);
    funcs.add("f64", |a: f64| a);
    funcs.add("neg", |a: bool| !a);
    funcs.add("keys", |map: Map| map.len() as isize);
    funcs.add("head", |list: List| list.first().cloned().unwrap_or_default());
    funcs.insert(
        "join",
        function(vec![Param::String, Param::Strings], |args| {
            let separator = args[0].as_str().cloned().unwrap_or_default();
            let items: Vec<&[u8]> =
                args[1].as_list().into_iter().flat_map(|l| l.iter().filter_map(|v| v.as_str())).map(|s| &**s).collect();
            Value::String(items.join(&*separator).into())
        }),
    );
    funcs.insert(
        "bytes",
        function(vec![Param::String], |args| Value::Bytes(args[0].as_str().cloned().unwrap_or_default())),
    );
    funcs.insert(
        "text",
        function(vec![Param::Bytes], |args| match &args[0] {
            Value::Bytes(b) => Value::String(b.clone()),
            _ => Value::from(""),
        }),
    );
    funcs.add("fails", |message: Str| Err::<Value, _>(FuncError::new(message.to_text())));
    funcs.add("none", || Value::Nil);
    funcs.add("id", |value: Value| value);
    let upper = Arc::new(function(vec![Param::String], |args| {
        Value::from(args[0].as_str().cloned().unwrap_or_default().to_text().to_uppercase())
    }));
    funcs.add("fn", move || Value::Func(Arc::clone(&upper)));
    funcs.add("many", |s: Str, numbers: Rest<isize>| {
        let numbers = numbers.0.iter().map(isize::to_string).collect::<Vec<_>>().join(" ");
        format!("{s}[{numbers}]")
    });
    funcs.insert(
        "exec",
        Function::new(vec![Param::String, Param::Any], None, |scope, args| {
            Ok(Value::String(scope.execute(args[0].as_str().cloned().unwrap_or_default(), &args[1])?.into()))
        }),
    );
    funcs
}

fn function(params: Vec<Param>, f: impl Fn(&[Value]) -> Value + Send + Sync + 'static) -> Function {
    Function::new(params, None, move |_, args| Ok(f(args)))
}

fn render(case: &Json, data: &Value, funcs: &FuncMap) -> Result<String, FuncError> {
    let parsed = parse("t", case["template"].as_str().unwrap_or_default(), funcs)?;
    let mut templates = Templates::new("t");
    templates.add(&parsed);
    let missing_key = match case["missing"].as_str() {
        Some("zero") => MissingKey::Zero,
        Some("error") => MissingKey::Error,
        _ => MissingKey::Invalid,
    };
    let options = Options { missing_key, ..Options::default() };
    let out = Scope::new(Arc::new(templates), options).execute_tree(parsed.main(), data)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[test]
fn templates_render_like_go() {
    let file =
        std::env::var("GOLDEN").unwrap_or(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/go.jsonl").to_owned());
    let text = fs::read_to_string(file).expect("the cases are readable");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Json>(line).expect("a case is JSON"));
    let common = value(&lines.next().unwrap_or_default()["data"]);
    let funcs = functions();
    let mut failures = Vec::new();
    for case in lines {
        let data = case.get("data").map_or_else(|| common.deep_copy(), value);
        let got = render(&case, &data, &funcs).map_err(|error| error.to_string());
        let wanted = case["out"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| case["error"].as_str().unwrap_or_default().to_owned());
        if got != wanted {
            failures.push(format!("{}\n  want {wanted:?}\n   got {got:?}", case["template"]));
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
