//! Merges the values of a command line in Helm's order of precedence. Counterpart: Helm's `pkg/cli/values/options.go`.

use go_encoding::json;
use go_template::{Map, Str, Value};

use super::Options;
use crate::disk::{self, InputError};
use crate::{strvals, values};

/// The reason why a flag that sets values cannot be applied. The texts are Helm's.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum ValuesError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("failed to parse {path}: {cause}")]
    File { path: String, cause: values::ReadError },
    #[error("failed parsing --{flag} data: {cause}")]
    Set { flag: &'static str, cause: strvals::Error },
    #[error("failed parsing --set-json data {0}")]
    Json(String),
    #[error("failed parsing --set-json data JSON: {0}")]
    JsonObject(String),
}

/// Merges files, then JSON, then `--set`, `--set-string`, `--set-file` and `--set-literal`. Later values take precedence.
pub(super) fn merged(options: &Options) -> Result<Map, ValuesError> {
    let mut merged = Map::default();
    for path in &options.values {
        let table =
            values::read(&disk::read(path)?).map_err(|cause| ValuesError::File { path: path.clone(), cause })?;
        merged = values::merge_maps(&merged, &table);
    }
    for text in &options.set_json {
        merged = set_json(text, merged)?;
    }
    set_each("set", &options.set, |text| strvals::parse_into(text, &merged))?;
    set_each("set-string", &options.set_string, |text| strvals::parse_into_string(text, &merged))?;
    let content = |path: &str| Ok(Value::String(Str::from(disk::read(path)?)));
    set_each("set-file", &options.set_file, |text| strvals::parse_into_file(text, &merged, &content))?;
    set_each("set-literal", &options.set_literal, |text| strvals::parse_literal_into(text, &merged))?;
    Ok(merged)
}

fn set_each(
    flag: &'static str,
    texts: &[String],
    set: impl Fn(&str) -> Result<(), strvals::Error>,
) -> Result<(), ValuesError> {
    texts.iter().try_for_each(|text| set(text)).map_err(|cause| ValuesError::Set { flag, cause })
}

fn set_json(text: &str, merged: Map) -> Result<Map, ValuesError> {
    if !text.trim().starts_with('{') {
        strvals::parse_json(text, &merged).map_err(|_| ValuesError::Json(text.to_owned()))?;
        return Ok(merged);
    }
    match json::decode(text.as_bytes()) {
        Ok(Value::Map(table)) => Ok(values::merge_maps(&merged, &table)),
        Ok(Value::Nil) => Ok(merged),
        _ => Err(ValuesError::JsonObject(text.to_owned())),
    }
}
