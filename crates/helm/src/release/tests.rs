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
    }
}

#[test]
fn a_record_reads_back_as_what_was_written() {
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

#[test]
fn records_of_every_upstream_are_read() {
    let shared =
        std::env::var("SHARED").unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").into());
    let folder = std::path::Path::new(&shared).join("upstream-state");
    if !folder.is_dir() {
        eprintln!("skipped: no recorded cluster state at {}", folder.display());
        return;
    }
    for upstream in ["operator-sdk", "helm-operator-plugins", "helm-v4"] {
        let text = std::fs::read_to_string(folder.join(upstream).join("secrets.json")).unwrap();
        let list: serde_json::Value = serde_json::from_str(&text).unwrap();
        let items = list["items"].as_array().or(list.as_array()).unwrap();
        for secret in items {
            let data = secret["data"]["release"].as_str().unwrap();
            let record = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap();
            let release = Packed::from_record(&record, BTreeMap::new()).unwrap();
            assert_eq!(release.key(), secret["metadata"]["name"].as_str().unwrap());
            assert_eq!(release.info.status.as_str(), secret["metadata"]["labels"]["status"].as_str().unwrap());
            assert_eq!(release.chart.name, "memcached");
            assert!(release.info.first_deployed.is_some() && release.info.deleted.is_none());
            assert!(release.manifest.contains("kind: Deployment"));
        }
    }
}

#[test]
fn a_damaged_record_is_an_error() {
    let good = Packed::pack(&sample()).unwrap().to_record();
    for bad in ["", "@", "e30=x", &good[..good.len() / 2], "H4sIAAAA"] {
        assert!(Packed::from_record(bad.as_bytes(), BTreeMap::new()).is_err(), "{bad}");
    }
}

#[test]
fn names_follow_helms_rule() {
    for (name, valid) in [("web", true), ("a.b-c", true), ("", false), ("Web", false), ("-a", false), ("a.", false)] {
        assert_eq!(is_valid_name(name), valid, "{name}");
    }
    assert!(is_valid_name(&"a".repeat(53)) && !is_valid_name(&"a".repeat(54)));
}
