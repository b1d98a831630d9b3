//! Notices that another process undoes each change of an object, and spaces the repairs out.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::configuration::Object;
use crate::runtime::backoff::{Backoff, LONGEST};

/// How soon after a repair another change means that someone undid it.
const SOON: Duration = Duration::from_secs(60);

/// The initial pause after another operator has changed the object.
const FIRST: Duration = Duration::from_secs(10);

/// What was applied, and how often it was undone.
pub(super) struct Disputes {
    applied: HashMap<Object, Applied>,
    /// The pauses after changes by writers who left the addresses alone.
    changes: Backoff<Object>,
    /// The pauses after changes by other operators.
    operators: Backoff<Object>,
    reported: HashSet<Object>,
}

/// Who changed an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// Another operator, which entered its own address.
    Operator,
    /// A writer who left the addresses alone.
    Other,
}

struct Applied {
    content: Value,
    at: Instant,
    /// The pause before it was applied.
    pause: Duration,
    /// When to apply it again, if someone changed it.
    due: Option<Instant>,
}

impl Default for Disputes {
    fn default() -> Disputes {
        let (applied, reported) = (HashMap::new(), HashSet::new());
        Disputes { applied, changes: Backoff::default(), operators: Backoff::between(FIRST, LONGEST), reported }
    }
}

impl Disputes {
    /// Records that this process applied an object.
    pub(super) fn applied(&mut self, object: &Object, content: Value) {
        let pause = self.applied.get(object).map_or(Duration::ZERO, |last| last.pause);
        self.applied.insert(object.clone(), Applied { content, at: Instant::now(), pause, due: None });
    }

    /// Records that an object is as it should be.
    pub(super) fn is_current(&mut self, object: &Object) {
        if let Some(applied) = self.applied.get_mut(object) {
            applied.due = None;
        }
    }

    /// Returns until when to leave a changed object as it is; `None` if it can be applied now. After each change soon
    /// after a repair, the pause is twice as long.
    pub(super) fn pause(&mut self, object: &Object, content: &Value, author: Author) -> Option<Instant> {
        let applied = self.applied.get_mut(object).filter(|applied| applied.content == *content)?;
        let now = Instant::now();
        let due = match applied.due {
            Some(due) => due,
            None if now - applied.at < SOON + applied.pause => {
                let backoff = match author {
                    Author::Operator => &self.operators,
                    Author::Other => &self.changes,
                };
                applied.pause = backoff.failed(object.clone());
                now + applied.pause
            }
            None => {
                applied.pause = Duration::ZERO;
                self.changes.forget(object);
                self.operators.forget(object);
                self.reported.remove(object);
                now
            }
        };
        applied.due = Some(due);
        (due > now).then_some(due)
    }

    /// Returns whether to report the dispute about an object: once, until it is over.
    pub(super) fn is_new(&mut self, object: &Object) -> bool {
        self.reported.insert(object.clone())
    }
}
