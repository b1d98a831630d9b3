//! Reads a release's record, whatever its origin, and the marks beside it. What can be read is written again, and must read the same.
//!
//! The first byte says what the rest is: the annotation with the marks, a record as it is, the JSON in one, or the bytes in one (gzip, or JSON as
//! early Helm 3 stored it).
#![no_main]

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::GzEncoder};
use helm_release::kube::objects_of;
use helm_release::release::{Packed, Release};
use helm_release::storage::Marks;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((form, input)) = input.split_first() else { return };
    match form % 4 {
        0 => marks(input),
        1 => record(input),
        2 => record(STANDARD.encode(gzipped(input)).as_bytes()),
        _ => record(STANDARD.encode(input).as_bytes()),
    }
});

fn record(record: &[u8]) {
    let release = match Packed::from_record(record, BTreeMap::new()) {
        Ok(release) => release,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let packed = Packed::pack(&release).expect("what was read can be written");
    let again = Packed::from_record(packed.to_record().as_bytes(), BTreeMap::new()).expect("what was written can be read");
    assert_eq!(seen(&release), seen(&again));
    assert_eq!(seen(&release), seen(&packed.unpack().expect("what was packed can be unpacked")));
    assert_eq!(release.differs_from(&again.chart, &again.config).ok(), again.differs_from(&release.chart, &release.config).ok());
    if let Err(error) = objects_of(&release.manifest) {
        assert!(!error.to_string().is_empty());
    }
}

/// All of a release but its chart's compressed bytes.
fn seen(release: &Release) -> String {
    let Release { name, namespace, version, info, chart, config, manifest, hooks, apply_method, labels: _, more: _ } = release;
    format!("{name:?} {namespace:?} {version} {info:?} {} {config} {manifest:?} {hooks:?} {apply_method:?}", chart.name)
}

fn marks(input: &[u8]) {
    let Some(marks) = std::str::from_utf8(input).ok().and_then(Marks::parse) else { return };
    let text = marks.to_text();
    assert_eq!(Marks::parse(&text).expect("what was written can be read").to_text(), text);
}

fn gzipped(json: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(json).and_then(|()| gzip.finish()).expect("memory does not fail")
}
