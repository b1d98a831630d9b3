//! A registry of charts in memory: versions, a tag that moves, and its failures.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};
use tower::BoxError;
use tower::util::BoxCloneSyncService;

use crate::network::Failure;
use crate::process::chart_files;
use crate::world::World;

/// The version that is there from the beginning.
pub const FIRST: &str = "1.0.0";

/// The version of a chart that must never be used: nothing that is wanted has its digest.
pub const WRONG: &str = "9.9.9";

/// Where the chart is.
pub const PLACE: &str = "oci://registry.example.com/sim/web";

/// The paths of the chart's repository.
const ROOT: &str = "/v2/sim/web";

/// Maximum latency of an answer.
const LATE: Duration = Duration::from_millis(60);

/// What a process sends requests to the registry over.
pub type Hop = BoxCloneSyncService<Request<Empty<Bytes>>, Response<UnsyncBoxBody<Bytes, io::Error>>, BoxError>;

/// How the registry fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mood {
    /// It cannot be reached.
    Away,
    /// It never answers.
    Silent,
    /// It answers with this status.
    Status(u16),
    /// What it sends under a digest is another chart.
    Wrong,
    /// It cuts its answers short.
    Cut,
}

/// The registry's contents and state.
pub struct Registry {
    /// The digest of the manifest of each tag.
    tags: BTreeMap<String, String>,
    /// Manifests and archives by digest.
    contents: BTreeMap<String, Vec<u8>>,
    /// How it fails, and until when; forever without an end.
    mood: Option<(Mood, Option<Instant>)>,
}

impl Default for Registry {
    fn default() -> Registry {
        let mut registry = Registry { tags: BTreeMap::new(), contents: BTreeMap::new(), mood: None };
        registry.push(FIRST, FIRST);
        registry
    }
}

impl Registry {
    /// Pushes the chart of a version under a tag.
    pub fn push(&mut self, tag: &str, version: &str) {
        let archive = packed(version);
        let manifest = manifest(&archive);
        self.tags.insert(tag.to_owned(), digest(&manifest));
        self.contents.insert(digest(&archive), archive);
        self.contents.insert(digest(&manifest), manifest);
    }

    /// Fails for this many milliseconds from now on; forever if it is 0.
    pub fn fail(&mut self, mood: Mood, for_ms: u64) {
        self.mood = Some((mood, (for_ms > 0).then(|| Instant::now() + Duration::from_millis(for_ms))));
    }

    /// Ends failures that have an end.
    pub fn recover(&mut self) {
        self.mood = self.mood.filter(|(_, until)| until.is_none());
    }

    /// Returns the newest version.
    pub fn newest(&self) -> &str {
        let number = |tag: &&String| tag.split('.').map(|part| part.parse::<u32>().unwrap_or_default()).collect();
        self.tags.keys().max_by_key(|tag| -> Vec<u32> { number(tag) }).map_or(FIRST, String::as_str)
    }

    fn mood(&self) -> Option<Mood> {
        self.mood.filter(|(_, until)| until.is_none_or(|until| Instant::now() < until)).map(|(mood, _)| mood)
    }

    /// Returns the answer to a request without its failures.
    fn answer(&self, path: &str) -> (u16, Vec<u8>) {
        let found = match path.strip_prefix(ROOT).and_then(|path| path.trim_start_matches('/').split_once('/')) {
            Some(("tags", _)) => Some(json!({"tags": self.tags.keys().collect::<Vec<_>>()}).to_string().into_bytes()),
            Some((_, name)) => self.contents.get(self.tags.get(name).map_or(name, String::as_str)).cloned(),
            None => None,
        };
        found.map_or((404, Vec::new()), |content| (200, content))
    }

    /// Returns another chart than the one with the requested digest.
    fn wrong(&self, path: &str) -> Option<(u16, Vec<u8>)> {
        let archive = packed(WRONG);
        match path {
            path if path.contains("/blobs/") => Some((200, archive)),
            path if path.contains("/manifests/sha256:") => Some((200, manifest(&archive))),
            _ => None,
        }
    }
}

/// Returns the digest of the manifest of a version's chart.
pub fn digest_of(version: &str) -> String {
    digest(&manifest(&packed(version)))
}

/// Returns what a process asks the registry over.
pub fn hop(world: &Arc<World>, name: &str) -> Hop {
    let (world, name): (_, Arc<str>) = (world.clone(), name.into());
    Hop::new(tower::service_fn(move |request: Request<Empty<Bytes>>| {
        let path = request.uri().path().to_owned();
        exchange(world.clone(), name.clone(), path)
    }))
}

async fn exchange(
    world: Arc<World>,
    name: Arc<str>,
    path: String,
) -> Result<Response<UnsyncBoxBody<Bytes, io::Error>>, Failure> {
    sleep(world.pause(LATE)).await;
    let (mood, (code, body)) = {
        let registry = &world.state().registry;
        let mood = registry.mood();
        let wrong = || registry.wrong(&path).filter(|_| mood == Some(Mood::Wrong));
        (mood, wrong().unwrap_or_else(|| registry.answer(&path)))
    };
    let elapsed = world.elapsed();
    world.state().trace.step(elapsed, &name, || format!("registry {path} {code} {mood:?}"));
    let body = match mood {
        Some(Mood::Away) => return Err("connection refused".into()),
        Some(Mood::Silent) => std::future::pending().await,
        Some(Mood::Cut) => body[..body.len() / 2].to_vec(),
        _ => body,
    };
    let code = if let Some(Mood::Status(code)) = mood { code } else { code };
    Ok(Response::builder().status(code).body(Full::from(body).map_err(|never| match never {}).boxed_unsync())?)
}

/// Returns the manifest of a packed chart.
fn manifest(archive: &[u8]) -> Vec<u8> {
    let config = "application/vnd.cncf.helm.config.v1+json";
    let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": config, "digest": digest(b"{}"), "size": 2},
        "layers": [{"mediaType": layer, "digest": digest(archive), "size": archive.len()}],
    });
    manifest.to_string().into_bytes()
}

fn digest(bytes: &[u8]) -> String {
    let digits: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

/// Returns the chart of a version as an archive; an empty one if that fails, which no digest names.
fn packed(version: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let added = chart_files("web", version).into_iter().try_for_each(|(name, text)| {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("web/{name}"), text.as_bytes())
    });
    let packed = added.and_then(|()| tar.into_inner()).and_then(|mut gzip| {
        gzip.flush()?;
        gzip.finish()
    });
    packed.unwrap_or_default()
}
