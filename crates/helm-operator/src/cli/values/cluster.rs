//! Reads a resource and its value sources from the cluster, with the caller's own rights.

use std::sync::Arc;

use controller::report::chain;
use helm_release::kube::{Api, Call, Error as ApiError, Mapper};
use kube::config::Kubeconfig;

use super::{Args, Resource, watch};
use crate::values_from::{Content, Resolved};
use crate::view::primary::{Primary, Received};
use crate::view::sources::named::{self, named};
use crate::watches::Watch;

/// The reason why a resource cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("Kubernetes cluster unreachable: {0}")]
    Unreachable(String),
    #[error(transparent)]
    Watch(#[from] watch::Error),
    #[error("cannot read {what}: {why}")]
    Read { what: String, why: String },
    #[error("{0} is not as the API server sends it")]
    Malformed(String),
    #[error(transparent)]
    Sources(#[from] named::Unnamed),
}

/// Reads the resource that the arguments mean.
pub(super) fn read<'w>(args: &Args, watches: &'w [Watch]) -> Result<Resource<'w>, Error> {
    let watch = watch::named(watches, args.kind())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Unreachable(error.to_string()))?;
    runtime.block_on(async {
        let api: Arc<dyn Api> = Arc::new(args.cluster.client().await.map_err(Error::Unreachable)?);
        let namespace = args.namespace.clone().unwrap_or_else(|| namespace(args));
        resource(&api, watch, &namespace, args.name().unwrap_or_default()).await
    })
}

/// Reads a resource with its sources. A source that the caller may not read is a note.
pub(super) async fn resource<'w>(
    api: &Arc<dyn Api>,
    watch: &'w Watch,
    namespace: &str,
    name: &str,
) -> Result<Resource<'w>, Error> {
    let mut primary = primary(api, watch, namespace, name).await?;
    let raw = primary.raw.take().unwrap_or_default();
    primary.annotations.rename(&raw.annotations, &watch.annotations);
    let (mut sources, mut notes) = (Vec::new(), Vec::new());
    for source in named(&primary, &watch.values_from, &watch.values_from_annotation)? {
        let content = content(&**api, &source, &mut notes).await?;
        sources.push((source, content));
    }
    Ok(Resource { watch, primary, sources, notes })
}

async fn primary(api: &Arc<dyn Api>, watch: &Watch, namespace: &str, name: &str) -> Result<Primary, Error> {
    let what = || format!("{} {name:?}", watch.kind);
    let failed = |error: ApiError| Error::Read { what: what(), why: chain(&error) };
    let kind = Mapper::new(api.clone()).resource(&watch.api_resource().api_version, &watch.kind).await;
    let kind = kind.map_err(failed)?;
    let path = kind.path(if kind.namespaced { namespace } else { "" }, name).map_err(failed)?;
    let answer = api.send(Call::get(path)).await.map_err(failed)?;
    let received: Received = serde_json::from_slice(&answer.body).map_err(|_| Error::Malformed(what()))?;
    let mut primary = received.primary;
    if !kind.namespaced {
        primary.set_release_namespace("");
    }
    Ok(primary)
}

/// Reads a source. A refusal, or a missing object or key, is a note.
async fn content(api: &dyn Api, source: &Resolved, notes: &mut Vec<String>) -> Result<Option<Content>, Error> {
    let namespace = &source.key.namespace;
    let lost = "what it sets is not shown";
    let content = match api.send(Call::get(source.key.path())).await {
        Ok(answer) => Content::read(source.key.kind, &answer.body, &|key| key == source.values_key),
        Err(error) if error.is_not_found() => Some(Content::default()),
        Err(error) if matches!(error.code(), Some(401 | 403)) => {
            notes.push(format!("you may not read {source}, in namespace {namespace:?}; {lost}"));
            return Ok(None);
        }
        Err(error) => return Err(Error::Read { what: source.to_string(), why: chain(&error) }),
    };
    let content = content.ok_or_else(|| Error::Malformed(source.to_string()))?;
    if content.get(&source.values_key).is_none() {
        let what = if content.version == 0 { "does not exist" } else { "has no such key" };
        let consequence = if source.optional { "" } else { "; the operator waits for it" };
        notes.push(format!("{source}, in namespace {namespace:?}, {what}{consequence}"));
    }
    Ok(Some(content))
}

/// Returns the namespace of the kubeconfig's context.
fn namespace(args: &Args) -> String {
    let file = match &args.cluster.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let context = file.ok().and_then(|file| {
        let name = args.cluster.context.clone().or(file.current_context)?;
        file.contexts.into_iter().find(|context| context.name == name)?.context?.namespace
    });
    context.filter(|namespace| !namespace.is_empty()).unwrap_or_else(|| "default".to_owned())
}
