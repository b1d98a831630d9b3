//! Estimates the work of validating values: walks schema and values like the validator, without performing its checks.
//!
//! The result is an upper bound: every branch is taken, unless `type` excludes it.

use serde_json::{Map, Value as Json};

use super::bounds::{BoundError, MAX_NESTING, MAX_STEPS};
use super::outline::{Node, NodeId, Outline, Rule, size};

/// Levels of nesting per additional step: an error contains a path, and the validator looks for cycles.
const LEVELS_PER_STEP: usize = 64;

const LITERALS_PER_STEP: u64 = 16;

/// Number of looked-up names per step.
const NAMES_PER_STEP: u64 = 8;

/// Steps for each value that is validated as a schema.
const METASCHEMA_STEPS: u64 = 64;

/// Maximum number of items that the validator compares with each other; it hashes longer lists.
const COMPARED_ITEMS: usize = 20;

/// Returns the recursion depth of the validator.
pub(super) fn nesting(outline: &Outline, values: &Json) -> Result<usize, BoundError> {
    let mut walk = Walk { outline, stack: Vec::new(), steps: 0, deepest: 0 };
    walk.visit(0, values, 0)?;
    Ok(walk.deepest)
}

struct Walk<'a> {
    outline: &'a Outline,
    /// The schemas that lead here, starting with the root.
    stack: Vec<NodeId>,
    steps: u64,
    deepest: usize,
}

impl Walk<'_> {
    fn charge(&mut self, steps: u64) -> Result<(), BoundError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS { Err(BoundError::TooManySteps) } else { Ok(()) }
    }

    /// Applies the schema to the value. The stack contains the schemas for this value from index `first` on.
    fn visit(&mut self, id: NodeId, value: &Json, first: usize) -> Result<(), BoundError> {
        self.charge(1 + (self.stack.len() / LEVELS_PER_STEP) as u64)?;
        // The validator rejects a cycle.
        if self.stack[first..].contains(&id) {
            return Ok(());
        }
        let Some(node) = self.outline.node(id).filter(|node| node.admits(value)) else { return Ok(()) };
        if self.stack.len() >= MAX_NESTING {
            return Err(BoundError::TooDeep);
        }
        self.stack.push(id);
        self.deepest = self.deepest.max(self.stack.len());
        let result = stacker::maybe_grow(128 << 10, 1 << 20, || self.node(node, value, first));
        self.stack.pop();
        result
    }

    fn node(&mut self, node: &Node, value: &Json, first: usize) -> Result<(), BoundError> {
        self.charge(node.literals / LITERALS_PER_STEP)?;
        for rule in &node.rules {
            self.same(rule, value, first)?;
        }
        match value {
            Json::Object(entries) => self.object(node, entries),
            Json::Array(items) => self.array(node, value, items),
            Json::String(text) => self.charge((text.len() / 256) as u64),
            _ => Ok(()),
        }
    }

    /// Applies a rule for the value itself.
    fn same(&mut self, rule: &Rule, value: &Json, first: usize) -> Result<(), BoundError> {
        match rule {
            Rule::Same(id) => self.visit(*id, value, first),
            Rule::WithProperty(name, id) if value.get(&**name).is_some() => self.visit(*id, value, first),
            Rule::Recursive => {
                let is_recursive = |id: &&NodeId| self.outline.node(**id).is_some_and(|node| node.recursive);
                let outermost = self.stack.iter().find(is_recursive).copied();
                outermost.map_or(Ok(()), |id| self.visit(id, value, first))
            }
            Rule::Metaschema => self.charge(METASCHEMA_STEPS.saturating_mul(size(value))),
            _ => Ok(()),
        }
    }

    fn object(&mut self, node: &Node, entries: &Map<String, Json>) -> Result<(), BoundError> {
        let copied = if self.outline.tracks_evaluated { entries.len() as u64 } else { 0 };
        self.charge(copied + node.names / NAMES_PER_STEP)?;
        for (name, value) in entries {
            self.charge(node.patterns)?;
            let named = node.property(name);
            if let Some(id) = named {
                self.below(id, value)?;
            }
            for rule in &node.rules {
                match rule {
                    Rule::Properties(id) => self.below(*id, value)?,
                    Rule::Additional(id) if named.is_none() => self.below(*id, value)?,
                    Rule::Names(id) => self.below(*id, &Json::String(name.clone()))?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn array(&mut self, node: &Node, list: &Json, items: &[Json]) -> Result<(), BoundError> {
        let copied = if self.outline.tracks_evaluated { items.len() as u64 } else { 0 };
        let compared = if node.unique { size(list).saturating_mul(items.len().min(COMPARED_ITEMS) as u64) } else { 0 };
        self.charge(copied + compared / LITERALS_PER_STEP)?;
        for rule in &node.rules {
            match rule {
                Rule::Item(index, id) => items.get(*index).map_or(Ok(()), |item| self.below(*id, item))?,
                Rule::Items(id) => items.iter().try_for_each(|item| self.below(*id, item))?,
                _ => {}
            }
        }
        Ok(())
    }

    fn below(&mut self, id: NodeId, value: &Json) -> Result<(), BoundError> {
        self.visit(id, value, self.stack.len())
    }
}
