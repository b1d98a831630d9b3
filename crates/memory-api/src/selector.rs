//! Label and field selectors of list and watch requests. Counterpart: k8s.io/apimachinery `pkg/labels` and
//! `pkg/fields`.

use percent_encoding::percent_decode_str;
use serde_json::Value;

/// The part of a collection that a request selects.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug)]
struct Term {
    /// The JSON pointer to a field; `None` for a label, whose key may contain dots.
    pointer: Option<String>,
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Missing,
}

impl Selector {
    /// Parses a query's `labelSelector` and `fieldSelector`, percent-encoded or not.
    pub(crate) fn of_query(query: &str) -> Selector {
        let decoded = |name: &str| {
            let part = query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='))?;
            Some(percent_decode_str(part).decode_utf8_lossy().into_owned())
        };
        let mut terms = decoded("labelSelector").map(|text| terms(&text)).unwrap_or_default();
        let fields = decoded("fieldSelector").map(|text| self::terms(&text)).unwrap_or_default();
        terms.extend(
            fields.into_iter().map(|term| Term { pointer: Some(format!("/{}", term.key.replace('.', "/"))), ..term }),
        );
        Selector { terms }
    }

    /// Parses a label selector without field selector.
    pub(crate) fn of_labels(text: &str) -> Selector {
        Selector { terms: terms(text) }
    }

    /// Returns whether it selects everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    pub(crate) fn selects(&self, object: &Value) -> bool {
        self.terms.iter().all(|term| term.accepts(object))
    }
}

impl Term {
    fn accepts(&self, object: &Value) -> bool {
        let found = match &self.pointer {
            Some(pointer) => object.pointer(pointer),
            None => object["metadata"]["labels"].get(&self.key),
        };
        // An absent field reads as empty; an absent label does not.
        let found = found.and_then(Value::as_str).or(self.pointer.as_ref().map(|_| ""));
        match &self.test {
            Test::In(values) => found.is_some_and(|found| values.iter().any(|value| value == found)),
            Test::NotIn(values) => found.is_none_or(|found| values.iter().all(|value| value != found)),
            Test::Exists => found.is_some(),
            Test::Missing => found.is_none(),
        }
    }
}

/// Splits a selector at commas outside parentheses.
fn terms(text: &str) -> Vec<Term> {
    let mut depth = 0;
    let parts = text.split(|c| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).map(term).collect()
}

fn term(text: &str) -> Term {
    let new = |key: &str, test| Term { pointer: None, key: key.trim().to_owned(), test };
    let set = |values: &str| values.trim().trim_matches(['(', ')']).split(',').map(|v| v.trim().to_owned()).collect();
    if let Some((key, values)) = text.split_once(" notin ") {
        return new(key, Test::NotIn(set(values)));
    }
    if let Some((key, values)) = text.split_once(" in ") {
        return new(key, Test::In(set(values)));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return new(key, Test::NotIn(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = text.split_once('=') {
        return new(key, Test::In(vec![value.trim_start_matches('=').trim().to_owned()]));
    }
    match text.strip_prefix('!') {
        Some(key) => new(key, Test::Missing),
        None => new(text, Test::Exists),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_select_as_on_a_server() {
        let object = json!({
            "metadata": {"name": "web", "labels": {"app.io/name": "web", "tier": ""}}, "type": "helm.sh/release.v1",
        });
        for (query, selected) in [
            ("limit=5", true),
            ("labelSelector=", true),
            ("labelSelector=app.io/name%3Dweb", true),
            ("labelSelector=app.io%2Fname%3D%3Dweb%2Ctier", true),
            ("labelSelector=app.io/name=other", false),
            ("labelSelector=app.io/name!=web", false),
            ("labelSelector=other!=web", true),
            ("labelSelector=tier=", true),
            ("labelSelector=!tier", false),
            ("labelSelector=!other,tier", true),
            ("labelSelector=app.io/name in (a,web),tier", true),
            ("labelSelector=app.io/name%20notin%20(a,web)", false),
            ("labelSelector=other notin (a)", true),
            ("labelSelector=other in (a)", false),
            ("fieldSelector=metadata.name%3Dweb", true),
            ("fieldSelector=metadata.name=web,type!=helm.sh/release.v1", false),
            ("fieldSelector=metadata.namespace=", true),
        ] {
            assert_eq!(Selector::of_query(query).selects(&object), selected, "{query}");
        }
    }
}
