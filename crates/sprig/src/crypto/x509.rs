//! Builds X.509 certificates with Sprig's fields, and reads from a certificate what signing others requires.
//!
//! Counterpart: `CreateCertificate` of Go's `crypto/x509`.

use std::net::IpAddr;

use go_template::FuncError;
use ring::digest::{SHA256, digest};

use super::der::{self, Element, Reader, bit_string, element, integer, sequence, tag};
use super::key::PrivateKey;
use super::random;
use golibs::time::{Time, Zone};

const COMMON_NAME: &[u8] = b"\x55\x04\x03";
const KEY_USAGE: &[u8] = b"\x55\x1d\x0f";
const EXTENDED_KEY_USAGE: &[u8] = b"\x55\x1d\x25";
const BASIC_CONSTRAINTS: &[u8] = b"\x55\x1d\x13";
const SUBJECT_KEY_ID: &[u8] = b"\x55\x1d\x0e";
const AUTHORITY_KEY_ID: &[u8] = b"\x55\x1d\x23";
const SUBJECT_ALTERNATIVE_NAME: &[u8] = b"\x55\x1d\x11";
const SERVER_AUTHENTICATION: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x01";
const CLIENT_AUTHENTICATION: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x03\x02";
const TRUE: &[u8] = &[1, 1, 0xff];

/// The content of a certificate.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) common_name: String,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) names: Vec<String>,
    pub(super) not_before: Time,
    pub(super) not_after: Time,
    /// Whether it may sign other certificates.
    pub(super) is_authority: bool,
}

/// The signer of a certificate.
#[derive(Debug)]
pub(super) struct Issuer {
    /// The encoded name.
    name: Vec<u8>,
    key_id: Option<Vec<u8>>,
    /// The encoded public key, which must match the signing key.
    public: Vec<u8>,
}

impl Issuer {
    /// Reads a certificate; returns `None` if it is invalid.
    pub(super) fn from_der(certificate: &[u8]) -> Option<Issuer> {
        let mut certificate = der::only(certificate, tag::SEQUENCE)?.inside();
        let mut body = certificate.next(tag::SEQUENCE)?.inside();
        certificate.next(tag::SEQUENCE)?;
        certificate.next(tag::BIT_STRING)?.bits()?;
        body.next(tag::CONTEXT);
        body.next(tag::INTEGER)?;
        for _ in 0..3 {
            // Algorithm, issuer, validity.
            body.next(tag::SEQUENCE)?;
        }
        let name = body.next(tag::SEQUENCE)?.whole.to_vec();
        let public = body.next(tag::SEQUENCE)?.whole.to_vec();
        let extensions = std::iter::from_fn(|| body.any()).find(|e| e.tag == tag::CONTEXT | 3);
        Some(Issuer { name, key_id: extensions.and_then(subject_key_id), public })
    }
}

fn subject_key_id(extensions: Element<'_>) -> Option<Vec<u8>> {
    let mut list: Reader<'_> = extensions.inside().next(tag::SEQUENCE)?.inside();
    let mut found = std::iter::from_fn(|| list.next(tag::SEQUENCE)).filter_map(|extension| {
        let mut parts = extension.inside();
        let is_key_id = parts.next(tag::OID)?.content == SUBJECT_KEY_ID;
        let value = std::iter::from_fn(|| parts.any()).find(|e| e.tag == tag::OCTET_STRING)?;
        is_key_id.then(|| Some(value.inside().next(tag::OCTET_STRING)?.content.to_vec()))?
    });
    found.next()
}

/// Creates a certificate for the key, in DER, signed by the issuer, or by the key itself if there is no issuer.
pub(super) fn certify(
    subject: &Subject,
    key: &PrivateKey,
    issuer: Option<(&Issuer, &PrivateKey)>,
) -> Result<Vec<u8>, FuncError> {
    let signer = issuer.map_or(key, |(_, signer)| signer);
    let algorithm = signer.signature_algorithm()?;
    let public = key.public()?;
    let name = encode_name(&subject.common_name);
    if issuer.is_some_and(|(issuer, _)| signer.public().is_ok_and(|p| p.info != issuer.public)) {
        return Err("x509: provided PrivateKey doesn't match parent's PublicKey".into());
    }
    let issuer_name = issuer.map_or(&name, |(issuer, _)| &issuer.name);
    let authority = issuer.and_then(|(issuer, _)| issuer.key_id.as_deref()).filter(|_| *issuer_name != name);
    let own_id = subject.is_authority.then(|| digest(&SHA256, &public.bits).as_ref()[..20].to_vec());
    let validity = sequence(&[&encode_time(&subject.not_before)?, &encode_time(&subject.not_after)?]);
    let body = sequence(&[
        &element(tag::CONTEXT, &integer(&[2])),
        &integer(&random::<16>()?),
        &algorithm,
        issuer_name,
        &validity,
        &name,
        &public.info,
        &extensions(subject, own_id.as_deref(), authority)?,
    ]);
    let signature = signer.sign(&body)?;
    Ok(sequence(&[&body, &algorithm, &bit_string(&signature)]))
}

