//! Schemas that refer to themselves, against nested values: what passes the count of steps must validate in time and memory.
//!
//! Each byte of the input chooses a keyword, so that all inputs are valid schemas. The first byte is the depth of the values.
#![no_main]

use helm::schema::Schema;
use libfuzzer_sys::fuzz_target;

/// How many definitions there are.
const DEFINITIONS: u8 = 4;

/// How deep subschemas are nested without a reference.
const DEPTH: usize = 6;

fuzz_target!(|input: &[u8]| {
    let Some((depth, input)) = input.split_first() else { return };
    let mut choices = input.iter().copied();
    let root = subschema(&mut choices, 0);
    let definitions: Vec<String> =
        (0..DEFINITIONS).map(|i| format!(r#""{i}":{}"#, subschema(&mut choices, 0))).collect();
    let document = format!(
        r##"{{"$schema":"https://json-schema.org/draft/2020-12/schema","$dynamicAnchor":"x","allOf":[{root}],"$defs":{{{}}}}}"##,
        definitions.join(",")
    );
    let Ok(schema) = Schema::compile(document.as_bytes()) else { return };
    let depth = usize::from(*depth);
    let values = format!("{}1{}", r#"{"a":[{"b":1}],"b":"#.repeat(depth), "}".repeat(depth));
    if let Ok(values) = helm::values::read(values.as_bytes())
        && let Err(violations) = schema.validate(&values)
    {
        assert!(!violations.text.is_empty() && violations.text.len() < 1 << 20);
    }
});

/// The subschema that the next choices describe.
fn subschema(choices: &mut impl Iterator<Item = u8>, depth: usize) -> String {
    let choice = if depth > DEPTH { 0 } else { choices.next().unwrap_or(16) };
    let mut inner = || subschema(choices, depth + 1);
    match choice % 17 {
        2 => format!(r#"{{"allOf":[{},{}]}}"#, inner(), inner()),
        3 => format!(r#"{{"anyOf":[{},{}]}}"#, inner(), inner()),
        4 => format!(r#"{{"oneOf":[{},{}]}}"#, inner(), inner()),
        5 => format!(r#"{{"properties":{{"a":{},"b":{}}}}}"#, inner(), inner()),
        6 => format!(r#"{{"patternProperties":{{"a":{},"a|b":{}}}}}"#, inner(), inner()),
        7 => format!(r#"{{"additionalProperties":{}}}"#, inner()),
        8 => format!(r#"{{"items":{},"contains":{}}}"#, inner(), inner()),
        9 => format!(r#"{{"not":{}}}"#, inner()),
        10 => format!(r#"{{"if":{},"then":{},"else":{}}}"#, inner(), inner(), inner()),
        11 => r##"{"$dynamicRef":"#x"}"##.to_owned(),
        12 => format!(r#"{{"dependentSchemas":{{"b":{}}},"unevaluatedProperties":{}}}"#, inner(), inner()),
        13 => format!(r#"{{"propertyNames":{},"prefixItems":[{}]}}"#, inner(), inner()),
        14 => r#"{"type":"string"}"#.to_owned(),
        15 => r#"{"enum":["a",[{"b":1}],{"a":1}]}"#.to_owned(),
        16 => "{}".to_owned(),
        reference => {
            let url = if reference == 1 { "values.schema.json" } else { "" };
            format!(r##"{{"$ref":"{url}#/$defs/{}"}}"##, choices.next().unwrap_or(0) % DEFINITIONS)
        }
    }
}
