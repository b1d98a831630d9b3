//! Requests: parses their path and query.

use percent_encoding::percent_decode_str;

/// One HTTP request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: &'a str,
    /// The path with its query.
    pub path: &'a str,
    /// The body's content type, which selects the kind of `PATCH`.
    pub content_type: &'a str,
    /// The `Accept` header; empty for JSON.
    pub accept: &'a str,
    /// The body, as JSON.
    pub body: &'a [u8],
}

/// The object or collection that a path addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// `v1`, `apps/v1`.
    pub api_version: &'a str,
    /// The kind's name in paths: `deployments`.
    pub plural: &'a str,
    /// Empty for cluster-scoped objects, and for collections of all namespaces.
    pub namespace: &'a str,
    /// Empty for collections.
    pub name: &'a str,
    /// `status`, `scale`, `finalize`; empty for the object itself.
    pub subresource: &'a str,
}

/// Returns the path of the object that a path without its query addresses: without the subresource.
pub fn object_path(path: &str) -> &str {
    let subresource = Target::of(path).map_or("", |target| target.subresource);
    if subresource.is_empty() { path } else { &path[..path.len() - subresource.len() - 1] }
}

/// Returns the path of the object that a write to a path concerns. For a `POST` to a collection, the
/// name comes from the object.
pub fn written_path(path: &str, name: Option<&str>) -> String {
    let is_collection = Target::of(path).is_some_and(|target| target.name.is_empty());
    match name {
        Some(name) if is_collection => format!("{path}/{name}"),
        _ => path.to_owned(),
    }
}

/// Returns the API group of an `apiVersion`; empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

impl<'a> Target<'a> {
    /// Parses a path without its query; returns `None` if it addresses no resource.
    pub fn of(path: &'a str) -> Option<Target<'a>> {
        let (api_version, rest) = match path.strip_prefix("/api/") {
            Some(rest) => rest.split_once('/')?,
            None => {
                let rest = path.strip_prefix("/apis/")?;
                let group = rest.find('/')?;
                let version = rest[group + 1..].find('/')?;
                (&rest[..group + 1 + version], &rest[group + version + 2..])
            }
        };
        let parts: Vec<&str> = rest.split('/').collect();
        let new =
            |plural, namespace, name, subresource| Some(Target { api_version, plural, namespace, name, subresource });
        match parts[..] {
            ["namespaces", name] => new("namespaces", "", name, ""),
            ["namespaces", name, subresource @ ("status" | "finalize")] => new("namespaces", "", name, subresource),
            ["namespaces", namespace, plural] => new(plural, namespace, "", ""),
            ["namespaces", namespace, plural, name] => new(plural, namespace, name, ""),
            ["namespaces", namespace, plural, name, subresource] => new(plural, namespace, name, subresource),
            [plural] if !plural.is_empty() => new(plural, "", "", ""),
            [plural, name] => new(plural, "", name, ""),
            [plural, name, subresource] => new(plural, "", name, subresource),
            _ => None,
        }
    }
}

/// The options in a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a>(pub(crate) &'a str);

impl<'a> Query<'a> {
    pub(crate) fn split(path: &'a str) -> (&'a str, Query<'a>) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        (path, Query(query))
    }

    /// Returns an option's decoded value.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let part = self.0.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?;
        Some(percent_decode_str(part).decode_utf8_lossy().into_owned())
    }

    /// Returns whether an option is `true`.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "true" || value == "1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_address_objects_collections_and_subresources() {
        for (path, expected) in [
            ("/api/v1/configmaps", Some(["v1", "configmaps", "", "", ""])),
            ("/api/v1/namespaces/a/pods/b/status", Some(["v1", "pods", "a", "b", "status"])),
            ("/apis/apps/v1/namespaces/a/deployments", Some(["apps/v1", "deployments", "a", "", ""])),
            ("/api/v1/namespaces/a", Some(["v1", "namespaces", "", "a", ""])),
            ("/api/v1/namespaces/a/finalize", Some(["v1", "namespaces", "", "a", "finalize"])),
            ("/apis/a.b/v1/things/c/status", Some(["a.b/v1", "things", "", "c", "status"])),
            ("/apis/a.b/v1", None),
            ("/version", None),
        ] {
            let target = Target::of(path).map(|t| [t.api_version, t.plural, t.namespace, t.name, t.subresource]);
            assert_eq!(target, expected, "{path}");
        }
        assert_eq!(object_path("/api/v1/namespaces/a/pods/b/status"), "/api/v1/namespaces/a/pods/b");
        assert_eq!(object_path("/api/v1/namespaces/a/pods/status"), "/api/v1/namespaces/a/pods/status");
        let pods = "/api/v1/namespaces/a/pods";
        assert_eq!(written_path(pods, Some("b")), "/api/v1/namespaces/a/pods/b");
        assert_eq!(written_path("/api/v1/namespaces/a/pods/b", Some("b")), "/api/v1/namespaces/a/pods/b");
        assert_eq!(written_path(pods, None), pods);
        assert_eq!((group_of("apps/v1"), group_of("v1")), ("apps", ""));
    }
}
