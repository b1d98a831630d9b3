//! Decodes the rules of an entry, such as `drift`, `onFailure` and `recreate`. Most have no counterpart upstream, so
//! unknown keys are errors.

use std::path::PathBuf;
use std::sync::Arc;

use helm::disk::SchemaCopies;
use helm_release::kube::{Adopt, CrdPolicy, DriftPolicy, IgnoreRule, ObjectRule, Pointer};

use super::annotations::AnnotationNames;
use super::node::{Entry, Node};
use super::objects::{Granted, granted};
use crate::dependencies::AnnotationRule;
pub(super) use crate::spelling::unknown_key as unknown;

/// The word for the operator itself: its own permissions, or its own namespace.
const OPERATOR: &str = "$(operator)";

/// The word for each release's own namespace.
const RELEASE: &str = "$(release)";

/// The policy for drift: `drift` in watches.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    /// The policy for objects that have none of their own.
    pub policy: DriftPolicy,
    /// Fields that are left to other field managers.
    pub ignore: Arc<[IgnoreRule]>,
}

/// The remediation after a failed install or upgrade: `onFailure` in watches.yaml. An outage is not a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Roll back to the deployed revision, or remove the install if no revision was ever deployed.
    #[default]
    Rollback,
    /// Uninstall the release. The next attempt installs it again.
    Uninstall,
    /// Change nothing. The next attempt continues from there.
    Keep,
}

/// What templates may read with `lookup`, in addition to their release's namespace, cluster-scoped objects, and what
/// the chart spells out: `lookup` in watches.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookupRule {
    /// Further namespaces.
    pub namespaces: Arc<[String]>,
    /// Whether every namespace may be read, including lists across all of them.
    pub all: bool,
    /// The cluster-scoped kinds, and those that the operator serves.
    pub kinds: Granted,
}

/// The value sources that a resource may name in its annotation `values-from`: `valuesFromAnnotation` in watches.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AnnotationSources {
    /// None.
    #[default]
    No,
    /// Sources in the resource's own namespace. A cluster-scoped resource has none.
    Own,
    /// Sources in the resource's own namespace and, for cluster-scoped resources, in these namespaces.
    In(Arc<[String]>),
}

/// How the chart's values are validated: `schema` in watches.yaml.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaRule {
    /// Local copies of the documents that `values.schema.json` names by URL. Paths are relative to the working
    /// directory.
    pub copies: SchemaCopies,
    /// Whether validation is skipped.
    pub skip: bool,
}

impl SchemaRule {
    /// Returns the rule with absolute paths, because workers have another working directory.
    pub(crate) fn absolute(&self) -> std::io::Result<SchemaRule> {
        let absolute = |(url, path): (&String, &PathBuf)| Ok((url.clone(), std::path::absolute(path)?));
        let copies = self.copies.0.iter().map(absolute).collect::<std::io::Result<_>>()?;
        Ok(SchemaRule { copies: SchemaCopies(copies), skip: self.skip })
    }
}

/// A ServiceAccount to act as: `serviceAccountName` in watches.yaml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// The account's namespace; `None` means each release's own.
    pub namespace: Option<String>,
    /// The account's name.
    pub name: String,
}

impl ServiceAccount {
    /// Returns the account's namespace for a release in the namespace `release`.
    pub(crate) fn namespace<'a>(&'a self, release: &'a str) -> &'a str {
        self.namespace.as_deref().unwrap_or(release)
    }

    /// Returns the account's user name on the API server, for a release in this namespace.
    pub(crate) fn user(&self, release: &str) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace(release), self.name)
    }
}

/// One namespace for all release records: `storageNamespace` in watches.yaml.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageNamespace {
    /// The operator's own namespace.
    Own,
    /// The namespace with this name.
    Named(String),
}

/// Decodes `storageNamespace: name`, `$(operator)`, or `$(release)`, which is the default and in operator-sdk an empty
/// string.
pub(super) fn storage_namespace(value: &Node) -> Result<Option<StorageNamespace>, String> {
    let text = string("name", value)?;
    match &*text {
        "" | RELEASE => Ok(None),
        OPERATOR => Ok(Some(StorageNamespace::Own)),
        name if is_name(name) => Ok(Some(StorageNamespace::Named(text))),
        _ => Err(format!("must be a namespace, {OPERATOR} or {RELEASE}, found {text:?}")),
    }
}

fn is_name(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    !part.is_empty() && part.bytes().all(fits)
}

