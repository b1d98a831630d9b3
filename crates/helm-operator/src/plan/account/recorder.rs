//! Records an action's requests to the API server, and the responses. Sends no requests itself, and keeps no contents.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt as _};
use helm::manifest::HOOK_ANNOTATION;
use helm_release::action::{self, Made};
use helm_release::kube::{Api, Call, Error, Mapper, Response};
use outside::sync::lock;
use outside::{Pieces, Target, written_path};
use serde::Deserialize;
use serde_json::Value;

use super::sorted::account;
use crate::plan::managers::Managers;

/// Maximum number of writes that are noted.
const MAX_NOTES: usize = 10_000;

/// A connection that notes the writes of one action after the other.
pub(crate) struct Recorder {
    api: Arc<dyn Api>,
    mapper: Arc<Mapper>,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    notes: Vec<Note>,
    /// The managers of objects that were read and not yet written, by path.
    managers: HashMap<String, Managers>,
    /// Number of writes that are not recorded.
    omitted: usize,
}

/// A write.
#[derive(Clone, Debug, Default)]
pub(super) struct Note {
    pub(super) path: String,
    /// Empty if neither the request nor its answer names it.
    pub(super) kind: String,
    pub(super) is_hook: bool,
    pub(super) effect: Effect,
    /// Why it is refused; `None` if it was accepted.
    pub(super) refused: Option<Refusal>,
    /// The managers that lost fields.
    pub(super) losers: Vec<String>,
}

/// What a write is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Effect {
    /// To create the object, which must not exist.
    Create,
    /// To change its content.
    #[default]
    Change,
    /// To change the managers of its fields.
    Managers,
    Delete,
}

/// Why a write is refused, without contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The HTTP status; 0 without an answer.
    pub(super) code: u16,
    pub(super) why: String,
}

/// The part of an object that an account needs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    kind: String,
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    annotations: Option<HashMap<String, Value>>,
}

/// The managers of an object's fields, as the API server names them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Owned {
    metadata: OwnedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnedMetadata {
    managed_fields: Value,
}

impl Owned {
    fn managers(json: &[u8]) -> Managers {
        let owned: Owned = serde_json::from_slice(json).unwrap_or_default();
        Managers::of(&owned.metadata.managed_fields)
    }
}

impl Head {
    fn of(json: &[u8]) -> Head {
        serde_json::from_slice(json).unwrap_or_default()
    }

    fn is_hook(&self) -> bool {
        self.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(HOOK_ANNOTATION))
    }
}

impl Recorder {
    /// Notes what is sent through a connection.
    pub(crate) fn new(api: Arc<dyn Api>, mapper: Arc<Mapper>) -> Recorder {
        Recorder { api, mapper, noted: Mutex::default() }
    }

    /// Forgets all notes, because a new action begins.
    pub(crate) fn begin(&self) {
        *lock(&self.noted) = Noted::default();
    }

    /// Notes that a write is being sent. Without a response, this note stays.
    fn sent(&self, call: &Call) -> Option<usize> {
        let mut note = noted(call)?;
        note.refused = Some(Refusal { code: 0, why: "no answer".to_owned() });
        let mut noted = lock(&self.noted);
        if noted.notes.len() >= MAX_NOTES {
            noted.omitted += 1;
            return None;
        }
        noted.notes.push(note);
        Some(noted.notes.len() - 1)
    }

    fn answered(&self, place: usize, answer: &Result<Response, Error>) {
        let head = answer.as_ref().map(|answer| Head::of(&answer.body)).unwrap_or_default();
        let mut noted = lock(&self.noted);
        let noted = &mut *noted;
        let Some(note) = noted.notes.get_mut(place) else { return };
        note.refused = answer.as_ref().err().map(refusal);
        if note.effect != Effect::Delete && !head.kind.is_empty() {
            note.is_hook |= head.is_hook();
            note.kind = head.kind.clone();
        }
        if note.refused.is_none()
            && let Some(before) = noted.managers.remove(&note.path)
            && note.effect != Effect::Delete
            && let Ok(answer) = answer
        {
            let after = Owned::managers(&answer.body);
            note.losers = before.losers(&after);
            if note.effect == Effect::Managers {
                // Another write follows.
                noted.managers.insert(note.path.clone(), after);
            }
        }
    }

    /// Notes the managers of an object that is read before it is written.
    fn read(&self, path: &str, answer: &Response) {
        let is_object = Target::of(path).is_some_and(|target| !target.name.is_empty() && target.subresource.is_empty());
        let managers = is_object.then(|| Owned::managers(&answer.body));
        if let Some(managers) = managers.filter(|managers| *managers != Managers::default()) {
            lock(&self.noted).managers.insert(path.to_owned(), managers);
        }
    }
}

/// Returns the note of a request; `None` if it changes no object.
fn noted(call: &Call) -> Option<Note> {
    let (path, query) = call.path.split_once('?').unwrap_or((&call.path, ""));
    let target = Target::of(path)?;
    if !target.subresource.is_empty() || query.contains("dryRun=") {
        return None;
    }
    let (content, body) = call.body.as_ref().map_or(("", &[][..]), |(content, body)| (*content, &body[..]));
    let head = Head::of(body);
    let is_new = head.metadata.uid.is_none() && head.metadata.resource_version.is_some();
    let effect = match call.method.as_str() {
        "POST" => Effect::Create,
        "DELETE" => Effect::Delete,
        "PATCH" if content.contains("json-patch") => Effect::Managers,
        "PATCH" if content.contains("apply") && is_new => Effect::Create,
        "PATCH" | "PUT" => Effect::Change,
        _ => return None,
    };
    if call.method == "POST" && head.metadata.name.is_none() {
        return None;
    }
    let path = written_path(path, head.metadata.name.as_deref());
    let is_hook = head.is_hook();
    let kind = if effect == Effect::Delete { String::new() } else { head.kind };
    Some(Note { path, kind, is_hook, effect, ..Note::default() })
}

fn refusal(error: &Error) -> Refusal {
    match error {
        Error::Refused { code, reason, fields, .. } => {
            let reason = if reason.is_empty() { code.to_string() } else { reason.clone() };
            let fields = if fields.is_empty() { String::new() } else { format!(" ({})", fields.join(", ")) };
            Refusal { code: *code, why: format!("{reason}{fields}") }
        }
        _ => Refusal { code: 0, why: "no answer".to_owned() },
    }
}

impl Api for Recorder {
    fn send(&self, call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        let read = (call.method == "GET").then(|| call.path.clone());
        let place = if read.is_some() { None } else { self.sent(&call) };
        async move {
            let answer = self.api.send(call).await;
            match (read, place) {
                (_, Some(place)) => self.answered(place, &answer),
                (Some(path), None) => answer.iter().for_each(|answer| self.read(&path, answer)),
                _ => {}
            }
            answer
        }
        .boxed()
    }

    fn stream(&self, call: Call) -> BoxFuture<'_, Result<Pieces, Error>> {
        self.api.stream(call)
    }
}

impl action::Account for Recorder {
    fn plan(&self, made: &Made<'_>) -> Option<Vec<u8>> {
        let Noted { notes, omitted, .. } = std::mem::take(&mut *lock(&self.noted));
        let mut account = self::account(notes, made, &self.mapper);
        account.omitted += omitted;
        account.pack()
    }
}
