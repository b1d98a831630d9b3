//! Verifies cosign's signatures of a manifest with a public key.
//!
//! Leaves out identities of Sigstore's public instance ("keyless"): they need its roots, which change, and certificates
//! and transparency logs to be checked. Counterpart: `cosign verify --key KEY`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use serde::{Deserialize, Serialize};

use crate::Digest;

/// What precedes the point of a public key on the curve P-256, as RFC 5480 encodes it.
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// The length of an uncompressed point.
const POINT: usize = 65;

/// The type that each signed payload must declare.
const KIND: &str = "cosign container image signature";

/// A public key of cosign: ECDSA on the curve P-256, which `cosign generate-key-pair` makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(Vec<u8>);

/// The text is not such a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a public key in PEM on the curve P-256, as cosign generate-key-pair writes to cosign.pub")]
pub struct KeyError;

impl Key {
    /// Reads the key from PEM.
    ///
    /// # Errors
    /// There is no such key.
    pub fn from_pem(pem: &[u8]) -> Result<Key, KeyError> {
        let key = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| KeyError)?;
        let point = key.strip_prefix(&P256).filter(|point| point.len() == POINT && point[0] == 4).ok_or(KeyError)?;
        Ok(Key(point.to_vec()))
    }
}

/// A signature and the text that it covers, as the cache keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Signature {
    /// The text, in base64.
    signed: String,
    /// The signature, in base64.
    signature: String,
}

impl Signature {
    pub(crate) fn new(signed: &[u8], signature: String) -> Signature {
        Signature { signed: STANDARD.encode(signed), signature }
    }

    /// Returns whether the key vouches with this signature for the manifest.
    fn vouches(&self, key: &Key, manifest: &Digest) -> bool {
        let decoded = (STANDARD.decode(&self.signed), STANDARD.decode(&self.signature));
        let (Ok(signed), Ok(signature)) = decoded else { return false };
        // The signature first: nothing that it does not cover is parsed.
        let is_genuine = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &key.0).verify(&signed, &signature).is_ok();
        is_genuine && names(&signed, manifest)
    }
}

/// Returns whether one of the signatures is the key's and is for this manifest.
pub(crate) fn is_signed(key: &Key, manifest: &Digest, signatures: &[Signature]) -> bool {
    signatures.iter().any(|one| one.vouches(key, manifest))
}

#[derive(Deserialize)]
struct Signed {
    critical: Critical,
}

#[derive(Deserialize)]
struct Critical {
    image: Image,
    r#type: String,
}

#[derive(Deserialize)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

fn names(signed: &[u8], manifest: &Digest) -> bool {
    serde_json::from_slice::<Signed>(signed).is_ok_and(|Signed { critical: Critical { image, r#type } }| {
        r#type == KIND && image.digest.parse() == Ok(*manifest)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};

    use super::*;

    /// A key pair, as cosign makes it.
    pub(crate) struct Pair(rcgen::KeyPair);

    impl Pair {
        pub(crate) fn new() -> Pair {
            Pair(rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap())
        }

        pub(crate) fn pem(&self) -> String {
            self.0.public_key_pem()
        }

        pub(crate) fn public(&self) -> Key {
            Key::from_pem(self.pem().as_bytes()).unwrap()
        }

        /// Returns the signature of a text, in base64.
        pub(crate) fn sign(&self, text: &[u8]) -> String {
            let random = SystemRandom::new();
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &self.0.serialize_der(), &random);
            STANDARD.encode(pair.unwrap().sign(&random, text).unwrap())
        }
    }

    /// Returns the text that cosign signs for a manifest.
    pub(crate) fn text(manifest: &Digest) -> String {
        format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"r/shop"}},"image":{{"docker-manifest-digest":"{manifest}"}},"type":"{KIND}"}},"optional":null}}"#
        )
    }

    #[test]
    fn a_signature_counts_for_its_key_and_its_manifest_only() {
        let (own, other, manifest) = (Pair::new(), Pair::new(), Digest::of(b"manifest"));
        let by = |pair: &Pair, text: &str| Signature::new(text.as_bytes(), pair.sign(text.as_bytes()));
        let good = by(&own, &text(&manifest));
        assert!(is_signed(&own.public(), &manifest, std::slice::from_ref(&good)));
        assert!(is_signed(&own.public(), &manifest, &[by(&other, &text(&manifest)), good.clone()]));
        let wrong = [
            by(&other, &text(&manifest)),
            by(&own, &text(&Digest::of(b"another"))),
            by(&own, &text(&manifest).replace("cosign container", "another")),
            by(&own, "[]"),
            Signature {
                signed: Signature::new(text(&manifest).replace("r/shop", "r/shap").as_bytes(), String::new()).signed,
                ..good.clone()
            },
            Signature { signature: "!".into(), ..good },
        ];
        for one in wrong {
            assert!(!is_signed(&own.public(), &manifest, std::slice::from_ref(&one)), "{one:?}");
        }
        assert!(!is_signed(&own.public(), &manifest, &[]));
    }

    #[test]
    fn a_key_is_on_the_curve_that_cosign_uses() {
        assert!(Key::from_pem(Pair::new().pem().as_bytes()).is_ok());
        let larger = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap().public_key_pem();
        for wrong in ["", "a key", &larger] {
            assert_eq!(Key::from_pem(wrong.as_bytes()), Err(KeyError), "{wrong}");
        }
    }
}
