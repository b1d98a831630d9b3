//! Tests of definitions of charts in memory.

use serde_json::{Value as Json, json};

use super::*;
use crate::yaml;

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\ndescription: Serves pages\n";
const WATCH: &str = "- {group: web.my.domain, version: v1, kind: Web, chart: helm-charts/web}\n";

fn project(files: &[(&str, &str)]) -> Project {
    let fixed = [("watches.yaml", WATCH), ("helm-charts/web/Chart.yaml", CHART)];
    Project::from_files(fixed.iter().chain(files).map(|(path, text)| (*path, *text)))
}

const PATH: &str = "config/crd/bases/web.my.domain_webs.yaml";

fn spec(files: &[(&str, &str)]) -> Json {
    let mut project = project(files);
    generate(&mut project, &[], Existing::Keep).unwrap();
    let crd = yaml::parse(project.text(PATH).unwrap()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone()
}

#[test]
fn values_become_an_open_schema_with_their_comments() {
    let values = "# Number of pods.\nreplicas: 3\nimage:\n  tag: a # The tag\n  pull: true\nratio: 0.5\nhosts:\n- {host: a, mixed: a}\n- {host: b, port: 1, mixed: true}\nargs: [a]\nempty: []\nnone:\nlabels: {}\n";
    let template = ("helm-charts/web/templates/a.yaml", "{{ toYaml .Values }}");
    let found = spec(&[("helm-charts/web/values.yaml", values), template]);
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
        json!({
            "type": "string",
            "nullable": true,
            "description": "One of: \"a\", \"b.c\".",
            "x-kubernetes-validations": [{"rule": "self in ['a', 'b.c']", "message": "must be one of a, b.c"}],
        })
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
    generate(&mut project, &[], Existing::Keep).unwrap();
    assert!(!project.text(PATH).unwrap().contains("required"));
}

#[test]
fn two_versions_of_a_kind_share_a_file_and_the_last_one_is_stored() {
    let mut project = project(&[]);
    project.write("watches.yaml", format!("{WATCH}{}", WATCH.replace("v1", "v2")));
    generate(&mut project, &[], Existing::Keep).unwrap();
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
    let notes = generate(&mut mine, &[], Existing::Keep).unwrap();
    assert_eq!(notes, [format!("{PATH} is kept: it was not generated; --force replaces it")]);
    assert_eq!(mine.text(PATH), Some("# mine\n"));
    assert_eq!(generate(&mut mine, &[], Existing::Replace).unwrap(), Vec::<String>::new());
    assert!(is_generated(mine.text(PATH).unwrap()));
    let mut again = Project::from_files(mine.files());
    generate(&mut again, &[], Existing::Keep).unwrap();
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
    generate(&mut project, std::slice::from_ref(&native), Existing::Keep).unwrap();
    let path = "config/crd/bases/web.my.domain_backups.yaml";
    assert_eq!(yaml::parse(project.text(path).unwrap()).unwrap(), native);
    let list = yaml::parse(project.text("config/crd/kustomization.yaml").unwrap()).unwrap();
    assert_eq!(list["resources"], json!(["bases/web.my.domain_webs.yaml", "bases/web.my.domain_backups.yaml"]));
}

#[test]
fn values_that_a_small_schema_leaves_open_are_inferred() {
    let schema =
        r#"{"properties": {"replicas": {"type": "integer", "minimum": 1}, "image": {"description": "What runs."}}}"#;
    let values = "replicas: 1\nimage: {tag: a}\n# Asks for volumes.\nstorage: {size: 1Gi, keep: true}\n";
    let found = spec(&[("helm-charts/web/values.schema.json", schema), ("helm-charts/web/values.yaml", values)]);
    let fields = &found["properties"];
    assert_eq!((&fields["replicas"]["type"], &fields["replicas"]["minimum"]), (&json!("integer"), &json!(1)));
    assert_eq!(fields["image"]["description"], "What runs.");
    assert_eq!(fields["image"]["properties"]["tag"]["x-kubernetes-int-or-string"], true);
    assert_eq!(fields["storage"]["description"], "Asks for volumes.");
    assert_eq!(fields["storage"]["properties"]["keep"]["type"], "boolean");
    assert!(!found.to_string().contains("x-unsaid") && !found.to_string().contains("x-decided"), "{found}");
}

#[test]
fn subcharts_are_described_below_their_names_and_globals_together() {
    let about = "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: db, version: 1.0.0, alias: store}]\n";
    let schema = r#"{"required": ["password"], "properties": {"password": {"type": "string"}, "mode": {"enum": ["a"], "type": "string"}}}"#;
    let found = spec(&[
        ("helm-charts/web/Chart.yaml", about),
        ("helm-charts/web/values.yaml", "global: {zone: a}\nstore:\n  # How much.\n  size: 2\n"),
        ("helm-charts/web/charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\ndescription: Keeps rows\n"),
        ("helm-charts/web/charts/db/values.yaml", "size: 1\n# Whether to copy.\nbackup: false\nglobal: {region: b}\n"),
        ("helm-charts/web/charts/db/values.schema.json", schema),
    ]);
    let store = &found["properties"]["store"];
    assert_eq!(store["properties"]["size"]["description"], "How much. (default: 2)");
    assert_eq!(store["properties"]["backup"]["description"], "Whether to copy. (default: false)");
    assert_eq!(store["properties"]["mode"]["x-kubernetes-validations"][0]["rule"], "self in ['a']");
    assert_eq!(store.get("required"), None);
    let globals: Vec<&String> = found["properties"]["global"]["properties"].as_object().unwrap().keys().collect();
    assert_eq!(globals, ["region", "zone"]);
}

#[test]
fn the_top_level_is_closed_where_no_other_field_can_matter() {
    let open = "x-kubernetes-preserve-unknown-fields";
    let read = ("helm-charts/web/templates/a.yaml", "{{ .Values.read }}{{ .Values.known }}");
    let values = ("helm-charts/web/values.yaml", "known: 1\n");
    let found = spec(&[read, values]);
    assert_eq!(found.get(open), None);
    let fields: Vec<&String> = found["properties"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["global", "known", "read"]);
    assert_eq!(found["properties"]["read"], json!({open: true, "nullable": true}));

    let tpl = ("helm-charts/web/templates/a.yaml", "{{ tpl .Values.known $ }}");
    assert_eq!(spec(&[tpl, values])[open], true);
    let schema =
        ("helm-charts/web/values.schema.json", r#"{"additionalProperties": false, "properties": {"own": {}}}"#);
    assert_eq!(spec(&[tpl, values, schema]).get(open), None);
    for (path, text) in [
        ("Cargo.toml", ""),
        ("main.go", ""),
        ("PROJECT", "layout: hybrid.helm.sdk.operatorframework.io/v1-alpha\n"),
        ("watches.yaml", &WATCH.replace('}', ", status: {x: self.spec.other}}")),
    ] {
        assert_eq!(spec(&[read, values, (path, text)])[open], true, "{path}");
    }
    let mut project = project(&[read, values]);
    project.write("watches.yaml", format!("{WATCH}{}", WATCH.replace("v1", "v2")));
    generate(&mut project, &[], Existing::Keep).unwrap();
    let crd = yaml::parse(project.text(PATH).unwrap()).unwrap();
    for version in crd["spec"]["versions"].as_array().unwrap() {
        assert_eq!(version["schema"]["openAPIV3Schema"]["properties"]["spec"][open], true);
    }
}

#[test]
fn a_choice_in_a_list_is_a_pattern_and_one_of_numbers_a_rule() {
    let schema = r#"{"properties": {"sizes": {"items": {"enum": ["a.b", "c"]}, "type": "array"}, "port": {"type": "integer", "enum": [80, 443]}, "quote": {"enum": ["it's", "a\\b"]}}}"#;
    let found = spec(&[("helm-charts/web/values.schema.json", schema)]);
    assert_eq!(found["properties"]["sizes"]["items"]["pattern"], "^(?:a\\.b|c)$");
    let rule = |field: &str| found["properties"][field]["x-kubernetes-validations"][0].clone();
    assert_eq!(rule("port"), json!({"rule": "self in [80, 443]", "message": "must be one of 80, 443"}));
    assert_eq!(rule("quote")["rule"], r"self in ['it\'s', 'a\\b']");
}

#[test]
fn names_are_at_most_as_long_as_those_of_releases() {
    let mut project = project(&[]);
    generate(&mut project, &[], Existing::Keep).unwrap();
    let crd = yaml::parse(project.text(PATH).unwrap()).unwrap();
    let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    assert_eq!(root["metadata"]["properties"]["name"]["maxLength"], 53);
}

#[test]
fn a_kind_has_one_definition_wherever_it_is_and_whatever_its_plural() {
    let own = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: web.web.my.domain}\nspec:\n  group: web.my.domain\n  names: {kind: Web, plural: web, singular: web, shortNames: [w]}\n  scope: Cluster\n  versions: [{name: v1, served: true, storage: true}]\n";
    let other = "apiVersion: v1\nkind: Namespace # kept\nmetadata: {name: a}\n";
    let list = ("config/crd/kustomization.yaml", "resources:\n- bases/all.yaml\n");
    let both = format!("{other}---\n{own}");
    let mut project = project(&[("config/crd/bases/all.yaml", &both), list, ("bundle/manifests/web.yaml", own)]);
    let notes = generate(&mut project, &[], Existing::Keep).unwrap();
    assert_eq!(notes, ["config/crd/bases/all.yaml is kept: it was not generated; --force replaces it"]);
    assert_eq!(project.changes().count(), 0);
    generate(&mut project, &[], Existing::Replace).unwrap();
    let changed: Vec<&str> = project.changes().map(|(path, _)| path).collect();
    assert_eq!(changed, ["config/crd/bases/all.yaml"]);
    let text = project.text("config/crd/bases/all.yaml").unwrap();
    assert!(text.starts_with("apiVersion: v1\nkind: Namespace # kept\nmetadata: {name: a}\n---\n"), "{text}");
    let crd = yaml::parse(text.split("---\n").nth(1).unwrap()).unwrap();
    assert_eq!((&crd["spec"]["names"]["plural"], &crd["spec"]["scope"]), (&json!("web"), &json!("Cluster")));
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["w"]));
    let mut again = Project::from_files(project.files());
    generate(&mut again, &[], Existing::Replace).unwrap();
    assert_eq!(again.changes().count(), 0);
}

