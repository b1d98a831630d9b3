//! Executes `range`: which values it iterates over, and which variables it sets.

use super::{EvalError, Failure, Flow, State};
use crate::fmt;
use crate::node::{BranchNode, PipeNode};
use crate::reflect::Reflected;
use crate::value::{Kind, UintType, Value};

impl<'t> State<'_, '_, 't> {
    pub(super) fn walk_range(&mut self, dot: &Reflected, range: &'t BranchNode) -> Result<Flow, Failure> {
        let mark = self.scope.vars.len();
        let value = self.eval_pipeline(dot, &range.pipe)?;
        if !self.range_over(range, value.into_value())?
            && let Some(list) = &range.else_list
        {
            let flow = self.walk_list(dot, list)?;
            self.scope.vars.truncate(mark);
            // As in Go, `break` in an `else` ends the range that the `else` belongs to, but `continue` continues the range around it.
            return Ok(if flow == Flow::Break { Flow::Next } else { flow });
        }
        self.scope.vars.truncate(mark);
        Ok(Flow::Next)
    }

    /// Runs the body for each element; returns whether there was one. Changes that the body makes to the value do not affect the iteration.
    fn range_over(&mut self, range: &'t BranchNode, value: Value) -> Result<bool, Failure> {
        match value {
            Value::Nil => Ok(false),
            Value::Int(n, ty) => {
                self.one_variable(range, &value)?;
                let elements = (0..n).map(|i| (Reflected::Invalid, Reflected::Concrete(Value::Int(i, ty))));
                self.iterate(range, elements)
            }
            Value::Uint(n, ty) => {
                self.one_variable(range, &value)?;
                let elements = (0..n).map(|i| (Reflected::Invalid, Reflected::Concrete(Value::Uint(i, ty))));
                self.iterate(range, elements)
            }
            Value::List(list) => {
                let wrap = |v: &Value| {
                    if list.ty().is_interface() {
                        Reflected::Interface(v.clone())
                    } else {
                        Reflected::Concrete(v.clone())
                    }
                };
                self.iterate(range, list.iter().enumerate().map(|(i, v)| (index_value(i), wrap(v))))
            }
            Value::Bytes(bytes) => {
                let byte = |b: &u8| Reflected::Concrete(Value::Uint(u64::from(*b), UintType::Uint8));
                self.iterate(range, bytes.iter().enumerate().map(|(i, b)| (index_value(i), byte(b))))
            }
            Value::Map(map) => {
                let interface = map.ty().is_interface();
                let wrap = |v| if interface { Reflected::Interface(v) } else { Reflected::Concrete(v) };
                let entries = map.snapshot().into_iter();
                self.iterate(range, entries.map(|(k, v)| (Reflected::Concrete(Value::String(k)), wrap(v))))
            }
            Value::Object(object) if matches!(object.kind(), Kind::Slice | Kind::Map) => {
                self.range_over(range, object.data())
            }
            Value::Object(ref object) if object.with_number(0).is_some() => {
                self.one_variable(range, &value)?;
                let n = if let Value::Int(n, _) = object.data() { n } else { 0 };
                let element = |i| Reflected::Concrete(object.with_number(i).unwrap_or_default());
                self.iterate(range, (0..n).map(|i| (Reflected::Invalid, element(i))))
            }
            other => {
                let mut shown = Vec::new();
                fmt::append_value(&mut shown, &other);
                // Go dereferences a pointer before it reports what it cannot iterate over.
                let shown = shown.strip_prefix(b"&").filter(|_| other.kind() == Kind::Ptr).unwrap_or(&shown);
                self.error(EvalError::NotIterable(String::from_utf8_lossy(shown).into_owned()))
            }
        }
    }

    fn one_variable(&self, range: &BranchNode, value: &Value) -> Result<(), Failure> {
        if range.pipe.decl.len() < 2 {
            return Ok(());
        }
        let shown = fmt::sprint(std::slice::from_ref(value));
        self.error(EvalError::OneVariable(String::from_utf8_lossy(&shown).into_owned()))
    }

    fn iterate(
        &mut self,
        range: &'t BranchNode,
        elements: impl Iterator<Item = (Reflected, Reflected)>,
    ) -> Result<bool, Failure> {
        let mark = self.scope.vars.len();
        let mut any = false;
        for (index, element) in elements {
            any = true;
            self.step()?;
            self.set_range_vars(&range.pipe, index, &element)?;
            let flow = self.walk_list(&element, &range.list)?;
            self.scope.vars.truncate(mark);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(any)
    }

    /// Sets the variables of a range. With two variables, the first is the index; a single variable is the element.
    fn set_range_vars(&mut self, pipe: &'t PipeNode, index: Reflected, element: &Reflected) -> Result<(), Failure> {
        match (&pipe.decl[..], pipe.is_assign) {
            ([], _) => {}
            ([one], true) => self.set_var(one, element.clone())?,
            ([first, second, ..], true) => {
                self.set_var(first, index)?;
                self.set_var(second, element.clone())?;
            }
            ([_], false) => self.set_top_var(1, element.clone()),
            (_, false) => {
                self.set_top_var(1, element.clone());
                self.set_top_var(2, index);
            }
        }
        Ok(())
    }
}

fn index_value(index: usize) -> Reflected {
    Reflected::Concrete(Value::int(i64::try_from(index).unwrap_or(i64::MAX)))
}
