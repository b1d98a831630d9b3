//! Follows changes of the Secret, so that rotated, added or removed keys take effect within moments.

use std::sync::atomic::{AtomicU64, Ordering};

use controller::runtime::backoff;
use controller::runtime::freshness::Epoch;
use controller::runtime::pages;
use controller::runtime::reflector::{self, EventHandler, Stream, WatchScope};
use futures::StreamExt as _;
use helm_release::kube::Api;
use helm_release::storage::Keyring;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use tokio::sync::{oneshot, watch};

use super::{LONGEST_WAIT, NAME, StoredKeys, explain, read_or_make};

/// Keeps the keyring equal to the Secret, which was last read as `found`. Re-creates a deleted Secret with a new key;
/// the known keys stay valid. If the keys cannot be read, the keyring does not change.
pub(crate) async fn follow(client: Client, namespace: String, keys: Keyring, found: StoredKeys) {
    let (version, versions) = watch::channel(found.version.clone());
    let api = kube::Api::namespaced(client.clone(), &namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let open = move || pages::watch(api.clone(), config.clone()).boxed();
    let stream = Stream::new(WatchScope::namespace(&namespace), open);
    let handler = Versions { version, listed: AtomicU64::new(0) };
    let follow = reflector::run(handler, stream, oneshot::channel().0);
    tokio::join!(follow, read_again(&client, &namespace, &keys, found, versions));
}

/// Reads the keys whenever the Secret has another version than the one that was read.
async fn read_again(
    api: &dyn Api,
    namespace: &str,
    keys: &Keyring,
    mut found: StoredKeys,
    mut versions: watch::Receiver<String>,
) {
    while versions.changed().await.is_ok() {
        if *versions.borrow_and_update() != found.version {
            found = refresh(api, namespace, keys, found).await;
        }
    }
}

/// Reads the keys, and creates what is missing. Retries until it succeeds.
async fn refresh(api: &dyn Api, namespace: &str, keys: &Keyring, found: StoredKeys) -> StoredKeys {
    let (mut attempt, mut last) = (0, String::new());
    loop {
        let error = match read_or_make(api, namespace, &found).await {
            Ok((now, ..)) if now.version == found.version => return now,
            Ok((now, current, previous)) => {
                keys.replace(current, previous);
                tracing::info!(namespace, secret = NAME, "Read the changed keys of release records");
                return now;
            }
            Err(error) => explain(&error),
        };
        if error != last {
            tracing::warn!(namespace, error, "The keys of release records stay in use as they were");
            last = error;
        }
        attempt += 1;
        tokio::time::sleep(backoff::wait(attempt).min(LONGEST_WAIT)).await;
    }
}

/// A handler that keeps the Secret's version; an empty one if the Secret does not exist.
struct Versions {
    version: watch::Sender<String>,
    /// The number of the last list that contained it.
    listed: AtomicU64,
}

impl Versions {
    fn is(&self, now: String) {
        self.version.send_if_modified(|version| std::mem::replace(version, now.clone()) != now);
    }
}

impl EventHandler<PartialObjectMeta<Secret>> for Versions {
    fn changed(&self, secret: PartialObjectMeta<Secret>, epoch: Epoch) {
        self.listed.store(epoch.number, Ordering::Relaxed);
        self.is(secret.resource_version().unwrap_or_default());
    }

    fn deleted(&self, _: PartialObjectMeta<Secret>) {
        self.is(String::new());
    }

    fn sweep(&self, _: &WatchScope, list: Epoch) {
        if self.listed.load(Ordering::Relaxed) != list.number {
            self.is(String::new());
        }
    }

    fn description(&self) -> String {
        "the key of release records".into()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controller::runtime::readiness::Readiness;
    use helm_release::kube::{Disturbance, MemoryApi};
    use serde_json::json;
    use tokio::time::Instant;

    use super::super::{load, path};
    use super::*;

    fn epoch(number: u64) -> Epoch {
        Epoch { number, began: Instant::now(), is_list: true }
    }

    fn secret(version: &str) -> PartialObjectMeta<Secret> {
        serde_json::from_value(json!({"metadata": {"name": NAME, "resourceVersion": version}})).unwrap()
    }

    #[tokio::test]
    async fn a_version_is_news_once_and_a_secret_that_no_list_contains_is_gone() {
        let (version, mut versions) = watch::channel("1".to_owned());
        let handler = Versions { version, listed: AtomicU64::new(0) };
        let mut news = || versions.has_changed().unwrap().then(|| versions.borrow_and_update().clone());
        handler.changed(secret("1"), epoch(1));
        handler.sweep(&WatchScope::ALL, epoch(1));
        assert_eq!(news(), None);
        handler.changed(secret("2"), epoch(1));
        assert_eq!(news().as_deref(), Some("2"));
        handler.sweep(&WatchScope::ALL, epoch(2));
        assert_eq!(news().as_deref(), Some(""), "deleted while nothing was watched");
        handler.changed(secret("3"), epoch(2));
        handler.deleted(secret("3"));
        assert_eq!(news().as_deref(), Some(""));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_cannot_be_read_stay_in_use_until_they_can() {
        let server = Arc::new(MemoryApi::new());
        let (keys, found) = load(&*server, "own", &Readiness::default().require("key", "not read yet")).await;
        let before = format!("{keys:?}");
        let (version, versions) = watch::channel(found.version.clone());
        let (api, followed) = (server.clone(), keys.clone());
        let follow = tokio::spawn(async move { read_again(&*api, "own", &followed, found, versions).await });
        server.disturb("record-key", 3, Disturbance::Refused(503));
        server.remove(&path("own"));
        version.send_replace(String::new());
        let replaced = keys.replaced();
        tokio::task::yield_now().await;
        assert_eq!(format!("{keys:?}"), before);
        replaced.await;
        let after = format!("{keys:?}");
        assert!(after.contains(before.split_once("Key(").unwrap().1.split(')').next().unwrap()), "{after}");
        assert_eq!((after.matches("Key(").count(), server.writes()), (2, 2));
        // The event of its own write changes nothing.
        let own = server.object(&path("own")).unwrap()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        version.send_replace(own);
        drop(version);
        follow.await.unwrap();
        assert_eq!((format!("{keys:?}"), server.writes()), (after, 2));
    }
}
