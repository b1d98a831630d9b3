//! A chart of one template renders or fails: the template, a NUL byte, the values as YAML.
#![no_main]

use helm::chart::{Chart, File};
use helm::engine::{Capabilities, Engine, ReleaseOptions, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (template, values) = match input.iter().position(|byte| *byte == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &b""[..]),
    };
    let Ok(values) = helm::values::read(values) else { return };
    let file = |name: &str, data: &[u8]| File { name: name.to_owned(), data: data.into() };
    let files = vec![file("Chart.yaml", b"apiVersion: v2\nname: c\nversion: 0.1.0\n"), file("templates/t", template)];
    let Ok(chart) = Chart::load_files(files) else { return };
    let release = ReleaseOptions { name: "r".into(), namespace: "n".into(), revision: 1, is_upgrade: false };
    let capabilities = Capabilities::default();
    let request =
        Request { values: &values, release: &release, capabilities: &capabilities, lookup: None, skip_schema: false };
    if let Err(error) = Engine::new(chart).render(&request) {
        assert!(!error.to_string().is_empty());
    }
});
