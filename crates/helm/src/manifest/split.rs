//! Splits a stream of YAML documents. Counterpart: `SplitManifests`.

/// Returns the documents between lines that start with three dashes, leaving out empty documents.
///
/// As in Helm, text after the dashes belongs to the next document.
pub fn split(text: &str) -> Vec<&str> {
    let mut documents = Vec::new();
    let mut start = 0;
    let text = text.trim_start();
    for at in separators(text) {
        documents.push(&text[start..at]);
        start = at + 3;
        start += text[start..].len() - text[start..].trim_start_matches([' ', '\t']).len();
    }
    documents.push(&text[start..]);
    documents.into_iter().filter(|document| !document.trim().is_empty()).map(str::trim_start).collect()
}

/// Returns the offsets of lines that start with three dashes.
fn separators(text: &str) -> impl Iterator<Item = usize> {
    let at_start = text.starts_with("---").then_some(0);
    at_start.into_iter().chain(text.match_indices("\n---").map(|(at, _)| at + 1))
}
