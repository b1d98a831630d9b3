//! In which order objects are installed and deleted: the manifest's order of kinds, on objects.

use super::Object;
use helm::manifest::{INSTALL_ORDER, UNINSTALL_ORDER, sort_by_kind};

/// Sorts objects into the order in which they are installed; equal kinds keep theirs.
pub fn install_order(objects: &mut [Object]) {
    sort_by_kind(objects, INSTALL_ORDER, |object| &object.kind);
}

/// Sorts keys by kind into the order in which they are uninstalled; equal kinds keep theirs.
pub fn uninstall_order<T>(items: &mut [T], kind: impl Fn(&T) -> &str) {
    sort_by_kind(items, UNINSTALL_ORDER, kind);
}
