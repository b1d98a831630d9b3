//! A copy of a chart with one more template, for changes that not every chart has; and the values that choose among
//! them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::Change;

/// The key of the values below, which no chart uses.
const KEY: &str = "planned";

/// The template whose objects serve the changes.
const TEMPLATE: &str = include_str!("objects.yaml");

/// A chart of our own.
pub(super) struct Copy {
    folder: tempfile::TempDir,
}

impl Copy {
    /// Copies a chart. Its schema, which may forbid further values, is left out.
    pub(super) fn of(chart: &Path) -> anyhow::Result<Copy> {
        let copy = Copy { folder: tempfile::tempdir()? };
        copy_folder(chart, &copy.chart()).with_context(|| format!("cannot copy {}", chart.display()))?;
        let schema = copy.chart().join("values.schema.json");
        if schema.exists() {
            fs::remove_file(schema)?;
        }
        let templates = copy.chart().join("templates");
        fs::create_dir_all(&templates)?;
        fs::write(templates.join("planned-objects.yaml"), TEMPLATE)?;
        Ok(copy)
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the chart's directory.
    pub(super) fn chart(&self) -> PathBuf {
        self.folder.path().join("chart")
    }

    /// Makes this the chart's next version, with another label where the chart prints its version.
    pub(super) fn next_version(&self) -> anyhow::Result<()> {
        let file = self.chart().join("Chart.yaml");
        let mut about: Value = serde_yaml::from_str(&fs::read_to_string(&file)?)?;
        let version = about["version"].as_str().context("the chart has no version")?.to_owned();
        about["version"] = format!("{}-next", version.split(['-', '+']).next().unwrap_or_default()).into();
        Ok(fs::write(file, about.to_string())?)
    }
}

/// Returns the `spec` for a change: the chart's own values, and what the template above reads.
pub(super) fn spec(change: Change, mut values: Value) -> Value {
    let mut own = json!({"value": "1", "extra": true, "fixed": "1", "image": "a:1", "selector": "1"});
    if change > Change::Adopted {
        own["value"] = "2".into();
    }
    if change > Change::Values {
        own["extra"] = false.into();
    }
    if change == Change::Hook {
        own["hooks"] = true.into();
    }
    if change == Change::Conflict {
        own["foreign"] = true.into();
    }
    if change == Change::Refused {
        own["fixed"] = "2".into();
    }
    values[KEY] = own;
    values
}

/// Returns the watches file's entry. If the change is about recreation, objects may be recreated, and the chart's own
/// workloads also get another selector.
pub(super) fn watch(change: Change, group: &str, kind: &str, chart: &Path) -> Value {
    let mut watch = json!({"group": group, "version": "v1", "kind": kind, "chart": chart});
    if change >= Change::Immutable {
        let selector = json!([
            {"op": "add", "path": "/spec/selector/matchLabels/planned", "value": "2"},
            {"op": "add", "path": "/spec/template/metadata/labels/planned", "value": "2"},
        ]);
        let image = json!([{"op": "add", "path": "/spec/template/spec/containers/0/image", "value": "a:2"}]);
        watch["patches"] = json!([
            {"target": {"kind": "Deployment|DaemonSet|StatefulSet"}, "patch": selector.to_string()},
            {"target": {"kind": "Job", "annotationSelector": "!helm.sh/hook"}, "patch": image.to_string()},
        ]);
        watch["recreate"] = json!([{}]);
    }
    watch
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if fs::metadata(entry.path())?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
