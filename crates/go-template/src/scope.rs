//! One run: the templates, the host's state, the output, and how much of everything is left. Functions get it too.
//!
//! Go has no counterpart: there, functions close over what they need and nothing is bounded.

use std::any::Any;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use crate::error::{FuncError, LimitError};
use crate::exec;
use crate::fmt;
use crate::function::Function;
use crate::node::{Tree, VarId};
use crate::reflect::Reflected;
use crate::stack;
use crate::template::Templates;
use crate::value::{MapType, Value};

/// How much a run has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    steps: u64,
    written: usize,
}

/// What a missing map key gives: Go's `missingkey` option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// No value, as an untyped nil: Go's default.
    #[default]
    Invalid,
    /// The zero value of the map's element type.
    Zero,
    /// An error.
    Error,
}

/// How much a run may use.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Nodes and commands that it may execute: bounds time, the same on each machine.
    pub steps: u64,
    /// Bytes that it may write, those of nested executions and of what functions give included: bounds memory.
    pub output: usize,
    /// Executions that may be inside each other through functions such as Helm's `include`.
    pub executions: usize,
    /// The moment after which it stops.
    pub deadline: Option<Instant>,
}

impl Limits {
    /// About a second on a slow core; the heaviest public charts need a tenth of it.
    pub const STEPS: u64 = 10_000_000;
    /// Far more than a release may have, which is stored in 1 MiB, compressed.
    pub const OUTPUT: usize = 256 << 20;
    /// More than Helm's own limit of `include`, of which each template name has one.
    pub const EXECUTIONS: usize = 5_000;
}

impl Default for Limits {
    fn default() -> Self {
        Limits { steps: Self::STEPS, output: Self::OUTPUT, executions: Self::EXECUTIONS, deadline: None }
    }
}

/// How templates are executed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What a missing map key gives.
    pub missing_key: MissingKey,
    /// How much the run may use.
    pub limits: Limits,
    /// The methods of the named map type [`MapType::Values`], by name; each gets the map as its first argument.
    pub values_methods: ValuesMethods,
}