/// Decodes `serviceAccountName: name`, `namespace/name`, or `$(operator)`, which is the default.
pub(super) fn service_account(value: &Node) -> Result<Option<ServiceAccount>, String> {
    let text = string("name", value)?;
    if text == OPERATOR {
        return Ok(None);
    }
    let (namespace, name) = text.split_once('/').map_or((None, &*text), |(namespace, name)| (Some(namespace), name));
    if !is_name(name) || namespace.is_some_and(|namespace| !is_name(namespace)) {
        return Err(format!("must be a name, namespace/name or {OPERATOR}, found {text:?}"));
    }
    Ok(Some(ServiceAccount { namespace: namespace.map(str::to_owned), name: name.to_owned() }))
}

/// Decodes `lookup: {namespaces: […], all: true, kinds: […]}`.
pub(super) fn lookup(value: &Node) -> Result<LookupRule, String> {
    let mut rule = LookupRule::default();
    for Entry { key, value, .. } in value.map()? {
        match key.as_str() {
            "namespaces" => rule.namespaces = each(key, value, name)?,
            "kinds" => rule.kinds = granted(key, value, "none")?,
            "all" => rule.all = boolean(key, value)?,
            _ => return Err(unknown(key, &["namespaces", "all", "kinds"])),
        }
    }
    Ok(rule)
}

/// Decodes `valuesFromAnnotation: true` or `{namespaces: […]}`.
pub(super) fn annotation_sources(value: &Node) -> Result<AnnotationSources, String> {
    let entries = match value {
        Node::Bool(false) => return Ok(AnnotationSources::No),
        Node::Bool(true) => return Ok(AnnotationSources::Own),
        Node::Map(entries) => entries,
        other => return Err(other.expected("true, false or {namespaces: […]}")),
    };
    let mut namespaces = Arc::default();
    for Entry { key, value, .. } in entries {
        match key.as_str() {
            "namespaces" => namespaces = each(key, value, name)?,
            _ => return Err(unknown(key, &["namespaces"])),
        }
    }
    Ok(AnnotationSources::In(namespaces))
}

/// Decodes `dependsOnAnnotation: {kinds: […], namespaces: […]}`, or `false`, which is the default.
pub(super) fn annotation_dependencies(value: &Node) -> Result<Option<AnnotationRule>, String> {
    let entries = match value {
        Node::Bool(false) => return Ok(None),
        Node::Map(entries) => entries,
        other => return Err(other.expected("false or {kinds: […]}")),
    };
    let mut rule = AnnotationRule { kinds: Arc::default(), namespaces: Arc::default() };
    for Entry { key, value, .. } in entries {
        match key.as_str() {
            "kinds" => rule.kinds = each(key, value, name)?,
            "namespaces" => rule.namespaces = each(key, value, name)?,
            _ => return Err(unknown(key, &["kinds", "namespaces"])),
        }
    }
    match rule.kinds.is_empty() {
        true => Err("kinds must name at least one kind".to_owned()),
        false => Ok(Some(rule)),
    }
}

/// Decodes `allowedAnnotations: [suspend]`.
pub(super) fn allowed_annotations(value: &Node, names: &mut AnnotationNames) -> Result<(), String> {
    let keys = each("allowedAnnotations", value, name)?;
    names.allow(&keys).map_err(|cause| cause.to_string())
}

/// Decodes `schema: {copies: {URL: path}, skip: true}`.
pub(super) fn schema(value: &Node) -> Result<SchemaRule, String> {
    let mut rule = SchemaRule::default();
    for Entry { key, value, .. } in value.map()? {
        match key.as_str() {
            "copies" => rule.copies = copies(value).map_err(|what| format!("copies: {what}"))?,
            "skip" => rule.skip = boolean(key, value)?,
            _ => return Err(unknown(key, &["copies", "skip"])),
        }
    }
    Ok(rule)
}

fn copies(value: &Node) -> Result<SchemaCopies, String> {
    let copy = |Entry { key: url, value, .. }: &Entry| {
        let path = string(url, value)?;
        match url.split_once("://") {
            Some((scheme, rest)) if !scheme.is_empty() && !rest.is_empty() && !path.is_empty() => {
                Ok((url.clone(), path.into()))
            }
            _ => Err(format!("expected a URL and the path of its copy, found {url:?}: {path:?}")),
        }
    };
    value.map()?.iter().map(copy).collect::<Result<_, _>>().map(SchemaCopies)
}

