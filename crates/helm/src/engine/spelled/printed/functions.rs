//! The functions that derive texts from texts, as charts use them for names, kinds and namespaces.

use go_template::Expression;

use super::{Known, MAX_TEXTS, Printed, Scope, distinct, joined, shared};

impl<'a> Printed<'a> {
    /// Returns the possible results of a call, as far as they are known.
    pub(super) fn call(
        &self,
        function: &str,
        arguments: &'a [Expression],
        scope: &Scope<'a>,
        depth: usize,
    ) -> Vec<Known<'a>> {
        let of = |argument: &'a Expression| self.evaluate(argument, scope, depth + 1);
        let all = |arguments: &'a [Expression]| distinct(arguments.iter().flat_map(of).collect());
        match (function, arguments) {
            ("include", [name, rest @ ..]) => {
                let argument = rest.first().map(of).unwrap_or_default();
                let names = self.texts(of(name), scope.template).0;
                distinct(names.iter().flat_map(|name| self.include(name, argument.clone(), depth)).collect())
            }
            ("default" | "coalesce" | "or" | "and" | "merge" | "mustMerge" | "mergeOverwrite", _) => all(arguments),
            ("ternary", [yes, no, ..]) => distinct([of(yes), of(no)].concat()),
            ("required", [_, value]) | ("tpl", [value, _]) => of(value),
            ("deepCopy" | "mustDeepCopy" | "toString", [value]) => of(value),
            ("dict", pairs) => vec![Known::Dict(pairs, shared(scope))],
            ("list" | "tuple", items) => vec![Known::List(items, shared(scope))],
            ("get" | "index", [table, key]) => {
                let keys = self.texts(of(key), scope.template).0;
                let tables = of(table);
                let fields = keys.into_iter().map(|key| self.fields(tables.clone(), &[key], depth));
                distinct(fields.flatten().collect())
            }
            ("printf", [format, rest @ ..]) => self.formatted(of(format), rest, scope, depth),
            ("print", parts) => {
                let parts = parts.iter().map(|part| self.list_of(of(part), scope));
                texts(parts.fold(vec![String::new()], |all, next| joined(&all, &next)))
            }
            (_, [.., value]) => match of_text(function, arguments) {
                Some(change) => texts(self.list_of(of(value), scope).into_iter().map(|text| change(&text)).collect()),
                None => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    fn list_of(&self, known: Vec<Known<'a>>, scope: &Scope<'a>) -> Vec<String> {
        self.texts(known, scope.template).0.into_iter().collect()
    }

    /// Evaluates `printf` with verbs for texts.
    fn formatted(
        &self,
        formats: Vec<Known<'a>>,
        arguments: &'a [Expression],
        scope: &Scope<'a>,
        depth: usize,
    ) -> Vec<Known<'a>> {
        let mut all = self.list_of(formats, scope);
        for argument in arguments {
            let values = self.list_of(self.evaluate(argument, scope, depth + 1), scope);
            let filled = all.iter().flat_map(|format| values.iter().filter_map(|value| fill(format, value)));
            all = filled.take(MAX_TEXTS).collect();
        }
        all.retain(|text| !text.contains('%'));
        texts(all)
    }
}

/// Replaces the first verb.
fn fill(format: &str, value: &str) -> Option<String> {
    let verb = ["%s", "%v", "%q"].into_iter().filter_map(|verb| format.find(verb)).min()?;
    Some(format!("{}{value}{}", &format[..verb], &format[verb + 2..]))
}

fn texts<'a>(all: Vec<String>) -> Vec<Known<'a>> {
    distinct(all.into_iter().map(Known::Text).collect())
}

/// A function that takes one text.
type OfText = Box<dyn Fn(&str) -> String>;

/// Returns a function's effect on its last argument, a text. Quotes and blanks do not matter where texts are compared.
fn of_text(function: &str, arguments: &[Expression]) -> Option<OfText> {
    let first = match arguments {
        [Expression::Constant(text), _] => text.clone(),
        _ => String::new(),
    };
    Some(match function {
        "quote" | "squote" | "trim" | "indent" | "nindent" | "trunc" => Box::new(|text| text.trim().to_owned()),
        "lower" => Box::new(str::to_lowercase),
        "upper" => Box::new(str::to_uppercase),
        "title" => Box::new(|text| {
            let mut letters = text.chars();
            letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
        }),
        "trimSuffix" => Box::new(move |text| text.strip_suffix(first.as_str()).unwrap_or(text).to_owned()),
        "trimPrefix" => Box::new(move |text| text.strip_prefix(first.as_str()).unwrap_or(text).to_owned()),
        _ => return None,
    })
}
