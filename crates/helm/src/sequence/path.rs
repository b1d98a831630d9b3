//! Paths into a status, in the part of Kubernetes' JSONPath that conditions need: `.a.b`, `['a.b']`, `[0]`, `[-1]`, `[*]`, and
//! `[?(@.type=="Ready")]`.

use serde_json::Value;

use super::conditions::Comparison;

const MAX_STEPS: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// The item of a list; negative ones count from the end.
    Item(i64),
    /// All items of a list, or all fields of a map.
    All,
    /// The items of a list of which a part compares in this way.
    Where(Vec<String>, Comparison),
}

impl Path {
    /// Reads a path, which begins with a dot or a bracket.
    pub(super) fn parse(text: &str) -> Option<Path> {
        let mut rest = text.trim();
        rest = rest.strip_prefix('$').unwrap_or(rest);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = match rest.strip_prefix('.') {
                Some(after) => field(after)?,
                None => {
                    let (inside, after) = bracket(rest.strip_prefix('[')?)?;
                    (selection(inside)?, after)
                }
            };
            steps.push(step);
            rest = after;
        }
        ((1..=MAX_STEPS).contains(&steps.len())).then_some(Path(steps))
    }

    /// Returns everything that the path leads to.
    pub(super) fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        self.0.iter().fold(vec![value], |found, step| found.into_iter().flat_map(|one| step.follow(one)).collect())
    }
}

impl Step {
    fn follow<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Step::Field(name), Value::Object(map)) => map.get(name).into_iter().collect(),
            (Step::Item(at), Value::Array(items)) => {
                let at = if *at < 0 { at.checked_add_unsigned(items.len() as u64) } else { Some(*at) };
                at.and_then(|at| items.get(usize::try_from(at).ok()?)).into_iter().collect()
            }
            (Step::All, Value::Array(items)) => items.iter().collect(),
            (Step::All, Value::Object(map)) => map.values().collect(),
            (Step::Where(fields, comparison), Value::Array(items)) => {
                let part = |item: &'v Value| fields.iter().try_fold(item, |value, field| value.get(field));
                items.iter().filter(|item| part(item).is_some_and(|part| comparison.holds(part))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Reads the name of a field, in which a backslash stands before a dot.
fn field(text: &str) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            char if char.is_whitespace() => return None,
            char => name.push(char),
        }
    }
    let step = if name == "*" { Step::All } else { Step::Field(name) };
    (step != Step::Field(String::new())).then_some((step, &text[end..]))
}

/// Splits the content of brackets from the rest; ignores brackets in quotes.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, char) in text.char_indices() {
        match (quote, char) {
            (None, ']') => return Some((text[..at].trim(), &text[at + 1..])),
            (None, '"' | '\'') => quote = Some(char),
            (Some(open), close) if open == close => quote = None,
            _ => {}
        }
    }
    None
}

fn selection(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        let fields = filter.trim().strip_prefix("@.")?;
        let end = fields.find(['=', '!', '<', '>'])?;
        let names: Vec<String> = fields[..end].trim().split('.').map(str::to_owned).collect();
        let is_valid = |name: &String| !name.is_empty() && !name.contains(['[', ' ']);
        return names.iter().all(is_valid).then_some(Step::Where(names, Comparison::parse(&fields[end..])?));
    }
    let quoted = |quote: char| inside.strip_prefix(quote)?.strip_suffix(quote);
    match quoted('\'').or_else(|| quoted('"')) {
        Some(name) => Some(Step::Field(name.to_owned())),
        None => inside.parse().ok().map(Step::Item),
    }
}
