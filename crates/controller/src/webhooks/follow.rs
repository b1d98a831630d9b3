//! Where the certificate comes from, and what the API server must trust.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::certificate::{Certificate, Stored};
use super::configuration::objects;
use super::files::{Files, Pair, SETTLE};
use super::keeper::{Keeper, NeedsCertificate};
use super::published::Published;
use super::registry::Webhooks;
use super::settings::{Endpoint, Settings};
use crate::report::chain;
use crate::server;

/// How often files are read again.
const READ_AGAIN: Duration = Duration::from_secs(10);

const UNTRUSTED: &str = "the leader has not published the authority of ca.crt yet";

/// Why a replica with new files is not ready while requests about what is published get no answer.
const UNANSWERED: &str = "the API server has not answered whether the authority of ca.crt is published";

/// The certificates of a process's webhooks.
#[derive(Clone)]
pub(crate) struct Certificates {
    pub(super) place: Endpoint,
    pub(super) settle: Duration,
    /// The certificates that the process makes.
    pub(super) made: Arc<watch::Sender<Option<Arc<Stored>>>>,
    /// What the API server must trust; empty if others provide it.
    pub(super) trusted: Arc<watch::Sender<Option<String>>>,
    folder: Option<PathBuf>,
}

impl Certificates {
    pub(crate) fn new(settings: &Settings, place: Endpoint) -> Certificates {
        Certificates {
            place,
            settle: settings.settle,
            made: Arc::new(watch::Sender::new(None)),
            trusted: Arc::new(watch::Sender::new(None)),
            folder: settings.certificate_dir.clone(),
        }
    }

    /// Returns whether the certificate is kept in a Secret.
    pub(super) fn keeps_secret(&self) -> bool {
        self.folder.is_none() && self.place.namespace.is_some()
    }

    /// Returns whether a user provides them, as files.
    pub(super) fn are_files(&self) -> bool {
        self.folder.is_some()
    }

    /// Serves the current certificate for these webhooks, from now on. Never returns.
    pub(crate) async fn run(
        self,
        client: Client,
        webhooks: Webhooks,
        certificate: server::Certificate,
        needs: NeedsCertificate,
    ) {
        match (self.folder.clone(), self.place.namespace.clone()) {
            (Some(folder), _) => {
                let place = self.place.clone();
                let published = Published { client, objects: objects(&webhooks, &place), place };
                self.follow_files(folder, published, certificate, needs).await;
            }
            (None, Some(namespace)) => {
                let (place, state) = (self.place.clone(), self.made.clone());
                let keeper = Keeper { client, namespace, place, certificate, state };
                tokio::join!(keeper.run(needs), self.trust_what_is_made());
            }
            (None, None) => {
                if let Err(error) = self.in_memory(&certificate, &needs) {
                    needs.0.fails(&error);
                    tracing::error!(error, "No certificate for webhooks");
                }
                self.trust_what_is_made().await;
            }
        }
    }

    /// Makes a certificate that ends with the process, for one that runs outside of a cluster.
    fn in_memory(&self, certificate: &server::Certificate, needs: &NeedsCertificate) -> Result<(), String> {
        let made = Certificate::make(&self.place.hosts(), outside::now()).map_err(|error| chain(&error))?;
        certificate.replace(made.certificate.as_bytes(), made.key.as_bytes()).map_err(|error| chain(&error))?;
        needs.0.meet();
        self.made.send_replace(Some(Arc::new(Stored::new(made))));
        Ok(())
    }

    async fn trust_what_is_made(&self) {
        let mut made = self.made.subscribe();
        loop {
            let bundle = made.borrow_and_update().as_ref().map(|stored| stored.bundle());
            if bundle.is_some() {
                self.trust(bundle.unwrap_or_default());
            }
            if made.changed().await.is_err() {
                return;
            }
        }
    }

    fn trust(&self, bundle: String) {
        self.trusted.send_if_modified(|known| known.replace(bundle.clone()).is_none_or(|known| known != bundle));
    }

    /// Serves a user's files.
    async fn follow_files(
        &self,
        folder: PathBuf,
        published: Published,
        certificate: server::Certificate,
        needs: NeedsCertificate,
    ) {
        let (mut last, mut files, mut first) = (Err(String::new()), Files::default(), None::<Instant>);
        loop {
            let read = read(&folder).await;
            if read != last {
                match read.clone().and_then(usable) {
                    Ok(read) => {
                        serve(&certificate, files.change(read, Instant::now()));
                        self.trust(files.bundle());
                        first = first.or(Some(Instant::now()));
                    }
                    Err(error) => {
                        needs.0.fails(&error);
                        tracing::error!(error, "Cannot use the TLS certificate of webhooks");
                    }
                }
                last = read;
            }
            serve(&certificate, files.due(Instant::now()));
            // Once ready, a replica stays ready.
            if let Some(first) = first.filter(|_| !needs.0.is_met()) {
                match untrusted(&published, &files.bundle(), first.elapsed()).await {
                    Some(why) => needs.0.fails(why),
                    None => needs.0.meet(),
                }
            }
            sleep(READ_AGAIN).await;
        }
    }
}

