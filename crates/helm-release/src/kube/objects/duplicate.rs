//! Resolves objects that a manifest contains more than once: the last one counts, as in Helm's upgrade.
//!
//! Helm v4's install applies all of them concurrently, so any of them may win, and a client-side create of the second
//! one fails. Applying one after the other would look like endless drift.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::kube::objects::object::{Object, ObjectKey};

/// An object that a chart renders more than once, with different content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// The object's key.
    pub key: ObjectKey,
    /// The template whose object is ignored.
    pub dropped: Arc<str>,
    /// The template of the last one, which counts.
    pub kept: Arc<str>,
}

impl fmt::Display for Duplicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Duplicate { key, dropped, kept } = self;
        if dropped == kept {
            return write!(f, "{kept} renders {key} more than once, and only the last one counts: remove the others");
        }
        write!(f, "{dropped} and {kept} both render {key}, and only the last one counts: remove the other")
    }
}

/// Keeps the last of several objects with the same key. Returns the kept objects, in order, and the ignored ones that
/// differ. `namespace` is the release's.
pub fn deduplicate(objects: Vec<Object>, namespace: &str) -> (Vec<Object>, Vec<Duplicate>) {
    let (kept, duplicates) = last_of_each(objects.into_iter().map(|object| (object.key(namespace), object)).collect());
    (kept.into_iter().map(|(_, object)| object).collect(), duplicates)
}

/// Keeps the last of several objects with the same key, as [`deduplicate`] does, by these keys.
pub(crate) fn last_of_each(keyed: Vec<(ObjectKey, Object)>) -> (Vec<(ObjectKey, Object)>, Vec<Duplicate>) {
    let mut last: HashMap<ObjectKey, usize> = HashMap::new();
    for (i, (key, _)) in keyed.iter().enumerate() {
        last.insert(key.clone(), i);
    }
    if last.len() == keyed.len() {
        return (keyed, Vec::new());
    }
    let mut duplicates = Vec::new();
    for (i, (key, object)) in keyed.iter().enumerate() {
        let (_, kept) = &keyed[last[key]];
        if last[key] != i && object.body != kept.body {
            let (dropped, kept) = (object.template.clone(), kept.template.clone());
            duplicates.push(Duplicate { key: key.clone(), dropped, kept });
        }
    }
    let counts: HashSet<usize> = last.into_values().collect();
    let kept = keyed.into_iter().enumerate().filter(|(i, _)| counts.contains(i));
    (kept.map(|(_, one)| one).collect(), duplicates)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_of_several_objects_with_one_key_counts() {
        let object = |api_version: &str, namespace: &str, name: &str, value: &str, template: &str| {
            let metadata = match namespace {
                "" => json!({"name": name}),
                _ => json!({"name": name, "namespace": namespace}),
            };
            let body =
                json!({"apiVersion": api_version, "kind": "ConfigMap", "metadata": metadata, "data": {"x": value}});
            Object { template: template.into(), ..Object::new(body).unwrap() }
        };
        let once = |objects: &[Object]| {
            let (kept, duplicates) = deduplicate(objects.to_vec(), "ns");
            let kept: Vec<String> = kept.iter().map(|o| o.body["data"]["x"].as_str().unwrap().to_owned()).collect();
            (kept, duplicates.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let (a, b) = (object("v1", "", "a", "1", "t/a"), object("v1", "", "b", "2", "t/a"));
        let (kept, said) = once(&[a.clone(), b.clone(), object("v1", "ns", "a", "3", "t/b")]);
        assert_eq!(kept, ["2", "3"]);
        assert_eq!(said, ["t/a and t/b both render ConfigMap \"a\", and only the last one counts: remove the other"]);
        let (kept, said) = once(&[a.clone(), object("v1", "", "a", "4", "t/a")]);
        assert_eq!(kept, ["4"]);
        assert_eq!(
            said,
            ["t/a renders ConfigMap \"a\" more than once, and only the last one counts: remove the others"]
        );
        let others = [object("x/v1", "", "a", "5", ""), object("v1", "other", "a", "6", ""), b];
        assert_eq!(
            once(&[std::slice::from_ref(&a), &others[..]].concat()),
            (vec!["1".into(), "5".into(), "6".into(), "2".into()], vec![])
        );
        assert_eq!(once(&[a.clone(), a]), (vec!["1".into()], vec![]), "identical duplicates are not reported");
        let versions = [object("x/v1", "", "a", "7", "t/a"), object("x/v2", "", "a", "8", "t/b")];
        assert_eq!(once(&versions).0, ["8"]);
    }
}
