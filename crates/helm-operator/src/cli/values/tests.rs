use std::fs;
use std::path::Path;
use std::sync::Arc;

use go_encoding::yaml as go_yaml;
use go_template::Value;
use helm_release::kube::{Api, Error as ApiError, MemoryApi};
use serde_json::json;

use super::*;
use crate::watches;

const CHART: &str = "apiVersion: v2\nname: shop\nversion: 1.0.0\n";
const DEFAULTS: &str =
    "# The image\nimage:\n  tag: '1'\n  name: web\nreplicas: 1\nlist: [a, b]\nauth: {password: none}\nempty: {}\n";
const TEMPLATE: &str = "a: {{ .Values.image.tag }}{{ .Values.image.name }}{{ .Values.replicas }}{{ .Values.list }}{{ .Values.auth.password }}{{ .Values.empty }}{{ .Values.token }}\n";

/// Writes a chart, and returns the watch that serves Shops with it.
fn watch(folder: &Path, keys: &str) -> Watch {
    let chart = folder.join("shop");
    fs::create_dir_all(chart.join("templates")).unwrap();
    for (name, text) in [("Chart.yaml", CHART), ("values.yaml", DEFAULTS), ("templates/a.yaml", TEMPLATE)] {
        fs::write(chart.join(name), text).unwrap();
    }
    let text = format!(
        "- group: my.domain\n  version: v1\n  kind: Shop\n  chart: {}\n{keys}",
        serde_json::json!(chart.display().to_string())
    );
    let env = |name: &str| (name == "TOKEN").then(|| "fr0m-env".to_owned());
    watches::parse(&text, env).unwrap().watches.remove(0)
}

const SOURCES: &str = "  valuesFrom:\n  - {kind: ConfigMap, name: shared}\n  - {kind: Secret, name: $(name)-auth, valuesKey: password, targetPath: auth.password}\n";

fn server() -> MemoryApi {
    let api = MemoryApi::new();
    api.serve("my.domain/v1", "Shop", "shops");
    let shop = json!({
        "apiVersion": "my.domain/v1", "kind": "Shop", "metadata": {"name": "web", "namespace": "ns"},
        "spec": {"image": {"tga": "2"}, "list": ["c"], "replicas": 3},
    });
    api.put("/apis/my.domain/v1/namespaces/ns/shops/web", shop, "kubectl");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared", "namespace": "ns"},
        "data": {"values.yaml": "replicas: 2\nimage: {name: shared}\n"},
    });
    api.put("/api/v1/namespaces/ns/configmaps/shared", map, "kubectl");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web-auth", "namespace": "ns"},
        "data": {"password": "czNjcmV0LXdvcmQ="},
    });
    api.put("/api/v1/namespaces/ns/secrets/web-auth", secret, "kubectl");
    api
}

fn live(api: MemoryApi, watch: &Watch) -> Result<Shown, Error> {
    let api: Arc<dyn Api> = Arc::new(api);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    of(runtime.block_on(cluster::resource(&api, watch, "ns", "web"))?, false)
}

/// Returns all forms of the output, and the notes.
fn everything(shown: &Shown) -> String {
    format!("{}{}{}{}", table::of(shown), yaml::of(shown), json::of(shown), shown.notes.join("\n"))
}

#[test]
fn the_table_names_each_origin_and_hides_secrets_and_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let watch = watch(folder.path(), &format!("{SOURCES}  overrideValues: {{token: $TOKEN, image.name: fixed}}\n"));
    let shown = live(server(), &watch).unwrap();
    let expected = "   KEY            VALUE  FROM                                REPLACES
   auth.password  ****   Secret web-auth, key password       none (shop/values.yaml:7)
   empty          {}     shop/values.yaml:8
   image.name     fixed  overrideValues image.name           shared (ConfigMap shared, key values.yaml), and 1 more
   image.tag      \"1\"    shop/values.yaml:3
!  image.tga      \"2\"    spec
   list           [\"c\"]  spec                                [\"a\",\"b\"] (shop/values.yaml:6)
   replicas       3      spec                                2 (ConfigMap shared, key values.yaml), and 1 more
   token          ****   overrideValues token (environment)

! image.tga: no template reads it; did you mean image.tag?
";
    assert_eq!(table::of(&shown), expected);
    let all = everything(&shown);
    for hidden in ["s3cret-word", "czNjcmV0", "fr0m-env"] {
        assert!(!all.contains(hidden), "{hidden}: {all}");
    }
}

#[test]
fn a_source_that_the_caller_may_not_read_is_a_note_and_the_rest_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let watch = watch(folder.path(), SOURCES);
    let api = server();
    api.refuse(|call| {
        call.path.contains("/secrets/").then(|| ApiError::from_status(403, "Forbidden", "secrets is forbidden"))
    });
    let shown = live(api, &watch).unwrap();
    let note = r#"you may not read Secret "web-auth", key "password", in namespace "ns"; what it sets is not shown"#;
    assert_eq!(shown.notes, [note]);
    assert!(table::of(&shown).contains("auth.password  none "), "{}", table::of(&shown));
    let api = server();
    api.remove("/api/v1/namespaces/ns/configmaps/shared");
    let notes = live(api, &watch).unwrap().notes;
    let note = r#"ConfigMap "shared", key "values.yaml", in namespace "ns", does not exist; the operator waits for it"#;
    assert_eq!(notes, [note]);
}

