//! Places where two runs of a chart may differ: random template output, server-assigned values, integer formats.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use regex::{Captures, Regex};
use serde_json::Value;

use crate::compare::leaves;
use crate::live::{Id, Objects};

/// Places where two runs of Helm differ.
#[derive(Clone, Debug, Default)]
pub struct Random {
    paths: BTreeMap<Id, BTreeSet<String>>,
    /// Kinds (group, kind, namespace) with random names, and their names that are not random.
    names: BTreeMap<(String, String, String), BTreeSet<String>>,
}

/// A float64 in exponent form, as Go's `%v` prints large ones.
static EXPONENT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(\d)(?:\.(\d+))?e\+(\d\d)").ok());

impl Random {
    /// Finds the differences between two runs of the same steps by the same installer.
    pub fn between(one: &Objects, other: &Objects) -> Random {
        let mut random = Random { names: random_names(one, other), paths: BTreeMap::new() };
        let (one, other) = (random.rename(one), random.rename(other));
        for (id, left) in &one {
            let Some(right) = other.get(id).filter(|right| *right != left) else { continue };
            let (left, right) = (leaves(left), leaves(right));
            let all = left.keys().chain(right.keys());
            let paths = all.filter(|path| left.get(*path) != right.get(*path)).cloned().collect();
            random.paths.insert(id.clone(), paths);
        }
        random
    }

    /// Returns whether the place is random. Takes ids as returned by [`Random::rename`].
    pub fn contains(&self, id: &Id, path: &str) -> bool {
        self.paths.get(id).is_some_and(|paths| paths.contains(path))
    }

    /// Replaces random names by `*1`, `*2` and so on, in order.
    pub fn rename(&self, objects: &Objects) -> Objects {
        let mut numbers: BTreeMap<&(String, String, String), usize> = BTreeMap::new();
        let mut renamed = Objects::new();
        for (id, object) in objects {
            let (mut id, mut object) = (id.clone(), object.clone());
            if let Some((key, fixed)) = self.names.get_key_value(&key(&id))
                && !fixed.contains(&id.name)
            {
                let number = numbers.entry(key).or_default();
                *number += 1;
                id.name = format!("*{number}");
                object["metadata"]["name"] = id.name.as_str().into();
            }
            renamed.insert(id, object);
        }
        renamed
    }
}

fn key(id: &Id) -> (String, String, String) {
    (id.group.clone(), id.kind.clone(), id.namespace.clone())
}

fn random_names(one: &Objects, other: &Objects) -> BTreeMap<(String, String, String), BTreeSet<String>> {
    let in_one_only = |id: &&Id| one.contains_key(*id) != other.contains_key(*id);
    let random: BTreeSet<_> = one.keys().chain(other.keys()).filter(in_one_only).map(key).collect();
    let fixed = |of: &(String, String, String)| {
        let in_both = one.keys().filter(|id| key(id) == *of && other.contains_key(*id));
        in_both.map(|id| id.name.clone()).collect()
    };
    random.into_iter().map(|of| (of.clone(), fixed(&of))).collect()
}

/// Returns whether the API server assigns the value unless the client sets it.
pub fn is_server_assigned(id: &Id, path: &str) -> bool {
    id.kind == "Service"
        && id.group.is_empty()
        && (path == "/spec/clusterIP"
            || path == "/spec/healthCheckNodePort"
            || path.starts_with("/spec/clusterIPs/")
            || (path.starts_with("/spec/ports/") && path.ends_with("/nodePort")))
}

/// Returns whether the texts differ only in Helm printing integers as floats (`1e+06`).
pub fn differs_by_integer_format(id: &Id, path: &str, helm: Option<&Value>, ours: Option<&Value>) -> bool {
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str)?.to_owned();
        let encoded = id.kind == "Secret" && path.starts_with("/data/");
        if !encoded {
            return Some(text);
        }
        let bytes = BASE64_STANDARD.decode(&text).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (Some(helm), Some(ours)) = (text(helm), text(ours)) else { return false };
    helm != ours && without_exponents(&helm) == ours
}

