//! Fetches the charts of watches with the configured credentials and certificates, and verifies their signatures. The
//! crate `registry` sends the requests, and chart controllers decide when.

mod here;

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use golibs::semver::Version;
use helm::chart::Metadata;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use registry::{Access, Cache, Fetched, Hop, Key, KeyError};

use crate::watches::{Pem, Pull};
pub(crate) use here::{archive, local};

/// The key of credentials in a Secret for pulling images.
const DOCKER_CONFIG: &str = ".dockerconfigjson";

/// The maximum size of a file with credentials, certificates or a key, in bytes: that of a Secret.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Fetches one chart.
pub(crate) struct Puller {
    pub(crate) pull: Pull,
    cache: Arc<Cache>,
    secrets: Option<Secrets>,
    hop: Option<Hop>,
}

/// Where Secrets are read.
#[derive(Clone)]
pub(crate) struct Secrets {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

/// The reason why a chart cannot be used. The messages quote no secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read Secret {namespace}/{name}")]
    Secret { namespace: String, name: String, source: kube::Error },
    #[error("Secret {namespace}/{name} has no key {key}")]
    NoKey { namespace: String, name: String, key: String },
    #[error(
        "Secret {0} is needed to fetch the chart, and only a running operator reads Secrets: what is public, a certificate or a key, can be a file of the project"
    )]
    NoCluster(String),
    #[error("cannot read {}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the key in {place} {source}")]
    Key { place: String, source: KeyError },
    #[error(
        "the tag {tag} has version {version} of the chart: a signature counts only for the version that the chart names"
    )]
    OtherVersion { tag: String, version: String },
    #[error(
        "the repository {repository} has the chart {name}: a signature counts only for the name that the chart has"
    )]
    OtherName { repository: String, name: String },
    #[error("cannot start to fetch the chart")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Fetch(#[from] registry::Error),
}

impl Error {
    /// Returns whether the chart exists, but is not signed with the required key, or not for where it is.
    pub(crate) fn is_unverified(&self) -> bool {
        match self {
            Error::Fetch(error) => error.is_unverified(),
            error => matches!(error, Error::OtherVersion { .. } | Error::OtherName { .. }),
        }
    }

    /// Returns whether the registry answered, and asking again at once would change nothing.
    pub(crate) fn is_answer(&self) -> bool {
        self.is_unverified() || matches!(self, Error::Fetch(error) if error.is_answer())
    }
}

impl Puller {
    /// Creates what fetches the chart. Without Secrets, only files are read, and the caller's own configuration of
    /// Docker has the credentials.
    pub(crate) fn new(pull: Pull, cache: Arc<Cache>, secrets: Option<Secrets>) -> Puller {
        Puller { pull, cache, secrets, hop: None }
    }

    /// Sends requests over `hop` rather than over the network.
    pub(crate) fn over(self, hop: Option<Hop>) -> Puller {
        Puller { hop, ..self }
    }

    /// Fetches the chart, unless the cache has what its digest names.
    ///
    /// # Errors
    /// The chart cannot be fetched, or fails verification.
    pub(crate) async fn fetch(&self) -> Result<Fetched, Error> {
        let config = match &self.pull.secret {
            Some(name) if self.secrets.is_some() => Some(self.secret(name, DOCKER_CONFIG).await?),
            _ => self.own_config(|name| std::env::var_os(name))?,
        };
        let ca = match &self.pull.ca {
            Some(pem) => self.read(pem).await?,
            None => Vec::new(),
        };
        let key = self.key().await?;
        let access = Access { docker_config: config.as_deref(), ca: &ca, key: key.as_ref(), hop: self.hop.as_ref() };
        Ok(self.pull.source.fetch(&self.cache, access).await?)
    }

    /// Checks that a chart which needs a signature has the name of its repository and the version of its tag. A signature is
    /// for content, wherever that is: whoever can push could otherwise offer another chart of the key, or an old version as
    /// a new one.
    ///
    /// # Errors
    /// It has another name or version.
    pub(crate) fn check_place(&self, fetched: &Fetched, chart: &Metadata) -> Result<(), Error> {
        // A digest names the content itself.
        match &fetched.version {
            Some(tag) if self.pull.key.is_some() => {
                check_names((self.pull.source.location.name(), tag), (&chart.name, &chart.version))
            }
            _ => Ok(()),
        }
    }

    /// Keeps a fetched chart for [`Puller::cached`]. The caller has checked that it loads.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub(crate) fn keep(&self, fetched: &Fetched) -> Result<(), Error> {
        Ok(fetched.keep(&self.cache)?)
    }

    /// Returns the chart that was kept last, verified again.
    ///
    /// # Errors
    /// The key that has to vouch for it cannot be read.
    pub(crate) async fn cached(&self) -> Result<Option<Fetched>, Error> {
        Ok(self.pull.source.cached(&self.cache, self.key().await?.as_ref()))
    }

    /// Returns the process's own configuration of Docker, unless its credentials would be sent without encryption.
    fn own_config(&self, env: impl Fn(&str) -> Option<OsString>) -> Result<Option<Vec<u8>>, Error> {
        if self.pull.source.plain { Ok(None) } else { docker_config(env) }
    }

    async fn key(&self) -> Result<Option<Key>, Error> {
        let Some(pem) = &self.pull.key else { return Ok(None) };
        let text = self.read(pem).await?;
        let place = || match pem {
            Pem::File(path) => path.display().to_string(),
            Pem::Secret { name, .. } => format!("Secret {name}"),
        };
        Key::from_pem(&text).map(Some).map_err(|source| Error::Key { place: place(), source })
    }

    async fn read(&self, pem: &Pem) -> Result<Vec<u8>, Error> {
        match pem {
            Pem::File(path) => read_file(path).map_err(|source| Error::File { path: path.clone(), source }),
            Pem::Secret { name, key } => self.secret(name, key).await,
        }
    }

    async fn secret(&self, name: &str, key: &str) -> Result<Vec<u8>, Error> {
        let Some(Secrets { client, namespace }) = &self.secrets else { return Err(Error::NoCluster(name.to_owned())) };
        let (owned, namespace_name) = (name.to_owned(), namespace.clone());
        let secret = Api::<Secret>::namespaced(client.clone(), namespace).get(name).await;
        let secret = secret.map_err(|source| Error::Secret { namespace: namespace.clone(), name: owned, source })?;
        let content = secret.data.and_then(|mut data| data.remove(key)).map(|content| content.0);
        content.ok_or_else(|| Error::NoKey { namespace: namespace_name, name: name.to_owned(), key: key.to_owned() })
    }
}

