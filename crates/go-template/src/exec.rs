//! Trees into output: `walk*` writes, `eval*` computes. Counterpart: Go's `text/template/exec.go`, method by method.
//!
//! Unlike Go's, nothing here panics to leave a loop or to fail: see [`Flow`] and [`Failure`].

use smallvec::SmallVec;

use crate::error::{Cause, ExecError, FuncError, LimitError, Location};
use crate::fmt;
use crate::funcs::{Builtin, not_callable, printable};
use crate::function::{Function, Param};
use crate::limits::long_text;
use crate::node::{
    ActionNode, Arg, BranchNode, Callee, ChainNode, CommandNode, DOLLAR, FieldNode, IdentifierNode, ListNode, Node,
    NumberNode, PipeNode, TemplateNode, Tree, VarId, VariableNode,
};
use crate::reflect::Reflected;
use crate::scope::{MissingKey, Scope};
use crate::stack;
use crate::strconv::quote;
use crate::value::{Kind, Object, Reached, Str, UintType, Value};

/// How deep `{{template}}` may nest: Go's own limit.
pub const MAX_EXEC_DEPTH: usize = 100_000;

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// The error is large and rare: boxed, so that results stay small.
type Failure = Box<ExecError>;
type Eval = Result<Reflected, Failure>;
/// Arguments of a call; few have more than four.
pub(crate) type Args<T> = SmallVec<[T; 4]>;

/// Executes the tree on the data; the output goes to the scope.
pub(crate) fn execute(scope: &mut Scope<'_>, tree: &Tree, data: &Value) -> Result<(), Failure> {
    let dot = Reflected::value_of(data.clone());
    State::run(scope, tree, dot, 0)
}