fn without_exponents(text: &str) -> String {
    let Some(exponent) = &*EXPONENT else { return text.to_owned() };
    let expand = |found: &Captures<'_>| {
        let digits = found.get(2).map_or("", |fraction| fraction.as_str());
        let zeros = found[3].parse::<usize>().unwrap_or_default().checked_sub(digits.len());
        match zeros {
            Some(zeros) => format!("{}{digits}{}", &found[1], "0".repeat(zeros)),
            None => found[0].to_owned(),
        }
    };
    exponent.replace_all(text, expand).into_owned()
}

/// Returns whether the value looks like a checksum, which may cover a printed integer.
pub fn is_digest(value: Option<&Value>) -> bool {
    let text = value.and_then(Value::as_str).unwrap_or_default();
    matches!(text.len(), 32 | 40 | 63 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(kind: &str, name: &str) -> Id {
        Id { group: String::new(), kind: kind.into(), namespace: "ns".into(), name: name.into() }
    }

    fn objects(all: &[(&str, &str, Value)]) -> Objects {
        all.iter().map(|(kind, name, body)| (id(kind, name), body.clone())).collect()
    }

    #[test]
    fn only_places_that_differ_between_two_runs_are_random() {
        let one = objects(&[("Secret", "x", json!({"data": {"a": "1", "b": "2"}}))]);
        let other = objects(&[("Secret", "x", json!({"data": {"a": "1", "b": "3", "c": "4"}}))]);
        let random = Random::between(&one, &other);
        let of = |path| random.contains(&id("Secret", "x"), path);
        assert_eq!([of("/data/a"), of("/data/b"), of("/data/c")], [false, true, true]);
        assert!(!random.contains(&id("Secret", "y"), "/data/b"));
    }

    #[test]
    fn random_names_are_numbered_and_fixed_ones_kept() {
        let body = |name: &str| json!({"metadata": {"name": name}});
        let one = objects(&[("Job", "a-x1", body("a-x1")), ("Job", "b", body("b")), ("Pod", "p", body("p"))]);
        let other = objects(&[("Job", "a-z9", body("a-z9")), ("Job", "b", body("b")), ("Pod", "p", body("p"))]);
        let random = Random::between(&one, &other);
        let names = |of: &Objects| random.rename(of).into_keys().map(|id| id.name).collect::<Vec<_>>();
        assert_eq!(names(&one), ["*1", "b", "p"]);
        assert_eq!(random.rename(&one), random.rename(&other));
    }

    #[test]
    fn the_server_assigns_only_addresses_and_ports_of_services() {
        let service = id("Service", "x");
        for path in ["/spec/clusterIP", "/spec/clusterIPs/0", "/spec/ports/1/nodePort", "/spec/healthCheckNodePort"] {
            assert!(is_server_assigned(&service, path), "{path}");
            assert!(!is_server_assigned(&id("ConfigMap", "x"), path), "{path}");
        }
        assert!(!is_server_assigned(&service, "/spec/ports/0/port"));
        assert!(!is_server_assigned(&Id { group: "serving.example".into(), ..service }, "/spec/clusterIP"));
    }

    #[test]
    fn helms_floats_equal_the_resources_integers() {
        let check = |kind: &str, path: &str, helm: &str, ours: &str| {
            differs_by_integer_format(&id(kind, "x"), path, Some(&json!(helm)), Some(&json!(ours)))
        };
        assert!(check("ConfigMap", "/data/a", "size 1e+06, 1.048576e+06 b", "size 1000000, 1048576 b"));
        assert!(check("Secret", "/data/a", "MWUrMDY=", "MTAwMDAwMA=="));
        assert!(!check("Secret", "/stringData/a", "MWUrMDY=", "MTAwMDAwMA=="));
        assert!(!check("ConfigMap", "/data/a", "size 1e+06", "size 1000001"));
        assert!(!check("ConfigMap", "/data/a", "size 1000000", "size 1e+06"));
        assert!(!check("ConfigMap", "/data/a", "1.23456789e+02", "123"));
        assert!(!check("ConfigMap", "/data/a", "same", "same"));
        assert!(!differs_by_integer_format(&id("ConfigMap", "x"), "/data/a", Some(&json!(1)), None));
    }

    #[test]
    fn digests_are_long_hexadecimal_strings() {
        assert!(is_digest(Some(&json!("0a".repeat(32)))));
        for other in [json!("0a"), json!("zz".repeat(32)), json!(1)] {
            assert!(!is_digest(Some(&other)), "{other}");
        }
        assert!(!is_digest(None));
    }
}
