//! Signs a body, so that a receiver knows who sent it. The form is that of Flux's `generic-hmac` provider.

use std::fs;
use std::path::{Path, PathBuf};

use http::{HeaderName, HeaderValue};
use ring::hmac;

use super::Error;

/// The header of the signature: `sha256=` and the HMAC-SHA256 of the body, in hex.
pub(super) const HEADER: HeaderName = HeaderName::from_static("x-signature");

/// The key in a file, which may be replaced at any time.
pub(super) struct Secret {
    file: PathBuf,
    /// The last key that could be read.
    key: hmac::Key,
}

impl Secret {
    pub(super) fn read(file: &Path) -> Result<Secret, Error> {
        Ok(Secret { file: file.to_owned(), key: key(file)? })
    }

    /// Returns the header for a body. While the file cannot be read, the last key counts.
    pub(super) fn sign(&mut self, body: &[u8]) -> Option<HeaderValue> {
        match key(&self.file) {
            Ok(key) => self.key = key,
            Err(error) => tracing::debug!(%error, "The key of CloudEvents cannot be read; using the last one"),
        }
        let tag = hmac::sign(&self.key, body);
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut value = HeaderValue::from_str(&format!("sha256={hex}")).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

fn key(file: &Path) -> Result<hmac::Key, Error> {
    let text = fs::read(file).map_err(|source| Error::File { path: file.to_owned(), source })?;
    // An editor's line end is not part of the secret.
    match text.trim_ascii_end() {
        [] => Err(Error::NoSecret(file.to_owned())),
        secret => Ok(hmac::Key::new(hmac::HMAC_SHA256, secret)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_signed_with_the_key_that_the_file_has_now() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        assert!(Secret::read(&file).is_err());
        fs::write(&file, "\n").unwrap();
        assert!(Secret::read(&file).is_err());
        // RFC 4231, test case 2.
        fs::write(&file, "Jefe\n").unwrap();
        let mut secret = Secret::read(&file).unwrap();
        let body = b"what do ya want for nothing?";
        let expected = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(secret.sign(body).unwrap(), expected);
        fs::remove_file(&file).unwrap();
        assert_eq!(secret.sign(body).unwrap(), expected);
        fs::write(&file, "other").unwrap();
        assert_ne!(secret.sign(body).unwrap(), expected);
    }
}
