//! PEM: labelled base64 between dashes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The length of a line of base64.
const LINE: usize = 64;

/// A PEM block: a label and its bytes.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) label: String,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn encode(label: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let mut out = format!("-----BEGIN {label}-----\n");
    for start in (0..text.len()).step_by(LINE) {
        out.push_str(&text[start..text.len().min(start + LINE)]);
        out.push('\n');
    }
    out + &format!("-----END {label}-----\n")
}

/// Reads the first block in the text. Skips headers, which end with an empty line.
pub(super) fn decode(text: &str) -> Option<Block> {
    let start =
        text.match_indices("-----BEGIN ").map(|(i, _)| i).find(|i| *i == 0 || text.as_bytes()[i - 1] == b'\n')?;
    let (label, rest) = text[start + "-----BEGIN ".len()..].split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let body = match body.split_once("\n\n") {
        Some((headers, body)) if headers.contains(':') => body,
        _ => body,
    };
    let base64: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    Some(Block { label: label.to_owned(), bytes: STANDARD.decode(base64).ok()? })
}
