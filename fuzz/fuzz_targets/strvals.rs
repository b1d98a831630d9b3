//! Parses any text with each of `--set`'s grammars.
#![no_main]

use go_template::{Map, Value};
use go_encoding::yaml;
use helm::strvals;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let map = Map::default();
    let _ = strvals::parse_into(text, &map);
    let _ = strvals::parse_into_string(text, &map);
    let _ = strvals::parse_json(text, &map);
    let _ = strvals::parse_literal_into(text, &map);
    let _ = strvals::parse_into_file(text, &map, &|name| Ok(Value::from(name)));
    let _ = yaml::emit(&Value::Map(map));
});
