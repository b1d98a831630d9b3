//! Executes trees: `walk*` functions write output, `eval*` functions compute values. Counterpart: Go's `text/template/exec.go`, method by method.
//!
//! Go panics to fail and to leave a loop; this code returns [`Failure`] and [`Flow`] instead.

mod arg;
mod call;
mod error;
mod field;
mod print;
mod range;

use std::fmt;

use call::Call;
pub use error::EvalError;
use smallvec::SmallVec;

use crate::error::{Cause, ExecError, LimitError, Location};
use crate::limits::full_stack;
use crate::node::{
    ActionNode, Arg, BranchNode, CommandNode, DOLLAR, ListNode, Node, PipeNode, TemplateNode, Tree, VarId, VariableNode,
};
use crate::reflect::Reflected;
use crate::scope::Scope;
use crate::stack;
use crate::value::Value;
use golibs::shorten::start_of;

/// Maximum nesting of `{{template}}`: Go's limit.
pub const MAX_EXEC_DEPTH: usize = 100_000;

/// Maximum length of a node's source in an error, in bytes.
const MAX_CONTEXT: usize = 2 << 10;

/// The outcome of walking a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// Errors are large and rare, so they are boxed to keep results small.
type Failure = Box<ExecError>;
type Eval = Result<Reflected, Failure>;
/// The arguments of a call. Few calls have more than four.
pub(crate) type Args<T> = SmallVec<[T; 4]>;

/// Executes the tree on the data and writes to the scope's output.
pub(crate) fn execute(scope: &mut Scope<'_>, tree: &Tree, data: &Value) -> Result<(), Failure> {
    let dot = Reflected::value_of(data.clone());
    State::run(scope, tree, dot, 0)
}

/// The current node, which errors name.
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
    fn pos(self) -> Option<usize> {
        Some(match self {
            At::Nothing => return None,
            At::Pipe(n) => n.pos,
            At::Command(n) => n.pos,
            At::Arg(n) => n.pos(),
            At::Template(n) => n.pos,
            At::Action(n) => n.pos,
        })
    }
}

/// Displays as source text.
impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Nothing => Ok(()),
            At::Pipe(n) => n.fmt(f),
            At::Command(n) => n.fmt(f),
            At::Arg(n) => n.fmt(f),
            At::Template(n) => n.fmt(f),
            At::Action(n) => n.fmt(f),
        }
    }
}

