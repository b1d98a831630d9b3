//! Reads objects as `kubectl get` does, without a process for each: tests ask again and again while they wait, and a process
//! takes 0.07 s of a processor.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use kube::core::{ApiResource, DynamicObject, Resource as _};
use kube::discovery::{Discovery, Scope};
use serde_json::Value;
use test_cluster::Namespace;
use tokio::runtime::{Handle, Runtime};

use crate::model::http::{client, request};

/// After how long kubectl is asked instead, which says what is wrong.
const LIMIT: Duration = Duration::from_secs(10);

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// One for each cluster, by the path of its kubeconfig.
static READERS: LazyLock<Mutex<HashMap<PathBuf, Arc<Reader>>>> = LazyLock::new(Mutex::default);

/// Returns the object that `kubectl get` finds by this kind and name; `Null` if there is none.
pub(crate) fn get(namespace: &Namespace<'_>, [kind, name]: [&str; 2]) -> Value {
    read(namespace, kind, name).unwrap_or_else(|| {
        let answer = namespace.kubectl(["get", kind, name, "-o", "json", "--ignore-not-found"]).unwrap();
        serde_json::from_str(&answer).unwrap_or_default()
    })
}

/// Returns the object, or `None` if only kubectl can answer.
fn read(namespace: &Namespace<'_>, kind: &str, name: &str) -> Option<Value> {
    // An asynchronous test must not block its runtime with another.
    if Handle::try_current().is_ok() {
        return None;
    }
    let reader = Reader::of(namespace)?;
    let answer = async { tokio::time::timeout(LIMIT, reader.get(namespace.name(), kind, name)).await.ok()? };
    RUNTIME.block_on(answer)
}

struct Reader {
    client: kube::Client,
    /// The kinds that were found, by the names that tests use.
    kinds: Mutex<HashMap<String, (ApiResource, Scope)>>,
}

impl Reader {
    fn of(namespace: &Namespace<'_>) -> Option<Arc<Reader>> {
        let cluster = namespace.cluster();
        let mut all = READERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(cluster.kubeconfig_path()) {
            return Some(known.clone());
        }
        let client = client(&RUNTIME, &cluster.kubeconfig().ok()?);
        let reader = Arc::new(Reader { client, kinds: Mutex::default() });
        all.insert(cluster.kubeconfig_path().to_owned(), reader.clone());
        Some(reader)
    }

    async fn get(&self, namespace: &str, kind: &str, name: &str) -> Option<Value> {
        let (resource, scope) = self.kind(kind).await?;
        let namespace = (scope == Scope::Namespaced).then_some(namespace);
        let path = format!("{}/{name}", DynamicObject::url_path(&resource, namespace));
        match self.client.request::<Value>(request("GET", &path, &Value::Null)).await {
            Ok(mut found) => {
                found["metadata"].as_object_mut()?.remove("managedFields");
                Some(found)
            }
            Err(kube::Error::Api(status)) if status.code == 404 && is_about(&status.message, name) => Some(Value::Null),
            // The definition may have changed.
            Err(_) => {
                self.kinds.lock().unwrap_or_else(PoisonError::into_inner).remove(kind);
                None
            }
        }
    }

    /// Returns the kind with this name, in the version that the server prefers; `None` if several groups have one.
    async fn kind(&self, name: &str) -> Option<(ApiResource, Scope)> {
        if let Some(known) = self.kinds.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Some(known.clone());
        }
        let discovery = Discovery::new(self.client.clone()).run_aggregated().await.ok()?;
        let all = discovery.groups().flat_map(|group| group.recommended_resources());
        let names = |resource: &ApiResource| {
            [&resource.kind, &resource.plural].iter().any(|one| one.eq_ignore_ascii_case(name))
        };
        let mut found = all.filter(|(resource, _)| names(resource));
        let (resource, capabilities) = found.next().filter(|_| found.next().is_none())?;
        let found = (resource, capabilities.scope);
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), found.clone());
        Some(found)
    }
}

/// Returns whether a 404 says that this object is missing, rather than its kind.
fn is_about(message: &str, name: &str) -> bool {
    message.ends_with(&format!("{name:?} not found"))
}
