//! The data of a Secret or ConfigMap: read once, digested by key and dropped. Parsing skips keys that no resource names,
//! because an object may have tens of thousands.

use std::collections::BTreeMap;
use std::fmt;

use helm_release::kube::digest_json;
use k8s_openapi::ByteString;
use outside::Head;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

use super::{RECORD_KEY, SourceKind};

/// The wanted data of an object. It deliberately does not implement `Debug`, because it may be secret.
#[derive(Default)]
pub(crate) struct Content {
    /// The resource version; 0 if the object does not exist.
    pub(crate) version: u64,
    data: Data,
}

type Data = BTreeMap<Box<str>, Vec<u8>>;

type Wants<'w> = &'w dyn Fn(&str) -> bool;

#[derive(Deserialize)]
struct Secret<'j> {
    metadata: Head,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(borrow)]
    data: Option<&'j RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMap<'j> {
    metadata: Head,
    #[serde(borrow)]
    data: Option<&'j RawValue>,
    #[serde(borrow)]
    binary_data: Option<&'j RawValue>,
}

impl Content {
    /// Parses the wanted keys in the server's JSON; returns `None` if it is not such an object. An error would quote it.
    pub(crate) fn read(kind: SourceKind, json: &[u8], wants: Wants<'_>) -> Option<Content> {
        let mut kept = Data::new();
        let metadata = match kind {
            SourceKind::Secret => {
                let Secret { metadata, kind, data } = serde_json::from_slice(json).ok()?;
                // The key of release records is not a value source.
                pick::<ByteString>(data.filter(|_| kind != RECORD_KEY), wants, |bytes| bytes.0, &mut kept)?;
                metadata
            }
            SourceKind::ConfigMap => {
                let ConfigMap { metadata, data, binary_data } = serde_json::from_slice(json).ok()?;
                pick::<String>(data, wants, String::into_bytes, &mut kept)?;
                pick::<ByteString>(binary_data, wants, |bytes| bytes.0, &mut kept)?;
                metadata
            }
        };
        let version = metadata.resource_version.unwrap_or_default();
        Some(Content { version: version.parse().unwrap_or(0).max(1), data: kept })
    }

    /// Drops all other keys.
    pub(crate) fn retain(&mut self, wants: Wants<'_>) {
        self.data.retain(|key, _| wants(key));
    }

    /// Returns the size of the data, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.data.values().map(Vec::len).sum()
    }

    pub(crate) fn get(&self, key: &str) -> Option<&[u8]> {
        self.data.get(key).map(Vec::as_slice)
    }

    /// Returns the digest of a key; `None` if the object or the key does not exist.
    pub(crate) fn digest(&self, key: &str) -> Option<Box<str>> {
        // Each byte becomes a character, so that different contents never become the same text.
        let text: String = self.get(key)?.iter().map(|byte| char::from(*byte)).collect();
        Some(digest_json(&text.into()).into())
    }
}

/// Adds the wanted keys of a JSON map; returns `None` if it is not one.
fn pick<V: DeserializeOwned>(
    map: Option<&RawValue>,
    wants: Wants<'_>,
    bytes: fn(V) -> Vec<u8>,
    into: &mut Data,
) -> Option<()> {
    let Some(map) = map else { return Some(()) };
    let mut json = serde_json::Deserializer::from_str(map.get());
    json.deserialize_map(Picker { wants, bytes, into }).ok()
}

struct Picker<'p, V> {
    wants: Wants<'p>,
    bytes: fn(V) -> Vec<u8>,
    into: &'p mut Data,
}

impl<'de, V: DeserializeOwned> Visitor<'de> for Picker<'_, V> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if (self.wants)(&key) {
                self.into.insert(key.into(), (self.bytes)(map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: SourceKind, json: &[u8]) -> Option<Content> {
        Content::read(kind, json, &|_| true)
    }

    #[test]
    fn keys_that_are_not_wanted_are_skipped() {
        let keys: Vec<String> = (0..70_000).map(|n| format!(r#""k{n}":"""#)).collect();
        for (kind, value) in [(SourceKind::Secret, "eDogMQ=="), (SourceKind::ConfigMap, "x: 1")] {
            let json = format!(r#"{{"metadata":{{}},"data":{{{},"a":{value:?},"b":{value:?}}}}}"#, keys.join(","));
            let mut content = Content::read(kind, json.as_bytes(), &|key| key == "a" || key == "b").unwrap();
            assert_eq!((content.data.len(), content.size(), content.get("a")), (2, 8, Some(&b"x: 1"[..])));
            content.retain(&|key| key == "b");
            assert_eq!((content.size(), content.get("a")), (4, None));
        }
    }

    #[test]
    fn the_key_of_release_records_has_no_values() {
        let key =
            format!(r#"{{"metadata":{{"resourceVersion":"7"}},"type":{RECORD_KEY:?},"data":{{"current":"eA=="}}}}"#);
        assert!(read(SourceKind::Secret, key.as_bytes()).unwrap().get("current").is_none());
    }

    #[test]
    fn secrets_are_base64_and_config_maps_have_text_and_binary_data() {
        let secret = br#"{"metadata":{"resourceVersion":"7"},"data":{"a":"eDogMQ=="}}"#;
        let secret = read(SourceKind::Secret, secret).unwrap();
        assert_eq!((secret.version, secret.get("a"), secret.get("b")), (7, Some(&b"x: 1"[..]), None));
        let map = br#"{"metadata":{"resourceVersion":"7"},"data":{"a":"x: 1"},"binaryData":{"b":"/w=="}}"#;
        let map = read(SourceKind::ConfigMap, map).unwrap();
        assert_eq!((map.get("a"), map.get("b")), (Some(&b"x: 1"[..]), Some(&b"\xff"[..])));
        assert_eq!(secret.digest("a"), map.digest("a"));
        assert_ne!(map.digest("a"), map.digest("b"));
    }

    #[test]
    fn an_answer_of_another_shape_is_not_content_and_an_empty_object_is() {
        for other in [&b"[]"[..], br#"{"metadata":{},"data":{"a":"%"}}"#, br#"{"metadata":{},"data":["a"]}"#] {
            assert!(read(SourceKind::Secret, other).is_none());
        }
        for empty in [&br#"{"metadata":{}}"#[..], br#"{"metadata":{},"data":null}"#] {
            assert_eq!(read(SourceKind::Secret, empty).unwrap().version, 1);
        }
    }
}
