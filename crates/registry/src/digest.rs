//! SHA-256 digests, which name what a registry holds.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// The digest of some bytes. Displays as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The text is not a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be sha256: and 64 hexadecimal digits in lower case")]
pub struct NoDigest;

impl Digest {
    /// Returns the digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Returns the 64 hexadecimal digits.
    pub fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl FromStr for Digest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Digest, NoDigest> {
        let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64).ok_or(NoDigest)?;
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let digit = |at: usize| match digits[at] {
                of @ b'0'..=b'9' => Ok(of - b'0'),
                of @ b'a'..=b'f' => Ok(of - b'a' + 10),
                _ => Err(NoDigest),
            };
            *byte = digit(0)? << 4 | digit(1)?;
        }
        Ok(Digest(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_has_one_spelling() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(Digest::of(b"")));
        for wrong in [&empty[7..], &empty.to_uppercase(), &empty[..70], &format!("{empty}0"), "sha512:00", ""] {
            assert_eq!(wrong.parse::<Digest>(), Err(NoDigest), "{wrong}");
        }
        assert!(format!("sha256:{}", "é".repeat(32)).parse::<Digest>().is_err());
    }
}