/// Checks the name and version of a chart against the repository and the tag that it was found under.
fn check_names((repository, tag): (&str, &str), (name, version): (&str, &str)) -> Result<(), Error> {
    if name != repository {
        return Err(Error::OtherName { repository: repository.to_owned(), name: name.to_owned() });
    }
    let both = Version::parse(tag).ok().zip(Version::parse(version).ok());
    // Versions are equal even if their metadata differs.
    let is_same = both.is_some_and(|(tag, version)| tag == version && tag.metadata() == version.metadata());
    let other = || Error::OtherVersion { tag: tag.to_owned(), version: version.to_owned() };
    if is_same { Ok(()) } else { Err(other()) }
}

/// Returns the process's own configuration of Docker, if there is one.
fn docker_config(env: impl Fn(&str) -> Option<OsString>) -> Result<Option<Vec<u8>>, Error> {
    let folder = env("DOCKER_CONFIG").map(PathBuf::from).or_else(|| Some(PathBuf::from(env("HOME")?).join(".docker")));
    let Some(path) = folder.map(|folder| folder.join("config.json")) else { return Ok(None) };
    match read_file(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { path, source }),
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut content = Vec::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE_BYTES { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(content) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_without_a_cluster_needs_no_secret_for_credentials_but_for_what_it_checks() {
        let cache = tempfile::tempdir().unwrap();
        let fetched = async |keys: &str| {
            let text = format!("- {{version: v1, kind: Shop, chart: 'oci://127.0.0.1:1/shop', pull: {{{keys}}}}}");
            let pull = crate::watches::parse(&text, |_| None).unwrap().watches.remove(0).pull.unwrap();
            let puller = Puller::new(pull, Arc::new(Cache::new(cache.path(), 1)), None);
            puller.fetch().await.unwrap_err().to_string()
        };
        let asked = fetched("secret: credentials").await;
        assert!(asked.contains("127.0.0.1:1") && !asked.contains("credentials"), "{asked}");
        for keys in ["ca: {secret: ca, key: k}", "verify: {cosign: {key: {secret: ca, key: k}}}"] {
            assert!(fetched(keys).await.starts_with("Secret ca is needed to fetch the chart"));
        }
    }

    #[test]
    fn a_signed_chart_has_the_name_of_its_repository_and_the_version_of_its_tag() {
        for (tag, version) in [("1.0.0", "1.0.0"), ("v1.0.0", "1.0.0"), ("1.0.0+a", "1.0.0+a")] {
            assert!(check_names(("shop", tag), ("shop", version)).is_ok(), "{tag} {version}");
        }
        for (tag, version) in [("1.99.0", "1.0.0"), ("1.0.0", "1.0.0-rc.1"), ("1.0.0+b", "1.0.0+a")] {
            let error = check_names(("shop", tag), ("shop", version)).unwrap_err();
            assert!(error.is_unverified() && error.to_string().contains(&format!("{tag} has version {version} ")));
        }
        let error = check_names(("shop", "1.0.0"), ("cart", "1.0.0")).unwrap_err();
        assert!(error.is_unverified() && error.to_string().starts_with("the repository shop has the chart cart:"));
    }

    #[test]
    fn nobodys_credentials_are_sent_without_encryption() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        let found = |keys: &str| {
            let text = format!("- {{version: v1, kind: Shop, {keys}}}");
            let pull = crate::watches::parse(&text, |_| None).unwrap().watches.remove(0).pull.unwrap();
            let puller = Puller::new(pull, Arc::new(Cache::new(folder.path(), 1)), None);
            puller.own_config(|name| (name == "DOCKER_CONFIG").then(|| folder.path().into())).unwrap()
        };
        assert_eq!(found("chart: 'oci://127.0.0.1:1/shop'"), Some(b"{}".to_vec()));
        assert_eq!(found("chart: 'oci://127.0.0.1:1/shop', pull: {plainHttp: true}"), None);
        assert_eq!(found("chart: 'http://127.0.0.1:1/shop.tgz', pull: {plainHttp: true}"), None);
    }

    #[test]
    fn dockers_configuration_is_where_docker_looks_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_owned();
        let of = |name: &'static str, path: PathBuf| {
            docker_config(move |asked| (asked == name).then(|| path.clone().into())).unwrap()
        };
        assert_eq!(of("HOME", home.clone()), None);
        std::fs::create_dir(home.join(".docker")).unwrap();
        std::fs::write(home.join(".docker/config.json"), "{}").unwrap();
        assert_eq!(of("HOME", home.clone()), Some(b"{}".to_vec()));
        assert_eq!(of("DOCKER_CONFIG", home.join(".docker")), Some(b"{}".to_vec()));
        assert_eq!(of("DOCKER_CONFIG", home), None);
        assert!(docker_config(|_| None).unwrap().is_none());
    }
}
