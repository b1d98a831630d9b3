//! Manages the key that seals release records: a Secret in the operator's own namespace, created by the first leader.
//!
//! `data.current` is the key that seals; every other entry is an earlier key whose seals are still valid. Templates and
//! `valuesFrom` never see the Secret. The operator follows its changes: a key is rotated without a restart.

mod follow;

use std::collections::BTreeMap;
use std::time::Duration;

use controller::report::chain;
use controller::runtime::backoff;
use controller::runtime::readiness::Requirement;
use helm_release::kube::{self, Api, Call};
use helm_release::storage::{Key, Keyring};
use k8s_openapi::ByteString;
use outside::Head;
use serde::Deserialize;
use serde_json::json;

use crate::preflight::Refused;
use crate::values_from::RECORD_KEY as SECRET_TYPE;
pub(crate) use follow::follow;

/// The Secret's name.
pub(crate) const NAME: &str = "helm-operator-record-key";

/// The entry with the key that seals.
const CURRENT: &str = "current";

/// The maximum pause between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How many concurrent changes of the Secret one attempt tolerates while it reads and completes it.
const RACES: usize = 5;

/// The reason why there is no key yet.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot {verb} Secret {NAME:?} in namespace {namespace:?}, which holds the key of release records")]
    Api {
        verb: &'static str,
        namespace: String,
        #[source]
        source: kube::Error,
    },
    #[error("Secret {NAME:?} has type {0:?} instead of {SECRET_TYPE:?}: delete it, and the operator makes one")]
    OtherType(String),
    #[error("entry {0:?} of Secret {NAME:?} has fewer than 32 bytes: remove it")]
    Short(String),
    #[error("Secret {NAME:?} changes all the time")]
    Contested,
    #[error("cannot make a random key: {0}")]
    Random(getrandom::Error),
}

#[derive(Deserialize)]
struct Secret {
    metadata: Head,
    #[serde(default, rename = "type")]
    kind: String,
    data: Option<Data>,
}

/// The keys, by the names of their entries.
type Data = BTreeMap<String, ByteString>;

/// The keys as they are in the Secret.
#[derive(Default)]
pub(crate) struct StoredKeys {
    data: Data,
    /// The Secret's version. Empty if it does not exist.
    version: String,
}

impl StoredKeys {
    /// Returns the key that seals, if there is one, and all others.
    fn keys(&self) -> Result<(Option<Key>, Vec<Key>), Error> {
        let (mut current, mut previous) = (None, Vec::new());
        for (name, ByteString(secret)) in &self.data {
            let key = Key::new(secret).ok_or_else(|| Error::Short(name.clone()))?;
            if name == CURRENT { current = Some(key) } else { previous.push(key) }
        }
        Ok((current, previous))
    }
}

/// The next step for the Secret.
enum Step {
    /// It has the keys: the one that seals, and earlier ones.
    Use(StoredKeys, Key, Vec<Key>),
    /// It does not exist.
    Create,
    /// It exists in this version, but lacks the key that seals.
    Complete(String),
}

/// Reads the keys, and creates what is missing. Retries until it succeeds; the requirement reports why it does not.
pub(crate) async fn load(api: &dyn Api, namespace: &str, requirement: &Requirement) -> (Keyring, StoredKeys) {
    let (mut attempt, mut last) = (0, String::new());
    loop {
        let error = match read_or_make(api, namespace, &StoredKeys::default()).await {
            Ok((found, current, previous)) => {
                requirement.meet();
                return (Keyring::new(current, previous), found);
            }
            Err(error) => explain(&error),
        };
        if error != last {
            tracing::warn!(namespace, error, "No release is touched before its records can be proven");
            requirement.fails(&error);
            last = error;
        }
        attempt += 1;
        tokio::time::sleep(backoff::wait(attempt).min(LONGEST_WAIT)).await;
    }
}

/// Returns the error's message, with the rule that grants what the server refused.
fn explain(error: &Error) -> String {
    let message = chain(error);
    match Refused::read(&message) {
        Some(_) => {
            let rule = format!(
                "{{apiGroups: [\"\"], resources: [secrets], resourceNames: [{NAME}], verbs: [get, list, watch, patch]}}"
            );
            format!(
                "{message}; add to a role of the operator in that namespace: {rule}, and the verb create on secrets"
            )
        }
        None => message,
    }
}

/// Reads the keys, and creates what is missing. If the Secret was deleted, the keys that were known stay valid.
async fn read_or_make(
    api: &dyn Api,
    namespace: &str,
    known: &StoredKeys,
) -> Result<(StoredKeys, Key, Vec<Key>), Error> {
    for _ in 0..RACES {
        let made = match next_step(read(api, namespace).await?)? {
            Step::Use(found, current, previous) => return Ok((found, current, previous)),
            Step::Create => create(api, namespace, retired(known)).await,
            Step::Complete(version) => complete(api, namespace, &version).await,
        };
        match made {
            // Another process was faster, and its key counts.
            Err(Error::Api { source, .. }) if source.is_conflict() => {}
            made => made?,
        }
    }
    Err(Error::Contested)
}

fn next_step(secret: Option<Secret>) -> Result<Step, Error> {
    let Some(Secret { metadata, kind, data }) = secret else { return Ok(Step::Create) };
    if kind != SECRET_TYPE {
        return Err(Error::OtherType(kind));
    }
    let version = metadata.resource_version.unwrap_or_default();
    let found = StoredKeys { data: data.unwrap_or_default(), version };
    Ok(match found.keys()? {
        (Some(current), previous) => Step::Use(found, current, previous),
        (None, _) => Step::Complete(found.version),
    })
}

