//! Digests, passwords, encryption, keys and certificates. Counterpart: Sprig's `crypto.go`.
//!
//! Random numbers come from the operating system, signatures and digests from ring (docs/decisions/0004-certificates.md).

mod aes;
mod authority;
mod clock;
mod der;
mod derive;
mod key;
mod pem;
mod rsa;
#[cfg(test)]
mod tests;
mod x509;

use go_template::{FuncError, FuncMap, Str};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};

use clock::timed;
use key::PrivateKey;

pub(super) fn register(map: &mut FuncMap) {
    map.add("sha1sum", |text: Str| hexadecimal(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref()));
    map.add("sha256sum", |text: Str| hexadecimal(digest(&SHA256, &text).as_ref()));
    map.add("sha512sum", |text: Str| hexadecimal(digest(&SHA512, &text).as_ref()));
    map.add("adler32sum", |text: Str| adler32(&text).to_string());
    map.add("bcrypt", |password: Str| bcrypt_hash(&password));
    map.add("htpasswd", |user: Str, password: Str| htpasswd(&user, &password));
    map.add("uuidv4", || -> Result<String, FuncError> { Ok(uuid(random()?)) });
    map.add("genPrivateKey", |kind: Str| gen_private_key(&kind));
    map.insert("derivePassword", derive::function());
    map.add("encryptAES", |password: Str, text: Str| -> Result<String, FuncError> { aes::encrypt(&password, &text) });
    map.add("decryptAES", |password: Str, text: Str| -> Result<Vec<u8>, FuncError> { aes::decrypt(&password, &text) });
    authority::register(map);
}

/// bcrypt's work factor: Go's default. A hash takes about 50 ms.
pub(crate) const BCRYPT_COST: u32 = 10;

/// Maximum length of a password for bcrypt, in bytes.
const MAX_BCRYPT_PASSWORD: usize = 72;

/// Returns random bytes from the operating system.
fn random<const N: usize>() -> Result<[u8; N], FuncError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(no_random)?;
    Ok(bytes)
}

fn no_random(error: getrandom::Error) -> FuncError {
    FuncError::new(format!("cannot read random numbers: {error}"))
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

fn adler32(bytes: &[u8]) -> u32 {
    let mut checksum = adler2::Adler32::new();
    checksum.write_slice(bytes);
    checksum.checksum()
}

fn bcrypt_hash(password: &[u8]) -> String {
    if password.len() > MAX_BCRYPT_PASSWORD {
        return format!(
            "failed to encrypt string with bcrypt: bcrypt: password length exceeds {MAX_BCRYPT_PASSWORD} bytes"
        );
    }
    // Go's library writes an older prefix for the same hash.
    match timed(|| bcrypt::hash_with_result(password, BCRYPT_COST)) {
        Ok(parts) => parts.format_for_version(bcrypt::Version::TwoA),
        Err(error) => format!("failed to encrypt string with bcrypt: {error}"),
    }
}

fn htpasswd(user: &Str, password: &[u8]) -> Vec<u8> {
    if user.contains(&b':') {
        return [b"invalid username: ", &user[..]].concat();
    }
    [&user[..], b":", bcrypt_hash(password).as_bytes()].concat()
}

/// Formats the bytes as a random UUID.
fn uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits = hexadecimal(&bytes);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn gen_private_key(kind: &Str) -> String {
    let key = match &**kind {
        b"" | b"rsa" => PrivateKey::generate_rsa(key::GENERATED_RSA_BITS),
        b"dsa" => PrivateKey::generate_dsa(),
        b"ecdsa" => PrivateKey::generate_ecdsa(),
        b"ed25519" => PrivateKey::generate_ed25519(),
        _ => return format!("Unknown type {kind}"),
    };
    key.map_or_else(|error| format!("failed to generate private key: {error}"), |key| key.pem())
}
