//! A chart of one template renders or fails: the template, a NUL byte, the values as YAML.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz::render("templates/t", input));
