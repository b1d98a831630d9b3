//! A set of templates that call each other by name. Counterpart: Go's `text/template/template.go`.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::error::FuncError;
use crate::node::Tree;
use crate::parse::Parsed;
use crate::scope::{Options, Scope};
use crate::value::{Str, Value};

/// Templates by name. An overlay adds to a shared set without copying or changing it.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    name: String,
    trees: HashMap<Str, Arc<Tree>>,
    base: Option<Arc<Templates>>,
}

impl Templates {
    /// Creates an empty set. Its name appears in errors about missing templates.
    pub fn new(name: impl Into<String>) -> Templates {
        Templates { name: name.into(), ..Templates::default() }
    }

    /// Creates a set that contains everything in `base`, which stays unchanged.
    pub fn overlay(base: &Arc<Templates>) -> Templates {
        Templates { name: base.name.clone(), trees: HashMap::new(), base: Some(Arc::clone(base)) }
    }

    /// Returns the set's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds the templates of a source text. They replace templates with the same name, unless they are empty. Counterpart: `AddParseTree`.
    pub fn add(&mut self, parsed: &Parsed) {
        for tree in parsed.trees() {
            if !(tree.is_empty() && self.lookup(tree.name()).is_some()) {
                self.trees.insert(tree.name().clone(), Arc::clone(tree));
            }
        }
    }

    /// Returns the template with this name.
    pub fn lookup(&self, name: &[u8]) -> Option<&Arc<Tree>> {
        let mut set = self;
        loop {
            match (set.trees.get(name), &set.base) {
                (Some(tree), _) => return Some(tree),
                (None, Some(base)) => set = base,
                (None, None) => return None,
            }
        }
    }

    /// Returns all templates; for each name, the one that is executed.
    pub fn trees(&self) -> impl Iterator<Item = &Arc<Tree>> {
        let sets = std::iter::successors(Some(self), |set| set.base.as_deref());
        let names = sets.flat_map(|set| set.trees.keys()).collect::<hashbrown::HashSet<_>>();
        names.into_iter().filter_map(|name| self.lookup(name))
    }

    /// Executes the template with this name on the data, with default options, and returns its output.
    ///
    /// # Errors
    /// [`FuncError::NoTemplate`] if there is no such template, [`FuncError::Template`] if it fails.
    pub fn execute(self: &Arc<Self>, name: impl AsRef<[u8]>, data: &Value) -> Result<Vec<u8>, FuncError> {
        Scope::new(Arc::clone(self), Options::default()).execute(name, data)
    }
}