fn encode_name(common_name: &str) -> Vec<u8> {
    if common_name.is_empty() {
        return sequence(&[]);
    }
    let is_printable = |b: u8| b.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&b);
    let string = if common_name.bytes().all(is_printable) { tag::PRINTABLE_STRING } else { tag::UTF8_STRING };
    let attribute = sequence(&[&element(tag::OID, COMMON_NAME), &element(string, common_name.as_bytes())]);
    sequence(&[&element(tag::SET, &attribute)])
}

/// Encodes a time. As RFC 5280 requires, years from 1950 to 2049 have two digits.
fn encode_time(time: &Time) -> Result<Vec<u8>, FuncError> {
    let time = time.in_zone(Zone::Utc);
    match time.civil().0.year {
        1950..2050 => Ok(element(tag::UTC_TIME, &time.format(b"060102150405Z"))),
        0..10_000 => Ok(element(tag::GENERALIZED_TIME, &time.format(b"20060102150405Z"))),
        _ => Err("asn1: structure error: cannot represent time as GeneralizedTime".into()),
    }
}

fn extensions(subject: &Subject, own_id: Option<&[u8]>, authority: Option<&[u8]>) -> Result<Vec<u8>, FuncError> {
    // Digital signature and key encipherment, plus certificate signing for an authority. Bits count from the left; the first byte is the number of
    // unused bits.
    let usage: &[u8] = if subject.is_authority { &[2, 0xa4] } else { &[5, 0xa0] };
    let purposes = sequence(&[&element(tag::OID, SERVER_AUTHENTICATION), &element(tag::OID, CLIENT_AUTHENTICATION)]);
    let constraints = sequence(&[if subject.is_authority { TRUE } else { &[] }]);
    let mut list = vec![
        extension(KEY_USAGE, true, &element(tag::BIT_STRING, usage)),
        extension(EXTENDED_KEY_USAGE, false, &purposes),
        extension(BASIC_CONSTRAINTS, true, &constraints),
    ];
    list.extend(own_id.map(|id| extension(SUBJECT_KEY_ID, false, &element(tag::OCTET_STRING, id))));
    list.extend(
        authority.map(|id| extension(AUTHORITY_KEY_ID, false, &sequence(&[&element(tag::CONTEXT_PRIMITIVE, id)]))),
    );
    if !(subject.names.is_empty() && subject.addresses.is_empty()) {
        list.push(extension(SUBJECT_ALTERNATIVE_NAME, subject.common_name.is_empty(), &alternative_names(subject)?));
    }
    Ok(element(tag::CONTEXT | 3, &element(tag::SEQUENCE, &list.concat())))
}

fn extension(oid: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    sequence(&[&element(tag::OID, oid), if critical { TRUE } else { &[] }, &element(tag::OCTET_STRING, value)])
}

fn alternative_names(subject: &Subject) -> Result<Vec<u8>, FuncError> {
    let mut names = Vec::new();
    for name in &subject.names {
        if !name.is_ascii() {
            return Err(FuncError::new(format!(
                "x509: {} cannot be encoded as an IA5String",
                golibs::strconv::quote(name)
            )));
        }
        names.extend(element(tag::CONTEXT_PRIMITIVE | 2, name.as_bytes()));
    }
    for address in &subject.addresses {
        names.extend(match address.to_canonical() {
            IpAddr::V4(v4) => element(tag::CONTEXT_PRIMITIVE | 7, &v4.octets()),
            IpAddr::V6(v6) => element(tag::CONTEXT_PRIMITIVE | 7, &v6.octets()),
        });
    }
    Ok(element(tag::SEQUENCE, &names))
}
