//! What is read from YAML and written again reads as the same; so does JSON.
#![no_main]

use go_encoding::{json, yaml};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = yaml::parse_documents(text);
    let Ok(value) = yaml::parse(text) else { return };
    if let Ok(text) = json::encode(&value, json::EscapeHtml::No, json::Layout::Compact) {
        json::decode(text.as_ref()).expect("JSON that was written can be read");
    }
    let _ = yaml::emit_pretty(&value);
    let Ok(written) = yaml::emit(&value) else { return };
    // A key `<<` that was quoted is written without quotes, as Helm does, and reads as a merge.
    if written.windows(2).any(|two| two == b"<<") {
        return;
    }
    let again = yaml::parse(&written).expect("what was written can be read");
    let rewritten = yaml::emit(&again).expect("what was read can be written");
    assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&rewritten));
});