pub(super) fn on_failure(value: &Node) -> Result<OnFailure, String> {
    use OnFailure::{Keep, Rollback, Uninstall};
    value.one_of(&[("rollback", Rollback), ("uninstall", Uninstall), ("keep", Keep)])
}

pub(super) fn adopt(value: &Node) -> Result<Adopt, String> {
    value.one_of(&[("never", Adopt::Never), ("released", Adopt::Released), ("any", Adopt::Any)])
}

pub(super) fn crds(value: &Node) -> Result<CrdPolicy, String> {
    use CrdPolicy::{Create, CreateOrReplace, Skip};
    value.one_of(&[("skip", Skip), ("create", Create), ("createOrReplace", CreateOrReplace)])
}

pub(super) fn retries(value: &Node) -> Result<u32, String> {
    let count = if let Node::Integer(n) = value { u32::try_from(*n).ok() } else { None };
    count.ok_or_else(|| "expected a whole number from 0".to_owned())
}

/// Decodes `recreate: [{group: …, kind: …, name: …}]`.
pub(super) fn recreate(value: &Node) -> Result<Arc<[ObjectRule]>, String> {
    let decode = |(at, item)| object_rule(item).map_err(|error| format!("[{at}]: {error}"));
    value.list()?.iter().enumerate().map(decode).collect()
}

fn object_rule(value: &Node) -> Result<ObjectRule, String> {
    let mut rule = ObjectRule::default();
    let mut entries = value.map()?.iter();
    entries.try_for_each(|Entry { key, value, .. }| select(&mut rule, key, value, &["group", "kind", "name"]))?;
    Ok(rule)
}

/// Decodes `drift: {policy: …, ignore: […]}`.
pub(super) fn drift(value: &Node) -> Result<Drift, String> {
    let mut drift = Drift::default();
    for Entry { key, value, .. } in value.map()? {
        match key.as_str() {
            "policy" => drift.policy = policy(value)?,
            "ignore" => drift.ignore = each(key, value, ignore_rule)?,
            _ => return Err(unknown(key, &["policy", "ignore"])),
        }
    }
    Ok(drift)
}

fn policy(value: &Node) -> Result<DriftPolicy, String> {
    let parsed = if let Node::String(text) = value { DriftPolicy::parse(text) } else { None };
    // YAML 1.1 reads `off` as false.
    let parsed = if *value == Node::Bool(false) { Some(DriftPolicy::Off) } else { parsed };
    parsed.ok_or_else(|| "policy must be \"repair\", \"detect\" or \"off\"".to_owned())
}

fn ignore_rule(value: &Node) -> Result<IgnoreRule, String> {
    let mut rule = IgnoreRule::default();
    for Entry { key, value, .. } in value.map()? {
        match key.as_str() {
            "paths" => rule.paths = each("paths", value, pointer)?.to_vec(),
            key => select(&mut rule.objects, key, value, &["group", "kind", "name", "paths"])?,
        }
    }
    if rule.paths.is_empty() { Err("paths must name at least one field".into()) } else { Ok(rule) }
}

fn pointer(value: &Node) -> Result<Pointer, String> {
    let text = string("path", value)?;
    Pointer::parse(&text).map_err(|error| format!("path {text:?}: {error}"))
}

fn select(rule: &mut ObjectRule, key: &str, value: &Node, keys: &[&'static str]) -> Result<(), String> {
    let part = match key {
        "group" => &mut rule.group,
        "kind" => &mut rule.kind,
        "name" => &mut rule.name,
        _ => return Err(unknown(key, keys)),
    };
    *part = Some(string(key, value)?);
    Ok(())
}

fn each<T>(what: &str, value: &Node, decode: fn(&Node) -> Result<T, String>) -> Result<Arc<[T]>, String> {
    let items = value.list().map_err(|error| format!("{what}: {error}"))?;
    let item = |(at, item)| decode(item).map_err(|error| format!("{what}[{at}]: {error}"));
    items.iter().enumerate().map(item).collect()
}

pub(super) fn name(value: &Node) -> Result<String, String> {
    string("name", value)
}

pub(super) fn string(what: &str, value: &Node) -> Result<String, String> {
    value.string().map(str::to_owned).map_err(|error| format!("{what}: {error}"))
}

pub(super) fn boolean(what: &str, value: &Node) -> Result<bool, String> {
    value.boolean().map_err(|error| format!("{what}: {error}"))
}
