//! Fetches from a registry in this process, whose answers a test decides.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::manifest::MANIFEST;
use crate::signature::tests::{Pair, text};
use crate::{Access, Cache, Digest, Error, Fetched, Hop, Key, Location, MAX_ARCHIVE_BYTES, Source, Wanted};

/// An answer: status, further headers, content.
#[derive(Clone)]
struct Said(u16, Vec<(&'static str, String)>, Vec<u8>);

/// A request: path with query, and who asks.
type Asked = (String, Option<String>);

/// A server whose answers can change.
#[derive(Clone, Default)]
struct Server {
    host: String,
    says: Arc<Mutex<HashMap<String, Said>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// The header that has to prove who asks, and the challenge if it does not.
    guard: Arc<Mutex<Option<(String, String)>>>,
}

impl Server {
    async fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server { host: listener.local_addr().unwrap().to_string(), ..Server::default() };
        let served = server.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let served = served.clone();
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        head.push(byte);
                    }
                    let (answer, content) = served.answer(&String::from_utf8(head).unwrap());
                    _ = stream.write_all(answer.as_bytes()).await;
                    _ = stream.write_all(&content).await;
                });
            }
        });
        server
    }

    fn answer(&self, head: &str) -> (String, Vec<u8>) {
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let header = |name: &str| {
            head.lines().find_map(|line| {
                let (key, value) = line.split_once(": ")?;
                key.eq_ignore_ascii_case(name).then(|| value.to_owned())
            })
        };
        let who = header("authorization");
        self.asked.lock().unwrap().push((path.clone(), who.clone()));
        let guard = self.guard.lock().unwrap().clone();
        let Said(status, mut headers, content) = match guard {
            Some((proof, challenge)) if path.starts_with("/v2/") && who.as_deref() != Some(&*proof) => {
                Said(401, vec![("www-authenticate", challenge)], Vec::new())
            }
            _ => self.says.lock().unwrap().get(&path).cloned().unwrap_or(Said(404, Vec::new(), Vec::new())),
        };
        if !headers.iter().any(|(name, _)| *name == "content-length") {
            headers.push(("content-length", content.len().to_string()));
        }
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        (format!("HTTP/1.1 {status} x\r\nconnection: close\r\n{headers}\r\n"), content)
    }

    fn says(&self, path: &str, said: Said) {
        self.says.lock().unwrap().insert(path.to_owned(), said);
    }

    fn guarded(&self, proof: &str, challenge: &str) {
        *self.guard.lock().unwrap() = Some((proof.to_owned(), challenge.to_owned()));
    }

    /// Returns the requests since the last call.
    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn paths(&self) -> Vec<String> {
        self.asked().into_iter().map(|(path, _)| path).collect()
    }

    /// Publishes an archive under a tag; returns the digest of its manifest.
    fn push(&self, tag: &str, archive: &[u8]) -> Digest {
        self.says(&blob(archive), ok(archive));
        self.put(tag, &of_chart(archive))
    }

    /// Publishes a manifest under a tag.
    fn put(&self, tag: &str, manifest: &Value) -> Digest {
        let text = manifest.to_string().into_bytes();
        let digest = Digest::of(&text);
        for reference in [tag, &digest.to_string()] {
            self.says(&format!("/v2/shop/manifests/{reference}"), ok(&text));
        }
        digest
    }

    fn tags(&self, tags: &[&str]) {
        self.says("/v2/shop/tags/list?n=1000", ok(json!({"name": "shop", "tags": tags}).to_string().as_bytes()));
    }

    /// Signs a manifest as cosign does.
    fn sign(&self, manifest: &Digest, pair: &Pair) {
        let text = text(manifest);
        self.says(&blob(text.as_bytes()), ok(text.as_bytes()));
        let layer = json!({
            "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
            "digest": Digest::of(text.as_bytes()).to_string(),
            "size": text.len(),
            "annotations": {"dev.cosignproject.cosign/signature": pair.sign(text.as_bytes())},
        });
        let signatures = json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": [layer]});
        self.put(&format!("sha256-{}.sig", manifest.hex()), &signatures);
    }

    fn source(&self, wanted: &str) -> Source {
        let location = format!("oci://{}/shop", self.host).parse().unwrap();
        let wanted = match wanted.parse() {
            Ok(digest) => Wanted::Digest(digest),
            Err(_) => Wanted::parse(wanted).unwrap(),
        };
        Source { location, wanted: Some(wanted), plain: true }
    }
}

