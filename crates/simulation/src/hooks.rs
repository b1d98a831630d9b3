//! What the checks know of hooks that failed.

use crate::checks::Checks;
use crate::names;

impl Checks {
    /// Records that the server refused to show this object. If it is a hook, its action fails, and the next one runs it
    /// again.
    pub fn hide(&mut self, path: &str) {
        let resource = names::owner(path).filter(|_| path.ends_with("-hook"));
        if let Some(resource) = resource.and_then(|name| self.resources.get_mut(name)) {
            resource.hook = None;
        }
    }
}
