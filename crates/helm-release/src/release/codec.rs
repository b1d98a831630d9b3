//! Encodes releases as `base64(gzip(JSON))` and decodes them: Helm's `pkg/storage/driver/util.go`.
//!
//! The first part of the JSON, the chart, is the same for all releases of a chart. It is compressed once, as a separate
//! gzip member, and shared (a gzip file may have several members, and Go reads them as one). Thus a release costs only
//! its own bytes.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Release;
use super::sources::{FILES, files_digest};
use super::weight::{depth, weight};

/// Maximum size of a record's unpacked JSON, in bytes. etcd stores at most about 1.5 MiB compressed, so real records
/// stay far below.
const MAX_UNPACKED: u64 = 32 << 20;

/// Maximum memory in bytes of the values in a record. A Secret of 1 MiB can hold millions of values; real releases have
/// thousands.
const MAX_WEIGHT: usize = 64 << 20;

/// Maximum depth of a record's JSON: `serde_json` reads no deeper one.
const MAX_DEPTH: usize = 127;

/// Bytes and memory that a record may grow by after an action's first write: phases of hooks, and the description of a
/// failure.
const MARGIN: usize = 1 << 20;

/// Why a record could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say it.
pub enum Error {
    #[error("release record is not valid base64")]
    Base64(#[from] base64::DecodeError),
    #[error("cannot decompress release record")]
    Gzip(#[from] std::io::Error),
    #[error("release record is larger than {MAX_UNPACKED} bytes unpacked")]
    TooLarge,
    #[error("release record needs more than {MAX_WEIGHT} bytes of memory")]
    TooManyValues,
    #[error("release record nests more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("cannot parse release record")]
    Json(#[from] serde_json::Error),
    /// The process ends, or decoding panicked.
    #[error("reading the release record was interrupted")]
    Interrupted,
}

impl Error {
    /// Returns whether the record is at fault, and will be at the next attempt.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Error::Interrupted)
    }
}

/// A chart inside a release record, compressed. Its name and versions are readable without unpacking.
#[derive(Clone, Default)]
pub struct ChartDocument {
    /// The chart's name; empty if the record has none.
    pub name: String,
    /// The chart's version.
    pub version: String,
    /// The chart's `appVersion`.
    pub app_version: String,
    /// The gzip member that holds `{"chart":…,`.
    member: Arc<[u8]>,
}

impl std::fmt::Debug for ChartDocument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChartDocument({} {}, {} bytes)", self.name, self.version, self.member.len())
    }
}

#[derive(Default, Deserialize)]
struct ChartHead {
    #[serde(default)]
    metadata: Option<ChartMetadata>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChartMetadata {
    name: String,
    version: String,
    #[serde(rename = "appVersion")]
    app_version: String,
}

impl ChartDocument {
    /// Compresses a chart's JSON, as Helm writes it: `metadata`, `lock`, `templates`, `values`, `schema`, `files`.
    ///
    /// # Errors
    /// The text is not JSON, or its metadata has other types than Helm's.
    pub fn from_json(json: &str) -> Result<ChartDocument, Error> {
        let head: ChartHead = serde_json::from_str(json)?;
        let metadata = head.metadata.unwrap_or_default();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(b"{\"chart\":")?;
        gzip.write_all(json.as_bytes())?;
        gzip.write_all(b",")?;
        let member = gzip.finish()?.into();
        Ok(ChartDocument { name: metadata.name, version: metadata.version, app_version: metadata.app_version, member })
    }

    /// Returns the size of its JSON in bytes, which gzip writes last.
    fn unpacked_size(&self) -> u64 {
        self.member.last_chunk::<4>().map_or(0, |size| u64::from(u32::from_le_bytes(*size)))
    }

    /// Unpacks the chart's JSON.
    pub(super) fn to_json(&self) -> Result<serde_json::Value, Error> {
        let mut json = Vec::new();
        inflate(&self.member, &mut json)?;
        let json = json.strip_prefix(b"{\"chart\":").and_then(|j| j.strip_suffix(b",")).unwrap_or(&json);
        check_weight(weight(json))?;
        Ok(serde_json::from_slice(json)?)
    }

    /// Returns the source of a template by its path in manifests, `shop/templates/service.yaml`; `None` for a
    /// subchart's template, which records omit.
    pub fn template(&self, path: &str) -> Option<String> {
        let (chart, name) = path.split_once('/')?;
        let document = self.to_json().ok().filter(|_| chart == self.name)?;
        let template = document["templates"].as_array()?.iter().find(|template| template["name"] == name)?;
        let data = STANDARD.decode(template["data"].as_str()?).ok()?;
        Some(String::from_utf8_lossy(&data).into_owned())
    }

    /// Returns the chart's default values.
    pub fn defaults(&self) -> serde_json::Value {
        self.to_json().map(|mut document| document["values"].take()).unwrap_or_default()
    }

    /// Returns the chart without its non-template files, the most dispensable part of a record. Keeps their digest.
    pub(crate) fn without_files(&self) -> Result<ChartDocument, Error> {
        let mut chart = self.to_json()?;
        if chart.get("files").is_some() {
            chart[FILES] = files_digest(&chart["files"]).into();
            chart["files"] = serde_json::json!([]);
        }
        ChartDocument::from_json(&chart.to_string())
    }
}

/// A packed release: its own part compressed, the chart's shared. Small enough to keep one per release in memory.
#[derive(Clone, Debug)]
pub struct Packed {
    chart: Arc<ChartDocument>,
    own: Box<[u8]>,
    labels: BTreeMap<String, String>,
    record_uid: Option<Arc<str>>,
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow, default)]
    chart: Option<&'a RawValue>,
}