fn ok(content: &[u8]) -> Said {
    Said(200, Vec::new(), content.to_vec())
}

fn blob(content: &[u8]) -> String {
    format!("/v2/shop/blobs/{}", Digest::of(content))
}

fn of_chart(archive: &[u8]) -> Value {
    json!({
        "schemaVersion": 2,
        "config": {"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": "sha256:00", "size": 2},
        "layers": [{
            "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
            "digest": Digest::of(archive).to_string(),
            "size": archive.len(),
        }],
    })
}

fn cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path().join("charts"), 1 << 20);
    (folder, cache)
}

fn with(key: &Key) -> Access<'_> {
    Access { key: Some(key), ..Access::default() }
}

/// Returns an error with its causes.
fn said(error: &Error) -> String {
    let (mut text, mut cause) = (error.to_string(), std::error::Error::source(error));
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Fetches a chart that loads.
async fn kept(source: &Source, cache: &Cache, access: Access<'_>) -> Fetched {
    let fetched = source.fetch(cache, access).await.unwrap();
    fetched.keep(cache).unwrap();
    fetched
}

async fn refused(source: &Source, cache: &Cache) -> String {
    said(&source.fetch(cache, Access::default()).await.unwrap_err())
}

#[tokio::test]
async fn the_newest_version_in_a_range_is_fetched_once_and_serves_while_the_registry_is_away() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    server.push("1.0.0", b"one");
    server.tags(&["1.0.0", "2.0.0"]);
    let source = server.source("^1");
    assert_eq!(source.cached(&cache, None), None);
    let first = kept(&source, &cache, Access::default()).await;
    assert_eq!((first.version.as_deref(), std::fs::read(&first.archive).unwrap()), (Some("1.0.0"), b"one".to_vec()));
    assert_eq!(server.paths(), ["/v2/shop/tags/list?n=1000", "/v2/shop/manifests/1.0.0", &blob(b"one")]);
    assert_eq!(kept(&source, &cache, Access::default()).await, first);
    assert_eq!(server.paths().len(), 2, "the archive is not fetched again");
    server.push("1.1.0_b1", b"two");
    server.tags(&["1.0.0", "2.0.0", "1.1.0_b1"]);
    let second = kept(&source, &cache, Access::default()).await;
    assert_eq!((second.version.as_deref(), second.digest), (Some("1.1.0+b1"), Digest::of(b"two")));
    server.says("/v2/shop/tags/list?n=1000", Said(503, Vec::new(), Vec::new()));
    let error = refused(&source, &cache).await;
    assert!(error.ends_with("answered 503 Service Unavailable to /v2/shop/tags/list"), "{error}");
    server.asked();
    assert_eq!(source.cached(&cache, None), Some(second));
    assert_eq!(server.paths(), [""; 0]);
}

#[tokio::test]
async fn what_came_without_encryption_is_not_served_for_an_encrypted_source() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    let digest = server.push("1.0.0", b"one").to_string();
    server.tags(&["1.0.0"]);
    for (wanted, is_shared) in [("^1", false), ("1.0.0", false), (&*digest, true)] {
        let plain = server.source(wanted);
        let encrypted = Source { plain: false, ..plain.clone() };
        let fetched = kept(&plain, &cache, Access::default()).await;
        let shared = is_shared.then(|| fetched.clone());
        assert_eq!((plain.cached(&cache, None), encrypted.cached(&cache, None)), (Some(fetched), shared), "{wanted}");
    }
}

