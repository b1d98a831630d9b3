//! Served resources and their paths.

use std::sync::Arc;

use outside::{Error, group_of};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

/// A served resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// `group/version`, or the version alone for the core group.
    pub api_version: Arc<str>,
    /// The kind.
    pub kind: Arc<str>,
    /// The plural name, as in paths.
    pub plural: Box<str>,
    /// Whether its objects belong to namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// Returns the API group; empty for the core group.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// Returns the plural name with the group, in kubectl's notation: `deployments.apps`, `pods`.
    pub fn full_name(&self) -> String {
        match self.group() {
            "" => self.plural.to_string(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Returns the collection's path, in one namespace or, if that is empty, in all.
    ///
    /// # Errors
    /// The namespace cannot be a path segment.
    pub fn collection(&self, namespace: &str) -> Result<String, Error> {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let mut path = format!("/{root}/{}", self.api_version);
        if self.namespaced && !namespace.is_empty() {
            path = format!("{path}/namespaces/{}", segment("namespace", namespace)?);
        }
        Ok(format!("{path}/{}", self.plural))
    }

    /// Returns an object's namespace under the kind's present scope, given the namespace in its recorded key: the kind
    /// may have changed its scope since then. `release` is the release's namespace.
    pub(crate) fn namespace_of<'n>(&self, recorded: &'n str, release: &'n str) -> &'n str {
        match (self.namespaced, recorded) {
            (false, _) => "",
            (true, "") => release,
            (true, recorded) => recorded,
        }
    }

    /// Returns an object's path.
    ///
    /// # Errors
    /// The namespace or name cannot be a path segment. An empty name is an error, because its path would be the
    /// collection's.
    pub fn path(&self, namespace: &str, name: &str) -> Result<String, Error> {
        if name.is_empty() {
            return Err(Error::NoName);
        }
        Ok(format!("{}/{}", self.collection(namespace)?, segment("resource name", name)?))
    }
}

impl From<&Resource> for ::kube::core::ApiResource {
    fn from(resource: &Resource) -> Self {
        let (group, version) = resource.api_version.split_once('/').unwrap_or(("", &resource.api_version));
        Self {
            group: group.into(),
            version: version.into(),
            api_version: resource.api_version.to_string(),
            kind: resource.kind.to_string(),
            plural: resource.plural.to_string(),
        }
    }
}

/// Characters that Go does not escape in a path, except the slash.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Encodes a path segment. Counterpart: `IsPathSegmentName` of Kubernetes' `api/validate/content`, with its messages.
fn segment<'a>(what: &'static str, text: &'a str) -> Result<PercentEncode<'a>, Error> {
    let why = match text {
        "." | ".." => format!("may not be '{text}'"),
        _ => {
            let found = ["/", "%"].iter().filter(|part| text.contains(**part));
            found.map(|part| format!("may not contain '{part}'")).collect::<Vec<_>>().join(" ")
        }
    };
    if why.is_empty() {
        return Ok(utf8_percent_encode(text, KEPT));
    }
    Err(Error::InvalidName(format!("{what} {text:?}: [{why}]")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(api_version: &str, namespaced: bool) -> Resource {
        Resource { api_version: api_version.into(), kind: "Thing".into(), plural: "things".into(), namespaced }
    }

    #[test]
    fn paths_name_group_namespace_and_object() {
        let path = |api_version, namespaced, namespace| resource(api_version, namespaced).path(namespace, "a").unwrap();
        assert_eq!(path("v1", true, "ns"), "/api/v1/namespaces/ns/things/a");
        assert_eq!(path("v1", true, ""), "/api/v1/things/a");
        assert_eq!(path("x.y/v2", false, "ns"), "/apis/x.y/v2/things/a");
        assert_eq!(path("v1", false, "a/b"), "/api/v1/things/a", "the namespace is unused");
        assert_eq!(resource("x.y/v2", true).collection("ns").unwrap(), "/apis/x.y/v2/namespaces/ns/things");
        assert_eq!(resource("v1", true).collection("").unwrap(), "/api/v1/things");
    }

    #[test]
    fn an_object_is_where_its_kind_is_served_now() {
        let namespace = |namespaced, recorded| resource("v1", namespaced).namespace_of(recorded, "ns");
        assert_eq!([namespace(true, "other"), namespace(true, "")], ["other", "ns"]);
        assert_eq!([namespace(false, "other"), namespace(false, "")], ["", ""]);
    }

    #[test]
    fn names_are_encoded_as_go_does() {
        let path = |name| resource("v1", false).path("", name).unwrap();
        assert_eq!(path("a b?c#d"), "/api/v1/things/a%20b%3Fc%23d");
        assert_eq!(path("system:a-b_c~d.e$&+,;=@"), "/api/v1/things/system:a-b_c~d.e$&+,;=@");
        assert_eq!(path("é\n"), "/api/v1/things/%C3%A9%0A");
        assert_eq!(path("..."), "/api/v1/things/...");
    }

    #[test]
    fn invalid_path_segments_are_rejected_with_kubernetes_messages() {
        let refused = |namespace, name| resource("v1", true).path(namespace, name).unwrap_err().to_string();
        assert_eq!(refused("ns", "."), r#"invalid resource name ".": [may not be '.']"#);
        assert_eq!(refused("..", "a"), r#"invalid namespace "..": [may not be '..']"#);
        assert_eq!(refused("ns", "a/b"), r#"invalid resource name "a/b": [may not contain '/']"#);
        assert_eq!(refused("a%", "b"), r#"invalid namespace "a%": [may not contain '%']"#);
        assert_eq!(refused("ns", "%/"), r#"invalid resource name "%/": [may not contain '/' may not contain '%']"#);
        assert_eq!(refused("ns", ""), "resource name may not be empty");
    }

    #[test]
    fn the_group_precedes_the_slash() {
        assert_eq!(resource("apps/v1", true).group(), "apps");
        assert_eq!(resource("v1", true).group(), "");
    }
}
