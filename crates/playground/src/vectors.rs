//! Replays what Helm's engine printed for a template, here and in the very module that browsers load. The record is a
//! line of `crates/conformance/own/vectors.jsonl`.

use go_encoding::json;
use go_template::Value;
use helm::chart::{Chart, File};
use helm::engine::{Capabilities, DEFAULT_API_VERSIONS, Engine, KubeVersion, ReleaseOptions};
use helm::view;

/// The version that Helm's engine prints when used as a library, as for the record.
const LIBRARY_VERSION: &str = "v4.3";

/// The chart that the templates were recorded in.
const CHART: &str = "apiVersion: v2\nname: c\nversion: 1.2.3\nappVersion: 4.5.6\n";

/// Returns the output of the record's template, or the error's text. Invalid bytes become U+FFFD, as in Go's JSON.
pub fn output(record: &str) -> Result<String, String> {
    let record = json::decode(record.as_bytes()).map_err(|error| error.to_string())?;
    let field = |name: &str| record.as_map().and_then(|fields| fields.get(name)).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(|text| text.to_text().into_owned()).unwrap_or_default();
    let mut files = vec![File::from(("Chart.yaml", CHART)), File::from(("templates/t", text(&field("template"))))];
    if let Some(more) = field("files").as_map() {
        files.extend(more.snapshot().iter().map(|(name, data)| File::from((name.to_text().into_owned(), text(data)))));
    }
    let chart = Chart::from_files(files).map_err(|error| error.to_string())?;
    let values = field("values").as_map().cloned().unwrap_or_default();
    let kube = KubeVersion::bare("v1.36.0", "1", "36");
    let capabilities = Capabilities::new(kube, DEFAULT_API_VERSIONS.iter().copied());
    let capabilities = Capabilities { helm_version: LIBRARY_VERSION.into(), ..capabilities };
    let view = view::resolve(&chart, &values, &mut Vec::new()).map_err(|error| error.to_string())?;
    let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    let files = Engine::new(chart).execute(&view, &values, &release, &capabilities, None);
    let output = files.map_err(|error| error.to_string())?.into_iter().next().map(|(_, output)| output);
    Ok(readable(&output.unwrap_or_default()))
}

/// Returns the text with U+FFFD for each invalid byte, as in Go's JSON.
pub fn readable(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n('\u{FFFD}', chunk.invalid().len()));
    }
    text
}
