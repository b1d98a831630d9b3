//! Decodes `patches`, which change what charts render, in kustomize's own form.

mod target;

use std::path::Path;
use std::sync::Arc;

use go_encoding::{json, yaml};
use serde_json::Value;

use super::node::{Entry, Node};
use super::rules::{string, unknown};

pub(crate) use target::{Target, group_version};

/// The maximum number of patches in an entry, and of bytes in one.
const MOST: usize = 64;
const MAX_BYTES: usize = 256 << 10;

const KEYS: [&str; 3] = ["target", "patch", "path"];

/// Patches of what a chart renders, in their order: `patches` in watches.yaml. Default: none.
#[derive(Clone, Debug, Default)]
pub struct Patches(pub(crate) Arc<[Patch]>);

#[derive(Clone, Debug)]
pub(crate) struct Patch {
    /// Which objects it changes. `None`: a strategic patch names its object itself.
    pub(crate) target: Option<Target>,
    pub(crate) change: Change,
    /// The entry as it is written, for the digest of a release's inputs.
    pub(crate) written: Value,
}

/// How a patch changes an object.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Strategic merge patches, each with kind and name.
    Strategic(Vec<Value>),
    /// The operations of a JSON patch (RFC 6902).
    Json(json_patch::Patch),
}

/// Decodes `patches: [{target: {kind: Deployment}, patch: …}]`. Files are relative to the working directory, like charts.
pub(super) fn patches(value: &Node) -> Result<Patches, String> {
    let all = value.list()?;
    if all.len() > MOST {
        return Err(format!("has {} patches; at most {MOST} are allowed", all.len()));
    }
    let patch = |(index, one): (usize, &Node)| patch(one).map_err(|what| format!("patch {}: {what}", index + 1));
    all.iter().enumerate().map(patch).collect::<Result<Vec<Patch>, String>>().map(|all| Patches(all.into()))
}

fn patch(value: &Node) -> Result<Patch, String> {
    let (mut target, mut text) = (None, None);
    for Entry { key, value, .. } in value.map()? {
        match key.as_str() {
            "target" => target = Some(target::target(value).map_err(|what| format!("target: {what}"))?),
            "patch" | "path" if text.is_some() => return Err("has both patch and path".into()),
            "patch" => text = Some(string(key, value)?),
            "path" => text = Some(read(Path::new(&string(key, value)?))?),
            _ => return Err(unknown(key, &KEYS)),
        }
    }
    let text = text.filter(|text| !text.trim().is_empty()).ok_or("expected patch or path")?;
    let change = change(&text)?;
    match (&change, &target) {
        (Change::Json(_), None) => Err("a JSON patch needs a target".into()),
        (Change::Strategic(all), Some(_)) if all.len() > 1 => {
            Err("has a target and several documents: write a patch for each".into())
        }
        _ => {
            let target_entry = value.map()?.iter().find(|entry| entry.key == "target");
            let target_written = target_entry.map(|entry| entry.value.to_json());
            Ok(Patch { target, change, written: serde_json::json!([target_written, text]) })
        }
    }
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Reads a patch: a list is a JSON patch, and maps are strategic ones.
fn change(text: &str) -> Result<Change, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("has {} bytes; at most {MAX_BYTES} are allowed", text.len()));
    }
    let mut documents = Vec::new();
    for document in yaml::split(text.as_bytes()).map_err(|error| error.to_string())? {
        let value = yaml::parse_preserving_ints(&document).map_err(|error| error.to_string())?;
        documents.push(json::to_serde(&value));
    }
    documents.retain(|document| !document.is_null());
    match &documents[..] {
        [Value::Array(_)] => {
            let operations = documents.remove(0);
            serde_json::from_value(operations).map(Change::Json).map_err(|error| format!("is no JSON patch: {error}"))
        }
        [] => Err("is empty".into()),
        all if all.iter().all(Value::is_object) => {
            let is_named = |one: &Value| one["kind"].is_string() && one["metadata"]["name"].is_string();
            match all.iter().all(is_named) {
                true => Ok(Change::Strategic(documents)),
                false => Err("is a strategic merge patch without kind or metadata.name".into()),
            }
        }
        _ => Err("is neither a JSON patch nor a strategic merge patch".into()),
    }
}

#[cfg(test)]
pub(crate) fn patches_of(value: &Value) -> Result<Patches, String> {
    let entries = super::node::entries(&format!("- patches: {value}")).map_err(|error| error.to_string())?;
    patches(&entries[0][0].value)
}
