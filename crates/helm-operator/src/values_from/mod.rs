//! `valuesFrom`: the Secrets and ConfigMaps whose content is merged below a resource's `spec`. Parses entries, resolves
//! them to objects, and merges contents into values. Does not read the cluster.
//!
//! Counterpart: Flux's `spec.valuesFrom`. docs/decisions/0026-values-from.md has the reasons.

mod content;
mod contents;
mod merge;

use std::fmt;
use std::sync::Arc;

use go_template::Map;
use helm::dns::is_subdomain;
use helm::strvals;
use serde::Deserialize;

pub(crate) use content::Content;
pub(crate) use contents::{Contents, keys_of};
pub(crate) use merge::{Error as MergeError, FoundSource, merge};

/// The type of the Secret with the key of release records. Neither templates nor `valuesFrom` see its content, in any
/// namespace.
pub(crate) const RECORD_KEY: &str = "helm.sdk.operatorframework.io/record-key";

/// The maximum number of entries in a list, because each costs a request per change.
pub(crate) const MAX_ENTRIES: usize = 20;

/// The maximum sum of the indexes in a target path, because each index makes a list of that length.
const MAX_SUM_OF_INDEXES: usize = 1000;

/// One entry of `valuesFrom`: a key of a Secret or ConfigMap in the resource's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ValuesSource {
    /// The kind of object.
    pub kind: SourceKind,
    /// The object's name. `$(name)` and `$(namespace)` stand for the resource's.
    pub name: String,
    /// The object's namespace: required for a cluster-scoped resource, invalid for any other. May contain `$(name)`.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The key in the object's `data`. Default: `values.yaml`.
    #[serde(default = "values_yaml")]
    pub values_key: String,
    /// The path of the value, as in `--set-string`, that is set to the key's text. Without it, the text is parsed as
    /// YAML and merged.
    #[serde(default)]
    pub target_path: Option<String>,
    /// Whether the object or its key may be missing.
    #[serde(default)]
    pub optional: bool,
}

/// The kinds of objects that contain values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
pub enum SourceKind {
    /// A core v1 Secret.
    Secret,
    /// A core v1 ConfigMap.
    ConfigMap,
}

fn values_yaml() -> String {
    "values.yaml".to_owned()
}

/// An invalid entry. Names its field, but never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("valuesFrom[{index}]: {what}")]
pub struct SourceError {
    /// The entry's position in the list, starting at 0.
    pub index: usize,
    /// What is wrong.
    pub what: String,
}

/// The object that an entry refers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SourceKey {
    pub(crate) kind: SourceKind,
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

/// An entry with the object that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) key: SourceKey,
    pub(crate) values_key: String,
    pub(crate) target_path: Option<String>,
    pub(crate) optional: bool,
}

impl SourceKind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            SourceKind::Secret => "Secret",
            SourceKind::ConfigMap => "ConfigMap",
        }
    }

    pub(crate) fn plural(self) -> &'static str {
        match self {
            SourceKind::Secret => "secrets",
            SourceKind::ConfigMap => "configmaps",
        }
    }
}

/// Formats the object for messages: `Secret "web-values"`.
impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.kind.as_str(), self.name)
    }
}

impl SourceKey {
    /// Returns the object's path on the server. Its parts are DNS names.
    pub(crate) fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/{}/{}", self.namespace, self.kind.plural(), self.name)
    }
}

/// Formats the source for messages: `Secret "web-values", key "values.yaml"`.
impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, key {:?}", self.key, self.values_key)
    }
}

/// Checks what does not depend on the resource: placeholders, keys, paths and the number of entries.
///
/// # Errors
/// The first invalid entry.
pub(crate) fn check(entries: &[ValuesSource]) -> Result<(), SourceError> {
    if entries.len() > MAX_ENTRIES {
        let what = format!("more than {MAX_ENTRIES} entries");
        return Err(SourceError { index: MAX_ENTRIES, what });
    }
    entries.iter().enumerate().try_for_each(|(index, entry)| entry.check().map_err(|what| SourceError { index, what }))
}

/// Resolves the entries to objects, for a resource with this name and namespace, which is empty if it is
/// cluster-scoped.
///
/// # Errors
/// The first entry that refers to no object.
pub(crate) fn resolve(entries: &[ValuesSource], namespace: &str, name: &str) -> Result<Vec<Resolved>, SourceError> {
    let resolve = |(index, entry): (usize, &ValuesSource)| {
        entry.resolve(namespace, name).map_err(|what| SourceError { index, what })
    };
    entries.iter().enumerate().map(resolve).collect()
}

impl ValuesSource {
    fn check(&self) -> Result<(), String> {
        // Any valid name will do: this only checks the placeholders.
        fill("name", &self.name, "x", "x")?;
        if let Some(namespace) = &self.namespace {
            fill("namespace", namespace, "x", "x")?;
        }
        let is_key = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        if self.values_key.is_empty() || self.values_key.len() > 253 || !self.values_key.bytes().all(is_key) {
            return Err("valuesKey must consist of letters, digits, '-', '_' and '.'".to_owned());
        }
        self.target_path.as_deref().map_or(Ok(()), check_path)
    }

    fn resolve(&self, namespace: &str, name: &str) -> Result<Resolved, String> {
        let own = self.namespace.as_deref().map(|of| fill("namespace", of, namespace, name)).transpose()?;
        let namespace = match (namespace, own) {
            ("", Some(own)) => own,
            ("", None) => return Err("a cluster-scoped resource needs a namespace in each entry".to_owned()),
            (_, Some(_)) => return Err("namespace is only for cluster-scoped resources".to_owned()),
            (own, None) => own.to_owned(),
        };
        let name = fill("name", &self.name, &namespace, name)?;
        let key = SourceKey { kind: self.kind, namespace: namespace.into(), name: name.into() };
        let (values_key, target_path) = (self.values_key.clone(), self.target_path.clone());
        Ok(Resolved { key, values_key, target_path, optional: self.optional })
    }
}