#[tokio::test]
async fn a_registry_that_lost_versions_takes_nothing_back() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    server.push("1.9.0", b"one");
    server.push("1.10.0_b1", b"two");
    server.tags(&["1.9.0", "1.10.0_b1"]);
    let source = server.source("^1");
    let newest = kept(&source, &cache, Access::default()).await;
    server.tags(&["1.9.0"]);
    let error = refused(&source, &cache).await;
    let expected = "the newest version in the range ^1 is 1.9.0, but 1.10.0+b1 was there before: ";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(source.cached(&cache, None), Some(newest), "what is known serves on");
    let narrowed = server.source(">=1 <1.10").fetch(&cache, Access::default()).await.unwrap();
    assert_eq!(narrowed.version.as_deref(), Some("1.9.0"));
}

#[tokio::test]
async fn a_version_that_was_fetched_but_not_kept_is_not_the_last_one_that_was_found() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    server.push("1.0.0", b"one");
    server.push("1.1.0", b"broken");
    server.tags(&["1.0.0"]);
    let source = server.source("^1");
    let first = kept(&source, &cache, Access::default()).await;
    server.tags(&["1.0.0", "1.1.0"]);
    let broken = source.fetch(&cache, Access::default()).await.unwrap();
    assert_eq!((broken.version.as_deref(), source.cached(&cache, None)), (Some("1.1.0"), Some(first.clone())));
    server.tags(&["1.0.0"]);
    assert_eq!(source.fetch(&cache, Access::default()).await.unwrap(), first);
}

#[tokio::test]
async fn a_digest_never_moves_and_is_not_even_asked_for_again() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    let digest = server.push("1.0.0", b"one");
    let source = server.source(&digest.to_string());
    assert!(!source.moves());
    let first = kept(&source, &cache, Access::default()).await;
    assert_eq!(server.paths(), [format!("/v2/shop/manifests/{digest}"), blob(b"one")]);
    server.push("1.0.0", b"two");
    assert_eq!(kept(&source, &cache, Access::default()).await, first);
    assert_eq!(server.paths(), [""; 0]);
    std::fs::write(&first.archive, "damaged").unwrap();
    assert_eq!(kept(&source, &cache, Access::default()).await, first);
    assert_eq!(std::fs::read(&first.archive).unwrap(), b"one");
}

#[tokio::test]
async fn what_an_interrupted_process_left_behind_is_made_whole() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    server.push("1.0.0", b"one");
    let source = server.source("1.0.0");
    let fetched = kept(&source, &cache, Access::default()).await;
    let files = || std::fs::read_dir(cache.folder()).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
    assert_eq!(files().len(), 2, "an archive and an entry");
    for lost in files() {
        std::fs::remove_file(lost).unwrap();
        std::fs::write(cache.folder().join("1-0.part"), "on").unwrap();
        assert_eq!(source.cached(&cache, None), None);
        assert_eq!(kept(&source, &cache, Access::default()).await, fetched);
        assert_eq!(source.cached(&cache, None), Some(fetched.clone()));
    }
}

