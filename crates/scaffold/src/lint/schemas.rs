//! Whether the schemas of a chart and its subcharts are JSON.

use serde::de::IgnoredAny;

use super::Finding;
use crate::Project;

/// Checks each `values.schema.json` below a chart's folder. With a broken one, no resource can be installed.
pub(super) fn check(project: &Project, folder: &str) -> Vec<Finding> {
    let schemas = project.below(folder).filter(|(file, _)| file.rsplit('/').next() == Some("values.schema.json"));
    let broken = |(file, content): (&str, &[u8])| {
        let error = serde_json::from_slice::<IgnoredAny>(content).err()?;
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text);
        let message = format!("the schema is not valid JSON: {what} in column {}", error.column());
        Some(Finding::error(&format!("{folder}/{file}"), Some(error.line()), message))
    };
    schemas.filter_map(broken).collect()
}
