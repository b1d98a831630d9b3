//! Fetches the chart of a source, or finds the last one in the cache: only a chart that is what its digest says, and
//! that the key vouches for, if there is one.

use std::path::PathBuf;

use golibs::semver::Constraint;
use http::uri::Scheme;
use http::{HeaderMap, StatusCode, Uri, header};
use serde::Deserialize;

use crate::cache::Entry;
use crate::client::{Ask, Client, Hop};
use crate::manifest::{self, Content, MANIFEST};
use crate::signature::{Signature, is_signed};
use crate::wanted::{is_older, newest, tag};
use crate::{Cache, Digest, Error, Key, Location, MAX_ARCHIVE_BYTES, Wanted, credentials};

/// The maximum size of a manifest, in bytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// The maximum size of a page of tags, in bytes.
const MAX_PAGE_BYTES: u64 = 4 << 20;

/// The number of tags to ask for at a time.
const PAGE: usize = 1000;

/// The maximum number of pages of tags.
const MAX_PAGES: usize = 50;

/// Where a chart is, and which one is wanted.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where the chart is.
    pub location: Location,
    /// The version; `None` for an archive on a web server that may be replaced.
    pub wanted: Option<Wanted>,
    /// Whether the registry is asked without encryption.
    pub plain: bool,
}

/// The settings of a fetch, besides the source.
#[derive(Clone, Copy, Default)]
pub struct Access<'a> {
    /// Docker's configuration, with credentials.
    pub docker_config: Option<&'a [u8]>,
    /// Certificates in PEM that are trusted besides the system's.
    pub ca: &'a [u8],
    /// The key that has to vouch for the chart.
    pub key: Option<&'a Key>,
    /// The transport for requests; `None` for the network.
    pub hop: Option<&'a Hop>,
}

/// A chart that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The packed chart, in the cache.
    pub archive: PathBuf,
    /// The digest of the archive.
    pub digest: Digest,
    /// The digest that names the chart at its source: that of its manifest in a registry.
    pub name: Digest,
    /// The version that was found; `None` for an archive from a web server, and for a digest.
    pub version: Option<String>,
    entry: Entry,
}

impl Fetched {
    fn new(archive: PathBuf, digest: Digest, entry: Entry) -> Fetched {
        Fetched { archive, digest, name: entry.name(digest), version: entry.version.clone(), entry }
    }

    /// Keeps the chart as the last one that was found, which serves while its source is away, and which no older
    /// version replaces. Assumes that it loads.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn keep(&self, cache: &Cache) -> Result<(), Error> {
        let source = &self.entry.source;
        if cache.entry(source).as_ref() != Some(&self.entry) {
            cache.put_entry(&self.entry)?;
        }
        cache.serve(source, &self.digest);
        Ok(())
    }
}

impl Source {
    /// Returns whether another chart may be there later.
    pub fn moves(&self) -> bool {
        self.wanted.as_ref().is_none_or(Wanted::moves)
    }

    /// Returns a name of the source in the cache. A version without encryption is another source, because anyone in the
    /// network may decide what that has. A digest names one chart either way, and an archive's URL has its scheme. With a
    /// key, it is another source as well, so that an unsigned chart does not replace a signed one.
    fn name(&self, key: Option<&Key>) -> String {
        let wanted = self.wanted.as_ref().map(|wanted| format!(" {wanted}")).unwrap_or_default();
        let is_open = self.plain && matches!(self.wanted, Some(Wanted::Version(_) | Wanted::Range { .. }));
        let how = if is_open { " without encryption" } else { "" };
        let signed = if key.is_some() { " with a signature" } else { "" };
        format!("{}{wanted}{how}{signed}", self.location)
    }

    /// Returns the chart that was last kept, without any request. It is checked as if it had just been fetched.
    pub fn cached(&self, cache: &Cache, key: Option<&Key>) -> Option<Fetched> {
        let name = self.name(key);
        let entry = cache.entry(&name)?;
        self.check(&entry, key).ok()?;
        let digest = archive_of(&entry).ok()?;
        let archive = cache.archive(&digest)?;
        cache.serve(&name, &digest);
        Some(Fetched::new(archive, digest, entry))
    }

