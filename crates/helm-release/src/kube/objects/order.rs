//! Sorts objects by kind into Helm's install and uninstall order.

use crate::kube::objects::object::Object;
use helm::manifest::{INSTALL_ORDER, UNINSTALL_ORDER, sort_by_kind};

/// Sorts objects into install order. Stable within a kind.
pub fn install_order(objects: &mut [Object]) {
    sort_by_kind(objects, INSTALL_ORDER, |object| &object.kind);
}

/// Sorts items into uninstall order by their kind. Stable within a kind.
pub(crate) fn uninstall_order<T>(items: &mut [T], kind: impl Fn(&T) -> &str) {
    sort_by_kind(items, UNINSTALL_ORDER, kind);
}
