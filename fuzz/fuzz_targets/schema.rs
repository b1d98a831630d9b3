//! Validates any values against any schema. Input: the schema, a NUL byte, values as YAML.
#![no_main]

use helm::schema::Schema;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (schema, values) = match input.iter().position(|byte| *byte == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &b"a: 1"[..]),
    };
    let Ok(schema) = Schema::compile(schema) else { return };
    if let Ok(values) = helm::values::read(values) {
        let _ = schema.validate(&values);
    }
});
