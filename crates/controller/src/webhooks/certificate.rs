//! The certificates that the process makes: their form in a Secret, and when they change.
//!
//! A certificate comes with a certificate authority of its own, whose key is dropped once it has signed: a reader of
//! the Secret can serve, but never sign. A change takes two steps. The *next* certificate's authority is trusted first;
//! only then is the certificate served. The previous authority stays trusted until the change after that.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::core::ObjectMeta;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use serde::{Deserialize, Serialize};

const LIFETIME: Duration = Duration::from_secs(90 * DAY);

/// How far a certificate is backdated, for API servers whose clocks are behind.
const VALID_BEFORE: Duration = Duration::from_secs(DAY);

/// How long before its end a certificate is replaced.
const REPLACED_BEFORE: Duration = Duration::from_secs(30 * DAY);

const DAY: u64 = 24 * 60 * 60;

/// The annotation of the Secret that asks for a new certificate at once.
pub(super) const ROTATE: &str = "rotate";

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const BUNDLE: &str = "ca.crt";
/// What the certificate is for.
const ABOUT: &str = "about.json";
/// The certificate that is served next.
const NEXT: &str = "next.json";

/// A certificate with its key, and the authority that signed it, all as PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Certificate {
    pub(super) authority: String,
    pub(super) certificate: String,
    pub(super) key: String,
    pub(super) about: About,
}

/// The names that a certificate is valid for, and its expiry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) hosts: Vec<String>,
    pub(super) expires: Timestamp,
}

/// The certificates of all replicas.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) current: Certificate,
    pub(super) next: Option<Certificate>,
    /// The authority before the current one.
    pub(super) previous: Option<String>,
    /// Whether a user asks for a new certificate.
    pub(super) is_unwanted: bool,
    pub(super) resource_version: Option<String>,
}

/// Why a Secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the Secret lacks {0}; delete it, and another is made")]
    Missing(&'static str),
    #[error("the Secret's {0} is not valid; delete it, and another is made")]
    Invalid(&'static str, #[source] serde_json::Error),
}

/// What the leader does about the certificates.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Wait(Duration),
    /// Add the next certificate, whose authority is to be trusted.
    Prepare,
    /// Serve the next certificate.
    Promote,
}

impl Certificate {
    pub(super) fn make(hosts: &[String], now: Timestamp) -> Result<Certificate, rcgen::Error> {
        // Certificates count whole seconds.
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let signed = |span: Duration| SignedDuration::try_from(span).unwrap_or_default();
        let (from, expires) = (now - signed(VALID_BEFORE), now + signed(LIFETIME));
        let valid = |mut params: CertificateParams, name: &str| {
            set_validity(&mut params, from, expires);
            params.distinguished_name.push(DnType::CommonName, name);
            params
        };
        let mut authority = valid(CertificateParams::default(), &format!("webhooks {}", now.as_second()));
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut own = valid(CertificateParams::new(hosts)?, "webhooks");
        own.use_authority_key_identifier_extension = true;
        own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = own.signed_by(&key, &authority)?;
        Ok(Certificate {
            authority: authority.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            about: About { hosts: hosts.to_vec(), expires },
        })
    }
}

impl Stored {
    /// Creates the first state.
    pub(super) fn new(current: Certificate) -> Stored {
        Stored { current, next: None, previous: None, is_unwanted: false, resource_version: None }
    }

    /// Returns the authorities to trust, the current certificate's first.
    pub(super) fn bundle(&self) -> String {
        let next = self.next.as_ref().map(|next| next.authority.as_str());
        [Some(self.current.authority.as_str()), next, self.previous.as_deref()].into_iter().flatten().collect()
    }

    /// Returns the next step. `trusted_for` says for how long the API server has had the bundle.
    pub(super) fn step(
        &self,
        hosts: &[String],
        now: Timestamp,
        (trusted_for, settle): (Option<Duration>, Duration),
    ) -> Step {
        let left = Duration::try_from(self.current.about.expires.duration_since(now)).unwrap_or_default();
        let due = left.saturating_sub(REPLACED_BEFORE);
        // It was made while the clock was ahead.
        let is_early = left > LIFETIME + VALID_BEFORE;
        let is_wrong = hosts.iter().any(|host| !self.current.about.hosts.contains(host));
        match (&self.next, trusted_for) {
            (None, _) if due.is_zero() || is_early || is_wrong || self.is_unwanted => Step::Prepare,
            (None, _) => Step::Wait(due),
            // Nothing trusts the current one either, and most objects may trust the next.
            (Some(_), None) if left.is_zero() => Step::Promote,
            (Some(_), None) => Step::Wait(left),
            (Some(_), Some(trusted_for)) if trusted_for >= settle => Step::Promote,
            (Some(_), Some(trusted_for)) => Step::Wait(settle - trusted_for),
        }
    }

