//! The effects of functions: the parts of their arguments that they read, and the parts that they return.
//!
//! A function that is not listed reads all of its arguments and returns none of them.

use std::sync::Arc;

use go_template::{Str, Tree};

use super::flow::Flow;
use super::held::{Held, Ref};

impl Flow {
    /// Evaluates a call at this place in the source.
    pub(super) fn function(&mut self, site: usize, name: &str, args: &[Held]) -> Held {
        match (without_must(name).as_str(), args) {
            ("include", [name, dot]) => self.include(name, dot),
            ("tpl", [text, dot]) => self.tpl(text, dot),
            ("and" | "or" | "coalesce", _) => self.one_of(args),
            ("not" | "empty", [value]) => {
                self.cells.test(value);
                Held::other()
            }
            ("default", [default, value]) => self.one_of(&[default.clone(), value.clone()]),
            ("ternary", [yes, no, condition]) => {
                self.cells.test(condition);
                yes.clone().or(no)
            }
            ("required", [message, value]) => {
                self.cells.read(message);
                self.one_of(std::slice::from_ref(value))
            }
            ("kindIs" | "kindOf" | "typeIs" | "typeOf" | "typeIsLike", _) => Held::other(),
            ("dict", _) => self.dict(site, args),
            ("list" | "tuple", _) => self.new_list(site, args, &[]),
            ("append" | "push" | "prepend", [list, item]) => {
                self.new_list(site, std::slice::from_ref(item), std::slice::from_ref(list))
            }
            ("concat", _) => self.new_list(site, &[], args),
            ("merge" | "mergeOverwrite", [into, from @ ..]) => {
                from.iter().for_each(|from| self.cells.merge(into, from));
                join(args)
            }
            ("first" | "last", [list]) => self.cells.items(list),
            ("rest" | "initial" | "reverse" | "compact" | "deepCopy", [value]) => value.clone(),
            ("pick" | "omit" | "unset" | "slice", [value, rest @ ..]) => {
                rest.iter().for_each(|arg| self.cells.read(arg));
                value.clone()
            }
            ("set", [table, key, value]) => self.set(table, key, value),
            ("get", [table, key]) => self.below(table, key),
            ("hasKey", [table, key]) => {
                self.below(table, key);
                Held::other()
            }
            ("index", [value, keys @ ..]) => keys.iter().fold(value.clone(), |value, key| self.below(&value, key)),
            ("dig", [keys @ .., default, table]) => {
                let found = keys.iter().fold(table.clone(), |value, key| self.below(&value, key));
                found.or(default)
            }
            ("keys", _) => {
                let keys: Vec<Held> = args.iter().map(|table| self.cells.keys(table)).collect();
                self.new_list(site, &keys, &[])
            }
            ("values", [table]) => {
                let items = self.cells.items(table);
                self.new_list(site, &[items], &[])
            }
            ("pluck", [key, tables @ ..]) => {
                let found: Vec<Held> = tables.iter().map(|table| self.below(table, key)).collect();
                self.new_list(site, &found, &[])
            }
            ("print" | "printf", _) => self.printed(name, args),
            _ => self.unknown(args),
        }
    }

    fn unknown(&mut self, args: &[Held]) -> Held {
        args.iter().for_each(|arg| self.cells.read(arg));
        Held::other().or(&join(args).templates())
    }

    /// Returns a text that contains the arguments.
    fn printed(&mut self, name: &str, args: &[Held]) -> Held {
        let unknown = self.unknown(args);
        match ending(name, args) {
            Some(ending) => ending.or(&join(args).templates()),
            None => unknown,
        }
    }

    /// Returns one of the arguments, depending on which of them are empty.
    fn one_of(&mut self, args: &[Held]) -> Held {
        args.iter().for_each(|arg| self.cells.test(arg));
        join(args)
    }

    fn dict(&mut self, site: usize, args: &[Held]) -> Held {
        let id = self.cells.made(site);
        for pair in args.chunks(2) {
            let [key, value] = pair else { continue };
            self.store(id, key, value);
        }
        Held::from(Ref::Cell(id))
    }

