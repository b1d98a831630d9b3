//! The kinds of custom resources that the process serves, with any of its controllers.

use std::collections::BTreeSet;
use std::sync::RwLock;

use outside::sync;

/// The kinds that the process serves, by group and kind. A resource contains its user's values.
#[derive(Debug, Default)]
pub struct ServedKinds(RwLock<BTreeSet<[String; 2]>>);

impl ServedKinds {
    /// Adds a kind.
    pub fn add(&self, group: &str, kind: &str) {
        sync::write(&self.0).insert([group, kind].map(str::to_owned));
    }

    /// Returns whether the process serves the kind.
    pub fn has(&self, group: &str, kind: &str) -> bool {
        sync::read(&self.0).contains(&[group, kind].map(str::to_owned))
    }
}