/// Methods by name: few, so a list finds them faster than a map.
pub type ValuesMethods = Arc<[(&'static str, Arc<Function>)]>;

/// After so many steps the clock is read.
const STEPS_PER_CLOCK: u64 = 1024;

/// What a function may ask of the run that calls it: its host's state, and other templates.
pub struct Scope<'a> {
    host: Option<&'a mut dyn Any>,
    templates: Arc<Templates>,
    pub(crate) missing_key: MissingKey,
    values_methods: ValuesMethods,
    limits: Limits,
    steps: u64,
    written: usize,
    executions: usize,
    /// What the templates that run have written.
    pub(crate) out: Vec<u8>,
    /// The variables of all templates that run; each sees its own only.
    pub(crate) vars: Vec<(VarId, Reflected)>,
}

impl<'a> Scope<'a> {
    /// A run without a host's state.
    pub fn new(templates: Arc<Templates>, options: Options) -> Scope<'a> {
        Scope {
            host: None,
            templates,
            missing_key: options.missing_key,
            values_methods: options.values_methods,
            limits: options.limits,
            steps: 0,
            written: 0,
            executions: 0,
            out: Vec::new(),
            vars: Vec::new(),
        }
    }

    /// The same run with a state that functions find by its type.
    pub fn with_host(mut self, host: &'a mut dyn Any) -> Scope<'a> {
        self.host = Some(host);
        self
    }

    /// The host's state, if it is a `T`.
    pub fn host<T: Any>(&mut self) -> Option<&mut T> {
        self.host.as_mut()?.downcast_mut()
    }

    /// How the templates are executed.
    pub fn options(&self) -> Options {
        let (limits, values_methods) = (self.limits.clone(), Arc::clone(&self.values_methods));
        Options { missing_key: self.missing_key, limits, values_methods }
    }

    /// How much this run has used so far.
    pub fn spent(&self) -> Spent {
        Spent { steps: self.steps, written: self.written }
    }

    /// Goes on from what another run with the same limits has used.
    pub fn set_spent(&mut self, spent: Spent) {
        (self.steps, self.written) = (spent.steps, spent.written);
    }

    /// The templates that names are looked up in.
    pub fn templates(&self) -> &Arc<Templates> {
        &self.templates
    }

    /// Runs `f` with other templates, such as an [overlay](Templates::overlay).
    pub fn with_templates<T>(&mut self, templates: Arc<Templates>, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = mem::replace(&mut self.templates, templates);
        let result = f(self);
        self.templates = outer;
        result
    }

    /// Executes the template of the name on the data, as Go's `ExecuteTemplate`; gives its output.
    ///
    /// # Errors
    /// [`FuncError::NoTemplate`] if there is none, [`FuncError::Template`] if it fails.
    pub fn execute(&mut self, name: impl AsRef<[u8]>, data: &Value) -> Result<Vec<u8>, FuncError> {
        self.execute_into(name, data, <[u8]>::to_vec)
    }

    /// As [`execute`](Self::execute), but gives what `finish` makes of the output, which spares a copy of it.
    ///
    /// # Errors
    /// [`FuncError::NoTemplate`] if there is none, [`FuncError::Template`] if it fails.
    pub fn execute_into<T>(
        &mut self,
        name: impl AsRef<[u8]>,
        data: &Value,
        finish: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, FuncError> {
        let name = name.as_ref();
        let Some(tree) = self.templates.lookup(name) else {
            let (name, set) = (String::from_utf8_lossy(name).into_owned(), self.templates.name().to_owned());
            return Err(FuncError::NoTemplate { name, set });
        };
        let tree = Arc::clone(tree);
        self.execute_tree_into(&tree, data, finish)
    }

    /// Executes the tree on the data; gives its output.
    ///
    /// # Errors
    /// [`FuncError::Template`] if it fails.
    pub fn execute_tree(&mut self, tree: &Tree, data: &Value) -> Result<Vec<u8>, FuncError> {
        self.execute_tree_into(tree, data, <[u8]>::to_vec)
    }

    /// As [`execute_tree`](Self::execute_tree), but gives what `finish` makes of the output.
    ///
    /// # Errors
    /// [`FuncError::Template`] if it fails.
    pub fn execute_tree_into<T>(
        &mut self,
        tree: &Tree,
        data: &Value,
        finish: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, FuncError> {
        if self.executions >= self.limits.executions {
            return Err(limit("executions", format!("{} templates inside each other", self.limits.executions)).into());
        }
        self.executions += 1;
        // All executions that are inside each other write to one buffer, each behind what the outer one has written.
        let start = self.out.len();
        let result = stack::grow(|| exec::execute(self, tree, data));
        self.executions -= 1;
        let output = result.map(|()| finish(&self.out[start..])).map_err(FuncError::Template);
        self.out.truncate(start);
        output
    }

    /// Takes steps off what the run may use, for functions whose work depends on their input.
    ///
    /// # Errors
    /// The limit that was exceeded.
    pub fn charge(&mut self, steps: u64) -> Result<(), LimitError> {
        let before = self.steps;
        self.steps = before.saturating_add(steps);
        if self.steps > self.limits.steps {
            return Err(limit("steps", format!("{} template steps", self.limits.steps)));
        }
        if before / STEPS_PER_CLOCK != self.steps / STEPS_PER_CLOCK {
            return self.check_deadline();
        }
        Ok(())
    }

    /// The method of this name that the map's type has.
    pub(crate) fn map_method(&self, ty: MapType, name: &[u8]) -> Option<Arc<Function>> {
        if ty != MapType::Values {
            return None;
        }
        self.values_methods
            .iter()
            .find(|(method, _)| method.as_bytes() == name)
            .map(|(_, function)| Arc::clone(function))
    }

    /// Whether the map's type has a method of this name.
    pub(crate) fn has_map_method(&self, ty: MapType, name: &[u8]) -> bool {
        ty == MapType::Values && self.values_methods.iter().any(|(method, _)| method.as_bytes() == name)
    }

    fn check_deadline(&self) -> Result<(), LimitError> {
        match self.limits.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(limit("deadline", "out of time".to_owned())),
            _ => Ok(()),
        }
    }

    /// Counts what was written, for hosts that write for the run.
    ///
    /// # Errors
    /// The limit that was exceeded.
    pub fn wrote(&mut self, bytes: usize) -> Result<(), LimitError> {
        // What prints values stops at this size, so the text may lack its end.
        if bytes > fmt::MAX_OUTPUT {
            return Err(limit("output", format!("{} bytes at once", fmt::MAX_OUTPUT)));
        }
        self.written = self.written.saturating_add(bytes);
        if self.written > self.limits.output {
            return Err(limit("output", format!("{} bytes", self.limits.output)));
        }
        Ok(())
    }

    /// Counts what a function gave as written: it may be kept, as often as there are steps.
    pub(crate) fn made(&mut self, value: &Value) -> Result<(), LimitError> {
        match value {
            Value::String(s) | Value::Bytes(s) => self.wrote(s.len()),
            Value::List(list) => self.wrote(list.len() * ELEMENT),
            _ => Ok(()),
        }
    }
}

/// What an element of a list counts, in bytes.
const ELEMENT: usize = 8;

fn limit(name: &'static str, message: String) -> LimitError {
    LimitError { name, message }
}
