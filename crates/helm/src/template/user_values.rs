//! The values of a command line, in Helm's order of precedence. Counterpart: Helm's `pkg/cli/values/options.go`.

use std::io::Read as _;

use go_template::{Map, Str, Value};

use super::Options;
use crate::{strvals, values};
use go_encoding::json;

/// Files, then JSON, then `--set`, `--set-string`, `--set-file`, `--set-literal`: later ones win.
pub(super) fn merged(options: &Options) -> Result<Map, String> {
    let mut merged = Map::default();
    for file in &options.values {
        let text = read(file)?;
        let table = values::read(&text).map_err(|cause| format!("failed to parse {file}: {cause}"))?;
        merged = values::merge_maps(&merged, &table);
    }
    for text in &options.set_json {
        merged = set_json(text, merged)?;
    }
    for text in &options.set {
        strvals::parse_into(text, &merged).map_err(|e| format!("failed parsing --set data: {e}"))?;
    }
    for text in &options.set_string {
        strvals::parse_into_string(text, &merged).map_err(|e| format!("failed parsing --set-string data: {e}"))?;
    }
    for text in &options.set_file {
        let content = |path: &str| read(path).map(|text| Value::String(Str::from(text)));
        strvals::parse_into_file(text, &merged, &content)
            .map_err(|e| format!("failed parsing --set-file data: {e}"))?;
    }
    for text in &options.set_literal {
        strvals::parse_literal_into(text, &merged).map_err(|e| format!("failed parsing --set-literal data: {e}"))?;
    }
    Ok(merged)
}

fn set_json(text: &str, merged: Map) -> Result<Map, String> {
    if !text.trim().starts_with('{') {
        strvals::parse_json(text, &merged).map_err(|_| format!("failed parsing --set-json data {text}"))?;
        return Ok(merged);
    }
    match json::decode(text.as_bytes()) {
        Ok(Value::Map(table)) => Ok(values::merge_maps(&merged, &table)),
        Ok(Value::Nil) => Ok(merged),
        _ => Err(format!("failed parsing --set-json data JSON: {text}")),
    }
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    if path.trim() == "-" {
        let mut text = Vec::new();
        std::io::stdin().read_to_end(&mut text).map_err(|e| format!("cannot read standard input: {e}"))?;
        return Ok(text);
    }
    std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("open {path}: no such file or directory"),
        _ => format!("open {path}: {error}"),
    })
}
