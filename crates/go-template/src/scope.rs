//! A run: the templates, the host's state, the output, and the resources used so far. Functions have access to it.
//!
//! No counterpart in Go, whose functions close over what they need and which has no limits.

use std::any::Any;
use std::mem;
use std::sync::Arc;

use crate::error::{FuncError, LimitError};
use crate::exec;
use crate::function::Function;
use crate::limits::{Limits, Spent, full_stack};
use crate::node::{Tree, VarId};
use crate::reflect::Reflected;
use crate::stack;
use crate::template::Templates;
use crate::value::{Map, MapType, Str, Value};
use golibs::clock::Instant;
use golibs::work::{self, Noted, SlowTime};

/// The value of a missing map key: Go's `missingkey` option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// No value: an untyped nil, Go's default.
    #[default]
    Invalid,
    /// The zero value of the map's element type.
    Zero,
    /// An error.
    Error,
}

/// Options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The value of a missing map key.
    pub missing_key: MissingKey,
    /// The resources that the run may use.
    pub limits: Limits,
    /// The methods of the map type [`MapType::Values`], by name. Each takes the map as its first argument.
    pub values_methods: ValuesMethods,
}

/// Methods by name. With only a few of them, a list is faster than a map.
pub type ValuesMethods = Arc<[(&'static str, Arc<Function>)]>;

/// A run as functions see it: the host's state, the other templates, and the limits.
pub struct Scope<'a> {
    host: Option<&'a mut dyn Any>,
    templates: Arc<Templates>,
    pub(crate) missing_key: MissingKey,
    values_methods: ValuesMethods,
    limits: Limits,
    spent: Spent,
    executions: usize,
    /// The output of the running templates.
    pub(crate) out: Vec<u8>,
    /// The variables of all running templates. Each template sees only its own.
    pub(crate) vars: Vec<(VarId, Reflected)>,
}

impl<'a> Scope<'a> {
    /// Starts a run without host state.
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

    /// Adds host state, which functions look up by its type with [`host`](Self::host).
    pub fn with_host(mut self, host: &'a mut dyn Any) -> Scope<'a> {
        self.host = Some(host);
        self
    }

    /// Returns the host's state, if there is one of type `T`.
    pub fn host<T: Any>(&mut self) -> Option<&mut T> {
        self.host.as_mut()?.downcast_mut()
    }

    /// Returns the options of the run.
    pub fn options(&self) -> Options {
        let (limits, values_methods) = (self.limits.clone(), Arc::clone(&self.values_methods));
        Options { missing_key: self.missing_key, limits, values_methods }
    }

    /// Takes the record of what this run has used so far. Another run can continue from it.
    pub fn take_spent(&mut self) -> Spent {
        mem::take(&mut self.spent)
    }

    /// Continues from what another run with the same limits has used.
    pub fn set_spent(&mut self, spent: Spent) {
        self.spent = spent;
    }

    /// Records that a function put the value into the map, for [`Spent::empty_changed_maps`].
    pub fn note_change(&mut self, map: &Map, value: &Value) {
        self.spent.changed(map, value);
    }

    /// Returns the set of templates.
    pub fn templates(&self) -> &Arc<Templates> {
        &self.templates
    }

    /// Runs `f` with another set of templates, such as an [overlay](Templates::overlay).
    pub fn with_templates<T>(&mut self, templates: Arc<Templates>, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = mem::replace(&mut self.templates, templates);
        let result = f(self);
        self.templates = outer;
        result
    }

    /// Executes the template with this name on the data, like Go's `ExecuteTemplate`, and returns its output.
    ///
    /// # Errors
    /// [`FuncError::NoTemplate`] if there is no such template, [`FuncError::Template`] if it fails.
    pub fn execute(&mut self, name: impl AsRef<[u8]>, data: &Value) -> Result<Vec<u8>, FuncError> {
        self.execute_into(name, data, <[u8]>::to_vec)
    }

    /// Executes a template like [`execute`](Self::execute), but returns the result of `finish` on the output, which saves a copy.
    ///
    /// # Errors
    /// [`FuncError::NoTemplate`] if there is no such template, [`FuncError::Template`] if it fails.
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

    /// Executes the tree on the data and returns its output.
    ///
    /// # Errors
    /// [`FuncError::Template`] if it fails.
    pub fn execute_tree(&mut self, tree: &Tree, data: &Value) -> Result<Vec<u8>, FuncError> {
        self.execute_tree_into(tree, data, <[u8]>::to_vec)
    }

    /// Executes a tree like [`execute_tree`](Self::execute_tree), but returns the result of `finish` on the output.
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
            let message = format!("{} nested executions", self.limits.executions);
            return Err(LimitError { name: "executions", message }.into());
        }
        if stack::is_full() {
            return Err(full_stack().into());
        }
        self.executions += 1;
        // Nested executions append to the same buffer, each after the output of the outer one.
        let start = self.out.len();
        let result = stack::grow(|| exec::execute(self, tree, data));
        self.executions -= 1;
        let output = result.map(|()| finish(&self.out[start..])).map_err(FuncError::Template);
        self.out.truncate(start);
        output
    }

    /// Charges the run for steps, in functions whose work depends on their input.
    ///
    /// # Errors
    /// Fails with the limit that was exceeded.
    pub fn charge(&mut self, steps: u64) -> Result<(), LimitError> {
        self.spent.charge_work(steps, &self.limits)
    }

    /// Counts bytes of output that the host wrote itself, or that it keeps from a template.
    ///
    /// # Errors
    /// Fails with the limit that was exceeded.
    pub fn keep_output(&mut self, bytes: usize) -> Result<(), LimitError> {
        self.spent.keep_output(bytes, self.out.len(), &self.limits)
    }

    #[inline]
    pub(crate) fn step(&mut self) -> Result<(), LimitError> {
        self.spent.step(1, &self.limits)
    }

    /// Checks the amount of output after a write.
    #[inline]
    pub(crate) fn check_output(&mut self) -> Result<(), LimitError> {
        self.spent.check_output(self.out.len(), &self.limits)
    }

    pub(crate) fn charge_argument(&mut self, arg: &Value) -> Result<(), LimitError> {
        self.spent.charge_argument(arg, &self.limits)
    }

    pub(crate) fn charge_result(&mut self, value: &Value) -> Result<(), LimitError> {
        self.spent.charge_result(value, self.out.len(), &self.limits)
    }

    /// Checks that a function may create a value of this many bytes, before it does so.
    ///
    /// # Errors
    /// Fails with the limit that the value would exceed.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), LimitError> {
        self.spent.reserve(bytes, self.out.len(), &self.limits)
    }

    /// Starts metering a function call. Also returns the number of steps that it may take.
    pub(crate) fn begin_call(&self) -> (work::Call, u64) {
        let left = self.spent.steps_left(&self.limits);
        (work::begin(left, self.spent.deadline(&self.limits)), left)
    }

    /// Returns whether the deadline has passed.
    pub(crate) fn is_late(&self) -> bool {
        self.spent.deadline(&self.limits).is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Charges the work and time that a function recorded.
    pub(crate) fn charge_noted(&mut self, name: &Str, noted: &Noted) -> Result<(), LimitError> {
        if noted.time != SlowTime::default() {
            self.spent.charge_time(name, noted.time, &self.limits)?;
        }
        self.spent.charge_work(noted.steps, &self.limits)
    }

    pub(crate) fn map_method(&self, ty: MapType, name: &[u8]) -> Option<Arc<Function>> {
        if ty != MapType::Values {
            return None;
        }
        self.values_methods
            .iter()
            .find(|(method, _)| method.as_bytes() == name)
            .map(|(_, function)| Arc::clone(function))
    }

    pub(crate) fn has_map_method(&self, ty: MapType, name: &[u8]) -> bool {
        ty == MapType::Values && self.values_methods.iter().any(|(method, _)| method.as_bytes() == name)
    }
}
