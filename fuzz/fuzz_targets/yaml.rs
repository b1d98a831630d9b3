//! YAML that is read and written must read back the same; so must JSON.
#![no_main]

use go_encoding::{json, yaml};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let _ = yaml::parse_documents(text);
    let Ok(value) = yaml::parse(text) else { return };
    if let Ok(text) = json::encode(&value, json::EscapeHtml::No, json::Layout::Compact) {
        json::decode(text.as_ref()).expect("written JSON parses");
    }
    let _ = yaml::emit_pretty(&value);
    let Ok(written) = yaml::emit(&value) else { return };
    // Like Helm, we write a quoted key `<<` without quotes, and it reads back as a merge key.
    if written.windows(2).any(|two| two == b"<<") {
        return;
    }
    let again = yaml::parse(&written).expect("written YAML parses");
    let rewritten = yaml::emit(&again).expect("parsed YAML can be written");
    assert_eq!(String::from_utf8_lossy(&written), String::from_utf8_lossy(&rewritten));
});
