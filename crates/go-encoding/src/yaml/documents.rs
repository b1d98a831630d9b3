//! Streams of several documents, cut at lines of `---` as Kubernetes' `YAMLReader` does; Helm reads values files so.

use go_template::Map;

use super::error::Error;
use super::parse_map;

/// Every document of the text, in order; each must be a map or nothing. An empty text has none.
///
/// Follows Helm's `LoadValues`: a line that begins with `---` may go on only with a comment.
pub fn parse_documents(text: &[u8]) -> Result<Vec<Map>, Error> {
    split(text)?.iter().map(|document| parse_map(document)).collect()
}

/// The documents of the text, each line with its end; comments alone are one, too.
pub fn split(text: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
    let mut documents = Vec::new();
    let mut current = Vec::new();
    for line in lines(text) {
        if let Some(rest) = line.strip_prefix(b"---") {
            let rest = String::from_utf8_lossy(rest);
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                return Err(Error::Separator(rest.to_owned()));
            }
            if !current.is_empty() {
                documents.push(std::mem::take(&mut current));
                continue;
            }
        }
        current.extend_from_slice(line);
        current.push(b'\n');
    }
    if !current.is_empty() {
        documents.push(current);
    }
    Ok(documents)
}

/// The lines without their ends, `\n` or `\r\n`.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let nothing = text.is_empty();
    text.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).skip(usize::from(nothing))
}
