//! Reads records in several Secrets, as helm-operator-plugins' chunked storage writes them: an index with the first
//! chunk and the names of the others. Its data keys are those of Helm's records; its `owner` label is chosen by the
//! operator's author.

use super::decode;
use super::meta::revision_of_others;
use super::proof::{Stored, Unproven};
use super::seal::Content;
use super::{Error, Record, Secret, Storage, path, secret_labels};
use crate::kube::Call;
use crate::release::{Packed, Status};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum number of chunks of one record.
const MAX_CHUNKS: usize = 64;

/// The key of an index's first chunk, and of the single chunk in each further Secret.
const CHUNK: &str = "chunk";
/// The key of the names of an index's further chunks: a JSON list.
const EXTRA_CHUNKS: &str = "extraChunks";

impl Secret {
    /// Returns whether it is the index of a record in chunks.
    pub(super) fn is_index(&self) -> bool {
        self.data.contains_key(EXTRA_CHUNKS)
    }

    fn bytes(&self, key: &str) -> Option<Vec<u8>> {
        STANDARD.decode(self.data.get(key)?).ok()
    }
}

impl Storage {
    /// Reads a release that is recorded in chunks: its deployed revision, else its newest, and the number of the
    /// newest. Returns `None` if there is no such release, or if its newest revision is older than `at_least`.
    ///
    /// Sends one list request, and one read for each further chunk.
    pub(crate) async fn chunked(
        &self,
        namespace: &str,
        name: &str,
        at_least: u32,
    ) -> Result<Option<(Record, u32)>, Error> {
        let path = format!("/api/v1/namespaces/{namespace}/secrets?labelSelector=name%3D{name},type%3Dindex");
        let found: Vec<Secret> = self.list(name, Call::get(path)).await?;
        let indices: Vec<Secret> = found.into_iter().filter(Secret::is_index).collect();
        let newest = indices.iter().map(|index| order(index).1).max().unwrap_or(0);
        let best = indices.into_iter().max_by_key(order).filter(|_| newest >= at_least);
        let Some(best) = best else { return Ok(None) };
        Ok(Some((self.read_chunks(namespace, best).await?, newest)))
    }

    pub(super) async fn read_chunks(&self, namespace: &str, index: Secret) -> Result<Record, Error> {
        let key = index.metadata.name.clone().unwrap_or_default();
        let incomplete = || Error::Incomplete { key: key.clone() };
        let names: Option<Vec<String>> = index.bytes(EXTRA_CHUNKS).and_then(|json| serde_json::from_slice(&json).ok());
        let names = names.filter(|names| names.len() < MAX_CHUNKS).ok_or_else(incomplete)?;
        let mut gzip = index.bytes(CHUNK).ok_or_else(incomplete)?;
        for name in names {
            let answer = match self.send("read", &name, Call::get(path(namespace, &name))).await {
                Err(error) if error.is_missing() => return Err(incomplete()),
                answer => answer?,
            };
            let chunk: Secret =
                answer.parse().map_err(|source| Error::Api { verb: "read", key: name.clone(), source })?;
            gzip.extend(chunk.bytes(CHUNK).ok_or_else(incomplete)?);
        }
        let labels = secret_labels(index.metadata);
        let content = Content::of(&gzip);
        let decoded = decode::decoded(gzip.len(), move || Packed::from_gzip(&gzip, labels)).await;
        let release = decoded.map_err(|source| Error::Codec { key, source })?;
        // This operator never writes records in chunks.
        Ok(Record::of(Stored::Unproven(Unproven::new(release, content)), None))
    }
}

