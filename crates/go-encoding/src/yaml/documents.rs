//! Reads streams of several documents, split at `---` lines like Kubernetes' `YAMLReader`. Helm reads values files this way.

use go_template::Map;

use super::error::Error;
use super::parse_map;

/// Reads all documents in order. Each must be a map or empty; an empty text contains none.
///
/// Counterpart: Helm's `LoadValues`. Only a comment may follow `---` on its line.
pub fn parse_documents(text: &[u8]) -> Result<Vec<Map>, Error> {
    split(text)?.iter().map(|document| parse_map(document)).collect()
}

/// Splits the text into documents. A document that contains only comments counts.
pub fn split(text: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    Ok(split_with_lines(text)?.into_iter().map(|(_, document)| document).collect())
}

/// Splits like [`split`]; returns each document with the number of lines before it.
pub(super) fn split_with_lines(text: &[u8]) -> Result<Vec<(usize, Vec<u8>)>, Error> {
    let mut documents = Vec::new();
    let mut current = Vec::new();
    let mut before = 0;
    for (at, line) in lines(text).enumerate() {
        if let Some(rest) = line.strip_prefix(b"---") {
            let rest = String::from_utf8_lossy(rest);
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err(Error::Separator(rest.to_owned()));
            }
            if !current.is_empty() {
                documents.push((before, std::mem::take(&mut current)));
                continue;
            }
        }
        if current.is_empty() {
            before = at;
        }
        current.extend_from_slice(line);
        current.push(b'\n');
    }
    if !current.is_empty() {
        documents.push((before, current));
    }
    Ok(documents)
}

/// Iterates over the lines, without their line breaks `\n` or `\r\n`.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let nothing = text.is_empty();
    text.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).skip(usize::from(nothing))
}