    fn set(&mut self, table: &Held, key: &Held, value: &Held) -> Held {
        for id in table.cells().collect::<Vec<_>>() {
            self.store(id, key, value);
        }
        table.clone()
    }

    fn store(&mut self, id: u32, key: &Held, value: &Held) {
        for one in key.refs() {
            match one {
                Ref::Text(key) => self.cells.store(id, Some(key), value),
                Ref::Cell(_) | Ref::Ending(_) | Ref::File | Ref::Other => self.cells.store(id, None, value),
            }
        }
        self.cells.read(key);
    }

    /// Returns a new list of these items and of the items of these lists.
    fn new_list(&mut self, site: usize, items: &[Held], lists: &[Held]) -> Held {
        let list = Held::from(Ref::Cell(self.cells.made(site)));
        for id in list.cells() {
            items.iter().for_each(|item| self.cells.store(id, None, item));
        }
        for from in lists {
            self.cells.merge(&list, from);
            if from.refs().any(|one| !matches!(one, Ref::Cell(_))) {
                list.cells().for_each(|id| self.cells.store(id, None, &Held::other()));
            }
        }
        list
    }

    /// Returns the value under a key or at an index.
    fn below(&mut self, value: &Held, key: &Held) -> Held {
        self.cells.read(key);
        let mut found = Held::default();
        for one in key.refs() {
            let more = match one {
                Ref::Text(key) => self.cells.field(value, key),
                Ref::Cell(_) | Ref::Ending(_) | Ref::File | Ref::Other => self.cells.items(value),
            };
            found.join(&more);
        }
        found
    }

    fn include(&mut self, name: &Held, dot: &Held) -> Held {
        self.cells.read(name);
        let mut printed = Held::other();
        for tree in self.called(name) {
            printed.join(&self.call(&tree, dot));
        }
        printed
    }

    /// Returns the templates that a name may denote.
    fn called(&self, name: &Held) -> Vec<Arc<Tree>> {
        let mut called = Vec::new();
        for one in name.refs() {
            let is_meant = |known: &Str| match one {
                Ref::Text(name) => known == name,
                Ref::Ending(end) => known.ends_with(end),
                Ref::Cell(_) | Ref::File | Ref::Other => true,
            };
            match one {
                Ref::Text(name) => called.extend(self.named.get(name).into_iter().flatten().cloned()),
                _ => called.extend(
                    self.named.iter().filter(|(known, _)| is_meant(known)).flat_map(|(_, trees)| trees).cloned(),
                ),
            }
        }
        called
    }
}

fn join(args: &[Held]) -> Held {
    args.iter().fold(Held::default(), Held::or)
}

/// Removes the prefix `must`: `mustMerge` and `merge` differ only in their errors.
fn without_must(name: &str) -> String {
    match name.strip_prefix("must").and_then(|rest| Some((rest.chars().next()?, rest))) {
        Some((first, rest)) if first.is_uppercase() => first.to_lowercase().chain(rest.chars().skip(1)).collect(),
        _ => name.to_owned(),
    }
}

/// Returns the end of a printed text, such as the file's name in `print .Template.BasePath "/secret.yaml"`.
fn ending(name: &str, args: &[Held]) -> Option<Held> {
    let rest = match (name, args) {
        ("printf", [format, ..]) => after_last_verb(only_text(format)?)?,
        _ => b"",
    };
    match rest {
        b"" => Some(Ref::Ending(only_text(args.last()?)?.clone()).into()),
        rest => Some(Ref::Ending(rest.into()).into()),
    }
}

/// Returns the text, if it is the only possible one.
fn only_text(held: &Held) -> Option<&Str> {
    let mut refs = held.refs();
    match (refs.next(), refs.next()) {
        (Some(Ref::Text(text)), None) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// Returns the part of a format after its last `%s`, or `None` if its last verb is a different one.
fn after_last_verb(format: &Str) -> Option<&[u8]> {
    let at = format.iter().rposition(|byte| *byte == b'%')?;
    format[at..].strip_prefix(b"%s").filter(|_| at == 0 || format[at - 1] != b'%')
}
