//! What upstream's plugin names ask for.

use super::Error;

/// A kind of project or API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    /// Charts only.
    Helm,
    /// Charts and code.
    Hybrid,
    /// Code.
    Native,
}

/// Reads a `--plugins` list such as `hybrid.helm.sdk.operatorframework.io/v1-alpha`. Plugins that only add files of other tools are ignored.
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
