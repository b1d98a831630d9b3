//! Interprets upstream's plugin names.

use super::Error;

/// A kind of project or API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    /// Only charts.
    Helm,
    /// Charts and code.
    Hybrid,
    /// Only code.
    Native,
}

/// Parses a `--plugins` list such as `hybrid.helm.sdk.operatorframework.io/v1-alpha`. Ignores plugins that only add
/// files of other tools.
pub(super) fn parse(names: &[String]) -> Result<Option<Plugin>, Error> {
    let mut found = None;
    for name in names {
        let name = name.trim();
        let key = name.split('/').next().unwrap_or_default();
        let plugin = match key.split('.').next().unwrap_or_default() {
            "hybrid" => Plugin::Hybrid,
            "helm" => Plugin::Helm,
            "base" if key.starts_with("base.helm") => Plugin::Helm,
            "go" => Plugin::Native,
            "base" if key.starts_with("base.go") => Plugin::Native,
            "kustomize" | "manifests" | "scorecard" => continue,
            _ => return Err(Error::Plugin(name.to_owned())),
        };
        found = found.or(Some(plugin));
    }
    Ok(found)
}
