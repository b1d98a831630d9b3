//! The authorities that a leader finds published in addition to those in a user's files.
//!
//! Replicas see a change of the mounted files up to a minute apart. A leader that started in between, or whose own
//! mount is late, does not know the authority of the certificates that others serve: only the API server's
//! configuration has it.

use std::collections::HashSet;

use k8s_openapi::ByteString;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use super::configuration::Object;

/// The most authorities to keep, so that the bundle does not grow with each leader.
const MOST: usize = 8;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// What a leader found published.
#[derive(Default)]
pub(super) struct Inherited {
    /// The leader's own bundle, as last seen.
    own: String,
    /// The other authorities, as PEM.
    others: Vec<String>,
    /// The objects whose authorities were taken over, if they had any. Later, they have what the leader published.
    read: HashSet<Object>,
}

impl Inherited {
    /// Returns the bundle to publish: the leader's own and, until its next change, the authorities that it found in the
    /// objects when each was first listed. An object that does not exist has none. If the leader has no bundle, others
    /// provide it.
    pub(super) fn beside<'a>(
        &mut self,
        own: String,
        listed: impl Iterator<Item = (Object, Option<&'a Value>)>,
    ) -> String {
        if own.is_empty() {
            return own;
        }
        if self.own != own {
            self.others.clear();
            self.own.clone_from(&own);
        }
        let new: Vec<&Value> =
            listed.filter_map(|(object, live)| self.read.insert(object).then_some(live).flatten()).collect();
        self.take_over(&new);
        if self.others.is_empty() { own } else { format!("{}\n{}", own.trim_end(), self.others.concat()) }
    }

    /// Adds the authorities in the objects' bundles that are not known yet.
    fn take_over(&mut self, objects: &[&Value]) {
        let known = format!("{}\n{}", self.own, self.others.concat());
        let mut known: Vec<_> = authorities(&known).map(|(authority, _)| authority).collect();
        for bundle in objects.iter().copied().flat_map(bundles) {
            for (authority, pem) in authorities(&bundle) {
                if self.others.len() < MOST && !known.contains(&authority) {
                    self.others.push(format!("{pem}\n"));
                    known.push(authority);
                }
            }
        }
    }
}

/// Returns whether one of an object's bundles lacks an authority of this one. A bundle without any does not count,
/// because nothing is published yet.
pub(super) fn lacks(object: &Value, own: &str) -> bool {
    bundles(object).iter().any(|bundle| {
        let known: Vec<_> = authorities(bundle).map(|(authority, _)| authority).collect();
        !known.is_empty() && authorities(own).any(|(authority, _)| !known.contains(&authority))
    })
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

/// Returns the certificates in a text that can be trusted, each with its PEM. Any other would invalidate the bundle.
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

    /// Returns the objects with their names, as they are listed.
    fn listed(live: &[Value]) -> impl Iterator<Item = (Object, Option<&Value>)> {
        live.iter().enumerate().map(|(number, live)| (Object::Definition(number.to_string()), Some(live)))
    }

    #[test]
    fn published_authorities_stay_until_the_next_change_and_do_not_come_back() {
        let [a, b, c] = [(); 3].map(|()| authority());
        let converted = json!({"spec": {"conversion": {"webhook": published(&b)["webhooks"][0]}}});
        let live = [published(&format!("{c}{a}")), converted];
        let mut inherited = Inherited::default();
        let mut bundle = |own: &str| inherited.beside(own.to_owned(), listed(&live));
        assert_eq!(bundle(""), "", "others provide the bundle");
        assert_eq!(bundle(&a), [&*a, &*c, &*b].concat());
        assert_eq!(bundle(&a), [&*a, &*c, &*b].concat());
        assert_eq!(bundle(&b), b);
        assert_eq!(bundle(&a), a);
    }

    #[test]
    fn an_object_that_is_listed_late_brings_its_authorities_once_and_one_that_is_created_late_brings_none() {
        let [a, b, c, d] = [(); 4].map(|()| authority());
        let [first, late, created] = [&b, &c, &d].map(|authority| published(authority));
        let object = |name: &str| Object::Definition(name.to_owned());
        let mut inherited = Inherited::default();
        let mut bundle = |own: &str, listed: &[(&str, Option<&Value>)]| {
            inherited.beside(own.to_owned(), listed.iter().map(|&(name, live)| (object(name), live)))
        };
        assert_eq!(bundle(&a, &[]), a);
        assert_eq!(bundle(&a, &[("first", Some(&first)), ("missing", None)]), [&*a, &*b].concat());
        assert_eq!(bundle(&a, &[("late", Some(&late)), ("missing", Some(&created))]), [&*a, &*b, &*c].concat());
        assert_eq!(bundle(&d, &[("first", Some(&first)), ("late", Some(&late))]), d);
    }

    #[test]
    fn a_bundle_lacks_an_authority_only_if_it_has_others() {
        let [a, b] = [(); 2].map(|()| authority());
        let both = format!("{a}{b}");
        let (a, b, both) = (&*a, &*b, &*both);
        for (bundle, own, expected) in [
            (a, b, true),
            (a, both, true),
            (a, a, false),
            (both, a, false),
            (a, "", false),
            ("", a, false),
            ("\n", a, false),
        ] {
            assert_eq!(lacks(&published(bundle), own), expected, "{own} in {bundle}");
        }
        assert!(!lacks(&json!({"webhooks": []}), a));
    }

    #[test]
    fn nothing_is_added_where_nothing_is_published() {
        let own = authority();
        let live = [json!({}), json!({"webhooks": [{"clientConfig": {}}]}), json!({"spec": {"conversion": null}})];
        assert_eq!(Inherited::default().beside(own.clone(), listed(&live)), own);
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
        let bundle = Inherited::default().beside(own.clone(), listed(&[published(&(broken.concat() + &good))]));
        assert_eq!(bundle, own.clone() + &good);

        let many = [(); MOST + 1].map(|()| authority());
        let bundle = Inherited::default().beside(own.clone(), listed(&[published(&many.concat())]));
        assert_eq!(bundle, own + &many[..MOST].concat());
    }
}
