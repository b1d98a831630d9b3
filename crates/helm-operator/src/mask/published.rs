//! Collects what a chart publishes: the paths of its templates, and the defaults in its values.yaml. A user's value
//! that repeats them is not a secret.

use std::collections::BTreeSet;

use go_encoding::json;
use go_template::Value;
use helm::chart::Chart;

/// The words that a chart publishes.
#[derive(Default)]
pub struct Published {
    /// The templates' paths, one per line.
    paths: String,
    /// The strings among the default values, and their individual lines.
    defaults: BTreeSet<String>,
}

impl Published {
    /// Returns what this chart and its subcharts publish.
    pub fn by(chart: &Chart) -> Published {
        let mut published = Published::default();
        published.add(chart, &chart.metadata.name);
        published
    }

    /// Returns what a chart with these paths publishes.
    #[cfg(test)]
    pub(crate) fn paths(paths: &[&str]) -> Published {
        Published { paths: paths.iter().map(|path| format!("{path}\n")).collect(), ..Published::default() }
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

    /// Returns the place in the chart where a message says that rendering failed: `template: demo/templates/a.yaml:3:5:
    /// `. Empty if it names none.
    pub(crate) fn place(&self, message: &str) -> String {
        let words = message.split_whitespace().map(|word| word.trim_matches(['(', ')', ':']));
        let mut places = words.rev().filter_map(|word| {
            let (path, numbers) = word.split_once(':')?;
            let is_place = numbers.split(':').all(|number| number.parse::<u32>().is_ok());
            (is_place && self.paths.lines().any(|known| known == path)).then_some(word)
        });
        places.next().map_or(String::new(), |place| format!("template: {place}: "))
    }

    pub(super) fn has_path_with(&self, word: &str) -> bool {
        self.paths.contains(word)
    }

    pub(super) fn is_default(&self, word: &str) -> bool {
        self.defaults.contains(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_shown_only_if_the_chart_has_it() {
        let published = Published::paths(&["demo/templates/a.yaml", "demo/templates/_b.tpl"]);
        let place = |message: &str| published.place(message);
        let nested = "template: demo/templates/a.yaml:3:5: executing \"a\" at <include>: error calling include: template: demo/templates/_b.tpl:7:1: s3cret";
        assert_eq!(place(nested), "template: demo/templates/_b.tpl:7:1: ");
        assert_eq!(
            place("execution error at (demo/templates/a.yaml:5:5): s3cret"),
            "template: demo/templates/a.yaml:5:5: "
        );
        assert_eq!(place("demo/templates/a.yaml: s3cret and s3cret:1:2: more"), "");
    }
}