/// The node that is at work, for errors.
#[derive(Clone, Copy)]
enum At<'t> {
    Nothing,
    Pipe(&'t PipeNode),
    Command(&'t CommandNode),
    Arg(&'t Arg),
    Template(&'t TemplateNode),
    Action(&'t ActionNode),
}

impl At<'_> {
    fn describe(self) -> Option<(usize, String)> {
        Some(match self {
            At::Nothing => return None,
            At::Pipe(n) => (n.pos, n.to_string()),
            At::Command(n) => (n.pos, n.to_string()),
            At::Arg(n) => (n.pos(), n.to_string()),
            At::Template(n) => (n.pos, n.to_string()),
            At::Action(n) => (n.pos, n.to_string()),
        })
    }
}

/// What a call goes to.
enum Target<'f> {
    Function(&'f Function),
    Builtin(Builtin),
    Method(&'f dyn Object, &'f [Param], Option<Param>),
    /// A function whose first parameter is the receiver.
    Bound(&'f Function, &'f Value),
}

/// The execution of one template.
struct State<'s, 'h, 't> {
    scope: &'s mut Scope<'h>,
    tree: &'t Tree,
    at: At<'t>,
    /// Where this template's variables start.
    base: usize,
    /// How many templates this one is inside of.
    depth: usize,
}

impl<'t> State<'_, '_, 't> {
    fn run(scope: &mut Scope<'_>, tree: &Tree, dot: Reflected, depth: usize) -> Result<(), Failure> {
        let base = scope.vars.len();
        scope.vars.push((DOLLAR, dot.clone()));
        let mut state = State { scope, tree, at: At::Nothing, base, depth };
        let result = state.walk_list(&dot, &tree.root);
        scope.vars.truncate(base);
        result.map(|_| ())
    }

    // Variables.

    fn set_var(&mut self, variable: &VariableNode, value: Reflected) -> Result<(), Failure> {
        match self.scope.vars[self.base..].iter_mut().rev().find(|(id, _)| *id == variable.id) {
            Some((_, slot)) => *slot = value,
            None => return self.errorf(format!("undefined variable: {}", variable.name)),
        }
        Ok(())
    }

    /// Sets the variable that was declared last (1) or before it (2).
    fn set_top_var(&mut self, n: usize, value: Reflected) {
        let top = self.scope.vars.len();
        self.scope.vars[top - n].1 = value;
    }

    fn var_value(&self, variable: &VariableNode) -> Eval {
        match self.find_var(variable.id) {
            Some(value) => Ok(value.clone()),
            None => self.errorf(format!("undefined variable: {}", variable.name)),
        }
    }

    fn find_var(&self, id: VarId) -> Option<&Reflected> {
        self.scope.vars[self.base..].iter().rev().find(|(i, _)| *i == id).map(|(_, value)| value)
    }

    // Errors.

    #[cold]
    fn fail(&self, cause: Cause) -> Failure {
        let template = self.tree.name.to_text().into_owned();
        let Some((pos, context)) = self.at.describe() else {
            return Box::new(ExecError { template, location: None, context: String::new(), cause });
        };
        let (line, column) = self.tree.line_and_column(pos);
        let location = Some(Location { name: self.tree.parse_name.clone(), line, column });
        Box::new(ExecError { template, location, context, cause })
    }

    #[cold]
    fn errorf<T>(&self, message: impl Into<String>) -> Result<T, Failure> {
        Err(self.fail(Cause::Message(message.into())))
    }

    fn within<T>(&self, result: Result<T, LimitError>) -> Result<T, Failure> {
        result.map_err(|limit| self.fail(Cause::Limit(limit)))
    }

    fn step(&mut self) -> Result<(), Failure> {
        let charged = self.scope.step();
        self.within(charged)
    }

    // Walk functions step through the template and write.

    fn walk_list(&mut self, dot: &Reflected, list: &'t ListNode) -> Result<Flow, Failure> {
        for node in &list.nodes {
            let flow = self.walk(dot, node)?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn walk(&mut self, dot: &Reflected, node: &'t Node) -> Result<Flow, Failure> {
        self.step()?;
        match node {
            Node::Text(text) => {
                self.scope.out.extend_from_slice(&self.tree.text[text.range.clone()]);
                let counted = self.scope.wrote();
                self.within(counted)?;
            }
            Node::Action(action) => self.walk_action(dot, action)?,
            Node::If(branch) => return stack::grow(|| self.walk_if_or_with(dot, branch, false)),
            Node::With(branch) => return stack::grow(|| self.walk_if_or_with(dot, branch, true)),
            Node::Range(branch) => return stack::grow(|| self.walk_range(dot, branch)),
            Node::Template(template) => stack::grow(|| self.walk_template(dot, template))?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// Variables that the action declares stay until the next `end`; an action that declares prints nothing.
    fn walk_action(&mut self, dot: &Reflected, action: &'t ActionNode) -> Result<(), Failure> {
        let value = self.eval_pipeline(dot, &action.pipe)?;
        if action.pipe.decl.is_empty() {
            self.print_value(action, &value)?;
        }
        Ok(())
    }

    fn walk_if_or_with(&mut self, dot: &Reflected, branch: &'t BranchNode, with: bool) -> Result<Flow, Failure> {
        let mark = self.scope.vars.len();
        let value = self.eval_pipeline(dot, &branch.pipe)?;
        let flow = match (value.value().is_true(), &branch.else_list) {
            (true, _) => self.walk_list(if with { &value } else { dot }, &branch.list)?,
            (false, Some(list)) => self.walk_list(dot, list)?,
            (false, None) => Flow::Next,
        };
        self.scope.vars.truncate(mark);
        Ok(flow)
    }

    fn walk_range(&mut self, dot: &Reflected, range: &'t BranchNode) -> Result<Flow, Failure> {
        let mark = self.scope.vars.len();
        let value = self.eval_pipeline(dot, &range.pipe)?;
        if !self.range_over(range, value.into_value())?
            && let Some(list) = &range.else_list
        {
            let flow = self.walk_list(dot, list)?;
            self.scope.vars.truncate(mark);
            // As in Go, `break` ends the range whose `else` it stands in; `continue` goes on with the range around it.
            return Ok(if flow == Flow::Break { Flow::Next } else { flow });
        }
        self.scope.vars.truncate(mark);
        Ok(Flow::Next)
    }

    /// Runs the body once an element; false if there is none. What is iterated over does not change under the body's hands.
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
                // Go follows a pointer before it names what it cannot iterate over.
                let shown = shown.strip_prefix(b"&").filter(|_| other.kind() == Kind::Ptr).unwrap_or(&shown);
                self.errorf(format!("range can't iterate over {}", String::from_utf8_lossy(shown)))
            }
        }
    }

    fn one_variable(&self, range: &BranchNode, value: &Value) -> Result<(), Failure> {
        if range.pipe.decl.len() < 2 {
            return Ok(());
        }
        let shown = fmt::sprint(std::slice::from_ref(value));
        self.errorf(format!("can't use {} to iterate over more than one variable", String::from_utf8_lossy(&shown)))
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

    /// With two variables, the index comes first; with one, it is the element.
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

    fn walk_template(&mut self, dot: &Reflected, node: &'t TemplateNode) -> Result<(), Failure> {
        self.at = At::Template(node);
        let Some(tree) = self.scope.templates().lookup(&node.name).cloned() else {
            return self.errorf(format!("template {} not defined", quote(&node.name)));
        };
        if self.depth == MAX_EXEC_DEPTH {
            return self.errorf(format!("exceeded maximum template depth ({MAX_EXEC_DEPTH})"));
        }
        let dot = match &node.pipe {
            Some(pipe) => self.eval_pipeline(dot, pipe)?,
            None => Reflected::Invalid,
        };
        State::run(self.scope, &tree, dot, self.depth + 1)
    }

    // Eval functions compute values and write nothing.

    fn eval_pipeline(&mut self, dot: &Reflected, pipe: &'t PipeNode) -> Eval {
        self.at = At::Pipe(pipe);
        let Some((first, others)) = pipe.cmds.split_first() else { return Ok(Reflected::Invalid) };
        let mut value = self.eval_command(dot, first, None)?.elem();
        for command in others {
            value = self.eval_command(dot, command, Some(value))?.elem();
        }
        for variable in &pipe.decl {
            match pipe.is_assign {
                true => self.set_var(variable, value.clone())?,
                false => self.scope.vars.push((variable.id, value.clone())),
            }
        }
        Ok(value)
    }

    fn not_a_function(&self, args: &[Arg], last: Option<&Reflected>) -> Result<(), Failure> {
        if args.len() > 1 || last.is_some() {
            return self.errorf(format!("can't give argument to non-function {}", args[0]));
        }
        Ok(())
    }

    /// `last` is the value that comes through the pipe.
    fn eval_command(&mut self, dot: &Reflected, command: &'t CommandNode, last: Option<Reflected>) -> Eval {
        let first = &command.args[0];
        match first {
            Arg::Field(field) => return self.eval_field_node(dot, first, field, &command.args, last),
            Arg::Chain(chain) => return self.eval_chain_node(dot, first, chain, &command.args, last),
            Arg::Identifier(name) => {
                return self.eval_function(dot, first, name, At::Command(command), &command.args, last);
            }
            Arg::Pipe(pipe) => {
                self.not_a_function(&command.args, last.as_ref())?;
                return stack::grow(|| self.eval_pipeline(dot, pipe));
            }
            Arg::Variable(variable) => return self.eval_variable_node(dot, first, variable, &command.args, last),
            _ => {}
        }
        self.at = At::Arg(first);
        self.not_a_function(&command.args, last.as_ref())?;
        match first {
            Arg::Dot(_) => Ok(dot.clone()),
            Arg::Nil(_) => self.errorf("nil is not a command"),
            literal => self.literal(literal),
        }
    }

    /// The value of a constant where no type is asked for.
    fn literal(&mut self, arg: &'t Arg) -> Eval {
        match arg {
            Arg::Bool(_, value) => Ok(Reflected::Concrete(Value::Bool(*value))),
            Arg::String(string) => Ok(Reflected::Concrete(string.value.clone())),
            Arg::Number(number) => self.ideal_constant(arg, number),
            _ => self.errorf(format!("can't evaluate command {}", quote(arg.to_string().as_bytes()))),
        }
    }

    /// The syntax of a number tells its type.
    fn ideal_constant(&mut self, arg: &'t Arg, number: &NumberNode) -> Eval {
        self.at = At::Arg(arg);
        match number.ideal() {
            Some(value) => Ok(Reflected::Concrete(value)),
            None => self.errorf(format!("{} overflows int", number.text)),
        }
    }

    fn eval_field_node(
        &mut self,
        dot: &Reflected,
        node: &'t Arg,
        field: &'t FieldNode,
        args: &'t [Arg],
        last: Option<Reflected>,
    ) -> Eval {
        self.at = At::Arg(node);
        self.eval_field_chain(dot, dot, node, &field.ident, args, last)
    }

    fn eval_chain_node(
        &mut self,
        dot: &Reflected,
        node: &'t Arg,
        chain: &'t ChainNode,
        args: &'t [Arg],
        last: Option<Reflected>,
    ) -> Eval {
        self.at = At::Arg(node);
        let receiver = self.eval_any(dot, &chain.node)?;
        self.eval_field_chain(dot, &receiver, node, &chain.fields, args, last)
    }

    fn eval_variable_node(
        &mut self,
        dot: &Reflected,
        node: &'t Arg,
        variable: &'t VariableNode,
        args: &'t [Arg],
        last: Option<Reflected>,
    ) -> Eval {
        self.at = At::Arg(node);
        let value = self.var_value(variable)?;
        if variable.fields.is_empty() {
            self.not_a_function(args, last.as_ref())?;
            return Ok(value);
        }
        self.eval_field_chain(dot, &value, node, &variable.fields, args, last)
    }

    /// `.X.Y.Z`, perhaps with arguments, which the last one gets.
    fn eval_field_chain(
        &mut self,
        dot: &Reflected,
        receiver: &Reflected,
        node: &'t Arg,
        all: &'t [Str],
        args: &'t [Arg],
        last: Option<Reflected>,
    ) -> Eval {
        let Some((final_field, fields)) = all.split_last() else {
            return Ok(receiver.clone());
        };
        let Some((first, rest)) = fields.split_first() else {
            return self.eval_field(dot, final_field, node, args, last, receiver);
        };
        if args.len() <= 1
            && last.is_none()
            && let Value::Map(map) = receiver.value()
        {
            match map.reach(all, &|ty, name| self.scope.has_map_method(ty, name)) {
                Reached::Value(value) => return Ok(Reflected::Interface(value)),
                Reached::Missing => return self.missing_key(Reflected::Interface(Value::Nil), final_field),
                Reached::Unknown => {}
            }
        }
        let mut current = self.eval_field(dot, first, node, &[], None, receiver)?;
        for field in rest {
            current = self.eval_field(dot, field, node, &[], None, &current)?;
        }
        self.eval_field(dot, final_field, node, args, last, &current)
    }

    fn eval_field(
        &mut self,
        dot: &Reflected,
        field: &'t Str,
        node: &'t Arg,
        args: &'t [Arg],
        last: Option<Reflected>,
        receiver: &Reflected,
    ) -> Eval {
        let has_args = args.len() > 1 || last.is_some();
        match receiver {
            Reflected::Invalid if self.scope.missing_key == MissingKey::Error => {
                self.errorf(format!("nil data; no entry for key {}", quote(field)))
            }
            Reflected::Invalid => Ok(Reflected::Invalid),
            Reflected::Interface(Value::Nil) => self.errorf(format!("nil pointer evaluating interface {{}}.{field}")),
            Reflected::Concrete(value) | Reflected::Interface(value) => match value {
                Value::Map(map) => {
                    if let Some(method) = self.scope.map_method(map.ty(), field) {
                        return self.eval_call(dot, Target::Bound(&method, value), At::Arg(node), field, args, last);
                    }
                    if has_args {
                        return self.errorf(format!("{field} is not a method but has arguments"));
                    }
                    match map.get(field) {
                        Some(value) if map.ty().is_interface() => Ok(Reflected::Interface(value)),
                        Some(value) => Ok(Reflected::Concrete(value)),
                        None => self.missing_key(Reflected::zero_element(map.ty()), field),
                    }
                }
                Value::Object(object) => self.eval_object_field(dot, field, node, args, last, (receiver, &**object)),
                _ => self.cannot_evaluate(field, receiver),
            },
        }
    }

    fn missing_key(&self, zero: Reflected, field: &Str) -> Eval {
        match self.scope.missing_key {
            MissingKey::Invalid => Ok(Reflected::Invalid),
            MissingKey::Zero => Ok(zero),
            MissingKey::Error => self.errorf(format!("map has no entry for key {}", quote(field))),
        }
    }

    #[cold]
    fn cannot_evaluate<T>(&self, field: &Str, receiver: &Reflected) -> Result<T, Failure> {
        self.errorf(format!("can't evaluate field {field} in type {}", receiver.type_name()))
    }

    /// A method if there is one, else a field.
    fn eval_object_field(
        &mut self,
        dot: &Reflected,
        field: &'t Str,
        node: &'t Arg,
        args: &'t [Arg],
        last: Option<Reflected>,
        (receiver, object): (&Reflected, &dyn Object),
    ) -> Eval {
        let Some(name) = field.as_utf8() else {
            return self.cannot_evaluate(field, receiver);
        };
        if let Some((params, variadic)) = object.signature(name) {
            return self.eval_call(dot, Target::Method(object, params, variadic), At::Arg(node), field, args, last);
        }
        let Some(value) = object.field(name) else {
            return match object.fields().iter().any(|hidden| hidden.name == name) {
                true => self.errorf(format!("{field} is an unexported field of struct type {}", receiver.type_name())),
                false => self.cannot_evaluate(field, receiver),
            };
        };
        if args.len() > 1 || last.is_some() {
            return self.errorf(match object.kind() {
                Kind::Map => format!("{field} is not a method but has arguments"),
                _ => format!("{field} has arguments but cannot be invoked as function"),
            });
        }
        Ok(of_interface(value))
    }

    fn eval_function(
        &mut self,
        dot: &Reflected,
        node: &'t Arg,
        function: &'t IdentifierNode,
        call: At<'t>,
        args: &'t [Arg],
        last: Option<Reflected>,
    ) -> Eval {
        self.at = At::Arg(node);
        let target = match &function.callee {
            Callee::Function(f) => Target::Function(f),
            Callee::Builtin(b) => Target::Builtin(*b),
        };
        self.eval_call(dot, target, call, &function.name, args, last)
    }

    /// Calls a function or method. The first of `args`, if there is any, is the function itself.
    fn eval_call(
        &mut self,
        dot: &Reflected,
        target: Target<'_>,
        node: At<'t>,
        name: &'t Str,
        args: &'t [Arg],
        last: Option<Reflected>,
    ) -> Eval {
        self.step()?;
        let args = args.get(1..).unwrap_or_default();
        let (params, variadic) = target.signature();
        self.check_count(params.len(), variadic.is_some(), name, args.len(), last.is_some())?;
        if let Target::Method(object, ..) = target
            && let Some(why) = name.as_utf8().and_then(|method| object.bad_results(method))
        {
            return self.errorf(why);
        }
        if let Target::Builtin(builtin @ (Builtin::And | Builtin::Or)) = target {
            return self.eval_and_or(dot, builtin == Builtin::Or, args, last);
        }
        let signature = (params, variadic);
        let called = match target {
            Target::Builtin(builtin) => {
                let mut values = self.eval_args(dot, signature, args, last, |value| value)?;
                builtin.call(self.scope, args.first(), &mut values)
            }
            Target::Function(function) => {
                let mut values = self.eval_args(dot, signature, args, last, Reflected::into_value)?;
                call_function(self.scope, function, name, &mut values).map(of_interface)
            }
            Target::Bound(function, receiver) => {
                let mut values = self.eval_args(dot, signature, args, last, Reflected::into_value)?;
                values.insert(0, receiver.clone());
                call_function(self.scope, function, name, &mut values).map(of_interface)
            }
            Target::Method(object, ..) => {
                let values = self.eval_args(dot, signature, args, last, Reflected::into_value)?;
                call_method(self.scope, object, name, &values).map(of_interface)
            }
        };
        let error = match called {
            Ok(value) => match self.scope.made(value.value()) {
                Ok(()) => return Ok(value),
                Err(limit) => limit.into(),
            },
            Err(error) => error,
        };
        self.at = node;
        Err(self.fail(Cause::Call { function: name.to_text().into_owned(), error }))
    }

    /// The checked arguments of a call, the one that comes through the pipe last.
    fn eval_args<T>(
        &mut self,
        dot: &Reflected,
        (params, variadic): (&[Param], Option<Param>),
        args: &'t [Arg],
        last: Option<Reflected>,
        convert: impl Fn(Reflected) -> T,
    ) -> Result<Args<T>, Failure> {
        let param = |i: usize| params.get(i).copied().or(variadic).unwrap_or(Param::Any);
        let mut values = SmallVec::new();
        for (i, arg) in args.iter().enumerate() {
            values.push(convert(self.eval_arg(dot, param(i), arg)?));
        }
        if let Some(last) = last {
            self.validate_type(&last, param(args.len()))?;
            values.push(convert(last));
        }
        Ok(values)
    }

    fn check_count(&self, fixed: usize, variadic: bool, name: &Str, args: usize, last: bool) -> Result<(), Failure> {
        let given = args + usize::from(last);
        if variadic && given < fixed {
            return self.errorf(format!("wrong number of args for {name}: want at least {fixed} got {args}"));
        }
        if !variadic && given != fixed {
            return self.errorf(format!("wrong number of args for {name}: want {fixed} got {given}"));
        }
        Ok(())
    }

    /// `and` and `or` stop at the first argument that decides.
    fn eval_and_or(&mut self, dot: &Reflected, or: bool, args: &'t [Arg], last: Option<Reflected>) -> Eval {
        let mut value = Reflected::Invalid;
        for arg in args {
            value = self.eval_arg(dot, Param::Reflect, arg)?;
            if value.value().is_true() == or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// Makes sure that a value can be an argument of the type.
    fn validate_type(&self, value: &Reflected, param: Param) -> Result<(), Failure> {
        if let Reflected::Invalid = value {
            return match param.can_be_nil() {
                true => Ok(()),
                false => self.errorf(format!("invalid value; expected {}", param.name())),
            };
        }
        if param.accepts(value.value()) {
            return Ok(());
        }
        let got = match value {
            Reflected::Interface(Value::Nil) => "interface {}",
            other => other.value().type_name(),
        };
        self.errorf(format!("wrong type for value; expected {}; got {got}", param.name()))
    }

    /// The argument, checked against the type of the parameter.
    fn eval_arg(&mut self, dot: &Reflected, param: Param, arg: &'t Arg) -> Eval {
        self.at = At::Arg(arg);
        match arg {
            Arg::Nil(_) if param.can_be_nil() => Ok(Reflected::Invalid),
            Arg::Nil(_) => self.errorf(format!("cannot assign nil to {}", param.name())),
            Arg::Bool(..) | Arg::Number(_) | Arg::String(_) => self.eval_constant(param, arg),
            _ => {
                let value = self.eval_any(dot, arg);
                if let Ok(value) = &value {
                    self.validate_type(value, param)?;
                }
                value
            }
        }
    }

    /// An argument that is no constant, of whatever type.
    fn eval_any(&mut self, dot: &Reflected, arg: &'t Arg) -> Eval {
        self.at = At::Arg(arg);
        match arg {
            Arg::Dot(_) => Ok(dot.clone()),
            Arg::Field(field) => self.eval_field_node(dot, arg, field, &[], None),
            Arg::Variable(variable) => self.eval_variable_node(dot, arg, variable, &[], None),
            Arg::Pipe(pipe) => stack::grow(|| self.eval_pipeline(dot, pipe)),
            Arg::Identifier(name) => self.eval_function(dot, arg, name, At::Arg(arg), &[], None),
            Arg::Chain(chain) => stack::grow(|| self.eval_chain_node(dot, arg, chain, &[], None)),
            _ => self.literal(arg),
        }
    }

    /// A constant becomes what the parameter is, if it can.
    fn eval_constant(&mut self, param: Param, arg: &'t Arg) -> Eval {
        let value = match (param, arg) {
            (Param::Any | Param::Reflect, _) => return self.literal(arg),
            (Param::Bool, Arg::Bool(_, value)) => Some(Value::Bool(*value)),
            (Param::String, Arg::String(string)) => Some(string.value.clone()),
            (Param::Int, Arg::Number(n)) => n.int.map(Value::int),
            (Param::Int64 | Param::Duration, Arg::Number(n)) => n.int.map(Value::int64),
            (Param::Uint32, Arg::Number(n)) => n.uint.map(|v| Value::Uint(v & u64::from(u32::MAX), UintType::Uint32)),
            (Param::Float, Arg::Number(n)) => n.float.map(Value::Float),
            _ => None,
        };
        match (value, param.constant_name()) {
            (Some(value), _) => Ok(Reflected::Concrete(value)),
            (None, Some(expected)) => self.errorf(format!("expected {expected}; found {arg}")),
            (None, None) => self.errorf(format!("can't handle {arg} for arg of type {}", param.name())),
        }
    }

    fn print_value(&mut self, node: &'t ActionNode, value: &Reflected) -> Result<(), Failure> {
        self.at = At::Action(node);
        let before = self.scope.out.len();
        match value.value() {
            Value::Nil => self.scope.out.extend_from_slice(b"<no value>"),
            Value::Func(_) => return self.errorf(format!("can't print {node} of type {}", value.type_name())),
            Value::Object(object) if let Some(text) = display(node, object.as_ref()) => {
                self.scope.out.extend_from_slice(&text)
            }
            value => fmt::append_value(&mut self.scope.out, &printable(value)),
        }
        // What prints values stops at this size.
        let counted =
            if self.scope.out.len() - before > fmt::MAX_OUTPUT { Err(long_text()) } else { self.scope.wrote() };
        self.within(counted)
    }
}

/// What the object prints as: where a function made it, it does not stand in its owner. Three functions pass on what they were given.
fn display(node: &ActionNode, object: &dyn Object) -> Option<Str> {
    let made = node.pipe.cmds.last().is_some_and(|command| match command.args.first() {
        Some(Arg::Identifier(function)) => ![&b"and"[..], b"index", b"or"].contains(&&*function.name),
        _ => false,
    });
    if made { object.display() } else { object.display_in_place() }
}

/// Calls the function; what it was given and what it did count. The function's own error says more than that this is too much.
fn call_function(
    scope: &mut Scope<'_>,
    function: &Function,
    name: &Str,
    args: &mut [Value],
) -> Result<Value, FuncError> {
    args.iter().try_for_each(|arg| scope.given(arg))?;
    let result = function.call(scope, args);
    let noted = scope.noted(name);
    let value = result?;
    noted?;
    Ok(value)
}

impl<'f> Target<'f> {
    fn signature(&self) -> (&'f [Param], Option<Param>) {
        match self {
            Target::Function(f) => (f.params(), f.variadic()),
            Target::Builtin(b) => b.signature(),
            Target::Method(_, params, variadic) => (params, *variadic),
            Target::Bound(f, _) => (f.params().get(1..).unwrap_or_default(), f.variadic()),
        }
    }
}

fn call_method(scope: &mut Scope<'_>, object: &dyn Object, name: &Str, args: &[Value]) -> Result<Value, FuncError> {
    object.call(scope, &name.to_text(), args).unwrap_or_else(|| Err(not_callable(name)))
}

fn index_value(index: usize) -> Reflected {
    Reflected::Concrete(Value::int(i64::try_from(index).unwrap_or(i64::MAX)))
}

/// What a function, method or field of type `interface{}` gives: nil stays an interface.
fn of_interface(value: Value) -> Reflected {
    match value {
        Value::Nil => Reflected::Interface(Value::Nil),
        value => Reflected::Concrete(value),
    }
}
