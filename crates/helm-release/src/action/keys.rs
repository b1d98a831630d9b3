//! Finds the keys of objects, and keeps the last of several with the same key. A cluster-scoped object may name a
//! namespace, which is ignored; only discovery shows that two such objects are the same.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use futures::future::try_join_all;

use super::{Candidate, Environment, Error};
use crate::kube::{Applier, Decoration, Object, ObjectKey, last_of_each};
use crate::storage::MarkedObject;

/// Drops the objects of a rendered candidate that a later one replaces, and adds them to its duplicates. Objects of
/// kinds that are not served yet are compared as written; an action finds their keys.
///
/// # Errors
/// Discovery fails.
pub async fn deduplicated(
    applier: &Applier,
    decoration: &Decoration,
    mut candidate: Candidate,
) -> Result<Candidate, Error> {
    let have_namesakes = have_namesakes(&candidate.objects);
    if !have_namesakes.contains(&true) {
        return Ok(candidate);
    }
    let mut keyed = Vec::with_capacity(candidate.objects.len());
    for (object, has_namesake) in std::mem::take(&mut candidate.objects).into_iter().zip(have_namesakes) {
        let known = if has_namesake { applier.recorded_key(&object, decoration).await? } else { None };
        keyed.push((known.unwrap_or_else(|| object.key(&decoration.namespace)), object));
    }
    let (kept, duplicates) = last_of_each(keyed);
    candidate.objects = kept.into_iter().map(|(_, object)| object).collect();
    candidate.duplicates.extend(duplicates);
    Ok(candidate)
}

/// Returns for each object whether another object has its name, in any namespace.
fn have_namesakes(objects: &[Object]) -> Vec<bool> {
    fn name(object: &Object) -> (&str, &str, &str) {
        (object.group(), &object.kind, &object.name)
    }
    let mut counts: HashMap<(&str, &str, &str), usize> = HashMap::new();
    for object in objects {
        *counts.entry(name(object)).or_default() += 1;
    }
    objects.iter().map(|object| counts[&name(object)] > 1).collect()
}

/// Returns the candidate with only the last of several objects with the same key, and the keys of its objects in the
/// same order.
pub(super) async fn keyed<'c>(
    env: &Environment<'_>,
    candidate: &'c Candidate,
) -> Result<(Cow<'c, Candidate>, Vec<ObjectKey>), Error> {
    let keys = candidate.objects.iter().map(|object| env.applier.key(object, &env.decoration));
    let keys: Vec<ObjectKey> = try_join_all(keys).await?;
    if keys.iter().collect::<HashSet<_>>().len() == keys.len() {
        return Ok((Cow::Borrowed(candidate), keys));
    }
    let (kept, _) = last_of_each(keys.into_iter().zip(candidate.objects.iter().cloned()).collect());
    let (keys, objects) = kept.into_iter().unzip();
    Ok((Cow::Owned(Candidate { objects, ..candidate.clone() }), keys))
}

/// Returns the objects of served kinds with their keys; of several with the same key, the last.
pub(super) async fn served(env: &Environment<'_>, objects: Vec<Object>) -> Result<Vec<(ObjectKey, Object)>, Error> {
    let mut keyed = Vec::with_capacity(objects.len());
    for object in objects {
        if let Some(key) = env.applier.recorded_key(&object, &env.decoration).await? {
            keyed.push((key, object));
        }
    }
    Ok(last_of_each(keyed).0)
}

/// Returns whether one of these objects has a key in a scope in which its kind is no longer served, while another of
/// them is its counterpart in the served scope. Deleting the first would delete the second, which may be adopted or
/// kept.
pub(super) async fn is_outscoped(env: &Environment<'_>, all: &[MarkedObject], object: &MarkedObject) -> bool {
    if !all.iter().any(|other| other.key.is_in_other_scope(&object.key)) {
        return false;
    }
    let found = env.applier.mapper.any_version(&object.api_version, &object.key.kind).await;
    // An object that is not found is not deleted either.
    found.is_ok_and(|resource| resource.namespaced == object.key.namespace.is_empty())
}
