//! Private keys: generates, reads and writes them, and signs with them.

use go_template::FuncError;
use num_bigint::BigUint;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};

use super::clock::timed;
use super::der::{self, bit_string, element, integer, sequence, tag};
use super::{no_random, pem, random, rsa};

/// The length of a certificate's RSA key in bits, as in Sprig.
pub(super) const CERTIFICATE_RSA_BITS: usize = 2048;

/// The length of `genPrivateKey`'s RSA keys in bits, as in Sprig.
pub(super) const GENERATED_RSA_BITS: usize = 4096;

/// The lengths of a DSA key's two primes in bits, as in Sprig.
const DSA_BITS: (usize, usize) = (2048, 256);

const RSA_OID: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const EC_OID: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
const ED25519_OID: &[u8] = b"\x2b\x65\x70";
const SHA256_WITH_RSA_OID: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b";
const ECDSA_WITH_SHA256_OID: &[u8] = b"\x2a\x86\x48\xce\x3d\x04\x03\x02";
const ECDSA_WITH_SHA384_OID: &[u8] = b"\x2a\x86\x48\xce\x3d\x04\x03\x03";
const NULL: &[u8] = &[5, 0];

/// An elliptic curve that certificates can be signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Curve {
    P256,
    P384,
}

/// A private key, encoded as in PEM.
#[derive(Clone, Debug)]
pub(super) enum PrivateKey {
    /// PKCS#1.
    Rsa(Vec<u8>),
    /// The private number and public point of SEC 1.
    Ec(Curve, Vec<u8>, Vec<u8>),
    /// The seed.
    Ed25519([u8; 32]),
    /// The structure that Sprig defines.
    Dsa(Vec<u8>),
}

impl Curve {
    const ALL: [Curve; 2] = [Curve::P256, Curve::P384];

    fn oid(self) -> &'static [u8] {
        match self {
            Curve::P256 => b"\x2a\x86\x48\xce\x3d\x03\x01\x07",
            Curve::P384 => b"\x2b\x81\x04\x00\x22",
        }
    }

    fn of(oid: &[u8]) -> Option<Curve> {
        Curve::ALL.into_iter().find(|curve| curve.oid() == oid)
    }

    fn signing(self) -> &'static EcdsaSigningAlgorithm {
        match self {
            Curve::P256 => &ECDSA_P256_SHA256_ASN1_SIGNING,
            Curve::P384 => &ECDSA_P384_SHA384_ASN1_SIGNING,
        }
    }
}

impl PrivateKey {
    pub(super) fn generate_rsa(bits: usize) -> Result<PrivateKey, FuncError> {
        timed(|| rsa::generate(bits)).map(PrivateKey::Rsa)
    }

    /// Generates an ECDSA key on P-256.
    pub(super) fn generate_ecdsa() -> Result<PrivateKey, FuncError> {
        let generate = || EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        let document = timed(generate).map_err(|_| FuncError::new("cannot read random numbers"))?;
        from_pkcs8(document.as_ref()).ok_or_else(|| FuncError::new("cannot generate the key"))
    }

    pub(super) fn generate_ed25519() -> Result<PrivateKey, FuncError> {
        random().map(PrivateKey::Ed25519)
    }

    /// Generates a DSA key with new parameters.
    pub(super) fn generate_dsa() -> Result<PrivateKey, FuncError> {
        timed(PrivateKey::random_dsa)
    }

    fn random_dsa() -> Result<PrivateKey, FuncError> {
        let (bits, small_bits) = DSA_BITS;
        let q = primes::random_prime(small_bits).map_err(no_random)?;
        let p = dsa_modulus(&q, bits)?;
        let one = BigUint::from(1u32);
        let exponent = (&p - &one) / &q;
        let bases = (2u32..).map(|base| BigUint::from(base).modpow(&exponent, &p));
        let g = bases.into_iter().find(|g| *g != one).ok_or("cannot find a generator")?;
        let x = BigUint::from_bytes_be(&primes::random_bits(small_bits + 64).map_err(no_random)?) % (&q - &one) + &one;
        let y = g.modpow(&x, &p);
        let numbers: Vec<u8> = [p, q, g, y, x].iter().flat_map(|n| integer(&n.to_bytes_be())).collect();
        Ok(PrivateKey::Dsa(sequence(&[&integer(&[]), &numbers])))
    }

