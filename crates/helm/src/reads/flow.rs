//! Follows values through the templates, walking all of them repeatedly until nothing new is learned.
//!
//! Ignores the order of actions and conditions: a variable may be anything that is ever assigned to it, and a template's dot anything that any caller
//! passes.

use std::collections::HashMap;
use std::sync::Arc;

use go_template::node::{Arg, BranchNode, CommandNode, DOLLAR, ListNode, Node, PipeNode, TemplateNode, VarId};
use go_template::{Parsed, Str, Tree, Value};

use super::cells::Cells;
use super::held::{Held, Ref};

/// Maximum number of commands to examine. Beyond it, everything counts as read. The largest public charts need a tenth of this.
const MAX_STEPS: u64 = 20_000_000;

/// Stack size for one level of nesting, and the size of a new stack segment, in bytes.
const STACK: (usize, usize) = (128 << 10, 4 << 20);

/// A template, identified by its address: trees live as long as this analysis.
pub(super) type TreeId = usize;

/// The knowledge gathered so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub(super) cells: Cells,
    /// The templates that may be called, by name.
    pub(super) named: HashMap<Str, Vec<Arc<Tree>>>,
    /// The templates that are called.
    reached: Vec<Arc<Tree>>,
    /// The possible dots of the called templates.
    dots: HashMap<TreeId, Held>,
    vars: HashMap<(TreeId, VarId), Held>,
    /// The texts of templates that their output may contain.
    prints: HashMap<TreeId, Held>,
    /// The parsed texts of `tpl`, or `None` for texts that do not parse.
    pub(super) parsed: HashMap<Str, Option<Arc<Parsed>>>,
    /// The dots with which `tpl` executes texts from the values.
    pub(super) tpl_dots: Held,
    /// Whether `tpl` executes files.
    pub(super) runs_files: bool,
    /// The templates in values, and the files that contain templates.
    pub(super) texts: Vec<Str>,
    pub(super) files: Vec<Str>,
    steps: u64,
    changed: bool,
}

impl Flow {
    /// Returns whether too much is unknown to report any value as unread.
    pub(super) fn is_open(&self) -> bool {
        self.steps > MAX_STEPS || self.cells.is_full
    }

    /// Walks all templates that are called, until nothing new is learned.
    pub(super) fn settle(&mut self) {
        loop {
            (self.changed, self.cells.changed) = (false, false);
            let mut next = 0;
            while let Some(tree) = self.reached.get(next).cloned() {
                let id = id(&tree);
                let dot = self.dots.get(&id).cloned().unwrap_or_default();
                self.list(id, tree.root(), &dot);
                next += 1;
            }
            self.run_texts();
            self.cells.spread();
            if !(self.changed || self.cells.changed) || self.is_open() {
                return;
            }
        }
    }

    /// Calls a template. Returns the texts of templates that its output may contain.
    pub(super) fn call(&mut self, tree: &Arc<Tree>, dot: &Held) -> Held {
        let id = id(tree);
        if !self.dots.contains_key(&id) {
            self.reached.push(Arc::clone(tree));
            self.changed = true;
        }
        self.changed |= self.dots.entry(id).or_default().join(dot);
        self.assign(id, DOLLAR, dot);
        self.prints.get(&id).cloned().unwrap_or_default()
    }

    fn assign(&mut self, tree: TreeId, variable: VarId, value: &Held) {
        self.changed |= self.vars.entry((tree, variable)).or_default().join(value);
    }

    /// Prints a value, which reads all of it.
    fn print(&mut self, tree: TreeId, value: &Held) {
        self.cells.read(value);
        self.changed |= self.prints.entry(tree).or_default().join(&value.templates());
    }

    fn list(&mut self, tree: TreeId, list: &ListNode, dot: &Held) {
        stacker::maybe_grow(STACK.0, STACK.1, || list.nodes.iter().for_each(|node| self.node(tree, node, dot)));
    }

    fn node(&mut self, tree: TreeId, node: &Node, dot: &Held) {
        if self.is_open() {
            return;
        }
        match node {
            Node::Text(_) | Node::Break | Node::Continue => {}
            Node::Action(action) => {
                let value = self.pipe(tree, &action.pipe, dot);
                if action.pipe.decl.is_empty() {
                    self.print(tree, &value);
                }
            }
            Node::If(branch) => {
                let value = self.pipe(tree, &branch.pipe, dot);
                self.cells.test(&value);
                self.branches(tree, branch, dot, dot);
            }
            Node::With(branch) => {
                let value = self.pipe(tree, &branch.pipe, dot);
                self.cells.test(&value);
                self.branches(tree, branch, &value, dot);
            }
            Node::Range(branch) => self.range(tree, branch, dot),
            Node::Template(template) => self.template(tree, template, dot),
        }
    }

