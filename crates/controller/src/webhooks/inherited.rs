//! The authorities that a leader finds published besides those of a user's files.
//!
//! Replicas see a change of the mounted files up to a minute apart. A leader that started in between, or whose own
//! mount is late, does not know the authority of the certificates that others serve: only the API server's
//! configuration has it.

use k8s_openapi::ByteString;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

/// The most authorities to keep, so that the bundle does not grow with each leader.
const MOST: usize = 8;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// What a leader found published.
#[derive(Default)]
pub(super) struct Inherited(Option<Found>);

struct Found {
    /// The leader's own bundle at that time.
    own: String,
    /// The other authorities, as PEM. Empty from the next change of the leader's own bundle.
    others: String,
}

impl Inherited {
    /// Returns the bundle to publish: the leader's own and, until its next change, the authorities that it found in
    /// these objects. If it has none, others provide it.
    pub(super) fn beside<'a>(&mut self, own: String, objects: impl Iterator<Item = &'a Value>) -> String {
        if own.is_empty() {
            return own;
        }
        let found = self.0.get_or_insert_with(|| Found { others: others(&own, objects), own: own.clone() });
        if found.own != own {
            found.others.clear();
        }
        if found.others.is_empty() { own } else { format!("{}\n{}", own.trim_end(), found.others) }
    }
}

/// Returns the authorities in the objects' bundles that are not in the own one.
fn others<'a>(own: &str, objects: impl Iterator<Item = &'a Value>) -> String {
    let mut known: Vec<_> = authorities(own).map(|(authority, _)| authority).collect();
    let mut others = Vec::new();
    for bundle in objects.flat_map(bundles) {
        for (authority, pem) in authorities(&bundle) {
            if others.len() < MOST && !known.contains(&authority) {
                others.push(format!("{pem}\n"));
                known.push(authority);
            }
        }
    }
    others.concat()
}

/// Returns the bundles of an object's webhooks.
fn bundles(object: &Value) -> Vec<String> {
    let admissions = object["webhooks"].as_array().into_iter().flatten();
    let all = admissions.chain([&object["spec"]["conversion"]["webhook"]]);
    let bundle = |webhook: &Value| {
        let bytes: ByteString = serde_json::from_value(webhook["clientConfig"]["caBundle"].clone()).ok()?;
        String::from_utf8(bytes.0).ok()
    };
    all.filter_map(bundle).collect()
}

/// Returns the certificates in a text that can be trusted, each with its PEM. One that cannot would spoil the bundle.
fn authorities(text: &str) -> impl Iterator<Item = (CertificateDer<'static>, &str)> {
    text.split_inclusive(END).filter_map(|part| {
        let pem = &part[part.rfind(BEGIN)?..];
        let authority = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
        RootCertStore::empty().add(authority.clone()).ok()?;
        Some((authority, pem))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::webhooks::certificate::Certificate;

    fn authority() -> String {
        Certificate::make(&["localhost".into()], outside::now()).unwrap().authority
    }

    /// Returns a configuration with this bundle.
    fn published(bundle: &str) -> Value {
        json!({"webhooks": [{"clientConfig": {"caBundle": ByteString(bundle.into())}}]})
    }

    #[test]
    fn published_authorities_stay_until_the_next_change_and_do_not_come_back() {
        let [a, b, c] = [(); 3].map(|()| authority());
        let converted = json!({"spec": {"conversion": {"webhook": published(&b)["webhooks"][0]}}});
        let live = [published(&format!("{c}{a}")), converted];
        let mut inherited = Inherited::default();
        let mut bundle = |own: &str| inherited.beside(own.to_owned(), live.iter());
        assert_eq!(bundle(""), "", "others provide the bundle");
        assert_eq!(bundle(&a), [&*a, &*c, &*b].concat());
        assert_eq!(bundle(&a), [&*a, &*c, &*b].concat());
        assert_eq!(bundle(&b), b);
        assert_eq!(bundle(&a), a);
    }

    #[test]
    fn nothing_is_added_where_nothing_is_published() {
        let own = authority();
        let live = [json!({}), json!({"webhooks": [{"clientConfig": {}}]}), json!({"spec": {"conversion": null}})];
        assert_eq!(Inherited::default().beside(own.clone(), live.iter()), own);
    }

    #[test]
    fn of_what_is_published_only_certificates_stay_and_not_too_many() {
        let (own, good) = (authority(), authority());
        let broken = [
            good.replace("CERTIFICATE", "PRIVATE KEY"),
            format!("{BEGIN}\nQ0E=\n{END}\n"),
            format!("{BEGIN}\n???\n{END}\n"),
            format!("text {BEGIN}\n"),
        ];
        let bundle = Inherited::default().beside(own.clone(), [published(&(broken.concat() + &good))].iter());
        assert_eq!(bundle, own.clone() + &good);

        let many = [(); MOST + 1].map(|()| authority());
        let bundle = Inherited::default().beside(own.clone(), [published(&many.concat())].iter());
        assert_eq!(bundle, own + &many[..MOST].concat());
    }
}
