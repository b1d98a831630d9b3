//! Replays vectors: one small input per line with Helm's recorded answer. The fields of a line select the function
//! under test.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use go_encoding::{json, yaml};
use go_template::{Str, Value};
use golibs::{glob, regex, semver};
use playground::vectors::{output, readable};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::report::{Outcome, Report};

#[derive(Deserialize)]
struct Case {
    id: String,
    #[serde(flatten)]
    fields: serde_json::Map<String, Json>,
}

impl Case {
    fn text(&self, field: &str) -> &str {
        self.fields.get(field).and_then(Json::as_str).unwrap_or_default()
    }

    fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }
}

/// Runs every case in the file whose id or group contains `only`.
pub(crate) fn run(file: &Path, only: &str, report: &mut Report) -> anyhow::Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read vectors {}", file.display()))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let case: Case = serde_json::from_str(line)
            .with_context(|| format!("cannot read line {} of vectors {}", number + 1, file.display()))?;
        let group = if case.has("group") { case.text("group").to_owned() } else { name.clone() };
        if case.id.contains(only) || group.contains(only) {
            report.add(&group, &case.id, &outcome(&case, line));
        }
    }
    Ok(())
}

fn outcome(case: &Case, line: &str) -> Outcome {
    if case.has("template") {
        answer(case, output(line))
    } else if case.has("constraint") {
        fact_only(case, semver_compare(case.text("constraint"), case.text("version")))
    } else if case.has("pattern") {
        fact_only(case, glob_match(case.text("pattern"), case.text("path")))
    } else if case.has("regex") {
        regex_case(case)
    } else if case.has("float") {
        float_case(case)
    } else if case.has("yaml") {
        answer(case, yaml_parse(case.text("yaml")))
    } else {
        answer(case, yaml_emit(line))
    }
}

/// Compares output or error text.
fn answer(case: &Case, got: Result<String, String>) -> Outcome {
    let wanted = match (case.has("error"), &got) {
        (false, _) => Ok(case.text("out").to_owned()),
        (true, _) => Err(case.text("error").to_owned()),
    };
    match (wanted, got) {
        (Ok(wanted), Ok(got)) if wanted == got => Outcome::Exact,
        (Err(wanted), Err(got)) if same_error(&wanted, &got) => Outcome::Exact,
        (Err(wanted), Err(got)) => Outcome::OtherText(wanted, got),
        (wanted, got) => Outcome::Wrong(either(wanted), either(got)),
    }
}

/// Compares outputs; of errors, compares only their presence.
fn fact_only(case: &Case, got: Result<String, String>) -> Outcome {
    let wanted = case.fields.get("out").map(|out| out.as_str().map_or_else(|| out.to_string(), str::to_owned));
    match (wanted, got) {
        (None, Err(_)) => Outcome::Exact,
        (Some(wanted), Ok(got)) if wanted == got => Outcome::Exact,
        (wanted, got) => Outcome::Wrong(wanted.unwrap_or_else(|| "error".to_owned()), either(got)),
    }
}

fn either(result: Result<String, String>) -> String {
    result.unwrap_or_else(|error| format!("error: {error}"))
}

/// Compares error texts; recorded ones are truncated at 4,000 characters.
fn same_error(wanted: &str, got: &str) -> bool {
    match wanted.strip_suffix("…[truncated]") {
        Some(start) => got.starts_with(start),
        None => wanted == got,
    }
}

fn semver_compare(constraint: &str, version: &str) -> Result<String, String> {
    let constraint = semver::Constraint::parse(constraint).map_err(|e| e.to_string())?;
    let version = semver::Version::parse(version).map_err(|e| e.to_string())?;
    Ok(constraint.check(&version).to_string())
}

fn glob_match(pattern: &str, path: &str) -> Result<String, String> {
    let glob = glob::Glob::new(pattern).map_err(|e| e.to_string())?;
    glob.is_match(path, &mut glob::Work::default()).map(|found| found.to_string()).map_err(|e| e.to_string())
}

fn regex_case(case: &Case) -> Outcome {
    let pattern = match regex::Regex::new(case.text("regex").as_bytes()) {
        Ok(pattern) => pattern,
        Err(_) if case.has("error") => return Outcome::Exact,
        Err(error) => return Outcome::Wrong("a regex".to_owned(), error.to_string()),
    };
    if case.has("error") {
        return Outcome::Wrong("an error".to_owned(), "a regex".to_owned());
    }
    let text = case.text("text").as_bytes();
    let string = |bytes: &[u8]| Json::String(String::from_utf8_lossy(bytes).into_owned());
    let searched = pattern.find_all(text, -1).and_then(|found| {
        Ok((found, pattern.replace_all(text, b"<$0>")?, pattern.split(text, -1)?.into_iter().map(string).collect()))
    });
    let (found, replaced, split) = match searched {
        Ok(searched) => searched,
        Err(error) => return Outcome::Wrong("matches".to_owned(), error.to_string()),
    };
    let found: Vec<Json> = found.into_iter().map(|(start, end)| string(&text[start..end])).collect();
    let got = [
        ("find_all", if found.is_empty() { Json::Null } else { Json::Array(found) }),
        ("replace_all", string(&replaced)),
        ("split", Json::Array(split)),
    ];
    for (field, got) in got {
        let wanted = case.fields.get(field).cloned().unwrap_or_default();
        if wanted != got {
            return Outcome::Wrong(format!("{field} {wanted}"), format!("{field} {got}"));
        }
    }
    Outcome::Exact
}

fn float_case(case: &Case) -> Outcome {
    let Ok(number) = case.text("float").parse::<f64>() else {
        return Outcome::Wrong("a number".to_owned(), case.text("float").to_owned());
    };
    let printed = String::from_utf8_lossy(&go_template::fmt::sprint(&[Value::Float(number)])).into_owned();
    let got = [
        ("print", printed),
        ("json", golibs::strconv::json_float(number).unwrap_or_default()),
        ("fixed", golibs::strconv::format_float(number, b'f', None)),
    ];
    for (field, got) in got {
        if case.text(field) != got {
            return Outcome::Wrong(format!("{field} {}", case.text(field)), format!("{field} {got}"));
        }
    }
    Outcome::Exact
}

fn yaml_parse(text: &str) -> Result<String, String> {
    let value = yaml::parse(text.as_bytes()).map_err(|e| e.to_string())?;
    json::encode(&value, json::EscapeHtml::Yes, json::Layout::Compact)
        .map(|text| readable(&text))
        .map_err(|e| e.to_string())
}

fn yaml_emit(line: &str) -> Result<String, String> {
    let case = json::decode(line.as_bytes()).map_err(|e| e.to_string())?;
    let value = case.as_map().and_then(|m| m.get(Str::from("value"))).unwrap_or_default();
    yaml::emit(&value).map(|text| readable(&text)).map_err(|e| e.to_string())
}