    fn branches(&mut self, tree: TreeId, branch: &BranchNode, dot: &Held, outer: &Held) {
        self.list(tree, &branch.list, dot);
        branch.else_list.iter().for_each(|list| self.list(tree, list, outer));
    }

    fn range(&mut self, tree: TreeId, branch: &BranchNode, dot: &Held) {
        let value = self.commands(tree, &branch.pipe, dot);
        self.cells.test(&value);
        let items = self.cells.items(&value);
        match &branch.pipe.decl[..] {
            [] => {}
            [item] => self.assign(tree, item.id, &items),
            [key, item, ..] => {
                let keys = self.cells.keys(&value).or(&Held::other());
                self.assign(tree, key.id, &keys);
                self.assign(tree, item.id, &items);
            }
        }
        self.branches(tree, branch, &items, dot);
    }

    fn template(&mut self, tree: TreeId, template: &TemplateNode, dot: &Held) {
        let dot = template.pipe.as_ref().map(|pipe| self.pipe(tree, pipe, dot)).unwrap_or_default();
        for called in self.named.get(&template.name).cloned().unwrap_or_default() {
            let printed = self.call(&called, &dot);
            self.print(tree, &printed);
        }
    }

    /// Evaluates a pipeline and assigns its value to the pipeline's variables.
    fn pipe(&mut self, tree: TreeId, pipe: &PipeNode, dot: &Held) -> Held {
        let value = stacker::maybe_grow(STACK.0, STACK.1, || self.commands(tree, pipe, dot));
        for variable in &pipe.decl {
            self.assign(tree, variable.id, &value);
        }
        value
    }

    fn commands(&mut self, tree: TreeId, pipe: &PipeNode, dot: &Held) -> Held {
        let mut value = None;
        for command in &pipe.cmds {
            value = Some(self.command(tree, command, dot, value));
        }
        value.unwrap_or_default()
    }

    /// Evaluates a command. `last` is the value of the preceding command.
    fn command(&mut self, tree: TreeId, command: &CommandNode, dot: &Held, last: Option<Held>) -> Held {
        self.steps += 1;
        let Some((operand, args)) = command.args.split_first() else { return Held::default() };
        let mut args: Vec<Held> = args.iter().map(|arg| self.operand(tree, arg, dot)).collect();
        args.extend(last);
        if let Arg::Identifier(function) = operand {
            return self.function(std::ptr::from_ref(command) as usize, &function.name.to_text(), &args);
        }
        // Only methods take arguments.
        args.iter().for_each(|arg| self.cells.read(arg));
        let value = self.operand(tree, operand, dot);
        if args.is_empty() { value } else { value.or(&Held::other()) }
    }

    fn operand(&mut self, tree: TreeId, arg: &Arg, dot: &Held) -> Held {
        match arg {
            Arg::Dot(_) => dot.clone(),
            Arg::Nil(_) => Held::default(),
            Arg::Bool(..) | Arg::Number(_) => Held::other(),
            Arg::String(text) => match &text.value {
                Value::String(text) => Held::from(Ref::Text(text.clone())),
                _ => Held::other(),
            },
            Arg::Field(field) => self.fields(dot.clone(), &field.ident),
            Arg::Variable(variable) => {
                let value = self.vars.get(&(tree, variable.id)).cloned().unwrap_or_default();
                self.fields(value, &variable.fields)
            }
            Arg::Identifier(function) => {
                self.function(std::ptr::from_ref(function) as usize, &function.name.to_text(), &[])
            }
            Arg::Chain(chain) => {
                let value = self.operand(tree, &chain.node, dot);
                self.fields(value, &chain.fields)
            }
            Arg::Pipe(pipe) => self.pipe(tree, pipe, dot),
        }
    }

    fn fields(&mut self, of: Held, names: &[Str]) -> Held {
        names.iter().fold(of, |value, name| self.cells.field(&value, name))
    }
}

fn id(tree: &Arc<Tree>) -> TreeId {
    Arc::as_ptr(tree).cast::<u8>() as usize
}
