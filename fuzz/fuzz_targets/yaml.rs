//! What is read from YAML and written again reads as the same: by both emitters, and as JSON.
#![no_main]

use helm::{json, yaml};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = yaml::parse_documents(text);
    let Ok(value) = yaml::parse(text) else { return };
    let Ok(written) = yaml::emit(&value) else { return };
    let again = yaml::parse(&written).expect("what was written can be read");
    let rewritten = yaml::emit(&again).expect("what was read can be written");
    assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&rewritten));
    let _ = yaml::emit_pretty(&value);
    if let Ok(text) = json::encode(&value, json::EscapeHtml::No, json::Layout::Compact) {
        json::decode(text.as_ref()).expect("JSON that was written can be read");
    }
});
