//! Decodes `Chart.yaml`, `requirements.yaml` and their lock files.

use go_template::{List, Map, Value};

use super::DependsOn;
use super::metadata::{Dependency, Maintainer, Metadata};
use crate::decode::{self, Fields, WrongType};

/// Overwrites the fields of the metadata that the document sets.
pub(super) fn read_into(metadata: &mut Metadata, document: &Value) -> Result<(), WrongType> {
    let Some(map) = decode::object(document, "v2.Metadata")? else { return Ok(()) };
    let fields = Fields { map, owner: "Metadata" };
    fields.text("name", &mut metadata.name)?;
    fields.text("home", &mut metadata.home)?;
    fields.texts("sources", &mut metadata.sources)?;
    fields.text("version", &mut metadata.version)?;
    fields.text("description", &mut metadata.description)?;
    fields.texts("keywords", &mut metadata.keywords)?;
    fields.text("icon", &mut metadata.icon)?;
    fields.text("apiVersion", &mut metadata.api_version)?;
    fields.text("condition", &mut metadata.condition)?;
    fields.text("tags", &mut metadata.tags)?;
    fields.text("appVersion", &mut metadata.app_version)?;
    metadata.deprecated = fields.flag("deprecated")?.unwrap_or(metadata.deprecated);
    fields.text("kubeVersion", &mut metadata.kube_version)?;
    fields.text("type", &mut metadata.kind)?;
    if let Some(items) = fields.list("maintainers", "[]*v2.Maintainer")? {
        metadata.maintainers = objects(&items, &MAINTAINERS, &mut metadata.with_null, maintainer)?;
    }
    if let Some(items) = fields.list("dependencies", "[]*v2.Dependency")? {
        metadata.dependencies = objects(&items, &DEPENDENCIES, &mut metadata.with_null, dependency)?;
    }
    fields.text_map("annotations", &mut metadata.annotations)
}

/// Returns the `depends-on` of each entry of `dependencies` that has one, by alias or name.
pub(super) fn depends_on(document: &Value) -> Vec<DependsOn> {
    let Value::Map(map) = document else { return Vec::new() };
    let Some(Value::List(entries)) = map.get("dependencies") else { return Vec::new() };
    entries.iter().filter_map(depends_on_of).collect()
}

fn depends_on_of(entry: &Value) -> Option<DependsOn> {
    let Value::Map(entry) = entry else { return None };
    let subchart = text(entry.get("alias")).filter(|alias| !alias.is_empty()).or_else(|| text(entry.get("name")))?;
    let names = match entry.get("depends-on")? {
        Value::Nil => return None,
        Value::List(items) => items.iter().map(|item| text(Some(item.clone()))).collect(),
        _ => None,
    };
    Some(DependsOn { subchart, names })
}

fn text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) => Some(text.to_text().into_owned()),
        _ => None,
    }
}

/// Returns the `apiVersion`, which determines how Helm reads the rest.
pub(super) fn api_version(document: &Value) -> Result<String, WrongType> {
    let mut version = String::new();
    if let Some(map) = decode::object(document, "loader.chartBase")? {
        Fields { map, owner: "chartBase" }.text("apiVersion", &mut version)?;
    }
    Ok(version)
}

/// Checks the types in a lock file. Charts keep the document itself.
pub(super) fn check_lock(document: &Value) -> Result<(), WrongType> {
    let Some(map) = decode::object(document, "v2.Lock")? else { return Ok(()) };
    let fields = Fields { map, owner: "Lock" };
    fields.text("digest", &mut String::new())?;
    if let Some(items) = fields.list("dependencies", "[]*v2.Dependency")? {
        objects(&items, &DEPENDENCIES, &mut None, dependency)?;
    }
    Ok(())
}

/// A list of structs: its key, and the Go type of its items.
struct Objects {
    key: &'static str,
    item: &'static str,
}

const MAINTAINERS: Objects = Objects { key: "maintainers", item: "v2.Maintainer" };
const DEPENDENCIES: Objects = Objects { key: "dependencies", item: "v2.Dependency" };

/// Decodes the items; records in `with_null` if one of them is null.
fn objects<T>(
    items: &List,
    list: &Objects,
    with_null: &mut Option<&'static str>,
    decode: fn(&Map) -> Result<T, WrongType>,
) -> Result<Vec<T>, WrongType> {
    let mut objects = Vec::with_capacity(items.len());
    for item in items.iter() {
        match item {
            Value::Map(map) => objects.push(decode(map)?),
            Value::Nil => {
                with_null.get_or_insert(list.key);
            }
            other => return Err(WrongType::field("Metadata", list.key, other, list.item)),
        }
    }
    Ok(objects)
}

fn maintainer(map: &Map) -> Result<Maintainer, WrongType> {
    let mut maintainer = Maintainer::default();
    let fields = Fields { map, owner: "Maintainer.maintainers" };
    fields.text("name", &mut maintainer.name)?;
    fields.text("email", &mut maintainer.email)?;
    fields.text("url", &mut maintainer.url)?;
    Ok(maintainer)
}

fn dependency(map: &Map) -> Result<Dependency, WrongType> {
    let mut dependency = Dependency::default();
    let fields = Fields { map, owner: "Dependency.dependencies" };
    fields.text("name", &mut dependency.name)?;
    fields.text("version", &mut dependency.version)?;
    fields.text("repository", &mut dependency.repository)?;
    fields.text("condition", &mut dependency.condition)?;
    fields.texts("tags", &mut dependency.tags)?;
    dependency.enabled = fields.flag("enabled")?.unwrap_or(dependency.enabled);
    fields.text("alias", &mut dependency.alias)?;
    if let Some(items) = fields.list("import-values", "[]interface {}")? {
        dependency.import_values = items.to_vec();
    }
    Ok(dependency)
}