#[tokio::test]
async fn content_that_is_not_what_its_name_says_is_never_stored() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    let digest = server.push("1.0.0", b"one");
    let source = server.source("1.0.0");
    server.says(&blob(b"one"), ok(b"two"));
    assert!(refused(&source, &cache).await.contains("has another digest"));
    // The archive is longer than its manifest says, openly or not.
    server.says(&blob(b"one"), ok(b"one and more"));
    assert!(refused(&source, &cache).await.contains("the chart's archive is larger than 3 bytes"));
    let length = vec![("transfer-encoding", "chunked".to_owned()), ("content-length", "0".into())];
    server.says(&blob(b"one"), Said(200, length, b"c\r\none and more\r\n0\r\n\r\n".to_vec()));
    assert!(refused(&source, &cache).await.contains("the chart's archive is larger than 3 bytes"));
    // The connection ends in the middle.
    server.says(&blob(b"one"), Said(200, vec![("content-length", "3".into())], b"on".to_vec()));
    assert!(refused(&source, &cache).await.starts_with(&format!("cannot ask {}: ", server.host)));
    let mut huge = of_chart(b"one");
    huge["layers"][0]["size"] = json!(MAX_ARCHIVE_BYTES + 1);
    server.put("1.0.0", &huge);
    server.asked();
    assert!(refused(&source, &cache).await.contains("larger than 16777216 bytes"));
    assert_eq!(server.paths(), ["/v2/shop/manifests/1.0.0"], "nothing of it is read");
    // A manifest of another digest than that it was asked by.
    server.says(&format!("/v2/shop/manifests/{digest}"), ok(of_chart(b"two").to_string().as_bytes()));
    assert!(refused(&server.source(&digest.to_string()), &cache).await.contains("has another digest"));
    assert!(!cache.folder().exists());
}

#[tokio::test]
async fn with_a_key_only_a_signed_chart_is_used_from_the_registry_or_the_cache() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    let (own, other) = (Pair::new(), Pair::new());
    let manifest = server.push("1.0.0", b"one");
    let (source, key) = (server.source("1.0.0"), own.public());
    let error = source.fetch(&cache, with(&key)).await.unwrap_err();
    assert!(error.is_unverified() && error.to_string().contains("no signature under its tag"), "{error}");
    assert!(error.to_string().ends_with(&format!(": 1.0.0, {manifest}")), "{error}");
    server.sign(&manifest, &other);
    let error = source.fetch(&cache, with(&key)).await.unwrap_err();
    assert!(error.is_unverified() && error.to_string().contains("is of the key"), "{error}");
    assert!(!server.paths().contains(&blob(b"one")) && !cache.folder().exists(), "the archive is not even fetched");
    server.sign(&manifest, &own);
    let fetched = kept(&source, &cache, with(&key)).await;
    assert_eq!(source.cached(&cache, Some(&key)), Some(fetched.clone()));
    assert_eq!(source.cached(&cache, Some(&other.public())), None);
    // What was fetched without a key is not believed with one.
    let unsigned = server.push("2.0.0", b"two");
    let source = server.source("2.0.0");
    kept(&source, &cache, Access::default()).await;
    assert_eq!(source.cached(&cache, Some(&key)), None);
    let by_digest = server.source(&unsigned.to_string());
    kept(&by_digest, &cache, Access::default()).await;
    assert!(by_digest.fetch(&cache, with(&key)).await.unwrap_err().is_unverified());
}

#[tokio::test]
async fn what_is_kept_without_a_key_does_not_take_the_place_of_a_signed_chart() {
    let (server, (_folder, cache), pair) = (Server::start().await, cache(), Pair::new());
    let (source, key) = (server.source("^1"), pair.public());
    server.sign(&server.push("1.0.0", b"one"), &pair);
    server.tags(&["1.0.0"]);
    let signed = kept(&source, &cache, with(&key)).await;
    server.push("1.1.0", b"two");
    server.tags(&["1.0.0", "1.1.0"]);
    let unsigned = kept(&source, &cache, Access::default()).await;
    assert!(source.fetch(&cache, with(&key)).await.unwrap_err().is_unverified());
    assert_eq!(source.cached(&cache, Some(&key)), Some(signed.clone()), "it serves on");
    assert_eq!(source.cached(&cache, None), Some(unsigned));
    server.tags(&["1.0.0"]);
    assert_eq!(source.fetch(&cache, with(&key)).await.unwrap(), signed, "nothing newer was there before");
}

