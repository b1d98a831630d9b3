//! A row for each of a resource's values, with what may not be shown already left out.

use go_encoding::json::{self, EscapeHtml, Layout};
use go_template::Value;
use helm::origins::{Default as ChartDefault, Key, Leaf, Origin, dotted};
use helm::reads::Unread;

use super::{Given, Values};

/// A value with its origin.
pub(crate) struct Row {
    pub(crate) path: Vec<Key>,
    pub(crate) value: Cell,
    pub(crate) from: From,
    /// What else is set at this path but lost, highest precedence first.
    pub(crate) replaced: Vec<(Cell, From)>,
    /// Whether a null removed the key.
    pub(crate) is_removed: bool,
    /// The paths at or below it that no template reads.
    pub(crate) unread: Vec<Unread>,
}

/// A value, unless it may not be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Compact JSON.
    Known(String),
    /// From a Secret or the operator's environment.
    Hidden,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct From {
    /// In words: `shop/values.yaml:12`.
    pub(crate) text: String,
    pub(crate) set_by: SetBy,
}

/// What sets a value, for programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetBy {
    Chart(ChartDefault),
    Given(Given),
    Helm,
}

impl Row {
    /// Returns whether the user set it, or values that no template reads are below it.
    pub(crate) fn is_changed(&self) -> bool {
        matches!(self.from.set_by, SetBy::Given(_)) || !self.unread.is_empty()
    }

    /// Returns its path as `--set` takes it.
    pub(crate) fn key(&self) -> String {
        dotted(&self.path)
    }
}

/// Returns the rows of a resource's values, ordered by path.
pub(crate) fn rows(values: &Values) -> Vec<Row> {
    let unread = UnreadPaths::of(&values.traced.unread);
    values.traced.leaves.iter().map(|leaf| row(leaf, values, &unread)).collect()
}

fn row(leaf: &Leaf, values: &Values, unread: &UnreadPaths<'_>) -> Row {
    Row {
        path: leaf.path.clone(),
        value: cell(&leaf.value, &leaf.origin, values),
        from: from(&leaf.origin, values),
        replaced: leaf
            .replaced
            .iter()
            .map(|(origin, value)| (cell(value, origin, values), from(origin, values)))
            .collect(),
        is_removed: leaf.is_removed,
        unread: unread.concerning(&leaf.path),
    }
}

fn cell(value: &Value, origin: &Origin, values: &Values) -> Cell {
    // A value without an origin results from the merge, so it may contain parts of any source.
    let is_odd = *origin == Origin::Helm && !matches!(value, Value::Map(table) if table.is_empty());
    if values.is_hidden(origin) || is_odd {
        return Cell::Hidden;
    }
    match json::encode(value, EscapeHtml::No, Layout::Compact) {
        Ok(text) => Cell::Known(String::from_utf8_lossy(&text).into_owned()),
        // A number that JSON lacks, such as `.inf`.
        Err(_) => Cell::Known(serde_json::Value::from(format!("{value:?}")).to_string()),
    }
}

fn from(origin: &Origin, values: &Values) -> From {
    let set_by = match (origin, values.given(origin)) {
        (_, Some(given)) => SetBy::Given(given.clone()),
        (Origin::Default(default), _) => SetBy::Chart(default.clone()),
        _ => SetBy::Helm,
    };
    From { text: values.describe(origin), set_by }
}

/// The values that no template reads, ordered by path: a resource may have 100,000 of them.
struct UnreadPaths<'a>(Vec<&'a Unread>);

impl<'a> UnreadPaths<'a> {
    fn of(unread: &'a [Unread]) -> UnreadPaths<'a> {
        let mut all: Vec<&Unread> = unread.iter().collect();
        all.sort_by(|a, b| a.path.cmp(&b.path));
        UnreadPaths(all)
    }

    /// Returns the rows that lead to a path, and the rows below it.
    fn concerning(&self, path: &[Key]) -> Vec<Unread> {
        let words: Vec<String> = path.iter().map(word).collect();
        let at = |depth: usize| self.0.binary_search_by(|unread| unread.path.as_slice().cmp(&words[..depth])).ok();
        let above = (1..=words.len()).filter_map(at).map(|at| self.0[at]);
        let first = self.0.partition_point(|unread| unread.path.as_slice() <= &words[..]);
        let below = self.0[first..].iter().take_while(|unread| unread.path.starts_with(&words)).copied();
        above.chain(below).cloned().collect()
    }
}

fn word(key: &Key) -> String {
    match key {
        Key::Name(name) => name.to_text().into_owned(),
        Key::Index(index) => index.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_unread_with_what_leads_to_it_and_with_what_is_in_it() {
        let unread = |path: &str| Unread {
            path: path.split('.').map(str::to_owned).collect(),
            nearest: None,
            is_documented: false,
        };
        let all = [unread("b.c"), unread("a"), unread("list.0.nme"), unread("b.cc"), unread("list.10.nme")];
        let paths = UnreadPaths::of(&all);
        let name = |text: &str| Key::Name(text.into());
        let found = |path: &[Key]| -> Vec<String> {
            paths.concerning(path).iter().map(|unread| unread.path.join(".")).collect()
        };
        assert_eq!(found(&[name("a"), name("deeper")]), ["a"]);
        assert_eq!(found(&[name("b"), name("c")]), ["b.c"]);
        assert_eq!(found(&[name("list")]), ["list.0.nme", "list.10.nme"]);
        assert_eq!(found(&[name("list"), Key::Index(0), name("nme")]), ["list.0.nme"]);
        assert!(found(&[name("b"), name("d")]).is_empty() && found(&[name("aa")]).is_empty());
    }
}
