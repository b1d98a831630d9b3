//! Seals of release records: proof that this operator wrote a record in its current form.
//!
//! Anyone who can write Secrets in a namespace can copy, change and delete the records there. A seal is an HMAC-SHA256
//! over a record's place, status, marks and content, with a key that only the operator knows. A record without a valid
//! seal is a fact to compare with, never an instruction.

use std::fmt;
use std::future::pending;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

/// The key of the annotation that holds a record's seal. Helm drops it with all other annotations.
pub const SEAL_ANNOTATION: &str = "helm.sdk.operatorframework.io/seal";

/// The purpose and version of a seal. Each sealed text begins with it, so that no other use of the key yields a seal.
const SCHEME: &str = "helm-operator release record 1";

/// Minimum length of a key in bytes: that of the hash.
const LEAST: usize = 32;

/// A secret key that seals records.
#[derive(Clone)]
pub struct Key {
    id: String,
    secret: Box<[u8]>,
}

impl Key {
    /// Creates a key; returns `None` if it is shorter than 32 bytes.
    pub fn new(secret: &[u8]) -> Option<Key> {
        let named = Sha256::new().chain_update(SCHEME).chain_update(secret).finalize();
        let id = named.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        (secret.len() >= LEAST).then(|| Key { id, secret: secret.into() })
    }
}

/// Formats the key's identity, never the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

/// The key that seals records, and earlier keys whose seals are still valid. Clones share the keys.
#[derive(Clone)]
pub struct Keyring(Arc<watch::Sender<Keys>>);

#[derive(Debug)]
struct Keys {
    current: Key,
    previous: Vec<Key>,
}

impl Keyring {
    /// Creates a keyring that seals with `current`, and accepts the seals of all keys.
    pub fn new(current: Key, previous: Vec<Key>) -> Keyring {
        Keyring(Arc::new(watch::Sender::new(Keys { current, previous })))
    }

    /// Replaces the keys, in all clones. Records that were verified before keep their proof until they are read again;
    /// [`replaced`](Self::replaced) signals when to do so.
    pub fn replace(&self, current: Key, previous: Vec<Key>) {
        self.0.send_replace(Keys { current, previous });
    }

    /// Waits until the keys are replaced after this call.
    pub fn replaced(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut changes = self.0.subscribe();
        async move {
            if changes.changed().await.is_err() {
                // Every keyring is gone.
                pending::<()>().await;
            }
        }
    }

    pub(crate) fn seal(&self, record: &Sealing<'_>, content: Content) -> String {
        let keys = self.0.borrow();
        let Some(mac) = record.mac(&keys.current, content) else { return String::new() };
        let mac = mac.finalize().into_bytes();
        format!("{}.{}.{}", keys.current.id, STANDARD.encode(content.0), STANDARD.encode(mac))
    }

    /// Returns whether another operator made a seal: it has the form of one, and names a key that is not among these.
    pub(crate) fn is_anothers(&self, seal: &str) -> bool {
        let Some((id, rest)) = seal.split_once('.').filter(|(id, _)| !id.is_empty()) else { return false };
        let keys = self.0.borrow();
        rest.contains('.') && std::iter::once(&keys.current).chain(&keys.previous).all(|key| key.id != id)
    }

    /// Returns the content that was sealed; `None` if the seal is not valid for the record.
    pub(crate) fn open(&self, record: &Sealing<'_>, seal: &str) -> Option<Content> {
        let mut parts = seal.splitn(3, '.');
        let (id, content, mac) = (parts.next()?, parts.next()?, parts.next()?);
        let content = Content(STANDARD.decode(content).ok()?.try_into().ok()?);
        let keys = self.0.borrow();
        let key = std::iter::once(&keys.current).chain(&keys.previous).find(|key| key.id == id)?;
        let sealed = record.mac(key, content)?;
        sealed.verify_slice(&STANDARD.decode(mac).ok()?).is_ok().then_some(content)
    }
}