    /// Reads a PEM key in PKCS#1, SEC 1, PKCS#8 or Sprig's form for DSA.
    pub(super) fn from_pem(text: &str) -> Result<PrivateKey, FuncError> {
        let block = pem::decode(text).ok_or("no PEM data in input")?;
        let malformed = |prefix: &str| FuncError::new(format!("{prefix}: asn1: structure error: malformed key"));
        if block.label == "PRIVATE KEY" {
            return from_pkcs8(&block.bytes).ok_or_else(|| malformed("decoding PEM as PKCS#8"));
        }
        let Some(kind) = block.label.strip_suffix(" PRIVATE KEY") else {
            return Err(FuncError::new(format!("no private key data in PEM block of type {}", block.label)));
        };
        match kind {
            "RSA" => rsa_from_pkcs1(&block.bytes).ok_or_else(|| malformed("parsing RSA private key from PEM")),
            "EC" => from_sec1(&block.bytes, None).ok_or_else(|| malformed("parsing EC private key from PEM")),
            "DSA" => {
                let is_key = der::only(&block.bytes, tag::SEQUENCE).is_some();
                if is_key {
                    Ok(PrivateKey::Dsa(block.bytes))
                } else {
                    Err(malformed("parsing DSA private key from PEM"))
                }
            }
            _ => Err(FuncError::new(format!("invalid private key type {kind}"))),
        }
    }

    /// Encodes the key in PEM, as Sprig writes it.
    pub(super) fn pem(&self) -> String {
        match self {
            PrivateKey::Rsa(key) => pem::encode("RSA PRIVATE KEY", key),
            PrivateKey::Ec(curve, number, point) => pem::encode("EC PRIVATE KEY", &sec1(*curve, number, point)),
            PrivateKey::Ed25519(seed) => pem::encode("PRIVATE KEY", &ed25519_pkcs8(seed)),
            PrivateKey::Dsa(key) => pem::encode("DSA PRIVATE KEY", key),
        }
    }

    /// Returns the public key in the form in which certificates contain it: `SubjectPublicKeyInfo`.
    pub(super) fn public(&self) -> Result<PublicKey, FuncError> {
        let (algorithm, bits) = match self {
            PrivateKey::Rsa(key) => (algorithm(RSA_OID, NULL), rsa::public(key).ok_or("malformed RSA key")?),
            PrivateKey::Ec(curve, _, point) => (algorithm(EC_OID, &element(tag::OID, curve.oid())), point.clone()),
            PrivateKey::Ed25519(seed) => (algorithm(ED25519_OID, &[]), ed25519(seed)?.public_key().as_ref().to_vec()),
            PrivateKey::Dsa(_) => return Err("x509: unsupported public key type: *dsa.PublicKey".into()),
        };
        Ok(PublicKey { info: sequence(&[&algorithm, &bit_string(&bits)]), bits })
    }

