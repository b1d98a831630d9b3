//! The charts' files agree with each other, with `config` and with the program. `make chart` rewrites what is generated.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::{DEFINITIONS, OPERATOR, read, root, yaml};

/// Compares a generated file with what it should contain, or rewrites it.
fn check(path: &str, wanted: &str) {
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(root().join(path), wanted).unwrap();
    }
    assert!(read(path) == wanted, "{path} is stale: run `make chart`");
}

#[test]
fn alerts_and_dashboard_of_the_chart_are_those_of_config() {
    check(&format!("{OPERATOR}/files/rules.yaml"), &read("config/prometheus/rules.yaml"));
    check(&format!("{OPERATOR}/files/dashboard.json"), &read("config/grafana/helm-operator.json"));
}

#[test]
fn the_charts_have_the_version_of_the_program() {
    for chart in [OPERATOR, DEFINITIONS] {
        let about = yaml(&format!("{chart}/Chart.yaml"));
        for field in ["version", "appVersion"] {
            assert_eq!(about[field], env!("CARGO_PKG_VERSION"), "{chart}: {field}");
        }
        assert_eq!(chart.rsplit('/').next().unwrap(), about["name"]);
    }
}

#[test]
fn what_the_charts_and_bundles_install_on_is_what_compatibility_promises() {
    let page = read("COMPATIBILITY.md");
    let promise = page.lines().find(|line| line.starts_with("| Kubernetes | ")).unwrap();
    assert!(promise.contains("charts and bundles also install on 1.30 to "), "{promise}");
    for chart in [OPERATOR, DEFINITIONS] {
        assert_eq!(yaml(&format!("{chart}/Chart.yaml"))["kubeVersion"], ">=1.30.0-0", "{chart}");
    }
    let bundle = read("config/manifests/bases/memcached-operator.clusterserviceversion.yaml");
    assert!(bundle.contains("minKubeVersion: 1.30.0\n"), "{bundle}");
    for (folder, version) in [("kubernetes-oldest", "1.33"), ("kubernetes", "1.37")] {
        let module = read(&format!("crates/test-cluster/tools/{folder}/go.mod"));
        assert!(module.contains(&format!("k8s.io/kubernetes v{version}.")), "{folder}");
        assert!(promise.contains(version), "{folder}: {promise}");
    }
}

#[test]
fn annotations_for_artifact_hub_are_valid_and_link_to_files_of_the_repository() {
    const REPOSITORY: &str = "https://github.com/hybrid-helm-operator/hybrid-helm-operator";
    for chart in [OPERATOR, DEFINITIONS] {
        let about = yaml(&format!("{chart}/Chart.yaml"));
        // Artifact Hub reads lists from texts.
        let list = |name: &str| -> Vec<Value> {
            let text = about["annotations"][format!("artifacthub.io/{name}")].as_str().unwrap();
            serde_yaml::from_str(text).unwrap()
        };
        let (changes, links) = (list("changes"), list("links"));
        for change in &changes {
            let kind = change["kind"].as_str().unwrap();
            assert!(
                ["added", "changed", "deprecated", "removed", "fixed", "security"].contains(&kind),
                "{chart}: {kind}"
            );
            assert!(change["description"].is_string(), "{chart}: {change}");
        }
        let of_changes = changes.iter().filter_map(|change| change["links"].as_array()).flatten();
        for link in links.iter().chain(of_changes) {
            let url = link["url"].as_str().unwrap();
            let path = url.strip_prefix(REPOSITORY).unwrap_or_else(|| panic!("{chart}: {url}"));
            let exists = path.strip_prefix("/blob/main/").map_or(path == "/issues", |path| root().join(path).is_file());
            assert!(exists && link["name"].is_string(), "{chart}: {link}");
        }
        // The charts neither contain definitions nor name an image, so there is nothing else to list.
        let image = yaml(&format!("{chart}/values.yaml"))["image"]["repository"].clone();
        assert!(image.is_null() || image == "", "{chart}: list {image} in artifacthub.io/images");
    }
}

/// One value that a user may set.
struct Described {
    path: String,
    default: Value,
    comment: String,
}

/// Returns each value of values.yaml with the comment above it, in order. What the schema leaves open below is a value
/// of that one.
fn described(chart: &str) -> Vec<Described> {
    let (text, values, schema) = (
        read(&format!("{chart}/values.yaml")),
        yaml(&format!("{chart}/values.yaml")),
        yaml(&format!("{chart}/values.schema.json")),
    );
    let (mut found, mut keys, mut comment) = (Vec::new(), Vec::<(usize, &str)>::new(), Vec::new());
    for line in text.lines() {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if let Some(said) = words.strip_prefix("# ") {
            comment.push(said);
            continue;
        }
        let said = std::mem::take(&mut comment).join(" ");
        let Some((key, _)) = words.split_once(':') else { continue };
        keys.retain(|(depth, _)| *depth < indent);
        keys.push((indent, key));
        let names: Vec<&str> = keys.iter().map(|(_, key)| *key).collect();
        let node = names.iter().try_fold(&schema, |node, key| node.get("properties")?.get(key));
        if node.is_some_and(|node| node.get("properties").is_none()) {
            let default = names.iter().fold(&values, |value, key| &value[key]).clone();
            found.push(Described { path: names.join("."), default, comment: said });
        }
    }
    found
}

#[test]
fn the_tables_of_values_are_complete() {
    for chart in [OPERATOR, DEFINITIONS] {
        let path = format!("{chart}/README.md");
        let page = read(&path);
        let (before, rest) = page.split_once("<!-- values -->\n").unwrap();
        let (_, after) = rest.split_once("<!-- /values -->").unwrap();
        let mut table = String::from("| value | default | means |\n|---|---|---|\n");
        for value in described(chart) {
            let (name, comment) = (value.path, value.comment.replace('|', "\\|"));
            table += &format!("| `{name}` | `{}` | {comment} |\n", value.default);
        }
        check(&path, &format!("{before}<!-- values -->\n{table}<!-- /values -->{after}"));
    }
}

/// Compares the keys of an object with those that its schema knows, and so on below.
fn compare(path: &str, schema: &Value, values: &Value) {
    let Some(known) = schema["properties"].as_object() else { return };
    assert_eq!(schema["additionalProperties"], false, "{path} takes unknown keys");
    let mut known: BTreeSet<&String> = known.keys().collect();
    known.retain(|key| !(path.is_empty() && *key == "global"));
    let keys: BTreeSet<&String> = values.as_object().unwrap().keys().collect();
    assert_eq!(known, keys, "schema and values of {path:?}");
    for key in keys {
        compare(&format!("{path}.{key}"), &schema["properties"][key], &values[key]);
    }
}

#[test]
fn the_schemas_know_every_value_and_no_other() {
    for chart in [OPERATOR, DEFINITIONS] {
        let values = yaml(&format!("{chart}/values.yaml"));
        compare("", &yaml(&format!("{chart}/values.schema.json")), &values);
        assert!(described(chart).len() >= values.as_object().unwrap().len(), "{chart}");
    }
}