/// Formats the identities of the keys.
impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.borrow().fmt(f)
    }
}

/// The digest of a record's content, as its Secret holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content([u8; 32]);

impl Content {
    pub(crate) fn of(record: &[u8]) -> Content {
        Content(Sha256::digest(record).into())
    }
}

/// The part of a record's metadata that its seal covers. The marks name the owner.
pub(crate) struct Sealing<'a> {
    /// The namespace of its Secret.
    pub(crate) namespace: &'a str,
    /// The name of its Secret, which ends in the revision.
    pub(crate) key: &'a str,
    /// Its status, as in the label.
    pub(crate) status: &'a str,
    /// Its marks, as in the annotation.
    pub(crate) marks: &'a str,
}

impl Sealing<'_> {
    /// Computes the seal. Each part follows its length, so that the end of one part cannot pass for the start of the
    /// next.
    fn mac(&self, key: &Key, content: Content) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&key.secret).ok()?;
        for part in [SCHEME, self.namespace, self.key, self.status, self.marks] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.update(&content.0);
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: Sealing<'_> = Sealing { namespace: "ns", key: "web.v1", status: "deployed", marks: "{}" };

    fn key(byte: u8) -> Key {
        Key::new(&[byte; 32]).unwrap()
    }

    #[test]
    fn a_seal_is_valid_for_one_record_with_one_status_marks_and_content() {
        let (keys, content) = (Keyring::new(key(1), vec![]), Content::of(b"content"));
        let seal = keys.seal(&RECORD, content);
        assert_eq!(keys.open(&RECORD, &seal), Some(content));
        for other in [
            Sealing { namespace: "n", ..RECORD },
            Sealing { key: "web.v2", ..RECORD },
            Sealing { status: "failed", ..RECORD },
            Sealing { marks: "{ }", ..RECORD },
            // The same text, split differently.
            Sealing { namespace: "nsweb.v1", key: "", ..RECORD },
        ] {
            assert_eq!(keys.open(&other, &seal), None);
        }
        let (id, rest) = seal.split_once('.').unwrap();
        let (_, mac) = rest.split_once('.').unwrap();
        let other = STANDARD.encode(Content::of(b"other").0);
        for forged in
            ["", "a.b", "a.b.c", &format!("{id}.{other}.{mac}"), &seal[..seal.len() - 4], &format!("{id}..{mac}")]
        {
            assert_eq!(keys.open(&RECORD, forged), None, "{forged}");
        }
    }

    #[test]
    fn seals_of_previous_keys_count_and_new_ones_are_the_current_keys() {
        let (old, content) = (Keyring::new(key(1), vec![]), Content::of(b"content"));
        let seal = old.seal(&RECORD, content);
        let rotated = Keyring::new(key(2), vec![key(1)]);
        assert_eq!(rotated.open(&RECORD, &seal), Some(content));
        assert_eq!(old.open(&RECORD, &rotated.seal(&RECORD, content)), None);
        assert_eq!(Keyring::new(key(2), vec![]).open(&RECORD, &seal), None, "a lost key");
    }

    #[tokio::test]
    async fn replaced_keys_count_in_every_clone() {
        let (keys, content) = (Keyring::new(key(1), vec![]), Content::of(b"content"));
        let (clone, old) = (keys.clone(), keys.seal(&RECORD, content));
        let replaced = clone.replaced();
        keys.replace(key(2), vec![key(1)]);
        replaced.await;
        assert_eq!((clone.open(&RECORD, &old), clone.seal(&RECORD, content) == old), (Some(content), false));
        keys.replace(key(2), vec![]);
        assert_eq!(clone.open(&RECORD, &old), None);
    }

    #[test]
    fn a_short_key_is_none_and_no_key_is_shown() {
        assert!(Key::new(&[7; 31]).is_none());
        let shown = format!("{:?}", Keyring::new(key(7), vec![key(8)]));
        assert!(!shown.contains("7, 7") && !shown.contains("8, 8"), "{shown}");
    }
}