    /// Returns the signature algorithm in the form in which certificates contain it.
    pub(super) fn signature_algorithm(&self) -> Result<Vec<u8>, FuncError> {
        Ok(match self {
            PrivateKey::Rsa(_) => algorithm(SHA256_WITH_RSA_OID, NULL),
            PrivateKey::Ec(Curve::P256, ..) => algorithm(ECDSA_WITH_SHA256_OID, &[]),
            PrivateKey::Ec(Curve::P384, ..) => algorithm(ECDSA_WITH_SHA384_OID, &[]),
            PrivateKey::Ed25519(_) => algorithm(ED25519_OID, &[]),
            PrivateKey::Dsa(_) => return Err("x509: certificate private key does not implement crypto.Signer".into()),
        })
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, FuncError> {
        let random = SystemRandom::new();
        let refused = |e: ring::error::KeyRejected| FuncError::new(format!("x509: cannot sign with the key: {e}"));
        let failed = |_| FuncError::new("x509: cannot sign with the key");
        match self {
            PrivateKey::Rsa(key) => {
                let pair = RsaKeyPair::from_der(key).map_err(refused)?;
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            PrivateKey::Ec(curve, number, point) => {
                let pair = EcdsaKeyPair::from_private_key_and_public_key(curve.signing(), number, point, &random)
                    .map_err(refused)?;
                Ok(pair.sign(&random, message).map_err(failed)?.as_ref().to_vec())
            }
            PrivateKey::Ed25519(seed) => Ok(ed25519(seed)?.sign(message).as_ref().to_vec()),
            PrivateKey::Dsa(_) => Err("x509: certificate private key does not implement crypto.Signer".into()),
        }
    }
}

/// A public key for a certificate.
#[derive(Debug)]
pub(super) struct PublicKey {
    /// The `SubjectPublicKeyInfo`.
    pub(super) info: Vec<u8>,
    /// The bits of the key, from which its identifier is derived.
    pub(super) bits: Vec<u8>,
}

fn algorithm(oid: &[u8], parameters: &[u8]) -> Vec<u8> {
    sequence(&[&element(tag::OID, oid), parameters])
}

/// Searches for a prime of this many bits that is one more than a multiple of `2q`.
fn dsa_modulus(q: &BigUint, bits: usize) -> Result<BigUint, FuncError> {
    let step = q * 2u32;
    loop {
        let mut start = BigUint::from_bytes_be(&primes::random_bits(bits).map_err(no_random)?);
        start.set_bit(bits as u64 - 1, true);
        let start = &start - &start % &step + BigUint::from(1u32);
        if start.bits() < bits as u64 {
            continue;
        }
        if let Some(p) = primes::first_prime(&start, &step, bits).map_err(no_random)? {
            return Ok(p);
        }
    }
}

fn rsa_from_pkcs1(bytes: &[u8]) -> Option<PrivateKey> {
    rsa::is_private_key(bytes).then(|| PrivateKey::Rsa(bytes.to_vec()))
}

/// Reads a SEC 1 structure. It contains the curve, unless the caller knows it.
fn from_sec1(bytes: &[u8], curve: Option<Curve>) -> Option<PrivateKey> {
    let mut key = der::only(bytes, tag::SEQUENCE)?.inside();
    key.next(tag::INTEGER)?;
    let number = key.next(tag::OCTET_STRING)?.content.to_vec();
    let inner = key.next(tag::CONTEXT).and_then(|e| Curve::of(e.inside().next(tag::OID)?.content));
    let point = key.next(tag::CONTEXT | 1)?.inside().next(tag::BIT_STRING)?.bits()?.to_vec();
    Some(PrivateKey::Ec(curve.or(inner)?, number, point))
}

fn sec1(curve: Curve, number: &[u8], point: &[u8]) -> Vec<u8> {
    let curve = element(tag::CONTEXT, &element(tag::OID, curve.oid()));
    let point = element(tag::CONTEXT | 1, &bit_string(point));
    sequence(&[&integer(&[1]), &element(tag::OCTET_STRING, number), &curve, &point])
}

fn from_pkcs8(bytes: &[u8]) -> Option<PrivateKey> {
    let mut info = der::only(bytes, tag::SEQUENCE)?.inside();
    info.next(tag::INTEGER)?;
    let mut algorithm = info.next(tag::SEQUENCE)?.inside();
    let oid = algorithm.next(tag::OID)?.content;
    let key = info.next(tag::OCTET_STRING)?.content;
    match oid {
        RSA_OID => rsa_from_pkcs1(key),
        EC_OID => from_sec1(key, Some(Curve::of(algorithm.next(tag::OID)?.content)?)),
        ED25519_OID => Some(PrivateKey::Ed25519(der::only(key, tag::OCTET_STRING)?.content.try_into().ok()?)),
        _ => None,
    }
}

fn ed25519_pkcs8(seed: &[u8; 32]) -> Vec<u8> {
    let key = element(tag::OCTET_STRING, &element(tag::OCTET_STRING, seed));
    sequence(&[&integer(&[]), &algorithm(ED25519_OID, &[]), &key])
}

fn ed25519(seed: &[u8; 32]) -> Result<Ed25519KeyPair, FuncError> {
    Ed25519KeyPair::from_seed_unchecked(seed).map_err(|e| FuncError::new(format!("x509: cannot use the key: {e}")))
}
