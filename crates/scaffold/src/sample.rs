//! The sample of an API that a chart serves: a resource whose `spec` holds all of the chart's values, comments included.

use serde_json::{Value as Json, json};

use crate::gvk::Gvk;
use crate::yaml;

/// The sample's text. `values` is the text of the chart's `values.yaml`.
pub(crate) fn of_chart(gvk: &Gvk, chart: &str, values: &str) -> String {
    let head = format!(
        "# Served by the chart {chart}. spec holds its values; these are the defaults of {chart}/values.yaml.\n\
         apiVersion: {}\nkind: {}\nmetadata:\n  name: {}-sample\n",
        gvk.api_version(),
        gvk.kind,
        gvk.lower()
    );
    let wanted = yaml::parse(values).unwrap_or(Json::Null);
    let Some(table) = wanted.as_object().filter(|table| !table.is_empty()) else {
        return format!("{head}spec: {{}}\n");
    };
    let indented = format!("{head}spec:\n{}", indented(values));
    // Some YAML changes its meaning with its indentation: directives, several documents, a table in braces at the margin.
    if yaml::parse(&indented).is_ok_and(|sample| sample["spec"] == wanted) {
        return indented;
    }
    head + &yaml::print(&json!({"spec": table}))
}

fn indented(text: &str) -> String {
    let line = |line: &str| if line.trim().is_empty() { "\n".to_owned() } else { format!("  {line}\n") };
    text.trim_start_matches('\u{feff}').trim_end().lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_holds_all_values_with_their_comments() {
        let gvk = Gvk::new("cache", "my.domain", "v1", "Memcached").unwrap();
        let check = |values: &str, spec: &str| {
            let sample = of_chart(&gvk, "helm-charts/memcached", values);
            let (head, found) = sample.split_at(sample.find("spec:").unwrap());
            assert!(head.contains("apiVersion: cache.my.domain/v1\nkind: Memcached\n"), "{head}");
            assert_eq!(found, spec);
        };
        check("# Pods.\nsize: 3\n\nimage: {tag: a}\n", "spec:\n  # Pods.\n  size: 3\n\n  image: {tag: a}\n");
        check("text: |\n  a\n    b\n\n  c\n", "spec:\n  text: |\n    a\n      b\n\n    c\n");
        check("", "spec: {}\n");
        check("# nothing\n", "spec: {}\n");
        check("---\nb: 1\na: [x]\n", "spec:\n  a:\n  - x\n  b: 1\n");
    }
}
