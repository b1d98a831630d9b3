//! Determines which Secrets and ConfigMaps a resource's values come from: those that its watch names, then those that its
//! own annotation names, as far as the watch allows it.

use crate::values_from::{self, Resolved, SourceError, ValuesSource};
use crate::view::primary::Primary;
use crate::watches::AnnotationSources;

/// How to allow a cluster-scoped resource to name sources. A user who may create the resource may lack the permission
/// to read them, so this needs consent.
const OPEN: &str =
    "valuesFromAnnotation: {namespaces: […]} in watches.yaml lists those that a cluster-scoped resource may name";

/// The reason why a resource's sources are unknown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unnamed {
    #[error(transparent)]
    Watch(#[from] SourceError),
    #[error("annotation values-from: {0}")]
    Annotation(String),
}

/// Returns a resource's sources, lowest precedence first.
///
/// # Errors
/// An entry refers to no object, or the watch does not allow the annotation.
pub(crate) fn named(
    primary: &Primary,
    of_watch: &[ValuesSource],
    allowed: &AnnotationSources,
) -> Result<Vec<Resolved>, Unnamed> {
    let resolve = |entries: &[ValuesSource]| values_from::resolve(entries, primary.own_namespace(), primary.name());
    let mut sources = resolve(of_watch)?;
    let Some(own) = primary.annotations.values_from() else { return Ok(sources) };
    if *allowed == AnnotationSources::No {
        let why = "the operator does not allow it: its watches.yaml lacks valuesFromAnnotation";
        return Err(Unnamed::Annotation(why.to_owned()));
    }
    let own = own.and_then(|entries| resolve(&entries).map_err(|e| e.to_string()));
    let own = own.and_then(|own| admit(allowed, primary.own_namespace(), own));
    sources.extend(own.map_err(Unnamed::Annotation)?);
    Ok(sources)
}

/// Returns the sources if a resource in this namespace, which is empty if it is cluster-scoped, may name them.
fn admit(allowed: &AnnotationSources, namespace: &str, sources: Vec<Resolved>) -> Result<Vec<Resolved>, String> {
    let open: &[String] = match allowed {
        _ if !namespace.is_empty() => return Ok(sources),
        AnnotationSources::In(open) => open,
        AnnotationSources::No | AnnotationSources::Own => &[],
    };
    match sources.iter().find(|source| !open.iter().any(|open| **open == *source.key.namespace)) {
        Some(closed) => Err(format!("namespace {:?} is not allowed; {OPEN}", closed.key.namespace)),
        None => Ok(sources),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_scoped_resource_names_sources_in_listed_namespaces_only() {
        let source = |namespace: &str| {
            let entry = json!({"kind": "Secret", "name": "a", "namespace": namespace});
            values_from::resolve(&[serde_json::from_value(entry).unwrap()], "", "web").unwrap()
        };
        let listed = AnnotationSources::In(["open".to_owned()].into());
        for allowed in [&AnnotationSources::Own, &listed] {
            let refused = admit(allowed, "", source("victim")).unwrap_err();
            assert!(
                refused.starts_with("namespace \"victim\" is not allowed; valuesFromAnnotation: {namespaces:"),
                "{refused}"
            );
        }
        assert!(admit(&listed, "", source("open")).is_ok());
        let own: Vec<ValuesSource> = serde_json::from_value(json!([{"kind": "Secret", "name": "a"}])).unwrap();
        assert!(admit(&AnnotationSources::Own, "ns", values_from::resolve(&own, "ns", "web").unwrap()).is_ok());
    }
}
