//! Keeps the Secret with the certificates: whichever replica is first creates it, and all of them read and watch it.

use std::future::pending;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::PostParams;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep_until};

use super::certificate::{Certificate, Stored};
use super::settings::Endpoint;
use crate::report::chain;
use crate::runtime::backoff::Retry;
use crate::runtime::pages;
use crate::runtime::readiness::Requirement;
use crate::server;

/// A Secret that is lost sooner than this after it appeared is deleted each time, not by accident.
const LASTS: Duration = Duration::from_secs(3);

const DELETED: &str = "Something deletes the Secret with the webhook certificates as soon as it is created: waiting before it is created again";

/// The certificates of a process that makes its own.
pub(super) struct Keeper {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) place: Endpoint,
    pub(super) certificate: server::Certificate,
    pub(super) state: Arc<watch::Sender<Option<Arc<Stored>>>>,
}

/// The requirement that is met once there is a certificate to serve.
pub(crate) struct NeedsCertificate(pub(crate) Requirement);

/// The losses of the Secret, each soon after a replica had created it.
#[derive(Default)]
struct Losses {
    in_a_row: u32,
    /// When the Secret appeared, while it is there.
    appeared: Option<Instant>,
}

impl Losses {
    /// Counts a loss. Returns when to create the Secret again, later each time; `None` if at once.
    fn count(&mut self, now: Instant) -> Option<Retry> {
        let appeared = self.appeared.take()?;
        if now.saturating_duration_since(appeared) >= LASTS {
            self.in_a_row = 0;
            return None;
        }
        let retry = Retry::after(self.in_a_row, now);
        self.in_a_row = retry.failures;
        Some(retry)
    }
}

impl Keeper {
    /// Serves the certificate of the Secret, from now on. Never returns.
    pub(super) async fn run(self, needs: NeedsCertificate) {
        let name = self.place.secret();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = pages::watch(secrets.clone(), only);
        let (mut is_there, mut last) = (false, String::new());
        // When to create the Secret again. A watch reports nothing about an object that does not exist.
        let (mut again, mut losses) = (None::<Retry>, Losses::default());
        loop {
            let retry = async {
                match again {
                    Some(retry) => sleep_until(retry.at).await,
                    None => pending().await,
                }
            };
            let event = tokio::select! {
                event = events.next() => match event {
                    Some(event) => Some(event),
                    None => return,
                },
                () = retry => None,
            };
            let is_reported = event.is_some();
            let outcome = match event {
                Some(Ok(Event::Init)) => {
                    is_there = false;
                    continue;
                }
                Some(Ok(Event::InitApply(secret) | Event::Apply(secret))) => {
                    (is_there, again) = (true, None);
                    losses.appeared.get_or_insert_with(Instant::now);
                    self.take(&secret, &needs)
                }
                Some(Ok(Event::InitDone)) if is_there => continue,
                Some(Ok(Event::InitDone | Event::Delete(_))) | None => {
                    if let Some(retry) = is_reported.then(|| losses.count(Instant::now())).flatten() {
                        let (namespace, times) = (&self.namespace, retry.failures);
                        tracing::warn!(namespace, secret = name, times, "{DELETED}");
                        again = Some(retry);
                        continue;
                    }
                    let created = self.create(&secrets, &name).await;
                    let failures = again.map_or(0, |retry| retry.failures);
                    again = created.is_err().then(|| Retry::after(failures, Instant::now()));
                    created
                }
                Some(Err(error)) => Err(chain(&error)),
            };
            let error = outcome.err().unwrap_or_default();
            if !error.is_empty() && error != last {
                needs.0.fails(&error);
                let namespace = &self.namespace;
                tracing::error!(namespace, secret = name, error, "No certificate for webhooks from its Secret");
            }
            last = error;
        }
    }

    /// Serves the Secret's certificate. If it cannot be used, the previous one stays.
    fn take(&self, secret: &Secret, needs: &NeedsCertificate) -> Result<(), String> {
        let stored = Stored::read(secret).map_err(|error| chain(&error))?;
        let (certificate, key) = (stored.current.certificate.as_bytes(), stored.current.key.as_bytes());
        self.certificate.replace(certificate, key).map_err(|error| chain(&error))?;
        needs.0.meet();
        self.state.send_replace(Some(Arc::new(stored)));
        Ok(())
    }

