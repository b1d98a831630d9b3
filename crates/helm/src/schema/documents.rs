//! The other documents that a schema refers to. They are collected when a chart is loaded, so that validation reads no files.
//!
//! This module determines which URLs a schema needs. The loader of the chart (`crate::chart`, `crate::disk`) decides what a URL refers to.

use std::collections::{BTreeMap, BTreeSet};

use go_template::Str;
use serde_json::Value as Json;
use url::Url;

use super::bounds::MAX_SCHEMA_BYTES;

/// The URL that Helm gives to a chart's schema.
pub(super) const ROOT: &str = "file:///values.schema.json";

/// Maximum number of documents that a schema may refer to, directly and indirectly.
pub const MAX_DOCUMENTS: usize = 32;

/// The keywords whose value is a reference.
const REFERENCES: [&str; 4] = ["$ref", "$dynamicRef", "$recursiveRef", "$schema"];

/// The other documents of a schema, by URL without the fragment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    texts: BTreeMap<String, Str>,
    /// Whether some are missing because a limit was reached.
    pub(super) is_cut: bool,
    /// Whether a document that the schema may refer to was not read.
    pub(crate) lacks_some: bool,
}

impl Documents {
    /// Collects the documents that the schema needs. `read` returns a document, or `None` if it must not or cannot be read, which compiling reports.
    pub fn collect(schema: &[u8], read: &mut dyn FnMut(&Url) -> Option<Str>) -> Documents {
        let mut collection = Documents::default();
        let Ok(root) = Url::parse(ROOT) else { return collection };
        let mut bytes = schema.len();
        let mut queue = vec![(root, Str::from(schema))];
        while let Some((base, text)) = queue.pop() {
            for url in needed(&base, &text) {
                if url.as_str() == ROOT || collection.texts.contains_key(url.as_str()) {
                    continue;
                }
                let Some(text) = read(&url) else {
                    collection.lacks_some = true;
                    continue;
                };
                bytes = bytes.saturating_add(text.len());
                if bytes > MAX_SCHEMA_BYTES || collection.texts.len() >= MAX_DOCUMENTS {
                    collection.is_cut = true;
                    return collection;
                }
                collection.texts.insert(url.as_str().to_owned(), text.clone());
                queue.push((url, text));
            }
        }
        collection
    }

    /// Returns each document's URL and text, ordered by URL.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Str)> {
        self.texts.iter().map(|(url, text)| (url.as_str(), text))
    }
}

/// Returns the URLs of other documents that the text may refer to. Some may be unnecessary, because only the validator knows which strings are
/// references.
fn needed(base: &Url, text: &[u8]) -> BTreeSet<Url> {
    if !may_refer(text) {
        return BTreeSet::new();
    }
    let Ok(document) = serde_json::from_slice::<Json>(text) else { return BTreeSet::new() };
    let mut walk = Walk { document: base, needed: BTreeSet::new(), declared: BTreeSet::new() };
    walk.visit(&document, base);
    walk.needed.retain(|url| !walk.declared.contains(url) && is_elsewhere(url, base));
    walk.needed
}

/// Returns whether a reference may lead out of the document. In most schemas none does, so they need not be parsed.
fn may_refer(text: &[u8]) -> bool {
    let quotes = memchr::memmem::find_iter(text, b"ef\"").chain(memchr::memmem::find_iter(text, b"$schema\""));
    quotes.into_iter().any(|at| {
        let after = text[at..].iter().skip_while(|byte| **byte != b'"').skip(1);
        let mut value = after.skip_while(|byte| byte.is_ascii_whitespace() || **byte == b':');
        value.next() == Some(&b'"') && value.next() != Some(&b'#')
    })
}

/// Returns whether the URL names a document that the validator lacks. It knows the metaschemas, and treats every `urn:` as `true`.
fn is_elsewhere(url: &Url, document: &Url) -> bool {
    url != document && url.scheme() != "urn" && url.host_str() != Some("json-schema.org")
}

struct Walk<'a> {
    document: &'a Url,
    needed: BTreeSet<Url>,
    /// The URLs that `$id` assigns to parts of the document.
    declared: BTreeSet<Url>,
}

