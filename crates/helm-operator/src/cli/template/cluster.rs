//! `template` with a cluster: its version and API versions, `lookup`, and a dry run of every object on its API server.

use std::path::Path;
use std::sync::Arc;

use go_template::Value;
use helm::engine::{Capabilities, KubeVersion, Lookup, Rendered};
use helm::json;
use helm::kube::{Api, Call, Error as ApiError, FIELD_MANAGER, Mapper, Object, objects_of};
use helm::template::{Cluster, Error, Options, Output};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::runtime::{Builder, Runtime};

use crate::report::chain;

/// Renders with the cluster's capabilities and objects, and has its server check what came out.
pub(super) fn output(options: &Options, kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Output, Error> {
    let unreachable = |cause: String| Error::Usage(format!("Kubernetes cluster unreachable: {cause}"));
    let runtime = Arc::new(Builder::new_current_thread().enable_all().build().map_err(|e| unreachable(e.to_string()))?);
    let server = runtime.block_on(Server::connect(kubeconfig, context)).map_err(unreachable)?;
    let capabilities = runtime.block_on(server.capabilities()).map_err(unreachable)?;
    let lookup = Arc::new(ClusterLookup { server: server.clone(), runtime: Arc::clone(&runtime) });
    let (rendered, warnings) = options.render(Some(Cluster { capabilities, lookup }))?;
    if let Ok(rendered) = &rendered {
        runtime.block_on(server.check(rendered, &options.namespace)).map_err(Error::Usage)?;
    }
    options.output(rendered, warnings)
}

/// The API server that the kubeconfig names.
#[derive(Clone)]
struct Server {
    api: Arc<dyn Api>,
    mapper: Arc<Mapper>,
}

impl Server {
    async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Server, String> {
        let chosen = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
        let config = match kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).map_err(|e| e.to_string())?;
                kube::Config::from_custom_kubeconfig(file, &chosen).await.map_err(|e| e.to_string())?
            }
            None if context.is_some() => kube::Config::from_kubeconfig(&chosen).await.map_err(|e| e.to_string())?,
            None => kube::Config::infer().await.map_err(|e| e.to_string())?,
        };
        let client = kube::Client::try_from(config).map_err(|e| e.to_string())?;
        Ok(Server::new(Arc::new(client)))
    }

    fn new(api: Arc<dyn Api>) -> Server {
        Server { mapper: Arc::new(Mapper::new(Arc::clone(&api))), api }
    }

    async fn capabilities(&self) -> Result<Capabilities, String> {
        let get = async || -> Result<(serde_json::Value, Vec<String>), ApiError> {
            Ok((self.api.send(Call::get("/version")).await?.parse()?, self.mapper.api_versions().await?))
        };
        let (version, api_versions) = get().await.map_err(|e| chain(&e))?;
        let version = KubeVersion::parse(version["gitVersion"].as_str().unwrap_or_default())?;
        Ok(Capabilities::new(version, api_versions))
    }

    async fn get(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<serde_json::Value, ApiError> {
        let resource = self.mapper.resource(api_version, kind).await?;
        match self.api.send(Call::get(resource.path(namespace, name)?)).await {
            Err(error) if error.is_not_found() => Ok(serde_json::json!({})),
            answer => answer?.parse(),
        }
    }

    /// Applies each object for show; says what the server finds wrong with all of them.
    async fn check(&self, rendered: &Rendered, namespace: &str) -> Result<(), String> {
        let mut wrong = Vec::new();
        for manifest in &rendered.manifests {
            let objects = objects_of(&manifest.content).map_err(|e| format!("{}: {e}", manifest.path))?;
            for object in objects {
                if let Err(error) = self.dry_run(&object, namespace).await {
                    let name = format!("{} {:?}", object.kind, object.name);
                    wrong.push(format!("{}: {name}: {}", manifest.path, chain(&error)));
                }
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(format!("unable to build kubernetes objects from release manifest: {}", wrong.join("\n")))
        }
    }

    async fn dry_run(&self, object: &Object, namespace: &str) -> Result<(), ApiError> {
        let resource = self.mapper.resource(&object.api_version, &object.kind).await?;
        let namespace = object.namespace.as_deref().unwrap_or(namespace);
        let path = resource.path(namespace, &object.name)?;
        let body = serde_json::to_vec(&object.body).map_err(ApiError::Json)?;
        let call = if object.name.is_empty() {
            Call::post(format!("{path}?dryRun=All&fieldValidation=Strict&fieldManager={FIELD_MANAGER}"), body)
        } else {
            Call::apply(
                format!("{path}?dryRun=All&fieldValidation=Strict&force=true&fieldManager={FIELD_MANAGER}"),
                body,
            )
        };
        self.api.send(call).await.map(|_| ())
    }
}

/// `lookup` over the API server, on the thread that renders.
struct ClusterLookup {
    server: Server,
    runtime: Arc<Runtime>,
}

impl Lookup for ClusterLookup {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, String> {
        let found = self.runtime.block_on(self.server.get(api_version, kind, namespace, name));
        found.map(|object| json::from_serde(&object)).map_err(|e| chain(&e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helm::kube::MemoryApi;
    use helm::manifest::{Head, Manifest};

    fn runtime() -> Arc<Runtime> {
        Arc::new(Builder::new_current_thread().build().unwrap())
    }

    #[test]
    fn lookup_finds_an_object_a_list_or_nothing() {
        let api = MemoryApi::new();
        api.put("/api/v1/namespaces/ns/configmaps/a", serde_json::json!({"data": {"x": "1"}}), "someone");
        let lookup = ClusterLookup { server: Server::new(Arc::new(api)), runtime: runtime() };
        let get = |kind, name| lookup.lookup("v1", kind, "ns", name).map(|value| json::to_serde(&value));
        assert_eq!(get("ConfigMap", "a").unwrap()["data"]["x"], "1");
        assert_eq!(get("ConfigMap", "").unwrap()["items"].as_array().map(Vec::len), Some(1));
        assert_eq!(get("ConfigMap", "b").unwrap(), serde_json::json!({}));
        assert!(get("Nothing", "b").unwrap_err().contains("no matches for kind \"Nothing\""));
    }

    #[test]
    fn every_object_that_the_server_refuses_is_named() {
        let server = Server::new(Arc::new(MemoryApi::new()));
        let manifest = |kind: &str| Manifest {
            path: format!("c/templates/{kind}.yaml"),
            content: format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: a\n"),
            head: Head::default(),
        };
        let check = |kinds: &[&str]| {
            let rendered =
                Rendered { manifests: kinds.iter().map(|kind| manifest(kind)).collect(), ..Rendered::default() };
            runtime().block_on(server.check(&rendered, "ns"))
        };
        assert_eq!(check(&["ConfigMap"]), Ok(()));
        let error = check(&["Nope", "ConfigMap", "Neither"]).unwrap_err();
        assert!(
            error.contains("c/templates/Nope.yaml: Nope \"a\": no matches for kind") && error.contains("Neither"),
            "{error}"
        );
    }
}
