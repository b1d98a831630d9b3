//! Group, version and kind of an API, the names that follow from them, and the rules of valid names.

use std::fmt;

use heck::ToSnakeCase as _;
use helm::dns::is_label;

/// A group, version and kind. The group includes the domain: `cache.my.domain`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gvk {
    /// The API group; may be empty in watches files, but never in a new API.
    pub group: String,
    /// The version: `v1`, `v1alpha1`.
    pub version: String,
    /// The kind, in upper camel case.
    pub kind: String,
}

/// A name that Kubernetes or Rust rejects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name:?} is invalid: {rule}")]
pub struct InvalidName {
    what: &'static str,
    name: String,
    rule: &'static str,
}

/// The longest kind.
const MAX_KIND: usize = 63;

impl Gvk {
    /// Creates an API whose group is below the domain. An empty group means the domain itself.
    ///
    /// # Errors
    /// Fails if Kubernetes rejects one of the names.
    pub fn new(group: &str, domain: &str, version: &str, kind: &str) -> Result<Gvk, InvalidName> {
        let group = if group.is_empty() { domain.to_owned() } else { format!("{group}.{domain}") };
        check("group", &group, is_dns_name, "it must be a DNS name in lower case")?;
        check("version", version, is_version, "it must look like v1, v1beta1 or v1alpha1")?;
        check("kind", kind, is_kind, "it must be letters and digits, and start with a capital")?;
        Ok(Gvk { group, version: version.to_owned(), kind: kind.to_owned() })
    }

    /// Returns the kind in lower case, for names of files and roles.
    pub fn lower(&self) -> String {
        self.kind.to_lowercase()
    }

    /// Returns the plural name of a new kind. Existing kinds have a definition, which may name another.
    pub fn plural(&self) -> String {
        plural(&self.kind)
    }

    /// Returns the name of the Rust module of a native kind.
    pub fn module(&self) -> String {
        self.kind.to_snake_case()
    }

    /// Returns `group/version`, or the version alone if the group is empty.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns the path of the sample. Upstream names it after the group without its domain.
    pub fn sample_file(&self, domain: &str) -> String {
        let group = self.short_group(domain);
        let prefix = if group.is_empty() { String::new() } else { format!("{group}_") };
        format!("config/samples/{prefix}{}_{}.yaml", self.version, self.lower())
    }

    /// Returns the group without the domain.
    pub fn short_group<'a>(&'a self, domain: &str) -> &'a str {
        if self.group == domain {
            return "";
        }
        self.group.strip_suffix(domain).and_then(|group| group.strip_suffix('.')).unwrap_or(&self.group)
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

/// Returns the plural of a kind, in lower case, by the rules of client tools.
pub(crate) fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    let before_y = |word: &str| word.ends_with(|letter| !"aeiou".contains(letter));
    if lower == "endpoints" {
        return lower;
    }
    if let Some(word) = lower.strip_suffix('y').filter(|word| before_y(word)) {
        return format!("{word}ies");
    }
    let hisses = ["s", "x", "z", "ch", "sh"].iter().any(|end| lower.ends_with(end));
    if hisses { lower + "es" } else { lower + "s" }
}

pub(crate) fn check_domain(domain: &str) -> Result<(), InvalidName> {
    check("domain", domain, is_dns_name, "it must be a DNS name in lower case")
}

/// The part of a Service's 63 characters that `-controller-manager-metrics-service` leaves.
const MAX_PROJECT: usize = 28;

/// Checks a project's name: it becomes a prefix of object names, a namespace and a crate.
pub(crate) fn check_project(name: &str) -> Result<(), InvalidName> {
    let rule = "it must be a DNS label in lower case that starts with a letter, of at most 28 characters";
    let fits = |name: &str| name.len() <= MAX_PROJECT && name.starts_with(|c: char| c.is_ascii_lowercase());
    check("project name", name, |name| is_label(name) && fits(name), rule)
}

fn check(what: &'static str, name: &str, valid: impl Fn(&str) -> bool, rule: &'static str) -> Result<(), InvalidName> {
    if valid(name) { Ok(()) } else { Err(InvalidName { what, name: name.to_owned(), rule }) }
}

fn is_dns_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_version(version: &str) -> bool {
    let Some(rest) = version.strip_prefix('v') else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => is_number(major) && is_number(minor),
        None => is_number(rest),
    }
}

fn is_kind(kind: &str) -> bool {
    kind.len() <= MAX_KIND
        && kind.starts_with(|c: char| c.is_ascii_uppercase())
        && kind.chars().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_group_version_and_kind() {
        let gvk = Gvk::new("cache", "my.domain", "v1", "MemcachedBackup").unwrap();
        assert_eq!(gvk.to_string(), "cache.my.domain/v1 MemcachedBackup");
        assert_eq!((gvk.lower().as_str(), gvk.module().as_str()), ("memcachedbackup", "memcached_backup"));
        assert_eq!(gvk.sample_file("my.domain"), "config/samples/cache_v1_memcachedbackup.yaml");
        let bare = Gvk::new("", "my.domain", "v1", "Cache").unwrap();
        assert_eq!(
            (bare.group.as_str(), bare.sample_file("my.domain").as_str()),
            ("my.domain", "config/samples/v1_cache.yaml")
        );
    }

    #[test]
    fn plurals_are_those_of_the_api_server() {
        for (kind, expected) in [
            ("Deployment", "deployments"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("Gateway", "gateways"),
            ("Endpoints", "endpoints"),
            ("Prometheus", "prometheuses"),
            ("Box", "boxes"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }

    #[test]
    fn names_that_kubernetes_rejects_are_refused() {
        for (group, version, kind) in [
            ("Cache", "v1", "A"),
            ("ca_che", "v1", "A"),
            ("-a", "v1", "A"),
            ("a..b", "v1", "A"),
            ("a", "1", "A"),
            ("a", "v", "A"),
            ("a", "v1gamma1", "A"),
            ("a", "v1alpha", "A"),
            ("a", "v1", "memcached"),
            ("a", "v1", "Mem-cached"),
            ("a", "v1", ""),
        ] {
            assert!(Gvk::new(group, "my.domain", version, kind).is_err(), "{group} {version} {kind}");
        }
        assert!(check_project("9lives").is_err() && check_project("a.b").is_err() && check_project("a-b").is_ok());
        assert!(check_project(&"a".repeat(28)).is_ok() && check_project(&"a".repeat(29)).is_err());
    }
}
