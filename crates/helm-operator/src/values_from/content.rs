//! The data of a Secret or ConfigMap, which is read once, digested by key, and dropped.

use std::collections::BTreeMap;

use helm_release::kube::digest_json;
use k8s_openapi::ByteString;
use serde::Deserialize;

use super::{RECORD_KEY, SourceKind};

/// The data of an object. It deliberately does not implement `Debug`, because it may be secret.
#[derive(Default)]
pub(crate) struct Content {
    /// The resource version; 0 if the object does not exist.
    pub(crate) version: u64,
    data: BTreeMap<String, Vec<u8>>,
}

#[derive(Deserialize)]
struct Secret {
    metadata: Meta,
    #[serde(default, rename = "type")]
    kind: String,
    data: Option<BTreeMap<String, ByteString>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigMap {
    metadata: Meta,
    data: Option<BTreeMap<String, String>>,
    binary_data: Option<BTreeMap<String, ByteString>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    resource_version: String,
}

impl Content {
    /// Parses the server's JSON; returns `None` if it is not such an object. An error would quote it.
    pub(crate) fn read(kind: SourceKind, json: &[u8]) -> Option<Content> {
        let (metadata, data) = match kind {
            SourceKind::Secret => {
                let Secret { metadata, kind, data } = serde_json::from_slice(json).ok()?;
                // The key of release records is not a value source.
                let data = data.filter(|_| kind != RECORD_KEY);
                (metadata, data.into_iter().flatten().map(|(key, ByteString(bytes))| (key, bytes)).collect())
            }
            SourceKind::ConfigMap => {
                let ConfigMap { metadata, data, binary_data } = serde_json::from_slice(json).ok()?;
                let text = data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes()));
                let binary = binary_data.into_iter().flatten().map(|(key, ByteString(bytes))| (key, bytes));
                (metadata, text.chain(binary).collect())
            }
        };
        Some(Content { version: metadata.resource_version.parse().unwrap_or(0).max(1), data })
    }

    pub(crate) fn get(&self, key: &str) -> Option<&[u8]> {
        self.data.get(key).map(Vec::as_slice)
    }

    pub(crate) fn digests(&self) -> BTreeMap<Box<str>, Box<str>> {
        // Each byte becomes a character, so that different contents never become the same text.
        let digest =
            |bytes: &[u8]| digest_json(&bytes.iter().map(|b| char::from(*b)).collect::<String>().into()).into();
        self.data.iter().map(|(key, bytes)| (key.as_str().into(), digest(bytes))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_release_records_has_no_values() {
        let key =
            format!(r#"{{"metadata":{{"resourceVersion":"7"}},"type":{RECORD_KEY:?},"data":{{"current":"eA=="}}}}"#);
        assert!(Content::read(SourceKind::Secret, key.as_bytes()).unwrap().get("current").is_none());
    }

    #[test]
    fn secrets_are_base64_and_config_maps_have_text_and_binary_data() {
        let secret = br#"{"metadata":{"resourceVersion":"7"},"data":{"a":"eDogMQ=="}}"#;
        let secret = Content::read(SourceKind::Secret, secret).unwrap();
        assert_eq!((secret.version, secret.get("a"), secret.get("b")), (7, Some(&b"x: 1"[..]), None));
        let map = br#"{"metadata":{"resourceVersion":"7"},"data":{"a":"x: 1"},"binaryData":{"b":"/w=="}}"#;
        let map = Content::read(SourceKind::ConfigMap, map).unwrap();
        assert_eq!((map.get("a"), map.get("b")), (Some(&b"x: 1"[..]), Some(&b"\xff"[..])));
        assert_eq!(secret.digests().get("a"), map.digests().get("a"));
        assert_ne!(map.digests().get("a"), map.digests().get("b"));
    }

    #[test]
    fn an_answer_of_another_shape_is_not_content_and_an_empty_object_is() {
        assert!(Content::read(SourceKind::Secret, b"[]").is_none());
        assert!(Content::read(SourceKind::Secret, br#"{"metadata":{},"data":{"a":"%"}}"#).is_none());
        assert_eq!(Content::read(SourceKind::Secret, br#"{"metadata":{}}"#).unwrap().version, 1);
    }
}
