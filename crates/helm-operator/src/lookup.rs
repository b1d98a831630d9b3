//! `lookup` of templates over an API server. Counterpart: Helm's `pkg/engine/lookup_func.go`.

use go_template::Value;
use helm::engine::Lookup;
use helm::json;
use helm::kube::{Applier, Call};
use tokio::runtime::Handle;

use crate::report::chain;

/// Reads the server behind the applier. For a thread that may block, while other threads run the runtime.
pub(crate) struct ClusterLookup {
    /// The server, and which kinds it serves.
    pub(crate) applier: Applier,
    /// What runs the requests.
    pub(crate) runtime: Handle,
}

impl Lookup for ClusterLookup {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, String> {
        let found = self.runtime.block_on(async {
            let resource = self.applier.mapper.resource(api_version, kind).await?;
            match self.applier.api().send(Call::get(resource.path(namespace, name)?)).await {
                Err(error) if error.is_not_found() => Ok(serde_json::json!({})),
                answer => answer?.parse::<serde_json::Value>(),
            }
        });
        found.map(|object| json::from_serde(&object)).map_err(|e| chain(&e))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use helm::kube::MemoryApi;
    use serde_json::json;

    use super::*;

    #[test]
    fn lookup_finds_an_object_a_list_or_nothing() {
        let api = MemoryApi::new();
        api.put("/api/v1/namespaces/ns/configmaps/a", json!({"data": {"x": "1"}}), "someone");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let lookup = ClusterLookup { applier: Applier::new(Arc::new(api)), runtime: runtime.handle().clone() };
        let get = |kind, name| lookup.lookup("v1", kind, "ns", name).map(|value| json::to_serde(&value));
        assert_eq!(get("ConfigMap", "a").unwrap()["data"]["x"], "1");
        assert_eq!(get("ConfigMap", "").unwrap()["items"].as_array().map(Vec::len), Some(1));
        assert_eq!(get("ConfigMap", "b").unwrap(), json!({}));
        assert!(get("Nothing", "b").unwrap_err().contains("no matches for kind \"Nothing\""));
    }
}