#[test]
fn a_definition_that_became_too_large_leaves_subcharts_out() {
    let about = "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies: [{name: db, version: 1.0.0}]\n";
    let values: String =
        (0..4000).map(|n| format!("# A value with a comment that says much about it.\nvalue{n}: {n}\n")).collect();
    let mut project = project(&[
        ("helm-charts/web/Chart.yaml", about),
        ("helm-charts/web/values.yaml", "own: 1\n"),
        ("helm-charts/web/charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\n"),
        ("helm-charts/web/charts/db/values.yaml", &values),
    ]);
    let notes = generate(&mut project, &[], Existing::Keep).unwrap();
    assert!(notes.len() == 1 && notes[0].starts_with("Web is described without its subcharts"), "{notes:?}");
    let crd = yaml::parse(project.text(PATH).unwrap()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert_eq!(spec["db"], json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true}));
}

#[test]
fn kinds_with_two_versions_of_a_fetched_chart_get_the_fields_of_their_own() {
    let entry = |kind: &str, pull: &str| {
        format!("- {{group: web.my.domain, version: v1, kind: {kind}, chart: 'oci://r.io/web', pull: {{{pull}}}}}\n")
    };
    let digest = format!("sha256:{}", "0".repeat(64));
    let kinds = [
        ("Old", "version: ^1".to_owned(), "oci://r.io/web:^1".to_owned()),
        ("Pinned", format!("digest: '{digest}'"), format!("oci://r.io/web@{digest}")),
        ("New", String::new(), "oci://r.io/web".to_owned()),
    ];
    let watches: String = kinds.iter().map(|(kind, pull, _)| entry(kind, pull)).collect();
    let mut project = Project::from_files([("watches.yaml", watches)]);
    for (kind, _, place) in &kinds {
        let field = kind.to_lowercase();
        let template = format!("{{{{ .Values.{field} }}}}");
        let files = [
            ("Chart.yaml", CHART.to_owned()),
            ("values.yaml", format!("{field}: 1\n")),
            ("templates/a.yaml", template),
        ];
        files.into_iter().for_each(|(name, text)| project.lend(format!("{place}/{name}"), text));
    }
    generate(&mut project, &[], Existing::Keep).unwrap();
    for (kind, ..) in &kinds {
        let field = kind.to_lowercase();
        let path = format!("config/crd/bases/web.my.domain_{field}s.yaml");
        let crd = yaml::parse(project.text(&path).unwrap()).unwrap();
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let fields: Vec<&String> = spec["properties"].as_object().unwrap().keys().collect();
        // Other fields would be dropped, because only the chart reads the resource.
        assert_eq!(fields, ["global", field.as_str()], "{spec}");
    }
}
