//! What a reconcile would write, and what an action wrote.
//!
//! `changes` sorts the writes of a rehearsal by object, `revisions` compares what is recorded, and `diff` shows how an
//! object changes. `text`, `markdown` and `json` print a plan, `brief` without contents. `account` notes what was really
//! sent, and keeps that with a revision. `facts` decides for both what happens to an object.

pub(crate) mod account;
pub(crate) mod diff;

mod assigned;
mod changes;
mod facts;
mod managers;
pub(crate) mod revisions;

pub(crate) mod brief;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod text;

#[cfg(test)]
mod tests;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use assigned::Resource;
pub(crate) use changes::{compare, plan};

/// What the next reconcile of a resource writes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub(crate) resource: Name,
    /// What happens to the release's objects and hooks, in the order of the first write to each.
    pub(crate) changes: Vec<Change>,
    /// Every write in the order in which it is sent, including writes to release records and to the resource.
    pub(crate) writes: Vec<Request>,
    /// Why the reconcile fails or waits.
    pub(crate) notice: Option<Notice>,
}

/// An object's kind and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Name {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// Empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        write!(f, "{} {namespace}{}", self.kind, self.name)
    }
}

/// What happens to one object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) object: Name,
    pub(crate) action: ChangeKind,
    /// The object before; `None` if it does not exist.
    pub(crate) before: Option<Value>,
    /// The object afterwards; `None` if it no longer exists.
    pub(crate) after: Option<Value>,
    /// Why the API server refuses it.
    pub(crate) refused: Option<String>,
    /// Whether a part of it depends on earlier writes, so that the API server could not check it.
    pub(crate) is_unchecked: bool,
    /// The managers that lose fields to the operator.
    pub(crate) losers: Vec<String>,
    /// The round in which it happens, if the release has an order.
    pub(crate) round: Option<u16>,
}

impl Change {
    /// Returns the change of an object that stays unchanged when it leaves the release.
    pub(crate) fn kept(object: Name) -> Change {
        let (before, after, refused, losers) = (None, None, None, Vec::new());
        Change { object, action: ChangeKind::Keep, before, after, refused, is_unchecked: false, losers, round: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ChangeKind {
    Create,
    /// Its fields change.
    Update,
    /// It is deleted and created again.
    Recreate,
    Delete,
    /// It leaves the release, and stays.
    Keep,
    /// Only the managers of its fields change.
    Own,
    /// It is changed and changed back, because a later write is refused.
    Revert,
    Hook,
    /// Another manager changed the object, or an object with its name belongs to someone else.
    Conflict,
    /// The API server refuses it.
    Refused,
}

impl ChangeKind {
    /// Returns the mark in front of an object.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            ChangeKind::Create => "+",
            ChangeKind::Update => "~",
            ChangeKind::Recreate => "-/+",
            ChangeKind::Delete => "-",
            ChangeKind::Keep | ChangeKind::Own => "=",
            ChangeKind::Revert => "+/-",
            ChangeKind::Hook => ">",
            ChangeKind::Conflict | ChangeKind::Refused => "!",
        }
    }

    /// Returns what happens, for the actions whose mark does not say it.
    pub(crate) fn note(self) -> &'static str {
        match self {
            ChangeKind::Create | ChangeKind::Update | ChangeKind::Delete => "",
            ChangeKind::Recreate => "deleted and created again",
            ChangeKind::Keep => "leaves the release and stays",
            ChangeKind::Own => "only the managers of its fields change",
            ChangeKind::Revert => "changed and changed back",
            ChangeKind::Hook => "hook",
            ChangeKind::Conflict => "conflict",
            ChangeKind::Refused => "refused",
        }
    }
}

/// A write, without its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
}

/// The reason that the resource's conditions give.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Notice {
    /// Whether the reconcile fails; otherwise it waits.
    #[serde(rename = "fails")]
    pub(crate) is_failure: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Plan {
    /// Returns the counts of changes: `+3 ~2 -1, 1 hook`; `no changes` without any.
    pub(crate) fn summary(&self) -> String {
        summary(self.changes.iter().map(|change| change.action))
    }

    /// Returns whether the reconcile fails, or one of its writes is refused.
    pub(crate) fn is_failure(&self) -> bool {
        let is_refused = |change: &Change| matches!(change.action, ChangeKind::Refused | ChangeKind::Conflict);
        self.notice.as_ref().is_some_and(|notice| notice.is_failure) || self.changes.iter().any(is_refused)
    }
}

/// Counts changes.
fn summary(actions: impl Iterator<Item = ChangeKind> + Clone) -> String {
    let count = |action: ChangeKind| actions.clone().filter(|one| *one == action).count();
    let signed = [(ChangeKind::Create, "+"), (ChangeKind::Update, "~"), (ChangeKind::Delete, "-")];
    let signed = signed.map(|(action, sign)| (count(action), sign));
    let mut parts: Vec<String> = Vec::new();
    if signed.iter().any(|(count, _)| *count > 0) {
        parts.push(signed.map(|(count, sign)| format!("{sign}{count}")).join(" "));
    }
    let named = [
        (ChangeKind::Recreate, "recreated", "recreated"),
        (ChangeKind::Revert, "changed back", "changed back"),
        (ChangeKind::Keep, "kept", "kept"),
        (ChangeKind::Own, "with other field managers only", "with other field managers only"),
        (ChangeKind::Hook, "hook", "hooks"),
        (ChangeKind::Conflict, "conflict", "conflicts"),
        (ChangeKind::Refused, "refused", "refused"),
    ];
    let named = named.into_iter().map(|(action, one, more)| (count(action), one, more));
    parts.extend(
        named
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, more)| format!("{count} {}", if count == 1 { one } else { more })),
    );
    if parts.is_empty() { "no changes".to_owned() } else { parts.join(", ") }
}
