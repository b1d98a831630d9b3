//! Edits YAML files that users may have edited: appends to lists, and keeps all comments and the layout.

use std::str::FromStr as _;

use go_encoding::{json, yaml};
use go_template::{Map, Value};
use serde_json::Value as Json;
use yaml_edit::{Document, Mapping, Sequence};

/// Marks comments at which scaffolding tools insert.
const MARKER: &str = "+kubebuilder:scaffold:";

/// Why a file cannot be edited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The text is not YAML.
    #[error("the file is not valid YAML: {0}")]
    Yaml(String),
    /// A list has another type.
    #[error("{0} is not a list")]
    NotAList(&'static str),
}

/// Appends a map to a file whose top level is a list, before marker comments at its end.
pub(crate) fn push_table(text: &str, fields: &[(&str, &str)]) -> Result<String, EditError> {
    let (head, tail) = split_marker(text);
    let entry = Mapping::new();
    for (key, value) in fields {
        entry.set(*key, *value);
    }
    let document = |text: &str| Document::from_str(text).map_err(|error| EditError::Yaml(error.to_string()));
    if parse(head)?.is_null() {
        let list = document("- {}\n")?;
        let sequence = list.as_sequence().ok_or(EditError::NotAList("the file"))?;
        sequence.push(&entry);
        sequence.remove(0);
        return Ok(format!("{}{list}{tail}", with_newline(head)));
    }
    let list = document(&with_newline(head))?;
    list.as_sequence().ok_or(EditError::NotAList("the file"))?.push(&entry);
    Ok(format!("{}{tail}", with_newline(&list.to_string())))
}

/// Appends an entry to the list `key` of a file whose top level is a map, unless the list contains it.
pub(crate) fn push_entry(text: &str, key: &'static str, entry: &str) -> Result<String, EditError> {
    let known = parse(text)?;
    if known[key].as_array().is_some_and(|list| list.iter().any(|known| known == entry)) {
        return Ok(text.to_owned());
    }
    let document = Document::from_str(text).map_err(|error| EditError::Yaml(error.to_string()))?;
    let table = document.as_mapping().ok_or(EditError::NotAList("the file"))?;
    match (table.get_sequence(key), &known[key]) {
        (Some(list), _) => list.push(entry),
        (None, Json::Null) => {
            let list = Sequence::new();
            list.push(entry);
            table.set(key, &list);
        }
        (None, _) => return Err(EditError::NotAList(key)),
    }
    Ok(document.to_string())
}

/// Parses the file's first document.
pub(crate) fn parse(text: &str) -> Result<Json, EditError> {
    let value = yaml::parse_preserving_ints(text.as_bytes()).map_err(|error| EditError::Yaml(error.to_string()))?;
    Ok(json::to_serde(&value))
}

/// Prints a value as Go's YAML library does: keys sorted.
pub(crate) fn print(value: &Json) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    let value = json::decode_preserving_ints(&text).unwrap_or_default();
    yaml::emit(&value).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
}

/// Returns values in the engine's form; empty unless the value is a map. Numbers become floats, as in Helm.
pub(crate) fn to_map(value: &Json) -> Map {
    match json::from_serde(value) {
        Value::Map(map) => map,
        _ => Map::default(),
    }
}

/// Splits off the marker comment at the end of the file, with all comments and blank lines after it.
fn split_marker(text: &str) -> (&str, &str) {
    let is_trivia = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    let marker = text.split_inclusive('\n').scan(0, |end, line| {
        let start = *end;
        *end += line.len();
        Some((start, line))
    });
    let last = marker.filter(|(_, line)| line.starts_with('#') && line.contains(MARKER)).last();
    match last {
        Some((start, _)) if text[start..].lines().all(is_trivia) => text.split_at(start),
        _ => (text, ""),
    }
}

fn with_newline(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: [(&str, &str); 2] = [("group", "cache.my.domain"), ("version", "v1")];

    #[test]
    fn an_entry_goes_before_the_marker_and_comments_stay() {
        let check = |text: &str, expected: &str| assert_eq!(push_table(text, &ENTRY).unwrap(), expected, "{text}");
        let entry = "- group: cache.my.domain\n  version: v1\n";
        check("", entry);
        check("# only a comment\n", &format!("# only a comment\n{entry}"));
        check("# head\n# +kubebuilder:scaffold:watch\n", &format!("# head\n{entry}# +kubebuilder:scaffold:watch\n"));
        check(
            "# head\n- group: a # why\n  # more\n  chart: x\n\n# +kubebuilder:scaffold:watch\n# tail\n",
            &format!(
                "# head\n- group: a # why\n  # more\n  chart: x\n\n{entry}# +kubebuilder:scaffold:watch\n# tail\n"
            ),
        );
        check("- group: a", &format!("- group: a\n{entry}"));
        check("- {group: a, version: v1}\n", &format!("- {{group: a, version: v1}}\n{entry}"));
        check(
            "---\n  - group: a\n    b: c\n",
            "---\n  - group: a\n    b: c\n  - group: cache.my.domain\n    version: v1\n",
        );
        check("[]\n", "[{group: cache.my.domain, version: v1}]\n");
    }

    #[test]
    fn values_that_look_like_other_types_are_quoted() {
        let text = push_table("", &[("group", "a"), ("version", "1"), ("chart", "a: b #c")]).unwrap();
        assert_eq!(parse(&text).unwrap(), serde_json::json!([{"group": "a", "version": "1", "chart": "a: b #c"}]));
    }

    #[test]
    fn a_list_in_a_table_grows_once() {
        let check = |text: &str, expected: &str| {
            let once = push_entry(text, "resources", "new.yaml").unwrap();
            assert_eq!(once, expected, "{text}");
            assert_eq!(push_entry(&once, "resources", "new.yaml").unwrap(), once);
        };
        check("resources:\n- a.yaml # why\n# marker\n", "resources:\n- a.yaml # why\n- new.yaml\n# marker\n");
        check(
            "# head\nresources:\n  - a.yaml\n#- b.yaml\n\npatches: []\n",
            "# head\nresources:\n  - a.yaml\n  - new.yaml\n#- b.yaml\n\npatches: []\n",
        );
        check("resources: []\nx: 1\n", "resources: [new.yaml]\nx: 1\n");
        check("kind: Kustomization\n", "kind: Kustomization\nresources:\n- new.yaml\n");
    }

    #[test]
    fn a_file_of_another_shape_is_refused() {
        assert_eq!(push_table("a: 1\n", &ENTRY), Err(EditError::NotAList("the file")));
        assert_eq!(push_entry("resources: 1\n", "resources", "x"), Err(EditError::NotAList("resources")));
        assert!(matches!(push_table("a: [\n", &ENTRY), Err(EditError::Yaml(_))));
    }
}