/// Returns a sort key by which deployed revisions come last, with the newest of them at the end.
fn order(index: &Secret) -> (bool, u32) {
    let labels = index.metadata.labels.as_ref();
    let label = |key| labels.and_then(|all| all.get(key)).map_or("", String::as_str);
    (Status::parse(label("status")) == Status::Deployed, revision_of_others(label("version")).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::kube::{Disturbance, MemoryApi};
    use crate::release::Release;
    use crate::sample;

    const SECRETS: &str = "/api/v1/namespaces/ns/secrets";

    /// Stores a revision in chunks of this many bytes.
    fn store(server: &MemoryApi, version: u32, status: &str, size: usize) {
        let release = Release { version, ..sample::release() };
        let gzip = STANDARD.decode(Packed::pack(&release).unwrap().to_record()).unwrap();
        let key = release.key();
        let chunks: Vec<&[u8]> = gzip.chunks(size).collect();
        let names: Vec<String> = (1..chunks.len()).map(|n| format!("{key}-{n}")).collect();
        for (name, chunk) in names.iter().zip(&chunks[1..]) {
            let metadata = json!({"name": name, "labels": {"owner": "mine", "key": key, "type": "chunk"}});
            server.put(
                &format!("{SECRETS}/{name}"),
                json!({"metadata": metadata, "data": {"chunk": STANDARD.encode(chunk)}}),
                "hop",
            );
        }
        let labels =
            json!({"owner": "mine", "name": "web", "type": "index", "status": status, "version": version.to_string()});
        let data =
            json!({"chunk": STANDARD.encode(chunks[0]), "extraChunks": STANDARD.encode(json!(names).to_string())});
        server.put(
            &format!("{SECRETS}/{key}"),
            json!({"metadata": {"name": key, "labels": labels}, "data": data}),
            "hop",
        );
    }

    #[tokio::test]
    async fn a_record_is_put_together_from_its_chunks() {
        for size in [50, 100_000] {
            let server = Arc::new(MemoryApi::new());
            let storage = Storage::new(server.clone(), sample::keys());
            store(&server, 1, "superseded", size);
            store(&server, 2, "deployed", size);
            store(&server, 3, "failed", size);
            let (read, newest) = storage.chunked("ns", "web", 3).await.unwrap().unwrap();
            let read = read.release.facts();
            assert_eq!((read.version, newest, &read.manifest), (2, 3, &sample::release().manifest));
            assert!(read.labels.is_empty(), "{:?}", read.labels);
            assert!(storage.chunked("ns", "other", 0).await.unwrap().is_none());
            assert!(storage.chunked("ns", "web", 4).await.unwrap().is_none(), "a later one is looked for");
            let known = storage.get("ns", "web", 3).await.unwrap();
            assert_eq!(known.release.facts().version, 3, "an index is read wherever a record is");
        }
    }

    #[tokio::test]
    async fn a_number_beyond_any_real_one_has_no_successor() {
        let server = Arc::new(MemoryApi::new());
        store(&server, u32::MAX, "deployed", 100_000);
        let (_, newest) = Storage::new(server, sample::keys()).chunked("ns", "web", 0).await.unwrap().unwrap();
        assert_eq!(newest, 0);
    }

    #[tokio::test]
    async fn a_record_with_a_missing_chunk_is_an_error() {
        let server = Arc::new(MemoryApi::new());
        let storage = Storage::new(server.clone(), sample::keys());
        store(&server, 1, "deployed", 50);
        server.disturb("GET /api/v1/namespaces/ns/secrets?", 1, Disturbance::Refused(503));
        assert!(matches!(storage.chunked("ns", "web", 0).await, Err(Error::Api { .. })));
        let chunk = format!("{SECRETS}/sh.helm.release.v1.web.v1-1");
        server.put(&chunk, json!({"metadata": {"name": "x"}, "data": {}}), "hop");
        for is_there in [true, false] {
            let error = storage.chunked("ns", "web", 0).await.unwrap_err();
            assert_eq!(error.to_string(), "release record \"sh.helm.release.v1.web.v1\" lacks a chunk");
            assert!(error.is_damage(), "{is_there}");
            server.remove(&chunk);
        }
        server.disturb(&format!("GET {chunk}"), 1, Disturbance::Refused(503));
        assert!(matches!(storage.chunked("ns", "web", 0).await, Err(Error::Api { .. })), "an outage is no damage");
        assert!(storage.chunked("ns", "web", 2).await.unwrap().is_none(), "what is damaged is not needed");
    }
}
