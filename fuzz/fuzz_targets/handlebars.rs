//! Renders a chart with one Handlebars template. Input: the template, a NUL byte, values as YAML.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::render("templates/t.hbs", input));
