//! To come: the random family.

use go_template::FuncMap;

/// Adds the family's functions.
pub(super) fn register(_map: &mut FuncMap) {}
