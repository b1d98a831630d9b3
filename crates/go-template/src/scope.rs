//! One run: the templates, the host's state, the output, and what it has used. Functions get it too.
//!
//! Go has no counterpart: there, functions close over what they need and nothing is bounded.

use std::any::Any;
use std::mem;
use std::sync::Arc;

use crate::error::{FuncError, LimitError};
use crate::exec;
use crate::function::Function;
use crate::limits::{Limits, Spent};
use crate::node::{Tree, VarId};
use crate::reflect::Reflected;
use crate::stack;
use crate::template::Templates;
use crate::value::{Map, MapType, Str, Value};
use golibs::work::{self, SlowTime};

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

/// What a function may ask of the run that calls it: its host's state, and other templates.
pub struct Scope<'a> {
    host: Option<&'a mut dyn Any>,
    templates: Arc<Templates>,
    pub(crate) missing_key: MissingKey,
    values_methods: ValuesMethods,
    limits: Limits,
    spent: Spent,
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
            spent: Spent::default(),
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

    /// Takes what this run has used so far, which another run goes on from.
    pub fn take_spent(&mut self) -> Spent {
        mem::take(&mut self.spent)
    }

    /// Goes on from what another run with the same limits has used.
    pub fn set_spent(&mut self, spent: Spent) {
        self.spent = spent;
    }

    /// Notes that a function put the value into the map, for [`Spent::empty_changed_maps`].
    pub fn note_change(&mut self, map: &Map, value: &Value) {
        self.spent.changed(map, value);
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
            let message = format!("{} templates inside each other", self.limits.executions);
            return Err(LimitError { name: "executions", message }.into());
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
        self.spent.worked(steps, &self.limits)
    }

    /// Counts bytes of output that the host wrote for the run, or that it keeps of what a template wrote.
    ///
    /// # Errors
    /// The limit that was exceeded.
    pub fn keep(&mut self, bytes: usize) -> Result<(), LimitError> {
        self.spent.keep(bytes, self.out.len(), &self.limits)
    }

    /// Counts a step.
    #[inline]
    pub(crate) fn step(&mut self) -> Result<(), LimitError> {
        self.spent.step(1, &self.limits)
    }

    /// Checks the output after something was written.
    #[inline]
    pub(crate) fn wrote(&mut self) -> Result<(), LimitError> {
        self.spent.check_output(self.out.len(), &self.limits)
    }

    /// Counts an argument of a function.
    pub(crate) fn given(&mut self, arg: &Value) -> Result<(), LimitError> {
        self.spent.given(arg, &self.limits)
    }

    /// Counts what a function gave.
    pub(crate) fn made(&mut self, value: &Value) -> Result<(), LimitError> {
        self.spent.made(value, self.out.len(), &self.limits)
    }

    /// Counts what the function of the name noted.
    pub(crate) fn noted(&mut self, name: &Str) -> Result<(), LimitError> {
        let (steps, time) = work::take();
        if time != SlowTime::default() {
            self.spent.took(name, time, &self.limits)?;
        }
        self.spent.worked(steps, &self.limits)
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
}
