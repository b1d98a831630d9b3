//! Runs the shared vectors that need only Go's own functions. Skipped if the vectors are missing.

use std::sync::Arc;

use go_template::{ExecError, FuncError, FuncMap, Map, MapType, MissingKey, Options, Scope, Templates, Value, parse};
use serde_json::Value as Json;

use crate::value;

const NAME: &str = "c/templates/t";

fn render(template: &str, values: &Json) -> Result<String, FuncError> {
    let root: Map = [("Values", value(values))].into_iter().collect();
    let parsed = parse(NAME, template, &FuncMap::default())?;
    let mut templates = Templates::new("gotpl");
    templates.add(&parsed);
    let options = Options { missing_key: MissingKey::Zero, ..Options::default() };
    let out = Scope::new(Arc::new(templates), options).execute(NAME, &Value::Map(root.with_type(MapType::Values)))?;
    Ok(String::from_utf8_lossy(&out).replace("<no value>", ""))
}

/// Returns the error as Helm shows it.
fn shown(error: &FuncError) -> String {
    match error {
        FuncError::Parse(error) => {
            let message = error.kind.to_string();
            let last = message.rsplit(": ").next().unwrap_or_default();
            format!("parse error at ({}:{}): {last}", error.name, error.line)
        }
        FuncError::Template(error) => reformat(error).unwrap_or_else(|| error.to_string()),
        other => other.to_string(),
    }
}

fn reformat(error: &ExecError) -> Option<String> {
    let at = error.location.as_ref()?;
    if let go_template::Cause::Call { .. } = error.cause {
        return None;
    }
    let ExecError { template, context, cause, .. } = error;
    Some(
        format!("{}:{}:{}\n  executing {template:?} at <{context}>:\n    {cause}", at.name, at.line, at.column)
            .trim()
            .to_owned(),
    )
}

/// Names that only Helm's templates can use.
const HELMS: [&str; 9] =
    [".Files", ".Capabilities", ".Chart", ".Release", ".Template", ".Subcharts", ".AsMap", "slice ", "{{ . }}"];

#[test]
fn language_vectors_render_like_helm() {
    let (mut passed, mut skipped, mut failures) = (0, 0, Vec::new());
    for case in shared_cases::lines("vectors/dev.jsonl") {
        let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
        let template = text("template");
        if !text("group").starts_with("lang/") || HELMS.iter().any(|name| template.contains(name)) {
            continue;
        }
        let got = render(&template, &case["values"]).map_err(|error| shown(&error));
        let wanted = case["out"].as_str().map(str::to_owned).ok_or_else(|| text("error"));
        match (got, wanted) {
            (Err(got), wanted) if got.ends_with("not defined") && wanted.as_ref().err() != Some(&got) => skipped += 1,
            (got, wanted) if got == wanted => passed += 1,
            (got, wanted) => failures.push(format!("{}: {template:?}\n  want {wanted:?}\n   got {got:?}", text("id"))),
        }
    }
    println!("{passed} passed, {skipped} skipped for functions that are not Go's, {} failed", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
