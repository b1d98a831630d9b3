//! Parses any template, and prints its nodes through the errors of its actions.
#![no_main]

use std::sync::{Arc, LazyLock};

use go_template::{FuncMap, Limits, Map, Options, Scope, Templates, Value};
use libfuzzer_sys::fuzz_target;

static FUNCTIONS: LazyLock<FuncMap> = LazyLock::new(sprig::func_map);

fuzz_target!(|text: &[u8]| {
    let parsed = match go_template::parse("t", text, &FUNCTIONS) {
        Ok(parsed) => parsed,
        Err(error) => return assert!(error.to_string().starts_with("template: ")),
    };
    let mut templates = Templates::new("t");
    templates.add(&parsed);
    let templates = Arc::new(templates);
    // Each step limit stops the run at a different node, and the error prints it.
    for steps in [0, 1, 2, 3, 5, 8] {
        let options = Options { limits: Limits { steps, ..Limits::default() }, ..Options::default() };
        let run = Scope::new(Arc::clone(&templates), options).execute_tree(parsed.main(), &Value::Map(Map::default()));
        if let Err(error) = run {
            assert!(!error.to_string().is_empty());
        }
    }
});