    /// Returns the state in which this certificate is served next.
    pub(super) fn prepared(&self, next: Certificate) -> Stored {
        Stored { next: Some(next), is_unwanted: false, ..self.clone() }
    }

    /// Returns the state in which the next certificate is served.
    pub(super) fn promoted(&self) -> Stored {
        match &self.next {
            None => self.clone(),
            Some(next) => Stored {
                previous: Some(self.current.authority.clone()),
                current: next.clone(),
                next: None,
                ..self.clone()
            },
        }
    }

    pub(super) fn read(secret: &Secret) -> Result<Stored, Error> {
        let text = |field| {
            let bytes = secret.data.as_ref().and_then(|data| data.get(field));
            bytes.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok())
        };
        let needed = |field: &'static str| text(field).ok_or(Error::Missing(field));
        let about = serde_json::from_str(&needed(ABOUT)?).map_err(|error| Error::Invalid(ABOUT, error))?;
        let next = text(NEXT).map(|next| serde_json::from_str::<Certificate>(&next)).transpose();
        let next = next.map_err(|error| Error::Invalid(NEXT, error))?;
        let bundle = needed(BUNDLE)?;
        let mut authorities = bundle.split_inclusive("-----END CERTIFICATE-----\n").map(str::to_owned);
        let authority = authorities.next().ok_or(Error::Missing(BUNDLE))?;
        let is_next = |known: &String| next.as_ref().is_some_and(|next| next.authority == *known);
        let previous = authorities.find(|known| !is_next(known));
        let annotations = secret.metadata.annotations.as_ref();
        Ok(Stored {
            current: Certificate { authority, certificate: needed(CERTIFICATE)?, key: needed(KEY)?, about },
            next,
            previous,
            is_unwanted: annotations.is_some_and(|annotations| annotations.contains_key(ROTATE)),
            resource_version: secret.metadata.resource_version.clone(),
        })
    }

    /// Returns a new Secret with the certificates.
    pub(super) fn secret(&self, namespace: &str, name: &str) -> Result<Secret, serde_json::Error> {
        let (name, namespace) = (Some(name.to_owned()), Some(namespace.to_owned()));
        let metadata = ObjectMeta { name, namespace, ..ObjectMeta::default() };
        let type_ = Some("kubernetes.io/tls".to_owned());
        let mut secret = Secret { metadata, type_, ..Secret::default() };
        self.write_to(&mut secret)?;
        Ok(secret)
    }

    /// Puts the certificates into a Secret, in whose version they were read. Whatever else is in it stays.
    pub(super) fn write_to(&self, secret: &mut Secret) -> Result<(), serde_json::Error> {
        let next = self.next.as_ref().map(serde_json::to_string).transpose()?;
        let all = [
            (CERTIFICATE, Some(self.current.certificate.clone())),
            (KEY, Some(self.current.key.clone())),
            (BUNDLE, Some(self.bundle())),
            (ABOUT, Some(serde_json::to_string(&self.current.about)?)),
            (NEXT, next),
        ];
        let data = secret.data.get_or_insert_default();
        for (field, text) in all {
            match text {
                Some(text) => data.insert(field.to_owned(), ByteString(text.into_bytes())),
                None => data.remove(field),
            };
        }
        if let Some(annotations) = secret.metadata.annotations.as_mut().filter(|_| !self.is_unwanted) {
            annotations.remove(ROTATE);
        }
        secret.metadata.resource_version = self.resource_version.clone();
        Ok(())
    }
}

