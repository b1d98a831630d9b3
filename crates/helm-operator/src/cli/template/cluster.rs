//! `template` with a cluster: uses its version and API versions, runs `lookup`, and dry-runs every object on its API
//! server.

use std::sync::Arc;

use controller::report::chain;
use go_template::Map;
use helm::engine::{Capabilities, KubeVersion, Rendered};
use helm::template::{Cluster, Error, Options, Output};
use helm_release::kube::{Applier, Call, Error as ApiError, FIELD_MANAGER, Object, objects_of};
use kube::config::Kubeconfig;
use tokio::runtime::Builder;

use crate::cli::kubeconfig::ClusterFlags;
use crate::rendering::lookup::{Blocking, ClusterLookup, LookupReach};

/// Renders with the cluster's capabilities and objects, and has its server check the result.
pub(super) fn output(
    options: &Options,
    flags: &ClusterFlags,
    over: impl FnOnce(Map) -> Result<Map, String>,
    decorated: impl FnOnce(Rendered) -> Result<Rendered, Error>,
) -> Result<Output, Error> {
    options.check()?;
    let unreachable = |cause: String| Error::Cluster(format!("Kubernetes cluster unreachable: {cause}"));
    // One more thread, which answers `lookup` while this one renders.
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_all().build().map_err(|e| unreachable(e.to_string()))?;
    let server = runtime.block_on(Server::connect(flags)).map_err(unreachable)?;
    let capabilities = runtime.block_on(server.capabilities()).map_err(unreachable)?;
    let lookup = ClusterLookup::new(server.0.clone(), runtime.handle().clone(), LookupReach::Everything);
    let lookup = Arc::new(Blocking(Arc::new(lookup)));
    let (rendered, warnings) = options.render_over(Some(Cluster { capabilities, lookup }), over)?;
    let rendered = match rendered {
        Ok(rendered) => Ok(decorated(rendered)?),
        failed => failed,
    };
    if let Ok(rendered) = &rendered {
        runtime.block_on(server.check(rendered, &options.namespace)).map_err(Error::Cluster)?;
    }
    options.output(rendered, warnings)
}

/// Returns the namespace of the kubeconfig's context. An empty path or context means the default one.
pub(super) fn namespace(kubeconfig: &str, context: &str) -> Option<String> {
    let config = match kubeconfig {
        "" => Kubeconfig::read().ok()?,
        path => Kubeconfig::read_from(path).ok()?,
    };
    let context = if context.is_empty() { config.current_context? } else { context.to_owned() };
    let named = config.contexts.into_iter().find(|named| named.name == context)?;
    named.context?.namespace.filter(|namespace| !namespace.is_empty())
}

/// The API server named by the kubeconfig.
struct Server(Applier);

impl Server {
    async fn connect(flags: &ClusterFlags) -> Result<Server, String> {
        Ok(Server(Applier::new(Arc::new(flags.client().await?))))
    }

    async fn capabilities(&self) -> Result<Capabilities, String> {
        let get = async || -> Result<(serde_json::Value, Vec<String>), ApiError> {
            Ok((self.0.api().send(Call::get("/version")).await?.parse()?, self.0.mapper.api_versions().await?))
        };
        let (version, api_versions) = get().await.map_err(|e| chain(&e))?;
        let version =
            KubeVersion::parse(version["gitVersion"].as_str().unwrap_or_default()).map_err(|e| e.to_string())?;
        Ok(Capabilities::new(version, api_versions))
    }

    /// Applies each object as a dry run; returns all of the server's objections.
    async fn check(&self, rendered: &Rendered, namespace: &str) -> Result<(), String> {
        let mut wrong = Vec::new();
        for object in objects_of(&rendered.manifest()).map_err(|e| e.to_string())? {
            if let Err(error) = self.dry_run(&object, namespace).await {
                let name = format!("{} {:?}", object.kind, object.name);
                wrong.push(format!("{}: {name}: {}", object.template, chain(&error)));
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(format!("unable to build kubernetes objects from release manifest: {}", wrong.join("\n")))
        }
    }

    async fn dry_run(&self, object: &Object, namespace: &str) -> Result<(), ApiError> {
        let resource = self.0.mapper.resource(&object.api_version, &object.kind).await?;
        let namespace = object.namespace.as_deref().unwrap_or(namespace);
        let body = serde_json::to_vec(&object.as_sent()).map_err(ApiError::Json)?;
        let query = format!("dryRun=All&fieldValidation=Strict&fieldManager={FIELD_MANAGER}");
        let call = if object.name.is_empty() {
            Call::post(format!("{}?{query}", resource.collection(namespace)?), body)
        } else {
            Call::apply(format!("{}?{query}&force=true", resource.path(namespace, &object.name)?), body)
        };
        self.0.api().send(call).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use helm::manifest::{Head, Manifest};
    use helm_release::kube::MemoryApi;

    use super::*;

    #[test]
    fn objects_are_checked_as_the_operator_sends_them() {
        let api = Arc::new(MemoryApi::new());
        let sent = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = sent.clone();
        api.refuse(move |call| {
            let body = call.body.as_ref().map(|(_, json)| serde_json::from_slice::<serde_json::Value>(json).unwrap());
            seen.lock().unwrap().extend(body);
            None
        });
        let content =
            "apiVersion: v1\nkind: Secret\nmetadata: {name: a, uid: u}\ntype: null\nstringData: {k: x}\n".to_owned();
        let secret = Manifest { path: "c/templates/s.yaml".into(), content, head: Head::default() };
        let rendered = Rendered { manifests: vec![secret], ..Rendered::default() };
        let server = Server(Applier::new(api));
        let checked = Builder::new_current_thread().build().unwrap().block_on(server.check(&rendered, "ns"));
        assert_eq!(checked, Ok(()));
        let expected =
            serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "eA=="}});
        assert_eq!(*sent.lock().unwrap(), [expected]);
    }

    #[test]
    fn every_object_that_the_server_refuses_is_named() {
        let server = Server(Applier::new(Arc::new(MemoryApi::new())));
        let manifest = |kind: &str| Manifest {
            path: format!("c/templates/{kind}.yaml"),
            content: format!("apiVersion: v1\nkind: {kind}\nmetadata:\n  name: a\n"),
            head: Head::default(),
        };
        let check = |kinds: &[&str]| {
            let rendered =
                Rendered { manifests: kinds.iter().map(|kind| manifest(kind)).collect(), ..Rendered::default() };
            Builder::new_current_thread().build().unwrap().block_on(server.check(&rendered, "ns"))
        };
        assert_eq!(check(&["ConfigMap"]), Ok(()));
        let error = check(&["Nope", "ConfigMap", "Neither"]).unwrap_err();
        assert!(
            error.contains("c/templates/Nope.yaml: Nope \"a\": no matches for kind") && error.contains("Neither"),
            "{error}"
        );
    }
}