#[tokio::test]
async fn a_registry_sees_a_token_and_nobody_else_sees_it() {
    let (server, elsewhere, (_folder, cache)) = (Server::start().await, Server::start().await, cache());
    let config = json!({"auths": {&server.host: {"username": "me", "password": "s3cret"}}}).to_string();
    let access = Access { docker_config: Some(config.as_bytes()), ..Access::default() };
    server.push("1.0.0", b"one");
    let challenge =
        format!("Bearer realm=\"http://{}/token\",service=\"r\",scope=\"repository:shop:pull\"", server.host);
    server.guarded("Bearer t0ken", &challenge);
    server.says("/token?service=r&scope=repository:shop:pull", ok(br#"{"token": "t0ken"}"#));
    server.says(&blob(b"one"), Said(307, vec![("location", format!("http://{}/store/one", elsewhere.host))], vec![]));
    elsewhere.says("/store/one", ok(b"one"));
    server.source("1.0.0").fetch(&cache, access).await.unwrap();
    let basic = Some(format!("Basic {}", STANDARD.encode("me:s3cret")));
    let (token, manifest) = (Some("Bearer t0ken".to_owned()), "/v2/shop/manifests/1.0.0".to_owned());
    let expected = [
        (manifest.clone(), None),
        ("/token?service=r&scope=repository:shop:pull".into(), basic),
        (manifest, token.clone()),
        (blob(b"one"), token),
    ];
    assert_eq!(server.asked(), expected);
    assert_eq!(elsewhere.asked(), [("/store/one".to_owned(), None)]);
}

#[tokio::test]
async fn passwords_go_to_the_registry_only_and_refusals_do_not_quote_them() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    let config = json!({"auths": {&server.host: {"username": "me", "password": "s3cret"}}}).to_string();
    let access = Access { docker_config: Some(config.as_bytes()), ..Access::default() };
    let basic = format!("Basic {}", STANDARD.encode("me:s3cret"));
    server.push("1.0.0", b"one");
    let source = server.source("1.0.0");
    server.guarded(&basic, "Basic realm=\"r\"");
    source.fetch(&cache, access).await.unwrap();
    server.guarded("Basic another", "Basic realm=\"r\"");
    let Err(error) = source.fetch(&cache, access).await else { panic!("it is let in") };
    assert!(said(&error).contains("401 Unauthorized") && !said(&error).contains("s3cret"), "{}", said(&error));
    let error = source.fetch(&cache, Access::default()).await.unwrap_err();
    assert!(error.to_string().ends_with("are the credentials for it right?"), "{error}");
    // An address that is not encrypted gets no password, unless it is the registry's own.
    server.guarded("Bearer x", "Bearer realm=\"http://127.0.0.1:1/token\"");
    let error = source.fetch(&cache, access).await.unwrap_err();
    assert!(error.to_string().contains("not encrypted"), "{error}");
}

#[tokio::test]
async fn redirects_are_bounded_and_stay_on_the_web() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    server.push("1.0.0", b"one");
    let redirect = |to: &str| Said(302, vec![("location", to.to_owned())], Vec::new());
    for (to, expected) in [
        (blob(b"one"), "too many redirects"),
        ("file:///etc/passwd".into(), "cannot be followed"),
        ("http://u:p@127.0.0.1/x".into(), "cannot be followed"),
    ] {
        server.says(&blob(b"one"), redirect(&to));
        let error = refused(&server.source("1.0.0"), &cache).await;
        assert!(error.contains(expected), "{to}: {error}");
    }
    server.says(&blob(b"one"), redirect("/store/one"));
    server.says("/store/one", ok(b"one"));
    server.source("1.0.0").fetch(&cache, Access::default()).await.unwrap();
}

