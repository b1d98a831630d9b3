//! Evaluates fields, map entries and methods: `.X.Y`, `$x.Y` and `(pipeline).Y`.

use super::call::{Call, Target, of_interface};
use super::{Eval, EvalError, Failure, State};
use crate::node::{ChainNode, VariableNode};
use crate::reflect::Reflected;
use crate::scope::MissingKey;
use crate::value::{Kind, Object, Reached, Str, Value};

impl<'t> State<'_, '_, 't> {
    pub(super) fn eval_chain(&mut self, dot: &Reflected, chain: &'t ChainNode, call: &mut Call<'t>) -> Eval {
        let receiver = self.eval_any(dot, &chain.node)?;
        self.eval_field_chain(dot, &receiver, &chain.fields, call)
    }

    pub(super) fn eval_variable(&mut self, dot: &Reflected, variable: &'t VariableNode, call: &mut Call<'t>) -> Eval {
        let value = self.var_value(variable)?;
        if variable.fields.is_empty() {
            self.not_a_function(call)?;
            return Ok(value);
        }
        self.eval_field_chain(dot, &value, &variable.fields, call)
    }

    /// Evaluates `.X.Y.Z`. Arguments, if any, belong to the last field.
    pub(super) fn eval_field_chain(
        &mut self,
        dot: &Reflected,
        receiver: &Reflected,
        path: &'t [Str],
        call: &mut Call<'t>,
    ) -> Eval {
        let Some((final_field, fields)) = path.split_last() else {
            return Ok(receiver.clone());
        };
        let Some((first, rest)) = fields.split_first() else {
            return self.eval_field(dot, receiver, final_field, call);
        };
        if !call.has_args()
            && let Value::Map(map) = receiver.value()
        {
            match map.reach(path, &|ty, name| self.scope.has_map_method(ty, name)) {
                Reached::Value(value) => return Ok(Reflected::Interface(value)),
                Reached::Missing => return self.missing_key(Reflected::Interface(Value::Nil), final_field),
                Reached::Unknown => {}
            }
        }
        let mut current = self.eval_field(dot, receiver, first, &mut Call::bare(call.node))?;
        for field in rest {
            current = self.eval_field(dot, &current, field, &mut Call::bare(call.node))?;
        }
        self.eval_field(dot, &current, final_field, call)
    }

    fn eval_field(&mut self, dot: &Reflected, receiver: &Reflected, field: &'t Str, call: &mut Call<'t>) -> Eval {
        match receiver {
            Reflected::Invalid if self.scope.missing_key == MissingKey::Error => {
                self.error(EvalError::NilData(field.clone()))
            }
            Reflected::Invalid => Ok(Reflected::Invalid),
            Reflected::Interface(Value::Nil) => self.error(EvalError::NilPointer(field.clone())),
            Reflected::Concrete(value) | Reflected::Interface(value) => match value {
                Value::Map(map) => {
                    if let Some(method) = self.scope.map_method(map.ty(), field) {
                        return self.eval_call(dot, Target::Bound(&method, value), field, call);
                    }
                    if call.has_args() {
                        return self.error(EvalError::NotAMethod(field.clone()));
                    }
                    match map.get(field) {
                        Some(value) if map.ty().is_interface() => Ok(Reflected::Interface(value)),
                        Some(value) => Ok(Reflected::Concrete(value)),
                        None => self.missing_key(Reflected::zero_element(map.ty()), field),
                    }
                }
                Value::Object(object) => self.eval_object_field(dot, receiver, &**object, field, call),
                _ => self.cannot_evaluate(field, receiver),
            },
        }
    }

    fn missing_key(&self, zero: Reflected, field: &Str) -> Eval {
        match self.scope.missing_key {
            MissingKey::Invalid => Ok(Reflected::Invalid),
            MissingKey::Zero => Ok(zero),
            MissingKey::Error => self.error(EvalError::MissingKey(field.clone())),
        }
    }

    #[cold]
    fn cannot_evaluate<T>(&self, field: &Str, receiver: &Reflected) -> Result<T, Failure> {
        self.error(EvalError::NoField { field: field.clone(), type_name: receiver.type_name().to_owned() })
    }

    /// Evaluates a field or method of an object. Methods take precedence over fields.
    fn eval_object_field(
        &mut self,
        dot: &Reflected,
        receiver: &Reflected,
        object: &dyn Object,
        field: &'t Str,
        call: &mut Call<'t>,
    ) -> Eval {
        let Some(name) = field.as_utf8() else {
            return self.cannot_evaluate(field, receiver);
        };
        if let Some((params, variadic)) = object.signature(name) {
            return self.eval_call(dot, Target::Method(object, params, variadic), field, call);
        }
        let Some(value) = object.field(name) else {
            return match object.fields().iter().any(|hidden| hidden.name == name) {
                true => self.error(EvalError::UnexportedField {
                    field: field.clone(),
                    type_name: receiver.type_name().to_owned(),
                }),
                false => self.cannot_evaluate(field, receiver),
            };
        };
        if call.has_args() {
            return self.error(match object.kind() {
                Kind::Map => EvalError::NotAMethod(field.clone()),
                _ => EvalError::NotInvokable(field.clone()),
            });
        }
        Ok(of_interface(value))
    }
}
