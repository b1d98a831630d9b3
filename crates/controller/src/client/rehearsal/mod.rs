//! Rehearses reconciles: their writes are recorded and checked by the API server (`dryRun=All`), and nothing changes.
//!
//! What was written is kept in memory, so that later reads of the same work see it. A second write to an object, or one
//! that the API server cannot check because it depends on an earlier one, is answered from there. An object that is
//! deleted and recreated is checked under another name, and fields that the API server refused to change stay
//! immutable. A re-applied object gets the API server's defaults again. Discovery includes the kinds of created
//! definitions, whose objects are also served from memory.

mod defaults;
mod definitions;
mod layer;
mod overlay;
mod room;
mod substitute;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use kube::Client;
use outside::sync::lock;
use serde_json::Value;

use overlay::Overlay;
use room::Room;

/// Changes an object that was written as the cluster's controllers would by the time that it is read again. For
/// example, completes a Job that is waited for.
pub type Settle = fn(&mut Value);

/// The writes of one piece of work, none of which reached the cluster.
pub struct Rehearsal {
    overlay: Overlay,
    writes: Mutex<Vec<Option<Write>>>,
    room: Room,
    settle: Settle,
}

/// A write that a rehearsal recorded.
#[derive(Clone, Debug)]
pub struct Write {
    /// `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The path without its query. It names the object, also for `POST`, and ends with the subresource, if there is one.
    pub path: String,
    /// The body as JSON; `null` without one.
    pub sent: Value,
    /// The object before; `None` if it did not exist, or could not be read.
    pub before: Option<Value>,
    /// The object afterwards, which does not exist after a deletion, or why the write is refused.
    pub after: Result<Option<Value>, Refused>,
    /// Who checked the write.
    pub checked: Checked,
}

/// Who checked a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The API server, by a dry run: admission, validation, defaults and rights.
    Server,
    /// No one: the write depends on earlier ones.
    Nobody,
}

/// The API server's reason for refusing a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The HTTP status.
    pub code: u16,
    /// The status's `reason`: `Forbidden`, `Invalid`, `Conflict`, …
    pub reason: String,
    /// The message, without values that must not be shown.
    pub message: String,
}

tokio::task_local! {
    /// The rehearsal that the current task's requests belong to.
    static CURRENT: Arc<Rehearsal>;
}

impl Rehearsal {
    /// Creates a rehearsal without writes.
    pub fn new(settle: Settle) -> Rehearsal {
        Rehearsal { overlay: Overlay::default(), writes: Mutex::default(), room: Room::of(usize::MAX), settle }
    }

    /// Limits the memory of the recorded objects, as sent, before and afterwards, to about this many bytes. A write that
    /// exceeds it is refused and not recorded, and so is every later write.
    #[must_use]
    pub fn within(self, bytes: usize) -> Rehearsal {
        Rehearsal { room: Room::of(bytes), ..self }
    }

    /// Returns whether a write exceeded the memory limit.
    pub fn is_too_large(&self) -> bool {
        self.room.is_exceeded()
    }

    /// Returns a client that writes nothing. Its writes are recorded during [`record`](Self::record). Other writes, such as
    /// those of background tasks, are answered as if they had succeeded. Reviews of access and tokens, which store nothing,
    /// are sent.
    pub fn client(inner: Client) -> Client {
        layer::over(inner)
    }

    /// Makes reads of this path return an object, as if it had just been written.
    pub fn put(&self, path: &str, object: Value) {
        self.overlay.store(path, object);
    }

    /// Returns an object that was put or written; `None` if it was neither, or is deleted.
    pub fn object(&self, path: &str) -> Option<Value> {
        self.overlay.object(path)
    }

    /// Runs work, and records the writes that it makes through a [`client`](Self::client). Writes of tasks that it
    /// spawns are not recorded.
    pub async fn record<F: Future>(self: &Arc<Self>, work: F) -> F::Output {
        CURRENT.scope(self.clone(), work).await
    }

    /// Takes the writes so far, in the order in which they were sent.
    pub fn take_writes(&self) -> Vec<Write> {
        std::mem::take(&mut *lock(&self.writes)).into_iter().flatten().collect()
    }

    /// Reserves the position of a write that is about to be sent.
    fn begin(&self) -> usize {
        let mut writes = lock(&self.writes);
        writes.push(None);
        writes.len() - 1
    }

    fn end(&self, place: usize, write: Write) {
        if let Some(place) = lock(&self.writes).get_mut(place) {
            *place = Some(write);
        }
    }
}
