//! Checks the annotations that say when an object is ready: lists of conditions on its status.

use super::{Problem, annotations};
use crate::manifest::Manifest;

const SUCCESS: &str = "helm.sh/readiness-success";
const FAILURE: &str = "helm.sh/readiness-failure";

/// The operators, longer ones first.
const OPERATORS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];

/// Returns what is wrong with an object's conditions.
pub(super) fn problems(manifest: &Manifest) -> Vec<Problem> {
    let head = &manifest.head;
    let (path, kind, name) = (|| manifest.path.clone(), || head.kind.clone(), || head.name.clone());
    let lists = [head.annotation(SUCCESS), head.annotation(FAILURE)];
    let lone = lists.iter().flatten().count() == 1;
    let lone = lone.then(|| Problem::Readiness { path: path(), kind: kind(), name: name() });
    let malformed = |condition| Problem::Condition { path: path(), kind: kind(), name: name(), condition };
    let conditions = lists.into_iter().flatten().flat_map(|text| {
        let all = annotations::names(text).unwrap_or_else(|| vec![text.to_owned()]);
        all.into_iter().filter(|condition| !is_condition(condition))
    });
    lone.into_iter().chain(conditions.map(malformed)).collect()
}

/// Returns whether the text is a path into the status in braces, an operator, and a scalar.
fn is_condition(text: &str) -> bool {
    let Some((path, rest)) = text.trim().strip_prefix('{').and_then(|rest| rest.split_once('}')) else { return false };
    let rest = rest.trim_start();
    let value = OPERATORS.iter().find_map(|operator| rest.strip_prefix(operator));
    let is_scalar = |value: &str| !value.is_empty() && !value.starts_with(['[', '{']);
    path.starts_with('.') && value.is_some_and(|value| is_scalar(value.trim()))
}
