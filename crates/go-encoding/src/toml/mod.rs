//! TOML as BurntSushi/toml v1.6.0 decodes and encodes it, for Helm's `toToml` and `fromToml`.

mod decode;
mod encode;
mod error;
mod lex;
mod number;
mod table;

#[cfg(test)]
mod tests;

pub use decode::decode;
pub use encode::{EncodeError, MAX_OUTPUT, encode};
pub use error::Error;

/// Maximum nesting depth when decoding or encoding. BurntSushi/toml has no limit.
pub const MAX_DEPTH: usize = 200;

/// Formats a key as TOML writes it: quoted unless it consists of letters, digits, `_` and `-`.
fn key_text(key: &str) -> String {
    if !key.is_empty() && key.bytes().all(is_bare) { key.to_owned() } else { quoted(key) }
}

fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// Formats a dotted key.
fn path_text(keys: &[String]) -> String {
    keys.iter().map(|key| key_text(key)).collect::<Vec<_>>().join(".")
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x08' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\x0C' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..='\x1F' | '\x7F' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}