/// Sets the seconds from and to which a certificate is valid.
fn set_validity(params: &mut CertificateParams, from: Timestamp, to: Timestamp) {
    let epoch = date_time_ymd(1970, 1, 1);
    let since = |at: Timestamp| Duration::from_secs(u64::try_from(at.as_second()).unwrap_or_default());
    (params.not_before, params.not_after) = (epoch + since(from), epoch + since(to));
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    const SETTLE: Duration = Duration::from_secs(30);

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn hosts() -> Vec<String> {
        vec!["hook.ns.svc".into(), "127.0.0.1".into()]
    }

    fn stored() -> Stored {
        Stored::new(Certificate::make(&hosts(), now()).unwrap())
    }

    fn step(stored: &Stored, days: i64, trusted_for: Option<Duration>) -> Step {
        stored.step(&hosts(), now() + SignedDuration::from_hours(24 * days), (trusted_for, SETTLE))
    }

    #[test]
    fn a_certificate_ends_at_the_recorded_second() {
        let made = Certificate::make(&hosts(), now() + SignedDuration::from_millis(500)).unwrap();
        assert_eq!(made.about.expires.to_string(), "2026-04-01T12:00:00Z");
        for pem in [&made.certificate, &made.authority] {
            let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            let has = |time: &str| certificate.windows(time.len()).any(|window| window == time.as_bytes());
            assert_eq!(["251231120000Z", "260401120000Z"].map(has), [true, true]);
        }
    }

    #[test]
    fn a_secret_holds_everything() {
        let first = stored();
        let round_trip = |stored: &Stored| Stored::read(&stored.secret("ns", "hook").unwrap()).unwrap();
        assert!(round_trip(&first) == first);
        let prepared = first.prepared(Certificate::make(&hosts(), now()).unwrap());
        assert!(round_trip(&prepared) == prepared);
        let promoted = prepared.promoted();
        assert!(round_trip(&promoted) == promoted && promoted.previous == Some(first.current.authority));
        let again = promoted.prepared(Certificate::make(&hosts(), now()).unwrap());
        assert!(round_trip(&again) == again, "three authorities");
    }

    #[test]
    fn a_certificate_is_replaced_in_time_and_its_successor_served_once_it_is_trusted() {
        let first = stored();
        assert_eq!(step(&first, 0, None), Step::Wait(Duration::from_secs(60 * DAY)));
        assert_eq!(step(&first, 60, None), Step::Prepare);
        assert_eq!(step(&first, 200, None), Step::Prepare, "an expired one, too");
        assert_eq!(step(&first, -1, None), Step::Wait(Duration::from_secs(61 * DAY)));
        assert_eq!(step(&first, -40, None), Step::Prepare, "one that is not valid yet");
        let prepared = first.prepared(Certificate::make(&hosts(), now()).unwrap());
        assert_eq!(step(&prepared, -40, Some(SETTLE)), Step::Promote);
        assert!(matches!(step(&prepared, 60, None), Step::Wait(_)), "not every object trusts it yet");
        assert_eq!(step(&prepared, 200, None), Step::Promote, "the current one has expired");
        assert_eq!(step(&prepared, 60, Some(SETTLE / 3)), Step::Wait(SETTLE - SETTLE / 3));
        assert_eq!(step(&prepared, 60, Some(SETTLE)), Step::Promote);
        let unwanted = Stored { is_unwanted: true, ..first.clone() };
        assert_eq!(step(&unwanted, 0, None), Step::Prepare);
        assert_eq!(first.step(&["elsewhere".into()], now(), (None, SETTLE)), Step::Prepare);
    }

    #[test]
    fn every_certificate_in_use_is_trusted_throughout() {
        let (mut state, mut last) = (stored(), None::<Certificate>);
        for _ in 0..3 {
            let prepared = state.prepared(Certificate::make(&hosts(), now()).unwrap());
            let promoted = prepared.promoted();
            for (bundle, served) in [(&prepared, &state), (&prepared, &promoted), (&promoted, &prepared)] {
                assert!(bundle.bundle().contains(&served.current.authority));
            }
            if let Some(last) = last.replace(state.current.clone()) {
                assert!(prepared.bundle().contains(&last.authority), "a replica that missed the change");
            }
            state = promoted;
        }
    }

    #[test]
    fn a_broken_secret_names_what_is_wrong() {
        let mut secret = stored().secret("ns", "hook").unwrap();
        secret.data.as_mut().unwrap().insert(ABOUT.into(), ByteString(b"{".to_vec()));
        let error = Stored::read(&secret).err().unwrap();
        assert_eq!(error.to_string(), "the Secret's about.json is not valid; delete it, and another is made");
        secret.data = None;
        assert_eq!(
            Stored::read(&secret).err().unwrap().to_string(),
            "the Secret lacks about.json; delete it, and another is made"
        );
    }
}
