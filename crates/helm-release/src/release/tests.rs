use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;

fn sample() -> Release {
    let chart = r#"{"metadata":{"name":"memcached","version":"0.1.0","appVersion":"1.6"},"lock":null,"templates":[],"values":{},"schema":null,"files":[]}"#;
    Release {
        name: "web".into(),
        namespace: "default".into(),
        version: 3,
        info: Info { status: Status::PendingUpgrade, notes: "read me".into(), ..Info::default() },
        chart: Arc::new(ChartDocument::from_json(chart).unwrap()),
        config: serde_json::json!({"replicaCount": 2}),
        manifest: "---\nkind: Service\n".into(),
        hooks: vec![Hook { name: "job".into(), events: vec![HookEvent::PreInstall], ..Hook::default() }],
        apply_method: "ssa".into(),
        labels: BTreeMap::new(),
        record_uid: None,
        more: Fields::new(),
    }
}

#[test]
fn a_rewrite_keeps_the_fields_of_later_versions_of_helm() {
    let record = serde_json::json!({
        "name": "web", "namespace": "default", "version": 3, "chart": {"metadata": {"name": "c"}, "later": 1},
        "info": {"status": "deployed", "later": {"a": [1]}}, "later": "text",
        "hooks": [{"name": "job", "later": true, "last_run": {"phase": "Succeeded", "later": 1.5}}],
    });
    let read = Packed::from_record(STANDARD.encode(record.to_string()).as_bytes(), BTreeMap::new()).unwrap();
    let rewritten = STANDARD.decode(Packed::pack(&read).unwrap().to_record()).unwrap();
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(&*rewritten).read_to_string(&mut text).unwrap();
    let rewritten: serde_json::Value = serde_json::from_str(&text).unwrap();
    for field in ["/later", "/info/later", "/hooks/0/later", "/hooks/0/last_run/later", "/chart/later"] {
        assert_eq!(rewritten.pointer(field), record.pointer(field), "{field}");
    }
    assert_eq!(text.matches("\"chart\":").count(), 1);
}

#[test]
fn records_round_trip() {
    let release = sample();
    let record = Packed::pack(&release).unwrap().to_record();
    let read = Packed::from_record(record.as_bytes(), BTreeMap::new()).unwrap();
    assert_eq!(read.key(), "sh.helm.release.v1.web.v3");
    assert_eq!(read.info.status, Status::PendingUpgrade);
    assert_eq!(read.config, release.config);
    assert_eq!(read.manifest, release.manifest);
    assert_eq!(read.hooks[0].events, [HookEvent::PreInstall]);
    assert_eq!((read.chart.name.as_str(), read.chart.app_version.as_str()), ("memcached", "1.6"));
    let again = Packed::pack(&read).unwrap().unpack().unwrap();
    assert_eq!(again.info.notes, "read me");
}

/// Committed records: see the fixtures' README.
const HELM_V4: &str = include_str!("../../tests/fixtures/records/helm-v4.json");
const OPERATOR_SDK: &str = include_str!("../../tests/fixtures/records/operator-sdk.json");
const PLUGINS: &str = include_str!("../../tests/fixtures/records/helm-operator-plugins.json");

/// Returns the objects in a JSON list, bare or as Kubernetes wraps it.
fn items(list: &str) -> Vec<serde_json::Value> {
    let list: serde_json::Value = serde_json::from_str(list).unwrap();
    list["items"].as_array().or(list.as_array()).unwrap().clone()
}

/// Reads a Secret's record, and checks it against the Secret's name and labels.
fn read(secret: &serde_json::Value) -> Release {
    let data = secret["data"]["release"].as_str().unwrap();
    let record = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap();
    let release = Packed::from_record(&record, BTreeMap::new()).unwrap();
    assert_eq!(release.key(), secret["metadata"]["name"].as_str().unwrap());
    assert_eq!(release.info.status.as_str(), secret["metadata"]["labels"]["status"].as_str().unwrap());
    assert!(release.info.first_deployed.is_some() && release.info.deleted.is_none());
    assert!(release.manifest.contains("kind: Deployment"));
    assert_eq!(release.hooks[0].events, [HookEvent::Test]);
    release
}

#[test]
fn records_of_every_upstream_are_read() {
    let read = |list| {
        let found = items(list).iter().map(read).collect::<Vec<_>>();
        assert!(found.iter().all(|release| (&*release.chart.name, &*release.chart.version) == ("web", "0.1.0")));
        let facts = |release: &Release| format!("{} {} {}", release.name, release.version, release.apply_method);
        found.iter().map(facts).collect::<Vec<_>>()
    };
    assert_eq!(read(HELM_V4), ["shop 1 ssa", "shop 2 ssa", "apart 1 csa"]);
    assert_eq!(read(OPERATOR_SDK), ["shop 2 "]);
    assert_eq!(read(PLUGINS), ["shop 1 ", "shop 2 "]);
}

#[test]
fn recorded_records_of_every_upstream_are_read() {
    let Some(folder) = shared_cases::path("upstream-state") else { return };
    for upstream in ["operator-sdk", "helm-operator-plugins", "helm-v4"] {
        let list = std::fs::read_to_string(folder.join(upstream).join("secrets.json")).unwrap();
        items(&list).iter().for_each(|secret| assert_eq!(read(secret).chart.name, "memcached"));
    }
}

