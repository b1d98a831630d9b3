//! Determines what the expressions of a chart's templates may print, as far as the chart's own text determines it: constants, values.yaml, and
//! partials that combine them. Whatever only a user's values determine is unknown.

mod functions;
mod known;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::rc::Rc;

use go_template::{Block, BlockDot, Expression, Part};

use crate::engine::lookups::{Reading, Template};
pub(super) use known::Texts;
use known::{Known, OWN};

/// Maximum depth to which partials, variables and arguments are followed.
const MAX_DEPTH: usize = 16;

/// Maximum number of expressions to evaluate per chart: templates are untrusted and may include each other in many ways.
const MAX_STEPS: usize = 100_000;

/// Maximum number of templates, parts and pipelines to look through per chart: each line that sets a kind, and each use
/// of a variable or a field, looks through those of its template.
const MAX_LOOKS: usize = 50_000_000;

/// Maximum number of texts that one expression may print; further ones are unknown.
const MAX_TEXTS: usize = 16;

/// Maximum length of a text that can be a kind or a namespace, including the blanks around it, in bytes.
const MAX_TEXT: usize = 512;

/// Evaluates the expressions of a chart.
pub(super) struct Printed<'a> {
    reading: &'a Reading<'a>,
    /// The output of a partial that receives the chart's own context.
    helpers: RefCell<HashMap<&'a str, Vec<Known<'a>>>>,
    steps: Cell<usize>,
    looks: Cell<usize>,
    /// The fields whose settings are being evaluated, which may read the same field.
    setting: RefCell<Vec<&'a str>>,
}

/// The context of an expression.
#[derive(Clone)]
pub(super) struct Scope<'a> {
    template: &'a Template<'a>,
    /// The template's own dot, which is `$`, or `None` if it is whatever the including templates pass.
    argument: Option<Vec<Known<'a>>>,
    /// The dot, if a block around the expression sets it.
    dot: Option<Vec<Known<'a>>>,
}

