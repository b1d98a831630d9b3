//! Finds faults of a chart that do not depend on its values: templates that do not parse, and schemas that do not compile. Helm reports them only
//! when it renders.

use std::collections::BTreeMap;

use go_template::Str;
use serde_json::value::RawValue;

use super::{RenderError, calls, handlebars};
use crate::chart::{Chart, File};
use crate::schema::InvalidSchema;

const SCHEMA: &str = "values.schema.json";

/// A fault in a chart's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, relative to the chart's folder: `charts/db/templates/a.yaml`.
    pub path: String,
    /// The line, counted from 1, if it is known.
    pub line: Option<usize>,
    /// The problem, in Helm's words.
    pub what: String,
}

/// Returns the faults of a chart and its subcharts, whether enabled or not.
pub fn problems(chart: &Chart) -> Vec<Problem> {
    let mut found = Vec::new();
    collect(chart, "", &mut found);
    found
}

fn collect(chart: &Chart, folder: &str, found: &mut Vec<Problem>) {
    if let (Some(text), Some(Err(error))) = (&chart.schema, chart.compiled_schema()) {
        let line = schema_line(text, error);
        found.push(Problem { path: format!("{folder}{SCHEMA}"), line, what: error.to_string() });
    }
    let is_run = |file: &&File| !chart.metadata.is_library() || is_partial(file);
    for file in chart.templates.iter().filter(is_run) {
        if let Err(error) = parse(file) {
            let line = Some(error.line()).filter(|line| *line > 0);
            found.push(Problem { path: format!("{folder}{}", file.name), line, what: error.to_string() });
        }
    }
    for subchart in &chart.dependencies {
        collect(subchart, &format!("{folder}charts/{}/", subchart.metadata.name), found);
    }
}

fn is_partial(file: &File) -> bool {
    file.name.rsplit('/').next().unwrap_or_default().starts_with('_')
}

fn parse(file: &File) -> Result<(), RenderError> {
    if file.name.ends_with(handlebars::EXTENSION) {
        return handlebars::Templates::new().add(&file.name, &file.data.to_text());
    }
    let parsed = go_template::parse(file.name.as_str(), file.data.clone(), calls::all());
    parsed.map(|_| ()).map_err(|error| RenderError::parse(&error))
}

/// Returns the line at which a schema is broken: where its text ceases to be JSON, or the deepest location that the validator names.
fn schema_line(text: &Str, error: &InvalidSchema) -> Option<usize> {
    let bytes: &[u8] = text;
    if let Err(error) = serde_json::from_slice::<&RawValue>(bytes) {
        return Some(error.line()).filter(|line| *line > 0);
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let message = error.to_string();
    let pointers = message.split("at '").skip(1).filter_map(|rest| rest.split_once('\'')).map(|(pointer, _)| pointer);
    line_of(text, pointers.max_by_key(|pointer| pointer.len())?)
}

/// Returns the line of a JSON pointer's target.
fn line_of(text: &str, pointer: &str) -> Option<usize> {
    let mut value: &RawValue = serde_json::from_str(text).ok()?;
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        value = match value.get().starts_with('[') {
            true => *serde_json::from_str::<Vec<&RawValue>>(value.get()).ok()?.get(key.parse::<usize>().ok()?)?,
            false => *serde_json::from_str::<BTreeMap<String, &RawValue>>(value.get()).ok()?.get(&key)?,
        };
    }
    // The value is a slice of the text, so their addresses determine its offset.
    let begin = (value.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some(text.get(..begin)?.matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, Option<usize>, String)> {
        let always = [("Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n")];
        let chart = Chart::from_files(always.iter().chain(files).copied()).unwrap();
        problems(&chart).into_iter().map(|problem| (problem.path, problem.line, problem.what)).collect()
    }

    fn check(files: &[(&str, &str)], path: &str, line: usize, what: &str) {
        assert_eq!(found(files), [(path.to_owned(), Some(line), what.to_owned())]);
    }

    #[test]
    fn a_good_chart_has_no_problems() {
        let files = [
            ("templates/a.yaml", "a: {{ include \"b\" . }}{{ lookup \"v1\" \"Pod\" \"\" \"\" }}"),
            ("templates/b.hbs", "{{a}}"),
            ("values.schema.json", "{\"type\": \"object\"}"),
        ];
        assert_eq!(found(&files), []);
    }

    #[test]
    fn templates_that_do_not_parse_are_named_with_their_line() {
        check(
            &[("templates/a.yaml", "a:\n{{ nope }}\n")],
            "templates/a.yaml",
            2,
            "parse error at (templates/a.yaml:2): function \"nope\" not defined",
        );
        let subchart = [
            ("charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\n"),
            ("charts/db/templates/_x.tpl", "\n\n{{ if }}"),
        ];
        check(&subchart, "charts/db/templates/_x.tpl", 3, "parse error at (templates/_x.tpl:3): missing value for if");
        let [(path, line, _)] = &found(&[("templates/a.hbs", "a\n{{#if x}}")])[..] else { panic!() };
        assert_eq!((path.as_str(), line.is_some()), ("templates/a.hbs", true));
    }

    #[test]
    fn schemas_that_do_not_compile_are_named_with_their_line() {
        check(&[("values.schema.json", "{\n\"type\":\n")], SCHEMA, 3, "unexpected EOF");
        let wrong = "{\n \"properties\": {\n  \"a\": {\"properties\": {\"b\": {\"type\": \"string\"}}},\n  \"b\": {\n   \"type\": \"text\"\n}}}";
        let [(path, line, what)] = &found(&[("values.schema.json", wrong)])[..] else { panic!() };
        assert!(what.contains("at '/properties/b/type'"), "{what}");
        assert_eq!((path.as_str(), *line), (SCHEMA, Some(5)));
    }
}
