//! Stores each string that many objects share only once: groups, kinds, versions, namespaces, names, owners.

use std::sync::{Arc, LazyLock, Mutex};

use crate::sync;
use hashbrown::HashSet;

/// Minimum number of strings before unused ones are dropped.
const FEW: usize = 1024;

static TEXTS: LazyLock<Mutex<Texts>> = LazyLock::new(Mutex::default);

/// Returns the process's only copy of a string. It is dropped some time after its last use.
pub fn intern(text: &str) -> Arc<str> {
    sync::lock(&TEXTS).intern(text)
}

#[derive(Default)]
struct Texts {
    all: HashSet<Arc<str>>,
    /// The number of strings in use when unused ones were last dropped.
    used: usize,
}

impl Texts {
    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.all.get(text) {
            return known.clone();
        }
        if self.all.len() >= self.used.saturating_mul(2).max(FEW) {
            self.all.retain(|text| Arc::strong_count(text) > 1);
            self.used = self.all.len();
        }
        let new: Arc<str> = text.into();
        self.all.insert(new.clone());
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_one() {
        assert!(Arc::ptr_eq(&intern("ConfigMap"), &intern("ConfigMap")));
        assert!(!Arc::ptr_eq(&intern("ConfigMap"), &intern("Secret")));
    }

    #[test]
    fn texts_that_nobody_uses_are_dropped() {
        let mut texts = Texts::default();
        let used = texts.intern("used");
        for n in 0..10 * FEW {
            texts.intern(&n.to_string());
            assert!(texts.all.len() <= FEW + 1);
        }
        assert!(Arc::ptr_eq(&used, &texts.intern("used")));
    }

    #[test]
    fn texts_in_use_are_looked_through_only_when_they_have_doubled() {
        let mut texts = Texts::default();
        let used: Vec<Arc<str>> = (0..8 * FEW).map(|n| texts.intern(&n.to_string())).collect();
        assert_eq!((texts.all.len(), texts.used), (used.len(), 4 * FEW));
    }
}