/// Returns why a replica that first read its files so long ago is not ready, if it is not. A leader that mounts other
/// files never publishes these, and a slow API server must not keep the replica from reading its files again.
async fn untrusted(published: &Published, bundle: &str, elapsed: Duration) -> Option<&'static str> {
    let left = SETTLE.saturating_sub(elapsed);
    if left.is_zero() {
        return None;
    }
    match timeout(left.min(READ_AGAIN), published.lacks(bundle)).await {
        Ok(lacks) => lacks.then_some(UNTRUSTED),
        Err(_) => Some(UNANSWERED),
    }
}

/// Serves a usable pair, if there is one.
fn serve(certificate: &server::Certificate, pair: Option<Pair>) {
    let Some([chain_, key]) = pair else { return };
    match certificate.replace(&chain_, &key) {
        Ok(()) => tracing::info!("Updated current TLS certificate of webhooks"),
        Err(error) => tracing::error!(error = chain(&error), "Cannot use the TLS certificate of webhooks"),
    }
}

/// Returns the files if they can be served.
fn usable(files: [Vec<u8>; 3]) -> Result<[Vec<u8>; 3], String> {
    server::Certificate::default().replace(&files[0], &files[1]).map_err(|error| chain(&error))?;
    Ok(files)
}

/// Reads the chain, the key, and the authority, which is empty if there is none.
async fn read(folder: &Path) -> Result<[Vec<u8>; 3], String> {
    let file = |name: &str| {
        let path = folder.join(name);
        async move {
            let read = tokio::fs::read(&path).await;
            read.map_err(|error| (error.kind(), format!("{}: {error}", path.display())))
        }
    };
    let text = |(_, text): (ErrorKind, String)| text;
    let (chain, key) = (file("tls.crt").await.map_err(text)?, file("tls.key").await.map_err(text)?);
    match file("ca.crt").await {
        Err((ErrorKind::NotFound, _)) => Ok([chain, key, Vec::new()]),
        authority => Ok([chain, key, authority.map_err(text)?]),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir, remove_dir, remove_file, write};

    use super::*;
    use crate::runtime::readiness::Readiness;
    use crate::testing::Server;

    fn files(folder: &Path) -> Certificate {
        let made = Certificate::make(&["localhost".into()], outside::now()).unwrap();
        for (file, text) in [("tls.crt", &made.certificate), ("tls.key", &made.key), ("ca.crt", &made.authority)] {
            write(folder.join(file), text).unwrap();
        }
        made
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_read_again_and_broken_ones_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { certificate_dir: Some(folder.path().into()), ..Settings::default() };
        let certificates = Certificates::new(&settings, Endpoint::of(&settings, "hook".into(), None, 9443));
        let (mut trusted, readiness) = (certificates.trusted.subscribe(), Readiness::default());
        let needs = NeedsCertificate(readiness.require("certificate", "none"));
        let (client, served) = (Server::new().client(), server::Certificate::default());
        tokio::spawn(certificates.clone().run(client, Webhooks::new(), served.clone(), needs));
        // From here on, the files are written between two times that they are read.
        sleep(READ_AGAIN * 2 + READ_AGAIN / 2).await;
        let missing = readiness.unmet();
        assert!(missing[0].contains("tls.crt"), "{missing:?}");
        let mut before = None::<Certificate>;
        for _ in 0..2 {
            let made = files(folder.path());
            trusted.changed().await.unwrap();
            let authorities = before.iter().fold(made.authority.clone(), |new, old| new + &old.authority);
            assert_eq!(trusted.borrow_and_update().as_ref(), Some(&authorities), "replicas may serve either");
            assert!(served.is(&before.as_ref().unwrap_or(&made).certificate), "the old one until all trust the new");
            sleep(READ_AGAIN / 2).await;
            assert!(readiness.unmet().is_empty(), "nothing is published");
            write(folder.path().join("tls.key"), "broken").unwrap();
            sleep(READ_AGAIN * 2).await;
            assert!(!trusted.has_changed().unwrap());
            write(folder.path().join("tls.key"), &made.key).unwrap();
            let authority = folder.path().join("ca.crt");
            remove_file(&authority).unwrap();
            create_dir(&authority).unwrap();
            sleep(READ_AGAIN * 2).await;
            assert!(!trusted.has_changed().unwrap(), "an authority that cannot be read is not one that is removed");
            remove_dir(&authority).unwrap();
            write(&authority, &made.authority).unwrap();
            sleep(SETTLE).await;
            assert!(served.is(&made.certificate));
            before = Some(made);
        }
    }
}