impl Walk<'_> {
    fn visit(&mut self, value: &Json, base: &Url) {
        match value {
            Json::Array(items) => items.iter().for_each(|item| self.visit(item, base)),
            Json::Object(entries) => {
                let own = ["$id", "id"].into_iter().filter_map(|key| entries.get(key)?.as_str());
                let own = own.filter_map(|id| without_fragment(base, id)).next_back();
                self.declared.extend(own.clone());
                let base = own.as_ref().unwrap_or(base);
                for reference in REFERENCES.into_iter().filter_map(|key| entries.get(key)?.as_str()) {
                    // Drafts differ in whether an `$id` beside a reference has an effect.
                    let urls = [base, self.document].map(|base| without_fragment(base, reference));
                    self.needed.extend(urls.into_iter().flatten());
                }
                entries.values().for_each(|entry| self.visit(entry, base));
            }
            _ => {}
        }
    }
}

fn without_fragment(base: &Url, reference: &str) -> Option<Url> {
    let mut url = base.join(reference).ok()?;
    url.set_fragment(None);
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the URLs that a schema asks for, and the collected documents, with a reader that knows these documents.
    fn asked(schema: &str, known: &[(&str, &str)]) -> (Vec<String>, Documents) {
        let mut asked = Vec::new();
        let documents = Documents::collect(schema.as_bytes(), &mut |url| {
            asked.push(url.to_string());
            known.iter().find(|(name, _)| *name == url.as_str()).map(|(_, text)| Str::from(*text))
        });
        (asked, documents)
    }

    #[test]
    fn references_are_resolved_as_the_validator_resolves_them() {
        for (reference, expected) in [
            ("other.json", "file:///other.json"),
            ("./other.json#/a", "file:///other.json"),
            ("../other.json", "file:///other.json"),
            ("/abs.json", "file:///abs.json"),
            ("file:///opt/../a%20b.json", "file:///a%20b.json"),
            ("https://e.x/a.json#", "https://e.x/a.json"),
            ("//h/a.json", "file://h/a.json"),
        ] {
            let (asked, _) = asked(&format!(r#"{{"properties":{{"a":{{"$ref" : "{reference}"}}}}}}"#), &[]);
            assert_eq!(asked, [expected], "{reference}");
        }
    }

    #[test]
    fn ids_metaschemas_and_urns_are_no_documents() {
        for schema in [
            r##"{"$ref":"#/$defs/a","$defs":{"a":true}}"##,
            r#"{"$schema":"http://json-schema.org/draft-07/schema#"}"#,
            r#"{"$ref":"urn:a:b"}"#,
            r#"{"$ref":"b.json","$defs":{"b":{"$id":"b.json"}}}"#,
            r#"{"properties":{"$ref":{"type":"string"}}}"#,
            "{",
        ] {
            assert_eq!(asked(schema, &[]).0, [""; 0], "{schema}");
        }
    }

    #[test]
    fn documents_may_refer_to_each_other() {
        let known = [
            ("https://e.x/s/b.json", r#"{"$ref":"c.json"}"#),
            ("https://e.x/s/c.json", r#"{"properties":{"a":{"$ref":"b.json"},"d":{"$ref":"missing.json"}}}"#),
        ];
        let (_, documents) = asked(r#"{"$id":"https://e.x/s/root.json","$ref":"b.json"}"#, &known);
        assert_eq!(documents.iter().map(|(url, _)| url).collect::<Vec<_>>(), known.map(|(url, _)| url));
        assert!(!documents.is_cut);
    }

    #[test]
    fn number_and_size_of_documents_are_bounded() {
        let next = |url: &Url| -> Option<u32> { url.path().trim_matches(['/', 'd']).parse().ok() };
        let endless = Documents::collect(br#"{"$ref":"/d0"}"#, &mut |url| {
            Some(format!(r#"{{"$ref":"/d{}"}}"#, next(url)? + 1).into())
        });
        assert!(endless.is_cut);
        assert_eq!(endless.iter().count(), MAX_DOCUMENTS);
        let large = Documents::collect(br#"{"$ref":"/d0"}"#, &mut |_| Some(" ".repeat(MAX_SCHEMA_BYTES).into()));
        assert!(large.is_cut && large.iter().count() == 0);
    }
}