impl<'a> Printed<'a> {
    pub(super) fn new(reading: &'a Reading<'a>) -> Printed<'a> {
        let (steps, looks) = (Cell::new(0), Cell::new(0));
        Printed { reading, helpers: RefCell::default(), steps, looks, setting: RefCell::default() }
    }

    /// Returns what the action at this byte range of a file may print, or `None` if no template of the file contains it.
    pub(super) fn at(&self, file: &str, place: &Range<usize>) -> Option<Texts> {
        if !self.may_look(self.reading.size()) {
            return None;
        }
        let find = |template: &'a Template<'a>| {
            let argument = template.is_main().then(|| vec![Known::Context]);
            self.find(&template.parts, place, &Scope { template, argument, dot: None })
        };
        self.reading.of_file(file).find_map(find)
    }

    /// Counts a look through this many templates, parts or pipelines; returns whether it is within the limit.
    fn may_look(&self, through: usize) -> bool {
        self.looks.set(self.looks.get().saturating_add(through));
        self.looks.get() <= MAX_LOOKS
    }

    fn find(&self, parts: &'a [Part], place: &Range<usize>, scope: &Scope<'a>) -> Option<Texts> {
        if !self.may_look(parts.len()) {
            return None;
        }
        parts.iter().find_map(|part| match part {
            Part::Print { at, expression } if place.contains(at) => {
                Some(self.texts(self.evaluate(expression, scope, 0), scope.template))
            }
            Part::Block(block) => self
                .find(&block.then, place, &self.inside(block, scope, 0))
                .or_else(|| self.find(&block.otherwise, place, scope)),
            _ => None,
        })
    }

    fn texts(&self, known: Vec<Known<'a>>, template: &Template<'a>) -> Texts {
        Texts(known.iter().flat_map(|one| one.texts(&template.defaults)).collect())
    }

    fn inside(&self, block: &'a Block, scope: &Scope<'a>, depth: usize) -> Scope<'a> {
        let of = || self.evaluate(&block.expression, scope, depth + 1);
        let dot = match block.dot {
            BlockDot::Outer => scope.dot.clone(),
            BlockDot::Expression => Some(of()),
            BlockDot::Element => Some(self.elements(&of(), scope, depth)),
        };
        Scope { dot, ..scope.clone() }
    }

    /// Returns the possible values of the expression, as far as they are known.
    fn evaluate(&self, expression: &'a Expression, scope: &Scope<'a>, depth: usize) -> Vec<Known<'a>> {
        self.steps.set(self.steps.get() + 1);
        if depth > MAX_DEPTH || self.steps.get() > MAX_STEPS {
            return Vec::new();
        }
        let known = match expression {
            Expression::Constant(text) => vec![Known::Text(text.clone())],
            Expression::Dot(fields) => match &scope.dot {
                Some(dot) => self.fields(dot.clone(), fields, depth),
                None => self.fields(self.argument(scope, depth), fields, depth),
            },
            Expression::Variable(name, fields) if name == "$" => {
                self.fields(self.argument(scope, depth), fields, depth)
            }
            Expression::Variable(name, fields) => self.fields(self.variable(name, scope, depth), fields, depth),
            Expression::Field(inner, fields) => self.fields(self.evaluate(inner, scope, depth + 1), fields, depth),
            Expression::Call { function, arguments, .. } => self.call(function, arguments, scope, depth),
            Expression::Other => Vec::new(),
        };
        let set = expression.last_field().map(|field| self.set_fields(field, scope, depth)).unwrap_or_default();
        distinct([known, set].concat())
    }

    /// Returns the values that the template sets a field of this name to, in whichever table: `set $service "namespace" $default`.
    fn set_fields(&self, name: &'a str, scope: &Scope<'a>, depth: usize) -> Vec<Known<'a>> {
        if self.setting.borrow().contains(&name) || !self.may_look(scope.template.pipelines.len()) {
            return Vec::new();
        }
        self.setting.borrow_mut().push(name);
        let expressions = scope.template.pipelines.iter().map(|pipeline| &pipeline.expression);
        let values = expressions.filter_map(|expression| match expression {
            Expression::Call { function, arguments, .. } if function == "set" => match &arguments[..] {
                [_, Expression::Constant(key), value] if key == name => Some(value),
                _ => None,
            },
            _ => None,
        });
        let known = values.flat_map(|value| self.evaluate_anywhere(value, scope, depth + 1)).collect();
        self.setting.borrow_mut().pop();
        known
    }

    /// Evaluates an expression that may stand outside the block that changed the dot.
    fn evaluate_anywhere(&self, expression: &'a Expression, scope: &Scope<'a>, depth: usize) -> Vec<Known<'a>> {
        let mut known = self.evaluate(expression, scope, depth);
        if scope.dot.is_some() {
            known.extend(self.evaluate(expression, &Scope { dot: None, ..scope.clone() }, depth));
        }
        known
    }

    /// Returns the argument with which the template was included.
    fn argument(&self, scope: &Scope<'a>, depth: usize) -> Vec<Known<'a>> {
        if let Some(argument) = &scope.argument {
            return argument.clone();
        }
        let handed = self.reading.includers(scope.template).take(MAX_TEXTS);
        let argument = |(template, expression): (&'a Template<'a>, &'a Expression)| {
            let argument = template.is_main().then(|| vec![Known::Context]);
            self.evaluate(expression, &Scope { template, argument, dot: None }, depth + 1)
        };
        distinct(handed.flat_map(argument).collect())
    }

    /// Returns the values that the template ever assigns to the variable, and their elements, which `range` assigns.
    fn variable(&self, name: &str, scope: &Scope<'a>, depth: usize) -> Vec<Known<'a>> {
        if !self.may_look(scope.template.pipelines.len()) {
            return Vec::new();
        }
        let sets = scope.template.pipelines.iter().filter(|pipeline| pipeline.sets.iter().any(|set| set == name));
        let mut known = Vec::new();
        for pipeline in sets {
            let set = self.evaluate_anywhere(&pipeline.expression, scope, depth + 1);
            known.extend(self.elements(&set, scope, depth));
            known.extend(set);
        }
        distinct(known)
    }

    /// Returns what a partial prints with this argument.
    fn include(&self, name: &str, argument: Vec<Known<'a>>, depth: usize) -> Vec<Known<'a>> {
        let is_context = argument == [Known::Context];
        if is_context && let Some(known) = self.helpers.borrow().get(name) {
            return known.clone();
        }
        let mut known = Vec::new();
        for template in self.reading.named(name) {
            let scope = Scope { template, argument: Some(argument.clone()), dot: None };
            known.extend(self.body(&template.parts, &scope, depth + 1).into_iter().map(|text| text.trim().to_owned()));
        }
        let known = distinct(known.into_iter().map(Known::Text).collect());
        if is_context
            && depth < MAX_DEPTH / 2
            && let Some(template) = self.reading.named(name).next()
        {
            self.helpers.borrow_mut().insert(template.name(), known.clone());
        }
        known
    }

    /// Returns the possible outputs of the parts, joined.
    fn body(&self, parts: &'a [Part], scope: &Scope<'a>, depth: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        for part in parts {
            if all.is_empty() {
                break;
            }
            let next = match part {
                Part::Text(text) => vec![text.clone()],
                Part::Print { expression, .. } => {
                    let texts = self.texts(self.evaluate(expression, scope, depth + 1), scope.template);
                    texts.0.into_iter().collect()
                }
                Part::Block(block) => self.block(block, scope, depth),
            };
            all = joined(&all, &next);
        }
        all
    }

    fn block(&self, block: &'a Block, scope: &Scope<'a>, depth: usize) -> Vec<String> {
        if depth > MAX_DEPTH {
            return Vec::new();
        }
        let mut all = self.body(&block.then, &self.inside(block, scope, depth), depth + 1);
        all.extend(self.body(&block.otherwise, scope, depth + 1));
        all.sort();
        all.dedup();
        all
    }

    /// Returns the elements of lists, or the values of tables.
    fn elements(&self, of: &[Known<'a>], scope: &Scope<'a>, depth: usize) -> Vec<Known<'a>> {
        let element = |known: &Known<'a>| match known {
            Known::List(items, inner) => {
                items.iter().flat_map(|item| self.evaluate(item, inner, depth + 1)).collect::<Vec<_>>()
            }
            other => other.elements(&scope.template.defaults),
        };
        distinct(of.iter().flat_map(element).collect())
    }

    /// Returns fields of the known values. Recognizes the release and its values wherever templates pass them.
    fn fields(&self, of: Vec<Known<'a>>, fields: &[String], depth: usize) -> Vec<Known<'a>> {
        if fields.is_empty() {
            return of;
        }
        if let [.., release, namespace] = fields
            && (release.as_str(), namespace.as_str()) == ("Release", "Namespace")
        {
            return vec![Known::Text(OWN.to_owned())];
        }
        if let Some(at) = fields.iter().position(|field| field == "Values") {
            return vec![Known::Values(fields[at + 1..].to_vec())];
        }
        let mut known = of;
        for field in fields {
            known = known.iter().flat_map(|one| self.field(one, field, depth)).collect();
        }
        distinct(known)
    }

    fn field(&self, of: &Known<'a>, name: &str, depth: usize) -> Vec<Known<'a>> {
        match of {
            Known::Dict(pairs, inner) => {
                let is_it = |pair: &&[Expression]| matches!(&pair[0], Expression::Constant(key) if key == name);
                let found = pairs.chunks_exact(2).filter(is_it);
                found.flat_map(|pair| self.evaluate(&pair[1], inner, depth + 1)).collect()
            }
            other => other.field(name).into_iter().collect(),
        }
    }
}

/// Removes duplicates and all values beyond the maximum number.
fn distinct(known: Vec<Known<'_>>) -> Vec<Known<'_>> {
    let mut seen: Vec<Known<'_>> = Vec::new();
    for one in known {
        if seen.len() < MAX_TEXTS && !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

/// Joins each text with each of the next texts, leaving out those that are too long or too many.
fn joined(all: &[String], next: &[String]) -> Vec<String> {
    let texts = all.iter().flat_map(|first| next.iter().map(move |second| format!("{first}{second}")));
    let fitting: BTreeSet<String> = texts.filter(|text| text.trim().len() <= MAX_TEXT).take(MAX_TEXTS).collect();
    fitting.into_iter().collect()
}

/// Shares a scope with the expressions that are evaluated in it later.
fn shared<'a>(scope: &Scope<'a>) -> Rc<Scope<'a>> {
    Rc::new(scope.clone())
}
