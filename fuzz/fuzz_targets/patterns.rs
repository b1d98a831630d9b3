//! Matches any pattern against any text: regular expressions, globs, date layouts, TOML.
#![no_main]

use go_template::Value;
use golibs::glob::{Glob, Work};
use golibs::path_match::Pattern;
use golibs::regex::Regex;
use golibs::time::{Duration, Time};
use go_encoding::toml;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (pattern, text) = match input.iter().position(|byte| *byte == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &b"abc"[..]),
    };
    if let Ok(regex) = Regex::new(pattern) {
        assert_eq!(regex.is_match(text), regex.find(text).is_some());
        let _ = (regex.find_all(text, -1), regex.split(text, -1), regex.replace_all(text, pattern));
    }
    if let Ok(time) = Time::parse(pattern, text) {
        let _ = (time.format(pattern), time.rfc3339());
    }
    let _ = Duration::parse(text);
    if let Ok(map) = toml::decode(text) {
        let _ = toml::encode(&Value::Map(map));
    }
    let (Ok(pattern), Ok(text)) = (str::from_utf8(pattern), str::from_utf8(text)) else { return };
    let _ = Pattern::new(pattern).map(|pattern| pattern.matches(text));
    if let Ok(glob) = Glob::new(pattern) {
        let _ = glob.is_match(text, &mut Work::default());
    }
});
