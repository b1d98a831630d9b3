//! Test fixtures: a custom resource's release, its hooks, its decoration, and a server that counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::BoxFuture;
use outside::{Api, Call, Error, MemoryApi, Response};
use serde_json::json;

use crate::kube::{Decoration, Found, Object, Owner, Previous, Rule, Target, Tie};
use crate::release::{ChartDocument, Hook, HookEvent, Info, Release};
use crate::storage::{Key, Keyring};

/// Returns the key that seals records.
pub(crate) fn keys() -> Keyring {
    Keyring::new(Key::new(&[1; 32]).unwrap(), Vec::new())
}

/// Returns the decoration of the release `web`, owned by the Memcached `web` in the namespace `ns`.
pub(crate) fn decoration() -> Decoration {
    let owner = Owner {
        api_version: "cache.my.domain/v1".into(),
        kind: "Memcached".into(),
        name: "web".into(),
        namespace: "ns".into(),
        uid: "u1".into(),
    };
    Decoration {
        release: "web".into(),
        namespace: "ns".into(),
        chart: "memcached".into(),
        owner: Some(owner),
        tie: Tie::default(),
        former: Vec::new(),
    }
}

/// Returns an object of that release that the chart has changed, and of whose live state nothing is known.
pub(crate) fn target(object: &Object) -> Target<'_> {
    Target {
        object,
        rule: Rule::Keep,
        observed: Found::Unknown,
        previous: Previous::Apply,
        changed: true,
        handed_over: Vec::new(),
        expires: false,
        is_new: false,
    }
}

/// Returns that release's first revision, without objects.
pub(crate) fn release() -> Release {
    Release {
        name: "web".into(),
        namespace: "ns".into(),
        version: 1,
        info: Info::default(),
        chart: Arc::new(ChartDocument::from_json(r#"{"metadata":{"name":"memcached","version":"1.0.0"}}"#).unwrap()),
        config: json!({}),
        manifest: String::new(),
        hooks: Vec::new(),
        apply_method: "ssa".into(),
        labels: BTreeMap::new(),
        record_uid: None,
        more: Default::default(),
    }
}

/// Returns a hook that creates a ConfigMap, and so succeeds immediately.
pub(crate) fn hook(name: &str, events: &[HookEvent]) -> Hook {
    Hook {
        name: name.into(),
        kind: "ConfigMap".into(),
        path: format!("c/templates/{name}.yaml"),
        manifest: format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n"),
        events: events.to_vec(),
        ..Hook::default()
    }
}

/// A server that counts the requests under way.
pub(crate) struct Counting {
    server: Arc<MemoryApi>,
    under_way: AtomicUsize,
    most: AtomicUsize,
}

impl Counting {
    pub(crate) fn new(server: Arc<MemoryApi>) -> Counting {
        Counting { server, under_way: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// Returns the maximum number of requests that were under way at once.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

impl Api for Counting {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        Box::pin(async move {
            self.most.fetch_max(self.under_way.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            let answer = self.server.send(call).await;
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            answer
        })
    }
}
