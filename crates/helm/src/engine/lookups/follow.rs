//! Traces the namespace of a `lookup` to its origin: through variables, `default`, and the arguments of `include`.

use std::cell::Cell;
use std::collections::HashMap;

use go_template::{Expression, Value};

use super::{Defaults, LookupCall, LookupNamespace, Template, constant};

/// Maximum number of steps to trace a namespace.
const MAX_DEPTH: usize = 8;

/// Maximum number of expressions to examine per chart: templates are untrusted and may include each other in many ways.
const MAX_FOLLOWED: usize = 10_000;

/// The templates of a chart, by name and by the templates that include them.
pub(in crate::engine) struct Reading<'a> {
    templates: &'a [Template<'a>],
    by_name: HashMap<&'a str, Vec<&'a Template<'a>>>,
    /// For each name, the templates that include it, with the argument that they pass.
    includers: HashMap<&'a str, Vec<(&'a Template<'a>, &'a Expression)>>,
    followed: Cell<usize>,
}

impl<'a> Reading<'a> {
    pub(in crate::engine) fn of(templates: &'a [Template<'a>]) -> Reading<'a> {
        let (mut by_name, mut includers) = (HashMap::new(), HashMap::new());
        for template in templates {
            by_name.entry(&*template.name).or_insert_with(Vec::new).push(template);
            template.each(&mut |expression| {
                if let Some((name, argument)) = include(expression) {
                    includers.entry(name).or_insert_with(Vec::new).push((template, argument));
                }
            });
        }
        Reading { templates, by_name, includers, followed: Cell::new(0) }
    }

    /// Returns the number of templates.
    pub(in crate::engine) fn size(&self) -> usize {
        self.templates.len()
    }

    pub(in crate::engine) fn of_file(&self, file: &str) -> impl Iterator<Item = &'a Template<'a>> {
        self.templates.iter().filter(move |template| template.file == file)
    }

    pub(in crate::engine) fn named(&self, name: &str) -> impl Iterator<Item = &'a Template<'a>> {
        self.by_name.get(name).into_iter().flatten().copied()
    }

    /// Returns the templates that include this one, with the argument that they pass.
    pub(in crate::engine) fn includers(
        &self,
        template: &Template<'_>,
    ) -> impl Iterator<Item = (&'a Template<'a>, &'a Expression)> {
        self.includers.get(template.name()).into_iter().flatten().copied()
    }

    pub(super) fn calls(&self) -> Vec<LookupCall> {
        let mut calls = Vec::new();
        for template in self.templates {
            template.each(&mut |expression| {
                if let Expression::Call { line, function, arguments } = expression
                    && function == "lookup"
                {
                    let namespace = arguments.get(2).map(|namespace| self.namespace(namespace, template, 0));
                    calls.push(LookupCall {
                        template: template.file.clone(),
                        line: *line,
                        api_version: constant(arguments.first()),
                        kind: constant(arguments.get(1)),
                        name: constant(arguments.get(3)),
                        namespace: namespace.unwrap_or(LookupNamespace::Computed),
                    });
                }
            });
        }
        calls
    }

    /// Returns the namespace that the expression yields in this template.
    fn namespace(&self, expression: &Expression, template: &'a Template<'a>, depth: usize) -> LookupNamespace {
        self.followed.set(self.followed.get() + 1);
        if depth > MAX_DEPTH || self.followed.get() > MAX_FOLLOWED {
            return LookupNamespace::Computed;
        }
        match expression {
            Expression::Constant(text) => LookupNamespace::Constant(text.clone()),
            Expression::Dot(fields) => self.of_fields(fields, template, depth),
            Expression::Variable(name, fields) if name == "$" => self.of_fields(fields, template, depth),
            Expression::Variable(name, fields) => match of_release(fields, &template.defaults) {
                Some(known) => known,
                None if fields.is_empty() => self.of_variable(name, template, depth),
                None => LookupNamespace::Computed,
            },
            Expression::Call { function, arguments, .. } => self.of_call(function, arguments, template, depth),
            Expression::Field(..) | Expression::Other => LookupNamespace::Computed,
        }
    }

    /// Resolves fields. Those of the release and its values are known; other fields come from the templates that include this one.
    fn of_fields(&self, fields: &[String], template: &'a Template<'a>, depth: usize) -> LookupNamespace {
        match (of_release(fields, &template.defaults), fields) {
            (Some(known), _) => known,
            (None, [field]) => {
                let handed = self.includers.get(&*template.name).into_iter().flatten();
                let handed = handed.filter_map(|(includer, argument)| Some((includer, entry(argument, field)?)));
                widest(handed.map(|(includer, value)| self.namespace(value, includer, depth + 1)))
            }
            _ => LookupNamespace::Computed,
        }
    }

    fn of_variable(&self, name: &str, template: &'a Template<'a>, depth: usize) -> LookupNamespace {
        let setting = template.pipelines.iter().filter(|pipeline| pipeline.sets.iter().any(|set| set == name));
        widest(setting.map(|pipeline| self.namespace(&pipeline.expression, template, depth + 1)))
    }

    fn of_call(
        &self,
        function: &str,
        arguments: &[Expression],
        template: &'a Template<'a>,
        depth: usize,
    ) -> LookupNamespace {
        let each = || arguments.iter().map(|argument| self.namespace(argument, template, depth + 1));
        match (function, arguments) {
            ("include", [Expression::Constant(name), ..]) => self.of_include(name, depth),
            ("quote" | "toString" | "trim" | "lower", [_]) => each().next().unwrap_or(LookupNamespace::Computed),
            ("default" | "coalesce" | "or", _) => chosen(each()),
            _ => LookupNamespace::Computed,
        }
    }

    /// Resolves an `include`. A partial that names the release's namespace returns it unless values override it.
    fn of_include(&self, name: &str, depth: usize) -> LookupNamespace {
        let found = self.by_name.get(name).into_iter().flatten();
        let mut is_own = false;
        for template in found {
            template.each(&mut |expression| {
                self.followed.set(self.followed.get() + 1);
                is_own |= match (expression, include(expression)) {
                    (Expression::Dot(fields) | Expression::Variable(_, fields), _) => is_own_namespace(fields),
                    (_, Some((inner, _))) if depth < MAX_DEPTH && self.followed.get() < MAX_FOLLOWED => {
                        self.of_include(inner, depth + 1) == LookupNamespace::Own
                    }
                    _ => false,
                };
            });
        }
        if is_own { LookupNamespace::Own } else { LookupNamespace::Computed }
    }
}