    /// Fetches a chart unless the cache has it. A chart named by its digest needs no request at all if it was kept. What
    /// is fetched counts as found only once it is [kept](Fetched::keep).
    ///
    /// # Errors
    /// The server does not answer, or what it has may not be used.
    pub async fn fetch(&self, cache: &Cache, access: Access<'_>) -> Result<Fetched, Error> {
        if let Some(Wanted::Digest(_)) = &self.wanted
            && let Some(cached) = self.cached(cache, access.key)
        {
            return Ok(cached);
        }
        let config = access.docker_config.map(|config| credentials::find(config, &self.location)).transpose()?;
        let scheme = if self.plain { Scheme::HTTP } else { Scheme::HTTPS };
        let mut client = Client::new(&self.location, scheme, access.ca, config.flatten(), access.hop)?;
        let (entry, archive) = match &self.location {
            Location::Registry { repository, .. } => {
                self.ask_registry(&mut client, repository, cache, access.key).await?
            }
            Location::Archive(uri) => self.ask_server(&mut client, uri.path(), cache, access.key).await?,
        };
        Ok(Fetched::new(archive, archive_of(&entry)?, entry))
    }

    /// Fetches a chart from a registry. The archive comes last, so an unverified one is never stored.
    async fn ask_registry(
        &self,
        client: &mut Client,
        repository: &str,
        cache: &Cache,
        key: Option<&Key>,
    ) -> Result<(Entry, PathBuf), Error> {
        let mut registry = Registry { client, repository };
        let version = match &self.wanted {
            Some(Wanted::Range { text, constraint }) => {
                let found = registry.newest(text, constraint).await?;
                self.not_older((cache, key), text, &found)?;
                Some(found)
            }
            Some(Wanted::Version(version)) => Some(tag(version)),
            Some(Wanted::Digest(_)) | None => None,
        };
        let reference = match (&version, &self.wanted) {
            (Some(tag), _) => tag.clone(),
            (None, Some(wanted)) => wanted.to_string(),
            (None, None) => return Err(Error::Manifest("no version without a name")),
        };
        let manifest = registry.manifest(&reference).await?;
        let signatures = match key {
            Some(_) => registry.signatures(&Digest::of(&manifest)).await?,
            None => Vec::new(),
        };
        let content = manifest::chart(&manifest)?;
        let manifest = String::from_utf8(manifest).map_err(|_| Error::Manifest("a manifest that is not text"))?;
        let entry = Entry {
            source: self.name(key),
            version: version.map(|tag| tag.replace('_', "+")),
            manifest: Some(manifest),
            signatures,
            archive: content.digest.to_string(),
        };
        self.check(&entry, key)?;
        let archive = match cache.archive(&content.digest) {
            Some(archive) => archive,
            None => cache.put_archive(&content.digest, &registry.blob(&content, "the chart's archive").await?)?,
        };
        Ok((entry, archive))
    }

    /// Fails if the newest version in a range is older than the one that was kept before. A registry that lost tags,
    /// by a restore or a list that was cut, would otherwise take every release back, and what the newer chart added
    /// with it.
    fn not_older(&self, (cache, key): (&Cache, Option<&Key>), range: &str, found: &str) -> Result<(), Error> {
        let Some(before) = cache.entry(&self.name(key)).and_then(|entry| entry.version) else { return Ok(()) };
        match is_older(found, &before) {
            false => Ok(()),
            true => Err(Error::Older { range: range.to_owned(), found: found.replace('_', "+"), before }),
        }
    }

    /// Fetches an archive from a web server.
    async fn ask_server(
        &self,
        client: &mut Client,
        path: &str,
        cache: &Cache,
        key: Option<&Key>,
    ) -> Result<(Entry, PathBuf), Error> {
        let ask = Ask { path, accept: "*/*", what: "the chart's archive", limit: MAX_ARCHIVE_BYTES };
        let content = client.get(&ask).await?.body;
        let digest = Digest::of(&content);
        let (version, manifest) = (None, None);
        let entry =
            Entry { source: self.name(key), version, manifest, signatures: Vec::new(), archive: digest.to_string() };
        self.check(&entry, key)?;
        Ok((entry, cache.put_archive(&digest, &content)?))
    }

    /// Verifies a chart, whether it comes from the server or from the cache.
    ///
    /// # Errors
    /// It is something else than what is wanted, or the key does not vouch for it.
    fn check(&self, entry: &Entry, key: Option<&Key>) -> Result<(), Error> {
        let archive = archive_of(entry)?;
        let found = match &entry.manifest {
            Some(manifest) => {
                let content = manifest::chart(manifest.as_bytes())?;
                same(&content.digest, archive)?;
                Digest::of(manifest.as_bytes())
            }
            None => archive,
        };
        if let Some(Wanted::Digest(wanted)) = &self.wanted {
            same(wanted, found)?;
        }
        let unverified = |why| {
            let digest = found.to_string();
            let chart = entry.version.as_ref().map_or(digest.clone(), |version| format!("{version}, {digest}"));
            Err(Error::Unverified { why, chart })
        };
        match key {
            None => Ok(()),
            Some(_) if entry.manifest.is_none() => unverified("only charts of registries have signatures"),
            Some(key) if is_signed(key, &found, &entry.signatures) => Ok(()),
            Some(_) if entry.signatures.is_empty() => unverified(UNSIGNED),
            Some(_) => unverified("none of the chart's signatures is of the key"),
        }
    }
}