/// Checks that a path sets exactly one value, and creates no long lists.
fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() || path.contains(['=', ',', '{', '}']) {
        return Err("targetPath must be a path such as a.b[0].c".to_owned());
    }
    if strvals::sum_of_indexes(path) > MAX_SUM_OF_INDEXES {
        return Err(format!(
            "targetPath: its indexes add up to more than {MAX_SUM_OF_INDEXES} (limit MAX_SUM_OF_INDEXES): use \
             smaller ones, or set the whole list without a targetPath"
        ));
    }
    strvals::parse_into_string(&format!("{path}=x"), &Map::default()).map_err(|error| format!("targetPath: {error}"))
}

/// Replaces the placeholders in the text, if the result is a DNS name.
pub(crate) fn fill(field: &str, text: &str, namespace: &str, name: &str) -> Result<String, String> {
    let filled = text.replace("$(name)", name).replace("$(namespace)", namespace);
    if filled.contains('$') {
        return Err(format!("{field}: only $(name) and $(namespace) are known"));
    }
    match is_subdomain(&filled) {
        true => Ok(filled),
        false => Err(format!("{field} {filled:?} is not a valid name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(json: &str) -> Vec<ValuesSource> {
        serde_json::from_str(json).unwrap()
    }

    fn resolved(json: &str, namespace: &str, name: &str) -> Result<Vec<String>, String> {
        let shown = |r: Resolved| format!("{} {r}", r.key.path());
        let all = resolve(&entries(json), namespace, name).map_err(|e| e.to_string())?;
        Ok(all.into_iter().map(shown).collect())
    }

    #[test]
    fn an_entry_stands_for_an_object_in_the_resources_namespace() {
        let secret = r#"[{"kind":"Secret","name":"$(name)-values"},{"kind":"ConfigMap","name":"$(namespace).shared","valuesKey":"a"}]"#;
        let expected = [
            r#"/api/v1/namespaces/ns/secrets/web-values Secret "web-values", key "values.yaml""#,
            r#"/api/v1/namespaces/ns/configmaps/ns.shared ConfigMap "ns.shared", key "a""#,
        ];
        assert_eq!(resolved(secret, "ns", "web").unwrap(), expected);
        let error = "valuesFrom[0]: a cluster-scoped resource needs a namespace in each entry";
        assert_eq!(resolved(secret, "", "web").unwrap_err(), error);
    }

    #[test]
    fn only_a_cluster_scoped_resource_may_name_a_namespace() {
        let secret = r#"[{"kind":"Secret","name":"a","namespace":"team-$(name)"}]"#;
        let expected = r#"/api/v1/namespaces/team-web/secrets/a Secret "a", key "values.yaml""#;
        assert_eq!(resolved(secret, "", "web").unwrap(), [expected]);
        let error = "valuesFrom[0]: namespace is only for cluster-scoped resources";
        assert_eq!(resolved(secret, "ns", "web").unwrap_err(), error);
    }

    #[test]
    fn an_invalid_entry_is_named_by_its_place() {
        for (entry, expected) in [
            (r#""name":"a/../b""#, "valuesFrom[0]: name \"a/../b\" is not a valid name"),
            (r#""name":"..""#, "valuesFrom[0]: name \"..\" is not a valid name"),
            (r#""name":"""#, "valuesFrom[0]: name \"\" is not a valid name"),
            (r#""name":"$(uid)""#, "valuesFrom[0]: name: only $(name) and $(namespace) are known"),
            (r#""name":"a","namespace":"A""#, "valuesFrom[0]: namespace \"A\" is not a valid name"),
            (
                r#""name":"a","valuesKey":"a/b""#,
                "valuesFrom[0]: valuesKey must consist of letters, digits, '-', '_' and '.'",
            ),
            (r#""name":"a","targetPath":"""#, "valuesFrom[0]: targetPath must be a path such as a.b[0].c"),
            (r#""name":"a","targetPath":"a=1,b""#, "valuesFrom[0]: targetPath must be a path such as a.b[0].c"),
            (
                r#""name":"a","targetPath":"a[x]""#,
                "valuesFrom[0]: targetPath: error parsing index: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
        ] {
            let parsed = entries(&format!(r#"[{{"kind":"Secret",{entry}}}]"#));
            assert_eq!(check(&parsed).unwrap_err().to_string(), expected, "{entry}");
        }
        let good = entries(r#"[{"kind":"Secret","name":"a","targetPath":"a.b[0].c","optional":true}]"#);
        assert_eq!(check(&good), Ok(()));
        let many: Vec<_> = std::iter::repeat_n(good[0].clone(), MAX_ENTRIES + 1).collect();
        assert_eq!(check(&many).unwrap_err().to_string(), "valuesFrom[20]: more than 20 entries");
    }

    #[test]
    fn a_target_path_creates_no_long_lists() {
        let check = |path: &str| {
            let entry = entries(&format!(r#"[{{"kind":"Secret","name":"a","targetPath":"{path}"}}]"#));
            check(&entry).map_err(|error| error.to_string())
        };
        assert_eq!(check("a[500].b[500]"), Ok(()));
        let refused = check("a[500].b[501]").unwrap_err();
        let expected = "valuesFrom[0]: targetPath: its indexes add up to more than 1000 (limit MAX_SUM_OF_INDEXES): ";
        assert!(refused.starts_with(expected), "{refused}");
        let nested = check(&format!("a{}", "[65536]".repeat(30))).unwrap_err();
        assert!(nested.starts_with(expected), "{nested}");
    }
}