impl Template<'_> {
    /// Calls the visitor with every expression of the template.
    fn each<'a>(&'a self, visitor: &mut impl FnMut(&'a Expression)) {
        self.pipelines.iter().for_each(|pipeline| pipeline.expression.visit(visitor));
    }
}

/// Returns the name and the argument of an `include`.
fn include(expression: &Expression) -> Option<(&str, &Expression)> {
    match expression {
        Expression::Call { function, arguments, .. } if function == "include" => match &arguments[..] {
            [Expression::Constant(name), argument] => Some((name, argument)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns an entry of a `dict` whose keys are constants.
fn entry<'a>(dict: &'a Expression, key: &str) -> Option<&'a Expression> {
    let Expression::Call { function, arguments, .. } = dict else { return None };
    let mut pairs = arguments.chunks_exact(2).filter(|_| function == "dict");
    pairs.find(|pair| matches!(&pair[0], Expression::Constant(name) if name == key)).map(|pair| &pair[1])
}

fn is_own_namespace(fields: &[String]) -> bool {
    matches!(fields, [.., release, namespace] if release == "Release" && namespace == "Namespace")
}

/// Returns the content of fields of the release or of its values, or `None` if the fields belong to something else.
fn of_release(fields: &[String], defaults: &Defaults<'_>) -> Option<LookupNamespace> {
    if is_own_namespace(fields) {
        return Some(LookupNamespace::Own);
    }
    let at = fields.iter().position(|field| field == "Values")?;
    let path = &fields[at + 1..];
    let namespace = defaults.iter().find_map(|(values, below)| text_at(values, below.iter().chain(path)));
    Some(match namespace {
        Some(namespace) => LookupNamespace::Default { path: path.join("."), namespace },
        None => LookupNamespace::Computed,
    })
}

/// Returns the text at a path of values, or `None` if it is empty: templates treat an empty text as missing.
fn text_at<'a>(values: &go_template::Map, mut path: impl Iterator<Item = &'a String>) -> Option<String> {
    let found = path.try_fold(Value::Map(values.clone()), |value, field| match value {
        Value::Map(map) => map.get(field.as_str()),
        _ => None,
    });
    match found? {
        Value::String(text) => Some(text.to_text().into_owned()).filter(|text| !text.is_empty()),
        _ => None,
    }
}

/// Returns the widest of all possible namespaces, or `Computed` if none is known.
fn widest(possible: impl Iterator<Item = LookupNamespace>) -> LookupNamespace {
    possible.max().unwrap_or(LookupNamespace::Computed)
}

/// Returns the result of choosing the first non-empty argument: a value that is set, or else the release's own namespace.
fn chosen(arguments: impl Iterator<Item = LookupNamespace>) -> LookupNamespace {
    let arguments: Vec<_> = arguments.collect();
    let set = arguments.iter().find(|namespace| matches!(namespace, LookupNamespace::Default { .. }));
    let own = arguments.iter().find(|namespace| **namespace == LookupNamespace::Own);
    set.or(own).cloned().unwrap_or_else(|| widest(arguments.into_iter()))
}