/// Returns the entries of the known keys, which no longer seal records.
fn retired(known: &StoredKeys) -> Data {
    let name = |name: &String| match &**name {
        CURRENT => format!("until-{}", outside::now().as_second()),
        earlier => earlier.to_owned(),
    };
    known.data.iter().map(|(entry, secret)| (name(entry), secret.clone())).collect()
}

async fn read(api: &dyn Api, namespace: &str) -> Result<Option<Secret>, Error> {
    match api.send(Call::get(path(namespace))).await.and_then(|answer| answer.parse()) {
        Ok(secret) => Ok(Some(secret)),
        Err(error) if error.is_missing_object() => Ok(None),
        Err(source) => Err(Error::Api { verb: "read", namespace: namespace.to_owned(), source }),
    }
}

/// Creates the Secret with a new key. Fails with a conflict if someone else created it first.
async fn create(api: &dyn Api, namespace: &str, mut data: Data) -> Result<(), Error> {
    data.insert(CURRENT.to_owned(), random()?);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE,
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "helm-operator"}},
        "data": data,
    });
    let collection = format!("/api/v1/namespaces/{namespace}/secrets?fieldManager={}", kube::FIELD_MANAGER);
    let sent = api.send(Call::post(collection, secret.to_string().into_bytes())).await;
    sent.map_err(|source| Error::Api { verb: "create", namespace: namespace.to_owned(), source })?;
    tracing::info!(namespace, secret = NAME, "Made a key for release records");
    Ok(())
}

/// Adds a key that seals to this version of the Secret.
async fn complete(api: &dyn Api, namespace: &str, version: &str) -> Result<(), Error> {
    let patch = json!({"metadata": {"resourceVersion": version}, "data": {CURRENT: random()?}});
    let path = format!("{}?fieldManager={}", path(namespace), kube::FIELD_MANAGER);
    let sent = api.send(Call::merge(path, patch.to_string().into_bytes())).await;
    sent.map_err(|source| Error::Api { verb: "update", namespace: namespace.to_owned(), source })?;
    tracing::info!(namespace, secret = NAME, "Made a new key for release records; earlier ones still count");
    Ok(())
}

fn random() -> Result<ByteString, Error> {
    let mut key = vec![0; 32];
    getrandom::fill(&mut key).map_err(Error::Random)?;
    Ok(ByteString(key))
}

pub(crate) fn path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{NAME}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controller::runtime::readiness::Readiness;
    use helm_release::kube::{Disturbance, MemoryApi};

    use super::*;

    async fn keys(server: &MemoryApi) -> Result<String, String> {
        let read = read_or_make(server, "own", &StoredKeys::default()).await;
        read.map(|(_, current, previous)| format!("{current:?} {previous:?}")).map_err(|error| explain(&error))
    }

    fn put(server: &MemoryApi, kind: &str, data: serde_json::Value) {
        server.put(&path("own"), json!({"metadata": {"name": NAME}, "type": kind, "data": data}), "user");
    }

    #[tokio::test]
    async fn two_starts_agree_on_one_key_that_is_made_once() {
        let server = MemoryApi::new();
        let (one, two) = tokio::join!(keys(&server), keys(&server));
        assert_eq!(one, two);
        assert_eq!((keys(&server).await, server.writes()), (one, 1));
        // The Secret was created between reading and creating.
        let late = MemoryApi::new();
        late.disturb("GET /api/v1/namespaces/own/secrets/", 1, Disturbance::Refused(404));
        put(&late, SECRET_TYPE, json!({"current": "A".repeat(43) + "="}));
        assert!(keys(&late).await.is_ok());
    }

    #[tokio::test]
    async fn a_rotated_key_seals_and_earlier_ones_still_count() {
        let server = MemoryApi::new();
        keys(&server).await.unwrap();
        let old = server.object(&path("own")).unwrap()["data"]["current"].clone();
        put(&server, SECRET_TYPE, json!({"before": old}));
        let rotated = keys(&server).await.unwrap();
        let data = server.object(&path("own")).unwrap()["data"].clone();
        assert!(data["before"] == old && data["current"].is_string() && data["current"] != old);
        assert_eq!(rotated.matches("Key(").count(), 2, "{rotated}");
    }

    #[tokio::test]
    async fn what_cannot_be_a_key_is_an_error_that_says_what_to_do() {
        let server = MemoryApi::new();
        put(&server, "Opaque", json!({"current": "A".repeat(43) + "="}));
        assert!(keys(&server).await.unwrap_err().contains("delete it, and the operator makes one"));
        put(&server, SECRET_TYPE, json!({"current": "c2hvcnQ="}));
        let error = keys(&server).await.unwrap_err();
        assert!(error.contains("\"current\"") && error.ends_with("remove it") && !error.contains("short"), "{error}");
        let refused = "secrets \"k\" is forbidden: User \"o\" cannot get resource \"secrets\" in API group \"\" in the namespace \"own\"";
        server.refuse(move |_| Some(kube::Error::from_status(403, "Forbidden", refused)));
        assert!(keys(&server).await.unwrap_err().contains("resourceNames: [helm-operator-record-key]"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_waited_for_and_named() {
        let (server, readiness) = (Arc::new(MemoryApi::new()), Readiness::default());
        server.disturb("record-key", 3, Disturbance::Refused(503));
        let requirement = readiness.require("key", "not read yet");
        load(&*server, "own", &requirement).await;
        assert!(readiness.unmet().is_empty());
    }
}