/// What to say about a chart without signatures: newer versions of cosign store them elsewhere unless asked.
const UNSIGNED: &str =
    "the chart has no signature under its tag sha256-….sig (cosign 3 needs --new-bundle-format=false)";

fn archive_of(entry: &Entry) -> Result<Digest, Error> {
    entry.archive.parse().map_err(|_| Error::Manifest("a digest other than sha256"))
}

fn same(expected: &Digest, found: Digest) -> Result<(), Error> {
    if *expected == found { Ok(()) } else { Err(Error::Digest { expected: *expected, found }) }
}

/// A repository of a registry.
struct Registry<'a> {
    client: &'a mut Client,
    repository: &'a str,
}

#[derive(Deserialize)]
struct Tags {
    /// `null` in an empty repository.
    tags: Option<Vec<String>>,
}

impl Registry<'_> {
    /// Returns the tag of the newest version in a range.
    async fn newest(&mut self, range: &str, constraint: &Constraint) -> Result<String, Error> {
        let mut path = format!("/v2/{}/tags/list?n={PAGE}", self.repository);
        let (mut best, mut count): (Option<String>, usize) = (None, 0);
        for _ in 0..MAX_PAGES {
            let ask = Ask { path: &path, accept: "application/json", what: "a page of tags", limit: MAX_PAGE_BYTES };
            let answer = self.client.get(&ask).await?;
            let page: Tags = serde_json::from_slice(&answer.body).map_err(|_| Error::Manifest("no list of tags"))?;
            let tags = page.tags.unwrap_or_default();
            count += tags.len();
            best = newest(constraint, best.iter().chain(&tags)).map(str::to_owned);
            match next(&answer.headers) {
                Some(next) => path = next,
                None => return best.ok_or(Error::NoVersion { range: range.to_owned(), tags: count }),
            }
        }
        // The newest version may be on a page that was not read.
        Err(Error::TooLarge { what: "the list of tags", limit: MAX_PAGES as u64 * MAX_PAGE_BYTES })
    }

    /// Returns a manifest; if the reference is a digest, one with this digest.
    async fn manifest(&mut self, reference: &str) -> Result<Vec<u8>, Error> {
        let path = format!("/v2/{}/manifests/{reference}", self.repository);
        let ask = Ask { path: &path, accept: MANIFEST, what: "the manifest", limit: MAX_MANIFEST_BYTES };
        let manifest = self.client.get(&ask).await?.body;
        if let Ok(expected) = reference.parse() {
            same(&expected, Digest::of(&manifest))?;
        }
        Ok(manifest.into())
    }

    /// Returns the signatures of a manifest, under the tag that cosign stores them at.
    async fn signatures(&mut self, manifest: &Digest) -> Result<Vec<Signature>, Error> {
        let found = match self.manifest(&format!("sha256-{}.sig", manifest.hex())).await {
            Err(Error::Status { status: StatusCode::NOT_FOUND, .. }) => return Ok(Vec::new()),
            found => found?,
        };
        let mut signatures = Vec::new();
        for signed in manifest::signatures(&found)? {
            let text = self.blob(&signed.content, "a signature").await?;
            signatures.push(Signature::new(&text, signed.signature));
        }
        Ok(signatures)
    }

    /// Returns some content, of exactly the size and digest that its manifest names.
    async fn blob(&mut self, content: &Content, what: &'static str) -> Result<Vec<u8>, Error> {
        let path = format!("/v2/{}/blobs/{}", self.repository, content.digest);
        let found = self.client.get(&Ask { path: &path, accept: "*/*", what, limit: content.size }).await?.body;
        same(&content.digest, Digest::of(&found))?;
        Ok(found.into())
    }
}

/// Returns the path of the next page: `</v2/shop/tags/list?last=1.0.0>; rel="next"`. Only its path
/// counts, so the next request goes to the same host.
fn next(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::LINK)?.to_str().ok()?;
    let (target, parameters) = value.trim().strip_prefix('<')?.split_once('>')?;
    let target: Uri = target.parse().ok()?;
    let path = target.path_and_query()?.as_str();
    (parameters.contains("next") && path.starts_with("/v2/")).then(|| path.to_owned())
}