    /// Creates the Secret, unless another replica is faster: with the certificates in use, or with a new one. The watch
    /// delivers it.
    async fn create(&self, secrets: &Api<Secret>, name: &str) -> Result<(), String> {
        let known = self.state.borrow().as_deref().cloned();
        let stored = match known {
            Some(known) => Stored { resource_version: None, ..known },
            None => {
                let made = Certificate::make(&self.place.hosts(), outside::now());
                Stored::new(made.map_err(|error| chain(&error))?)
            }
        };
        let secret = stored.secret(&self.namespace, name).map_err(|error| chain(&error))?;
        match secrets.create(&PostParams::default(), &secret).await {
            Ok(_) => tracing::info!(namespace = self.namespace, secret = name, "Created the certificate of webhooks"),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(chain(&error)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use outside::{Disturbance, MemoryApi};
    use tokio::time::sleep;

    use super::*;
    use crate::runtime::readiness::Readiness;
    use crate::testing::Server;
    use crate::webhooks::{Settings, watched};

    fn keeper(server: &Server) -> Keeper {
        keeper_with(server.client())
    }

    fn keeper_with(client: Client) -> Keeper {
        let place = Endpoint::of(&Settings::default(), "hook".into(), Some("ns".into()), 9443);
        let (certificate, state) = (server::Certificate::default(), Arc::new(watch::Sender::new(None)));
        Keeper { client, namespace: "ns".into(), place, certificate, state }
    }

    #[tokio::test]
    async fn of_two_replicas_the_first_makes_the_certificate_and_both_serve_it() {
        let (server, readiness) = (Server::new(), Readiness::default());
        let secrets: Api<Secret> = Api::namespaced(server.client(), "ns");
        let (first, second) = (keeper(&server), keeper(&server));
        first.create(&secrets, "hook-certificate").await.unwrap();
        let made = server.get::<Secret>("ns", "hook-certificate").unwrap();
        second.create(&secrets, "hook-certificate").await.unwrap();
        let kept = server.get::<Secret>("ns", "hook-certificate").unwrap();
        assert_eq!(kept.data, made.data);
        for replica in [first, second] {
            replica.take(&kept, &NeedsCertificate(readiness.require("certificate", "none"))).unwrap();
            assert!(replica.state.borrow().is_some() && readiness.unmet().is_empty());
        }
    }

    #[tokio::test]
    async fn a_secret_that_is_deleted_comes_back_with_what_is_served_and_a_broken_one_changes_nothing() {
        let (server, readiness) = (Server::new(), Readiness::default());
        let secrets: Api<Secret> = Api::namespaced(server.client(), "ns");
        let keeper = keeper(&server);
        let needs = NeedsCertificate(readiness.require("certificate", "none"));
        keeper.create(&secrets, "hook-certificate").await.unwrap();
        let made = server.get::<Secret>("ns", "hook-certificate").unwrap();
        keeper.take(&made, &needs).unwrap();
        secrets.delete("hook-certificate", &Default::default()).await.unwrap();
        keeper.create(&secrets, "hook-certificate").await.unwrap();
        assert_eq!(server.get::<Secret>("ns", "hook-certificate").unwrap().data, made.data);
        let broken = Secret { data: None, ..made };
        assert!(keeper.take(&broken, &needs).unwrap_err().contains("delete it"));
        assert!(keeper.state.borrow().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_that_could_not_be_created_is_created_later() {
        let (server, readiness) = (Arc::new(MemoryApi::new()), Readiness::default());
        let path = "/api/v1/namespaces/ns/secrets/hook-certificate";
        let refused =
            |requests| server.disturb("POST /api/v1/namespaces/ns/secrets", requests, Disturbance::Refused(403));
        refused(3);
        let needs = NeedsCertificate(readiness.require("certificate", "none"));
        tokio::spawn(keeper_with(watched::client(&server)).run(needs));
        sleep(Duration::from_secs(2)).await;
        assert!(server.object(path).is_none() && !readiness.unmet().is_empty());
        sleep(Duration::from_secs(5)).await;
        let made = server.object(path).expect("it is tried again");
        assert!(readiness.unmet().is_empty());

        refused(3);
        server.remove(path);
        sleep(Duration::from_secs(7)).await;
        assert_eq!(server.object(path).expect("it is tried again")["data"], made["data"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_that_someone_keeps_deleting_is_created_ever_more_rarely() {
        let (server, readiness) = (Arc::new(MemoryApi::new()), Readiness::default());
        let path = "/api/v1/namespaces/ns/secrets/hook-certificate";
        let needs = NeedsCertificate(readiness.require("certificate", "none"));
        tokio::spawn(keeper_with(watched::client(&server)).run(needs));
        let mut deleted = 0;
        for _ in 0..6000 {
            sleep(Duration::from_millis(100)).await;
            if server.object(path).is_some() {
                server.remove(path);
                deleted += 1;
            }
        }
        // After 0.5, 1, 2, … 256 seconds.
        assert!((8..=15).contains(&deleted), "{deleted} times in ten minutes");
        sleep(Duration::from_secs(600)).await;
        assert!(server.object(path).is_some());
        // It has lasted.
        server.remove(path);
        sleep(Duration::from_millis(100)).await;
        assert!(server.object(path).is_some());
    }
}