impl Packed {
    /// Packs a release.
    ///
    /// # Errors
    /// The values cannot be written as JSON.
    pub fn pack(release: &Release) -> Result<Packed, Error> {
        let json = serde_json::to_vec(release)?;
        let mut gzip = GzEncoder::new(Vec::with_capacity(json.len() / 3), Compression::default());
        // The chart's member ends in a comma, so this one continues without its opening brace.
        gzip.write_all(&json[1..])?;
        let own = gzip.finish()?.into_boxed_slice();
        let (labels, record_uid) = (release.labels.clone(), release.record_uid.clone());
        Ok(Packed { chart: release.chart.clone(), own, labels, record_uid })
    }

    /// Returns the uid of the Secret that holds it, if it is known.
    pub(crate) fn record_uid(&self) -> Option<Arc<str>> {
        self.record_uid.clone()
    }

    /// Sets the uid of the Secret that holds it.
    pub(crate) fn held_by(self, record_uid: Option<Arc<str>>) -> Packed {
        Packed { record_uid, ..self }
    }

    /// Returns an upper bound of the size of a release's record in bytes, without compressing it.
    ///
    /// # Errors
    /// The record could not be read again once an action has added its outcome: it would be too large unpacked, need
    /// too much memory or nest too deep.
    pub(crate) fn bound(release: &Release) -> Result<usize, Error> {
        let json = serde_json::to_vec(release)?;
        if release.chart.unpacked_size() + (json.len() + MARGIN) as u64 > MAX_UNPACKED {
            return Err(Error::TooLarge);
        }
        check_weight(weight(&json) + MARGIN)?;
        if depth(&json) > MAX_DEPTH {
            return Err(Error::TooDeep);
        }
        // Text that does not compress grows by five bytes per block, and gzip adds 18.
        let gzip = release.chart.member.len() + json.len() + json.len() / 1000 + 64;
        Ok(gzip.div_ceil(3) * 4)
    }

    /// Returns the bytes that it alone holds: its own part, and its chart unless others share it.
    pub fn size(&self) -> usize {
        let chart = if Arc::strong_count(&self.chart) == 1 { self.chart.member.len() } else { 0 };
        self.own.len() + chart
    }

    /// Returns the release's chart.
    pub fn chart(&self) -> &ChartDocument {
        &self.chart
    }

    /// Unpacks the release.
    ///
    /// # Errors
    /// The JSON exceeds the size limit.
    pub fn unpack(&self) -> Result<Release, Error> {
        let mut json = b"{".to_vec();
        inflate(&self.own, &mut json)?;
        let own: Release = serde_json::from_slice(&json)?;
        let (chart, labels) = (self.chart.clone(), self.labels.clone());
        Ok(Release { chart, labels, record_uid: self.record_uid.clone(), ..own })
    }

    /// Returns the value of the record's key `release`: base64 of the compressed JSON. A Secret's JSON encodes it in
    /// base64 once more.
    pub fn to_record(&self) -> String {
        let mut bytes = Vec::with_capacity(self.chart.member.len() + self.own.len());
        bytes.extend_from_slice(&self.chart.member);
        bytes.extend_from_slice(&self.own);
        STANDARD.encode(bytes)
    }

    /// Reads the value of a record by any writer; early Helm 3 did not compress.
    ///
    /// # Errors
    /// The record is not valid base64, gzip or JSON, or unpacks to more than the limit.
    pub fn from_record(record: &[u8], labels: BTreeMap<String, String>) -> Result<Release, Error> {
        let bytes = STANDARD.decode(record.trim_ascii())?;
        if bytes.starts_with(&[0x1f, 0x8b, 0x08]) { Packed::from_gzip(&bytes, labels) } else { parse(&bytes, labels) }
    }

    /// Reads a record's compressed JSON.
    pub(crate) fn from_gzip(bytes: &[u8], labels: BTreeMap<String, String>) -> Result<Release, Error> {
        let mut json = Vec::new();
        inflate(bytes, &mut json)?;
        parse(&json, labels)
    }
}

/// Reads a record's JSON.
fn parse(json: &[u8], labels: BTreeMap<String, String>) -> Result<Release, Error> {
    let whole: Whole = serde_json::from_slice(json)?;
    let chart = whole.chart.map_or("null", RawValue::get);
    // The chart stays unparsed.
    check_weight(weight(json).saturating_sub(weight(chart.as_bytes())))?;
    let chart = ChartDocument::from_json(chart)?;
    let own: Release = serde_json::from_slice(json)?;
    Ok(Release { chart: Arc::new(chart), labels, ..own })
}

fn check_weight(weight: usize) -> Result<(), Error> {
    if weight > MAX_WEIGHT { Err(Error::TooManyValues) } else { Ok(()) }
}

fn inflate(bytes: &[u8], into: &mut Vec<u8>) -> Result<(), Error> {
    let read = MultiGzDecoder::new(bytes).take(MAX_UNPACKED + 1).read_to_end(into)?;
    if read as u64 > MAX_UNPACKED { Err(Error::TooLarge) } else { Ok(()) }
}
