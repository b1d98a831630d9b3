//! A chart of Go templates and Handlebars templates, rendered as a whole.

#![allow(clippy::unwrap_used)] // A test may panic.
use std::path::{Path, PathBuf};

use helm::template::Options;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/charts/mixed")
}

fn render(set: &[&str]) -> String {
    let chart = folder().to_str().unwrap().to_owned();
    let set = set.iter().map(|text| (*text).to_owned()).collect();
    let options =
        Options { name_and_chart: vec!["rel".into(), chart], namespace: "ns".into(), set, ..Options::default() };
    String::from_utf8(options.run().unwrap().text).unwrap()
}

#[test]
fn a_chart_may_mix_both_kinds_of_template() {
    let golden = std::fs::read_to_string(folder().with_extension("golden.yaml")).unwrap();
    assert_eq!(render(&[]), golden);
}

#[test]
fn values_reach_both_kinds() {
    let text = render(&["image.tag=7", "owner=me", "ports[0].port=9091"]);
    assert!(text.contains("image: \"example.org/web:7\"") && text.contains("owner: \"me\""), "{text}");
    assert!(text.contains("containerPort: 9091") && text.contains("targetPort: 9092"), "{text}");
    assert!(!text.contains("image: example.org/web"), "{text}");
}
