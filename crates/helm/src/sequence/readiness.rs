//! Judges whether an object is ready by what its own annotations say, and checks them.

use serde_json::Value;

use super::conditions::Condition;
use super::{Part, Problem, annotations};

/// The annotation with the conditions under which an object is ready.
pub const SUCCESS: &str = "helm.sh/readiness-success";
/// The annotation with the conditions under which an object failed.
pub const FAILURE: &str = "helm.sh/readiness-failure";

/// The most conditions in one list.
const MAX_CONDITIONS: usize = 32;

/// What an object's conditions say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is ready.
    Ready,
    /// It failed: this condition holds.
    Failed(String),
    /// None of its conditions holds yet.
    Waiting,
}

/// Judges an object by its two annotations. A condition of failure outweighs one of success. Returns `None` if either
/// annotation is missing or malformed.
pub fn judge(success: Option<&str>, failure: Option<&str>, status: &Value) -> Option<Verdict> {
    let (success, failure) = (conditions(success?)?, conditions(failure?)?);
    let holds =
        |all: &[(String, Condition)]| all.iter().find(|(_, one)| one.holds(status)).map(|(text, _)| text.clone());
    Some(match holds(&failure) {
        Some(text) => Verdict::Failed(text),
        None if holds(&success).is_some() => Verdict::Ready,
        None => Verdict::Waiting,
    })
}

/// Reads a list of conditions, each with its text.
fn conditions(list: &str) -> Option<Vec<(String, Condition)>> {
    let texts = annotations::names(list).filter(|texts| texts.len() <= MAX_CONDITIONS)?;
    texts.into_iter().map(|text| Condition::parse(&text).map(|condition| (text, condition))).collect()
}

/// Returns what is wrong with an object's conditions.
pub(super) fn problems(part: &Part<'_>) -> Vec<Problem> {
    let (path, kind, name) = (|| part.template.to_owned(), || part.kind.to_owned(), || part.name.to_owned());
    let lists = [part.success, part.failure];
    let lone = lists.iter().flatten().count() == 1;
    let lone = lone.then(|| Problem::Readiness { path: path(), kind: kind(), name: name() });
    let malformed = |condition| Problem::Condition { path: path(), kind: kind(), name: name(), condition };
    let conditions = lists.into_iter().flatten().flat_map(|text| {
        let all = annotations::names(text).filter(|all| all.len() <= MAX_CONDITIONS);
        let all = all.unwrap_or_else(|| vec![text.to_owned()]);
        all.into_iter().filter(|condition| Condition::parse(condition).is_none())
    });
    lone.into_iter().chain(conditions.map(malformed)).collect()
}