#[tokio::test]
async fn tags_are_read_page_by_page_and_not_without_an_end() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    server.push("1.5.0", b"one");
    let page = |tags: &[&str], next: Option<&str>| {
        let link = next.map(|next| ("link", format!("<{next}>; rel=\"next\"")));
        Said(200, link.into_iter().collect(), json!({"tags": tags}).to_string().into_bytes())
    };
    server.says("/v2/shop/tags/list?n=1000", page(&["1.5.0"], Some("/v2/shop/tags/list?n=1000&last=1.5.0")));
    server.says("/v2/shop/tags/list?n=1000&last=1.5.0", page(&["1.4.0"], None));
    let fetched = server.source("^1").fetch(&cache, Access::default()).await.unwrap();
    assert_eq!(fetched.version.as_deref(), Some("1.5.0"));
    server.says("/v2/shop/tags/list?n=1000", page(&["1.5.0"], Some("/v2/shop/tags/list?n=1000")));
    assert!(refused(&server.source("^1"), &cache).await.contains("the list of tags is larger"));
    server.says("/v2/shop/tags/list?n=1000", ok(br#"{"tags": null}"#));
    assert!(refused(&server.source("^1"), &cache).await.contains("none of 0 tags is a version in the range ^1"));
}

#[tokio::test]
async fn an_archive_on_a_web_server_is_fetched_by_its_digest_or_as_it_is() {
    let (server, (_folder, cache)) = (Server::start().await, cache());
    server.says("/charts/shop.tgz", ok(b"one"));
    let location: crate::Location = format!("http://{}/charts/shop.tgz", server.host).parse().unwrap();
    let source = |wanted| Source { location: location.clone(), wanted, plain: true };
    let (pinned, open) = (source(Some(Wanted::Digest(Digest::of(b"one")))), source(None));
    assert!(open.moves() && !pinned.moves());
    let fetched = pinned.fetch(&cache, Access::default()).await.unwrap();
    assert_eq!((fetched.digest, fetched.version), (Digest::of(b"one"), None));
    open.fetch(&cache, Access::default()).await.unwrap();
    server.says("/charts/shop.tgz", ok(b"two"));
    assert_eq!(open.fetch(&cache, Access::default()).await.unwrap().digest, Digest::of(b"two"));
    let (_folder, empty) = self::cache();
    assert!(refused(&pinned, &empty).await.contains("has another digest"));
    let key = Pair::new().public();
    assert!(open.fetch(&cache, with(&key)).await.unwrap_err().is_unverified());
}

#[tokio::test]
async fn requests_go_over_a_hop_instead_of_the_network() {
    let archive = b"one";
    let described = |media_type: &str, content: &[u8]| {
        let digest = Digest::of(content).to_string();
        json!({"mediaType": media_type, "digest": digest, "size": content.len()})
    };
    let layer = described("application/vnd.cncf.helm.chart.content.v1.tar+gzip", archive);
    let config = described("application/vnd.cncf.helm.config.v1+json", b"{}");
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]}).to_string();
    let hop = Hop::new(tower::service_fn(move |request: Request<_>| {
        let path = request.uri().to_string();
        let body = match path.strip_prefix("https://registry.example.com/v2/shop/") {
            Some("manifests/1.0.0") => manifest.clone(),
            Some(blob) if blob.starts_with("blobs/") => "one".to_owned(),
            _ => return ready(Err(format!("{path} was asked").into())),
        };
        ready(Ok(Response::new(Full::from(body).map_err(|never| match never {}).boxed_unsync())))
    }));
    let (location, (_folder, cache)) = ("oci://registry.example.com/shop".parse().unwrap(), cache());
    let source = |version: &str| Source {
        location: Location::clone(&location),
        wanted: Wanted::parse(version).ok(),
        plain: false,
    };
    let access = Access { hop: Some(&hop), ..Access::default() };
    let fetched = source("1.0.0").fetch(&cache, access).await.unwrap();
    assert_eq!(std::fs::read(fetched.archive).unwrap(), archive);
    let error = said(&source("2.0.0").fetch(&cache, access).await.unwrap_err());
    assert_eq!(
        error,
        "cannot ask registry.example.com: https://registry.example.com/v2/shop/manifests/2.0.0 was asked"
    );
}
