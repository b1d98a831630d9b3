//! Where values flow: walks all templates again and again until nothing new is learnt.
//!
//! The order of actions does not count, nor which branch runs: a variable may be whatever is ever assigned to it, and a template's dot whatever
//! any caller passes.

use std::collections::HashMap;
use std::sync::Arc;

use go_template::node::{Arg, BranchNode, CommandNode, DOLLAR, ListNode, Node, PipeNode, TemplateNode, VarId};
use go_template::{Parsed, Str, Tree, Value};

use super::cells::Cells;
use super::held::{Held, Ref};

/// How many commands are looked at. Past that, everything counts as read; the largest public charts take a tenth.
const MAX_STEPS: u64 = 20_000_000;

/// Room for one level of nesting, and for how many levels to ask at a time, in bytes.
const STACK: (usize, usize) = (128 << 10, 4 << 20);

/// A template, by its address: trees live as long as what is known of them.
pub(super) type TreeId = usize;

/// What is known so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    pub(super) cells: Cells,
    /// The templates that may be called, by name.
    pub(super) named: HashMap<Str, Vec<Arc<Tree>>>,
    /// The templates that are called.
    reached: Vec<Arc<Tree>>,
    /// What their dots may be.
    dots: HashMap<TreeId, Held>,
    vars: HashMap<(TreeId, VarId), Held>,
    /// What their output contains of templates' texts.
    prints: HashMap<TreeId, Held>,
    /// The parsed texts of `tpl`; `None` if they do not parse.
    pub(super) parsed: HashMap<Str, Option<Arc<Parsed>>>,
    /// What `tpl` runs texts of the values with.
    pub(super) tpl_dots: Held,
    /// Whether `tpl` runs files.
    pub(super) runs_files: bool,
    /// Templates in values, and files.
    pub(super) texts: Vec<Str>,
    pub(super) files: Vec<Str>,
    steps: u64,
    changed: bool,
}

impl Flow {
    /// Returns whether too much is unknown to name anything that is not read.
    pub(super) fn is_open(&self) -> bool {
        self.steps > MAX_STEPS || self.cells.is_full
    }

    /// Learns all that there is to learn.
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

    /// Calls a template. Returns what its output contains of templates' texts.
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

    /// Prints a value: all of it is read.
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

    /// The value of a pipeline, which its variables receive.
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

    /// The value of a command. `last` is its predecessor's.
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