#[test]
fn damaged_records_are_errors() {
    let good = Packed::pack(&sample()).unwrap().to_record();
    for bad in ["", "@", "e30=x", &good[..good.len() / 2], "H4sIAAAA"] {
        assert!(Packed::from_record(bad.as_bytes(), BTreeMap::new()).is_err(), "{bad}");
    }
}

#[test]
fn records_prove_what_they_were_rendered_from() {
    use Difference::{Files, Subcharts, Values};
    let chart = |files: &str, more: &str| {
        let text =
            format!(r#"{{"metadata":{{"name":"c"}},"templates":[],"values":{{"a":1}},"files":[{files}]{more}}}"#);
        Arc::new(ChartDocument::from_json(&text).unwrap())
    };
    let readme = r#"{"name":"README.md","data":"YQ=="}"#;
    let with_readme = Arc::new(chart(readme, "").without_files().unwrap());
    let subcharts = chart("", r#","subchartsDigest":"x""#);
    let config = serde_json::json!({"a": 2});
    let differs = |recorded: &Arc<ChartDocument>, manifest: &str, current: &Arc<ChartDocument>| {
        let release =
            Release { chart: recorded.clone(), manifest: manifest.into(), config: config.clone(), ..sample() };
        let record = Packed::pack(&release).unwrap().to_record();
        let read = Packed::from_record(record.as_bytes(), BTreeMap::new()).unwrap();
        read.differs_from(current, &config).unwrap()
    };
    let plain = chart("", "");
    assert_eq!(differs(&plain, "", &plain), None);
    assert_eq!(differs(&with_readme, "", &chart(readme, "")), None);
    assert_eq!(differs(&with_readme, "", &plain), Some(Files));
    assert_eq!(differs(&plain, "# Source: c/charts/sub/templates/a.yaml", &plain), Some(Subcharts));
    assert_eq!(differs(&plain, "", &subcharts), Some(Subcharts), "Helm's records leave subcharts out");
    assert_eq!(differs(&subcharts, "# Source: c/charts/sub/templates/a.yaml", &subcharts), None);
    let release = Release { chart: plain.clone(), config: config.clone(), ..sample() };
    assert_eq!(release.differs_from(&plain, &serde_json::json!({})).unwrap(), Some(Values));
}

#[test]
fn records_digest_subcharts() {
    use helm::chart::Chart;
    let chart = |version: &str| {
        let yaml = |name: &str, version: &str| format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
        let files = [("Chart.yaml", yaml("c", "1.0.0")), ("charts/s/Chart.yaml", yaml("s", version))];
        ChartDocument::of(&Chart::from_files(files).unwrap()).unwrap().to_json().unwrap()[sources::SUBCHARTS].clone()
    };
    assert!(chart("1.0.0").is_string());
    assert_eq!(chart("1.0.0"), chart("1.0.0"));
    assert_ne!(chart("1.0.0"), chart("1.0.1"));
    let alone = Chart::from_files([("Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n")]).unwrap();
    assert!(ChartDocument::of(&alone).unwrap().to_json().unwrap()[sources::SUBCHARTS].is_null());
}

/// Returns the recorded chart, loaded again from its files.
fn reloaded(recorded: &ChartDocument) -> ChartDocument {
    use base64::Engine as _;
    use helm::chart::Chart;
    let chart = recorded.to_json().unwrap();
    let listed = ["templates", "files"].iter().flat_map(|list| chart[list].as_array().unwrap()).map(|of| {
        let data = base64::engine::general_purpose::STANDARD.decode(of["data"].as_str().unwrap()).unwrap();
        (of["name"].as_str().unwrap(), data)
    });
    let own = ["metadata", "values"].map(|part| chart[part].to_string().into_bytes());
    let own = ["Chart.yaml", "values.yaml"].into_iter().zip(own);
    ChartDocument::of(&Chart::from_files(own.chain(listed)).unwrap()).unwrap()
}

/// Checks that the release is proven to be rendered from its own chart and this spec, and from no other.
fn check_proof(release: &Release, mut spec: serde_json::Value) {
    let chart = reloaded(&release.chart);
    assert_eq!(release.differs_from(&chart, &spec).unwrap(), None, "{}", release.key());
    spec["replicaCount"] = 4.into();
    assert_eq!(release.differs_from(&chart, &spec).unwrap(), Some(Difference::Values), "{}", release.key());
}

#[test]
fn records_of_every_upstream_prove_what_they_were_rendered_from() {
    for list in [HELM_V4, OPERATOR_SDK, PLUGINS] {
        let shop = items(list).iter().map(read).find(|release| (&*release.name, release.version) == ("shop", 2));
        check_proof(&shop.unwrap(), serde_json::json!({"replicaCount": 3}));
    }
    let first = items(PLUGINS).iter().map(read).next().unwrap();
    check_proof(&first, serde_json::json!({"replicaCount": 2, "image": {"tag": "1.0"}}));
}

#[test]
fn recorded_records_of_every_upstream_prove_what_they_were_rendered_from() {
    let Some(folder) = shared_cases::path("upstream-state") else { return };
    for upstream in ["operator-sdk", "helm-operator-plugins"] {
        let file = |name: &str| items(&std::fs::read_to_string(folder.join(upstream).join(name)).unwrap());
        check_proof(&read(file("secrets.json").last().unwrap()), file("cr.json")[0]["spec"].take());
    }
}
