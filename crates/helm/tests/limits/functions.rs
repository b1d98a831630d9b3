//! Calls every function with each combination of large arguments that its parameters allow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use go_template::{Function, List, ListType, Map, Options, Param, Scope, Str, Templates, Value};
use sprig::func_map;

use super::Cases;

/// Maximum duration of one call, in optimised and other builds. Keys and password hashes take longer.
const FAST: Duration = Duration::from_millis(500);
const UNOPTIMISED: Duration = Duration::from_secs(20);
const SLOW: [&str; 11] = [
    "genPrivateKey",
    "genCA",
    "genCAWithKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "bcrypt",
    "htpasswd",
    "derivePassword",
    "getHostByName",
];

/// The size of the arguments: large enough to reveal quadratic time.
const SIZE: usize = if cfg!(debug_assertions) { 20_000 } else { 200_000 };

/// Number of combinations to try per function.
const COMBINATIONS: usize = if cfg!(debug_assertions) { 30 } else { 300 };

/// Returns large and unusual values of a parameter's type.
fn values(param: Param, pool: &Pool) -> Vec<Value> {
    match param {
        Param::Any | Param::Reflect => pool.all.clone(),
        Param::Bool => vec![Value::Bool(true)],
        Param::Int => [2, -1, i64::MAX].map(Value::int).to_vec(),
        Param::Int64 => [2, -1, i64::MAX].map(Value::int64).to_vec(),
        Param::Float => [1e300, f64::NAN].map(Value::from).to_vec(),
        Param::String => pool.texts.clone(),
        Param::Map => vec![Value::Map(pool.map.clone())],
        Param::List => vec![Value::List(pool.list.clone())],
        Param::Uint32 | Param::Bytes | Param::Strings | Param::Duration | Param::Object(_) => Vec::new(),
    }
}

struct Pool {
    texts: Vec<Value>,
    list: List,
    map: Map,
    all: Vec<Value>,
}

impl Pool {
    fn new() -> Pool {
        let text = |text: String| Value::String(Str::from(text));
        let texts = vec![
            text("a".repeat(SIZE)),
            text(format!("{}b", "a".repeat(SIZE / 2))),
            text("a b\n".repeat(SIZE / 4)),
            text("a: b\n".repeat(SIZE / 8)),
            text("[".repeat(SIZE)),
            text("1.".repeat(SIZE)),
            text(String::new()),
        ];
        let list = List::new(ListType::Interface, (0..SIZE as i64 / 4).map(Value::int).collect());
        let map: Map = (0..SIZE / 4).map(|i| (format!("k{i}"), Value::int(i as i64))).collect();
        let mut all = texts.clone();
        all.extend([Value::List(list.clone()), Value::Map(map.clone()), Value::int(i64::MAX), Value::Nil]);
        Pool { texts, list, map, all }
    }
}

/// Returns each combination of one value per parameter, up to [`COMBINATIONS`].
fn combinations(function: &Function, pool: &Pool) -> Vec<Vec<Value>> {
    let rest = function.variadic().into_iter().flat_map(|param| [param; 2]);
    let params: Vec<Vec<Value>> = function.params().iter().copied().chain(rest).map(|p| values(p, pool)).collect();
    let count: usize = params.iter().map(Vec::len).product();
    let step = count.div_ceil(COMBINATIONS).max(1);
    (0..count).step_by(step).map(|index| combination(&params, index)).collect()
}

fn combination(params: &[Vec<Value>], mut index: usize) -> Vec<Value> {
    let mut pick = |values: &Vec<Value>| {
        let value = values[index % values.len()].clone();
        index /= values.len();
        value
    };
    params.iter().map(&mut pick).collect()
}

fn call(name: &str, function: &Function, mut args: Vec<Value>) {
    let started = Instant::now();
    let mut scope = Scope::new(Arc::new(Templates::default()), Options::default());
    let shown: Vec<String> = args.iter().map(shown).collect();
    drop(function.call(&mut scope, &mut args));
    let took = started.elapsed();
    let limit = if cfg!(debug_assertions) { UNOPTIMISED } else { FAST };
    assert!(took < limit, "{name} {shown:?} took {took:?}");
}

fn shown(value: &Value) -> String {
    match value {
        Value::List(_) | Value::Map(_) => value.type_name().to_string(),
        Value::String(text) => format!("{:.12}… of {}", text.to_text(), text.len()),
        other => format!("{other:?}"),
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes in an unoptimised build")]
fn every_function_survives_large_arguments() {
    let mut cases = Cases::of(module_path!(), "every_function_survives_large_arguments");
    let functions = func_map();
    let mut names: Vec<String> = functions.names().map(str::to_owned).collect();
    names.sort();
    for group in names.chunks(16) {
        let group: Vec<(String, Arc<Function>)> =
            group.iter().map(|name| (name.clone(), Arc::clone(functions.get(name).unwrap()))).collect();
        let title = format!("{} to {}", group[0].0, group[group.len() - 1].0);
        cases.add_slow(title, move || {
            let pool = Pool::new();
            for (name, function) in group.iter().filter(|(name, _)| !SLOW.contains(&name.as_str())) {
                combinations(function, &pool).into_iter().for_each(|args| call(name, function, args));
            }
        });
    }
    cases.run();
}
