//! What a manifest says: the archive of a chart, or the signatures of another manifest. Believes nothing that it does
//! not check.

use serde::Deserialize;

use crate::{Digest, Error, MAX_ARCHIVE_BYTES};

/// The media type of a manifest of one artifact.
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The media type of the configuration of a chart.
const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";

/// The media type of a packed chart.
const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// The media type of what cosign signs.
const SIGNED: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// The annotation with cosign's signature of a layer.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";

/// The maximum size of what a signature covers, in bytes.
pub(crate) const MAX_SIGNED_BYTES: u64 = 64 << 10;

/// The maximum number of signatures to verify.
pub(crate) const MAX_SIGNATURES: usize = 16;

/// A manifest's description of some content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

/// A signature, and where its text is that it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signed {
    pub(crate) content: Content,
    pub(crate) signature: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    schema_version: u64,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

impl Descriptor {
    fn content(&self, most: u64) -> Result<Content, Error> {
        let digest = self.digest.parse().map_err(|_| Error::Manifest("a digest other than sha256"))?;
        if self.size > most {
            return Err(Error::TooLarge { what: "the chart's archive", limit: most });
        }
        Ok(Content { digest, size: self.size })
    }
}

fn parse(bytes: &[u8]) -> Result<Manifest, Error> {
    let manifest: Manifest =
        serde_json::from_slice(bytes).map_err(|_| Error::Manifest("no manifest of an artifact"))?;
    if manifest.schema_version != 2 || manifest.media_type.as_deref().is_some_and(|media_type| media_type != MANIFEST) {
        return Err(Error::Manifest("a manifest of another media type"));
    }
    Ok(manifest)
}

/// Returns the packed chart that a manifest names.
pub(crate) fn chart(bytes: &[u8]) -> Result<Content, Error> {
    let manifest = parse(bytes)?;
    if manifest.config.is_none_or(|config| config.media_type != CHART_CONFIG) {
        return Err(Error::Manifest("an artifact that is not a Helm chart"));
    }
    let mut archives = manifest.layers.iter().filter(|layer| layer.media_type == CHART_LAYER);
    match (archives.next(), archives.next()) {
        (Some(archive), None) => archive.content(MAX_ARCHIVE_BYTES),
        _ => Err(Error::Manifest("a Helm chart without exactly one archive")),
    }
}

/// Returns the signatures that a manifest of cosign names.
pub(crate) fn signatures(bytes: &[u8]) -> Result<Vec<Signed>, Error> {
    let signed = |layer: &Descriptor| {
        let signature = layer.annotations.get(SIGNATURE)?.clone();
        Some(Signed { content: layer.content(MAX_SIGNED_BYTES).ok()?, signature })
    };
    let manifest = parse(bytes)?;
    let layers = manifest.layers.iter().filter(|layer| layer.media_type == SIGNED);
    Ok(layers.take(MAX_SIGNATURES).filter_map(signed).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of_chart() -> Value {
        json!({
            "schemaVersion": 2,
            "config": {"mediaType": CHART_CONFIG, "digest": Digest::of(b"c").to_string(), "size": 1},
            "layers": [
                {"mediaType": "application/vnd.cncf.helm.chart.provenance.v1.prov", "digest": "x", "size": 1},
                {"mediaType": CHART_LAYER, "digest": Digest::of(b"a").to_string(), "size": 7},
            ],
        })
    }

    fn refused(change: impl FnOnce(&mut Value)) -> String {
        let mut manifest = of_chart();
        change(&mut manifest);
        chart(manifest.to_string().as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_chart_is_the_one_archive_of_its_manifest() {
        let found = chart(of_chart().to_string().as_bytes()).unwrap();
        assert_eq!(found, Content { digest: Digest::of(b"a"), size: 7 });
        for (change, expected) in [
            (json!({"/schemaVersion": 1}), "another media type"),
            (json!({"/mediaType": "application/vnd.oci.image.index.v1+json"}), "another media type"),
            (json!({"/config/mediaType": "application/vnd.oci.image.config.v1+json"}), "not a Helm chart"),
            (json!({"/layers/1/mediaType": "application/gzip"}), "exactly one archive"),
            (json!({"/layers/0/mediaType": CHART_LAYER}), "exactly one archive"),
            (json!({"/layers/1/digest": "sha512:00"}), "other than sha256"),
            (json!({"/layers/1/size": MAX_ARCHIVE_BYTES + 1}), "larger than"),
            (json!({"/layers/1/size": -1}), "no manifest"),
        ] {
            let said = refused(|manifest| {
                for (at, value) in change.as_object().unwrap() {
                    match manifest.pointer_mut(at) {
                        Some(old) => *old = value.clone(),
                        None => manifest[&at[1..]] = value.clone(),
                    }
                }
            });
            assert!(said.contains(expected), "{change}: {said}");
        }
        assert!(chart(b"[").is_err());
    }

    #[test]
    fn signatures_are_those_of_cosign_up_to_a_number() {
        let layer = json!({
            "mediaType": SIGNED, "digest": Digest::of(b"p").to_string(), "size": 9, "annotations": {SIGNATURE: "c2ln"},
        });
        let mut large = layer.clone();
        large["size"] = json!(MAX_SIGNED_BYTES + 1);
        let mut unsigned = layer.clone();
        unsigned["annotations"] = json!({});
        let all = |layers: Vec<Value>| {
            signatures(json!({"schemaVersion": 2, "layers": layers}).to_string().as_bytes()).unwrap()
        };
        let expected = Signed { content: Content { digest: Digest::of(b"p"), size: 9 }, signature: "c2ln".into() };
        assert_eq!(all(vec![large, unsigned, layer.clone()]), [expected]);
        assert_eq!(all(vec![layer; MAX_SIGNATURES + 1]).len(), MAX_SIGNATURES);
    }
}