/// The execution of one template.
struct State<'s, 'h, 't> {
    scope: &'s mut Scope<'h>,
    tree: &'t Tree,
    at: At<'t>,
    /// The index of this template's first variable.
    base: usize,
    /// The number of nested `{{template}}` calls that lead here.
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
            None => return self.error(EvalError::UndefinedVariable(variable.name.clone())),
        }
        Ok(())
    }

    /// Sets the variable that was declared last (1) or second to last (2).
    fn set_top_var(&mut self, n: usize, value: Reflected) {
        let top = self.scope.vars.len();
        self.scope.vars[top - n].1 = value;
    }

    fn var_value(&self, variable: &VariableNode) -> Eval {
        match self.find_var(variable.id) {
            Some(value) => Ok(value.clone()),
            None => self.error(EvalError::UndefinedVariable(variable.name.clone())),
        }
    }

    fn find_var(&self, id: VarId) -> Option<&Reflected> {
        self.scope.vars[self.base..].iter().rev().find(|(i, _)| *i == id).map(|(_, value)| value)
    }

    // Errors.

    #[cold]
    fn fail(&self, cause: Cause) -> Failure {
        let template = self.tree.name.to_text().into_owned();
        let location = self.at.pos().map(|pos| {
            let (line, column) = self.tree.line_and_column(pos);
            Location { name: self.tree.parse_name.clone(), line, column }
        });
        Box::new(ExecError { template, location, context: start_of(&self.at, MAX_CONTEXT), cause })
    }

    #[cold]
    fn error<T>(&self, error: EvalError) -> Result<T, Failure> {
        Err(self.fail(Cause::Eval(error)))
    }

    fn within<T>(&self, result: Result<T, LimitError>) -> Result<T, Failure> {
        result.map_err(|limit| self.fail(Cause::Limit(limit)))
    }

    fn step(&mut self) -> Result<(), Failure> {
        let charged = self.scope.step();
        self.within(charged)
    }

    /// Runs the closure one recursion level deeper.
    fn deeper<R>(&mut self, f: impl FnOnce(&mut Self) -> Result<R, Failure>) -> Result<R, Failure> {
        if stack::is_full() {
            return Err(self.fail(Cause::Limit(full_stack())));
        }
        stack::grow(|| f(self))
    }

    // Walk functions step through the template and write output.

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
                let counted = self.scope.check_output();
                self.within(counted)?;
            }
            Node::Action(action) => self.walk_action(dot, action)?,
            Node::If(branch) => return self.deeper(|state| state.walk_if(dot, branch)),
            Node::With(branch) => return self.deeper(|state| state.walk_with(dot, branch)),
            Node::Range(branch) => return self.deeper(|state| state.walk_range(dot, branch)),
            Node::Template(template) => self.deeper(|state| state.walk_template(dot, template))?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    /// Executes an action. Variables that it declares live until the next `end`; an action that declares variables prints nothing.
    fn walk_action(&mut self, dot: &Reflected, action: &'t ActionNode) -> Result<(), Failure> {
        let value = self.eval_pipeline(dot, &action.pipe)?;
        if action.pipe.decl.is_empty() {
            self.print_value(action, &value)?;
        }
        Ok(())
    }

    fn walk_if(&mut self, dot: &Reflected, branch: &'t BranchNode) -> Result<Flow, Failure> {
        let mark = self.scope.vars.len();
        let condition = self.eval_pipeline(dot, &branch.pipe)?;
        let flow = match condition.value().is_true() {
            true => self.walk_list(dot, &branch.list),
            false => self.walk_else(dot, branch),
        };
        self.scope.vars.truncate(mark);
        flow
    }

    /// Executes `with`. Unlike `if`, it sets dot to its value.
    fn walk_with(&mut self, dot: &Reflected, branch: &'t BranchNode) -> Result<Flow, Failure> {
        let mark = self.scope.vars.len();
        let value = self.eval_pipeline(dot, &branch.pipe)?;
        let flow = match value.value().is_true() {
            true => self.walk_list(&value, &branch.list),
            false => self.walk_else(dot, branch),
        };
        self.scope.vars.truncate(mark);
        flow
    }

    fn walk_else(&mut self, dot: &Reflected, branch: &'t BranchNode) -> Result<Flow, Failure> {
        branch.else_list.as_ref().map_or(Ok(Flow::Next), |list| self.walk_list(dot, list))
    }

    fn walk_template(&mut self, dot: &Reflected, node: &'t TemplateNode) -> Result<(), Failure> {
        self.at = At::Template(node);
        let Some(tree) = self.scope.templates().lookup(&node.name).cloned() else {
            return self.error(EvalError::UndefinedTemplate(node.name.clone()));
        };
        if self.depth == MAX_EXEC_DEPTH {
            return self.error(EvalError::TemplateDepth);
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

    /// Evaluates a command. `last` is the value from the pipeline.
    fn eval_command(&mut self, dot: &Reflected, command: &'t CommandNode, last: Option<Reflected>) -> Eval {
        let (operand, args) = command.operand();
        let call = &mut Call { node: At::Arg(operand), args, last };
        if let Arg::Pipe(pipe) = operand {
            // As in Go, superfluous arguments are reported at the enclosing pipeline.
            self.not_a_function(call)?;
            self.step()?;
            return self.deeper(|state| state.eval_pipeline(dot, pipe));
        }
        self.at = call.node;
        match operand {
            Arg::Field(field) => self.eval_field_chain(dot, dot, &field.ident, call),
            Arg::Chain(chain) => self.eval_chain(dot, chain, call),
            Arg::Identifier(name) => {
                call.node = At::Command(command);
                self.eval_function(dot, name, call)
            }
            Arg::Variable(variable) => self.eval_variable(dot, variable, call),
            _ => {
                self.not_a_function(call)?;
                match operand {
                    Arg::Dot(_) => Ok(dot.clone()),
                    Arg::Nil(_) => self.error(EvalError::NilCommand),
                    literal => self.literal(literal),
                }
            }
        }
    }
}
