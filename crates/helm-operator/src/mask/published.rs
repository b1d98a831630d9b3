//! What a chart publishes, so that no value of a user is a secret for repeating it: the paths of its templates, and the defaults in its values.yaml.

use std::collections::BTreeSet;

use go_encoding::json;
use go_template::Value;
use helm::chart::Chart;

/// The words that a chart publishes.
#[derive(Default)]
pub struct Published {
    /// The templates' paths, one a line.
    paths: String,
    /// The strings among the default values, and their lines.
    defaults: BTreeSet<String>,
}

impl Published {
    /// Returns what this chart and its subcharts publish.
    pub fn by(chart: &Chart) -> Published {
        let mut published = Published::default();
        published.add(chart, &chart.metadata.name);
        published
    }

    fn add(&mut self, chart: &Chart, path: &str) {
        for template in &chart.templates {
            self.paths.push_str(&format!("{path}/{}\n", template.name));
        }
        self.add_defaults(&json::to_serde(&Value::Map(chart.values.clone())));
        for dependency in &chart.dependencies {
            self.add(dependency, &format!("{path}/charts/{}", dependency.metadata.name));
        }
    }

    fn add_defaults(&mut self, values: &serde_json::Value) {
        match values {
            serde_json::Value::Object(map) => map.values().for_each(|inner| self.add_defaults(inner)),
            serde_json::Value::Array(list) => list.iter().for_each(|inner| self.add_defaults(inner)),
            serde_json::Value::String(text) => {
                let lines = text.lines().map(str::trim).chain([text.trim()]);
                self.defaults.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
            }
            _ => {}
        }
    }

    pub(super) fn has_path_with(&self, word: &str) -> bool {
        self.paths.contains(word)
    }

    pub(super) fn is_default(&self, word: &str) -> bool {
        self.defaults.contains(word)
    }
}
