//! Definitions of charts in memory.

use serde_json::{Value as Json, json};

use super::*;

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\ndescription: Serves pages\n";
const WATCH: &str = "- {group: web.my.domain, version: v1, kind: Web, chart: helm-charts/web}\n";

fn project(files: &[(&str, &str)]) -> Project {
    let fixed = [("watches.yaml", WATCH), ("helm-charts/web/Chart.yaml", CHART)];
    Project::from_files(fixed.iter().chain(files).map(|(path, text)| (*path, *text)))
}

const PATH: &str = "config/crd/bases/web.my.domain_webs.yaml";

fn spec(files: &[(&str, &str)]) -> Json {
    let mut project = project(files);
    generate(&mut project, &[], false).unwrap();
    let crd = yaml::parse(project.text(PATH).unwrap()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

#[test]
fn values_become_an_open_schema_with_their_comments() {
    let values = "# Number of pods.\nreplicas: 3\nimage:\n  tag: a # The tag\n  pull: true\nratio: 0.5\nhosts:\n- {host: a, mixed: a}\n- {host: b, port: 1, mixed: true}\nargs: [a]\nempty: []\nnone:\nlabels: {}\n";
    let found = spec(&[("helm-charts/web/values.yaml", values)]);
    let open = "x-kubernetes-preserve-unknown-fields";
    assert_eq!(found[open], true);
    let expected = json!({
        "replicas": {"x-kubernetes-int-or-string": true, "nullable": true, "description": "Number of pods. (default: 3)"},
        "image": {"type": "object", open: true, "nullable": true, "properties": {
            "tag": {"x-kubernetes-int-or-string": true, "nullable": true, "description": "The tag (default: \"a\")"},
            "pull": {"type": "boolean", "nullable": true, "description": "Default: true."},
        }},
        "ratio": {"type": "number", "nullable": true, "description": "Default: 0.5."},
        "hosts": {"type": "array", "nullable": true, "items": {"type": "object", open: true, "nullable": true, "properties": {
            "host": {"x-kubernetes-int-or-string": true, "nullable": true, "description": "Default: \"a\"."},
            "port": {"x-kubernetes-int-or-string": true, "nullable": true, "description": "Default: 1."},
            "mixed": {open: true, "nullable": true},
        }}},
        "args": {"type": "array", "nullable": true, "items": {"x-kubernetes-int-or-string": true, "nullable": true}},
        "empty": {"type": "array", "nullable": true, "items": {open: true}},
        "none": {open: true, "nullable": true},
        "labels": {"type": "object", open: true, "nullable": true},
    });
    assert_eq!(found["properties"], expected);
}

#[test]
fn a_charts_schema_is_translated_as_far_as_kubernetes_understands_it() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": ["size", "name"],
        "additionalProperties": false,
        "properties": {
            "size": {"type": "integer", "minimum": 0, "exclusiveMaximum": 10, "default": 1, "uniqueItems": true},
            "name": {"type": ["string", "null"], "pattern": "^a(?=b)", "minLength": 1},
            "port": {"$ref": "#/$defs/port"},
            "mode": {"enum": ["a", "b.c", null]},
            "either": {"oneOf": [{"type": "string"}, {"type": "object"}]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "hosts": {"type": "array", "items": {"type": "object", "required": ["host"], "properties": {"host": {"type": "string"}}}},
            "tree": {"$ref": "#/$defs/tree"},
            "far": {"$ref": "https://example.com/schema"},
        },
        "$defs": {
            "port": {"type": ["integer", "string"], "description": "A port."},
            "tree": {"type": "object", "properties": {"below": {"$ref": "#/$defs/tree"}}},
        },
    });
    let files = [
        ("helm-charts/web/values.schema.json", schema.to_string()),
        (
            "helm-charts/web/values.yaml",
            "# Pods.\nsize: 2\n# Ours.\nport: 80\nlabels:\n  # Not a field.\n  x: y\n".to_owned(),
        ),
    ];
    let found = spec(&[(files[0].0, &files[0].1), (files[1].0, &files[1].1)]);
    // `size` has a default; a resource need not repeat it.
    assert_eq!(found["required"], json!(["name"]));
    let open = "x-kubernetes-preserve-unknown-fields";
    let property = |name: &str| found["properties"][name].clone();
    assert_eq!(
        property("size"),
        json!({"type": "integer", "minimum": 0, "maximum": 10, "exclusiveMaximum": true, "nullable": true, "description": "Pods. (default: 2)"})
    );
    assert_eq!(property("name"), json!({"type": "string", "minLength": 1, "nullable": true}));
    assert_eq!(
        property("port"),
        json!({"x-kubernetes-int-or-string": true, "nullable": true, "description": "A port. (default: 80)"})
    );
    assert_eq!(
        property("mode"),
        json!({"type": "string", "pattern": "^(?:a|b\\.c)$", "nullable": true, "description": "One of: \"a\", \"b.c\"."})
    );
    assert_eq!(property("either"), json!({open: true, "nullable": true}));
    assert_eq!(property("far"), json!({open: true, "nullable": true}));
    assert_eq!(property("labels")["additionalProperties"], json!({"type": "string", "nullable": true}));
    assert_eq!(property("hosts")["items"]["required"], json!(["host"]));
    let depth = property("tree").to_string().matches("below").count();
    assert!((2..40).contains(&depth), "{depth}");
}