#[test]
fn a_source_that_the_server_fails_to_send_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let watch = watch(folder.path(), SOURCES);
    let api = server();
    api.refuse(|call| call.path.contains("/secrets/").then(|| ApiError::from_status(500, "InternalError", "broken")));
    let error = live(api, &watch).map(drop).unwrap_err().to_string();
    assert!(error.starts_with(r#"cannot read Secret "web-auth", key "password": "#), "{error}");
    let missing = cluster_error(&watch, "other");
    assert!(missing.starts_with(r#"cannot read Shop "other": "#), "{missing}");
}

fn cluster_error(watch: &Watch, name: &str) -> String {
    let api: Arc<dyn Api> = Arc::new(server());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(cluster::resource(&api, watch, "ns", name)).map(drop).unwrap_err().to_string()
}

#[test]
fn the_yaml_form_is_a_values_file_with_a_comment_on_each_line() {
    let folder = tempfile::tempdir().unwrap();
    let watch = watch(folder.path(), "  overrideValues: {'list[1]': z}\n");
    let shown = live(server(), &watch).unwrap();
    let yaml = yaml::of(&shown);
    let expected = "\
# Shop web, chart shop 1.0.0
auth:
  password: none  # shop/values.yaml:7
empty: {}  # shop/values.yaml:8
image:
  name: web  # shop/values.yaml:4
  tag: \"1\"  # shop/values.yaml:3
  tga: \"2\"  # spec ! image.tga: no template reads it; did you mean image.tag?
list:
  - c  # spec
  - z  # overrideValues list[1]
replicas: 3  # spec < 1 (shop/values.yaml:5)
";
    assert_eq!(yaml, expected);
}

#[test]
fn hostile_names_and_values_stay_what_they_are() {
    let odd = json!({
        "a: b # c": "x\n# y: z", "\u{1b}[31m": "\u{9b}\u{202e}", "yes": "no", "1": 1e21, "n": null, "deep": {"l": [{"k: v": "}"}, []]}, "": "- a",
    });
    let spec = crate::values::Spec::new(&odd.to_string());
    let chart = Chart::from_files([("Chart.yaml", CHART)]).unwrap();
    let overrides = watches::Overrides::default();
    let inputs =
        Inputs { sources: &[], spec: &spec, overrides: &overrides, overrides_type: watches::OverrideValuesType::Typed };
    let values = origins::values(&chart, &inputs).unwrap();
    let expected = format!("{:?}", Value::Map(values.traced.values.clone()));
    let primary =
        serde_json::from_value::<crate::view::primary::Received>(json!({"metadata": {"name": "a\u{1b}b"}})).unwrap();
    let shown = shown::of(&primary.primary, &chart, &values, Vec::new());
    let text = yaml::of(&shown);
    let read = go_yaml::parse_preserving_ints(text.as_bytes()).unwrap();
    assert_eq!(format!("{read:?}"), expected, "{text}");
    assert!(!everything(&shown).contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text}");
}

#[test]
fn a_removed_key_is_a_comment_and_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let watch = watch(folder.path(), "  overrideValues: {auth.password: 'null'}\n");
    let shown = live(server(), &watch).unwrap();
    let yaml = yaml::of(&shown);
    let comment = "  # auth.password: removed by overrideValues auth.password < \"none\" (shop/values.yaml:7)\n";
    assert!(yaml.contains(comment), "{yaml}");
    assert!(table::of(&shown).contains("auth.password  (removed)  overrideValues auth.password  none (shop"));
}

#[test]
fn the_json_form_has_everything_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let watch = watch(folder.path(), SOURCES);
    let document: serde_json::Value = serde_json::from_str(&json::of(&live(server(), &watch).unwrap())).unwrap();
    assert_eq!(
        document["resource"],
        json!({"apiVersion": "my.domain/v1", "kind": "Shop", "namespace": "ns", "name": "web"})
    );
    let of =
        |path: &str| document["values"].as_array().unwrap().iter().find(|one| one["path"] == path).unwrap().clone();
    let file = "shop/values.yaml";
    let expected = json!({
        "path": "replicas", "value": 3, "origin": {"from": "spec", "text": "spec"},
        "replaced": [
            {"value": 2, "origin": {"from": "valuesFrom", "kind": "ConfigMap", "name": "shared", "key": "values.yaml", "text": "ConfigMap shared, key values.yaml"}},
            {"value": 1, "origin": {"from": "default", "of": "chart", "file": file, "line": 5, "text": "shop/values.yaml:5"}},
        ],
    });
    assert_eq!(of("replicas"), expected);
    assert_eq!(of("auth.password")["hidden"], true);
    let unread = json!([{"path": "image.tga", "nearest": "image.tag", "documented": false}]);
    assert_eq!(of("image.tga")["unread"], unread);
}

#[test]
fn a_kind_is_needed_only_if_several_are_served() {
    let entry = |kind: &str, group: &str, version: &str| {
        format!("- {{group: {group}, version: {version}, kind: {kind}, chart: a}}\n")
    };
    let parse = |text: &str| watches::parse(text, |_| None).unwrap().watches;
    let one = parse(&(entry("Shop", "a.b", "v1") + &entry("Shop", "a.b", "v2")));
    assert_eq!(watch::named(&one, None).unwrap().version, "v2");
    let two = parse(&(entry("Shop", "a.b", "v1") + &entry("Shop", "c.d", "v1") + &entry("Till", "a.b", "v1")));
    assert_eq!(watch::named(&two, Some("till")).unwrap().kind, "Till");
    assert_eq!(watch::named(&two, Some("Shop.c.d")).unwrap().group, "c.d");
    let named = |kind: Option<&str>| watch::named(&two, kind).map(|watch| watch.kind.clone()).unwrap_err().to_string();
    assert_eq!(
        named(None),
        "several charts are served; put the kind before the name, one of Shop.a.b, Shop.c.d, Till.a.b"
    );
    assert_eq!(
        named(Some("Shop")),
        "several charts are served; put the kind before the name, one of Shop.a.b, Shop.c.d"
    );
    assert_eq!(named(Some("Til")), "no chart serves kind Til; did you mean Till?");
}
