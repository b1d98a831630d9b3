//! What was read of a release. A reader may not be allowed to read everything; what is missing is named, not
//! guessed.

use helm_release::kube::{Live, ObjectKey};
use serde_json::Value;

use super::model::Hook;
use crate::view::primary::Received;

/// Everything that was read for one resource.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) resource: Received,
    /// The objects of its inventory, in install order.
    pub(crate) objects: Vec<SeenObject>,
    /// Number of the release's objects that were not read.
    pub(crate) omitted: usize,
    /// The hooks of the newest revision.
    pub(crate) hooks: Vec<Hook>,
    /// The objects of the hooks that run or failed.
    pub(crate) hook_objects: Vec<SeenObject>,
    /// The events about the resource.
    pub(crate) events: Vec<Value>,
    /// What the caller may not read: `pods in namespace "shop"`.
    pub(crate) hidden: Vec<String>,
}

impl Seen {
    /// Returns what is known if only the resource was read.
    pub(crate) fn resource_alone(resource: Received) -> Seen {
        Seen {
            resource,
            objects: Vec::new(),
            omitted: 0,
            hooks: Vec::new(),
            hook_objects: Vec::new(),
            events: Vec::new(),
            hidden: Vec::new(),
        }
    }
}

/// An object of the inventory.
#[derive(Debug)]
pub(crate) struct SeenObject {
    pub(crate) key: ObjectKey,
    pub(crate) sight: Sight,
    /// The ReplicaSets or Jobs below a workload.
    pub(crate) owners: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    /// The newest event that explains why something does not happen, if nothing else explains it.
    pub(crate) event: Option<String>,
}

/// What is known about an object itself.
#[derive(Debug)]
pub(crate) enum Sight {
    Live(Box<Live>),
    /// It does not exist.
    Missing,
    /// It could not be read.
    Hidden,
}