#[test]
fn nothing_is_required_of_a_resource_that_gets_values_from_elsewhere() {
    let schema = r#"{"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}"#;
    let watch = "- {group: web.my.domain, version: v1, kind: Web, chart: helm-charts/web, valuesFrom: [{kind: Secret, name: a}]}\n";
    let mut project = project(&[("helm-charts/web/values.schema.json", schema)]);
    project.write("watches.yaml", watch);
    generate(&mut project, &[], false).unwrap();
    assert!(!project.text(PATH).unwrap().contains("required"));
}

#[test]
fn two_versions_of_a_kind_share_a_file_and_the_last_one_is_stored() {
    let mut project = project(&[]);
    project.write("watches.yaml", format!("{WATCH}{}", WATCH.replace("v1", "v2")));
    generate(&mut project, &[], false).unwrap();
    let crd = yaml::parse(project.text(PATH).unwrap()).unwrap();
    let versions: Vec<_> = crd["spec"]["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| (v["name"].as_str().unwrap(), v["storage"] == true))
        .collect();
    assert_eq!(versions, [("v1", false), ("v2", true)]);
}

#[test]
fn files_of_the_user_are_kept_and_generated_ones_rewritten() {
    let mut mine = project(&[(PATH, "# mine\n")]);
    let notes = generate(&mut mine, &[], false).unwrap();
    assert_eq!(notes, [format!("{PATH} is kept: it was not generated; --force replaces it")]);
    assert_eq!(mine.text(PATH), Some("# mine\n"));
    assert_eq!(generate(&mut mine, &[], true).unwrap(), Vec::<String>::new());
    assert!(is_generated(mine.text(PATH).unwrap()));
    let mut again = Project::from_files(mine.files());
    generate(&mut again, &[], false).unwrap();
    assert_eq!(again.changes().count(), 0);
}

#[test]
fn native_definitions_are_written_beside_those_of_charts() {
    let native = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "backups.web.my.domain"},
        "spec": {"group": "web.my.domain", "names": {"kind": "Backup", "plural": "backups"}, "versions": [{"name": "v1"}]},
    });
    let mut project = project(&[]);
    generate(&mut project, std::slice::from_ref(&native), false).unwrap();
    let path = "config/crd/bases/web.my.domain_backups.yaml";
    assert_eq!(yaml::parse(project.text(path).unwrap()).unwrap(), native);
    let list = yaml::parse(project.text("config/crd/kustomization.yaml").unwrap()).unwrap();
    assert_eq!(list["resources"], json!(["bases/web.my.domain_webs.yaml", "bases/web.my.domain_backups.yaml"]));
}
