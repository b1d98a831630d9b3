//! `derivePassword`: the Master Password algorithm, which derives a site's password from a master password.

use std::sync::{Mutex, PoisonError};

use go_template::{FromValue, FuncError, Function, Param, Str, Value};
use ring::hmac;

use super::clock::timed;

const SEED: &[u8] = b"com.lyndir.masterpassword";

/// The cost of scrypt as a power of two; with the block size, it takes 32 MiB. The algorithm prescribes these parameters.
const SCRYPT_LOG_N: u8 = 15;
const SCRYPT_BLOCK: u32 = 8;
const SCRYPT_PARALLEL: u32 = 2;

/// Returns the template function. Its counter is a `uint32`.
pub(super) fn function() -> Function {
    let last = LastKey::default();
    let params = vec![Param::Uint32, Param::String, Param::String, Param::String, Param::String];
    Function::new(params, None, move |_, args| {
        let counter = match args[0] {
            Value::Uint(n, _) => n as u32,
            _ => 0,
        };
        let text = |i: usize| Str::from_value(&args[i]);
        derive(&last, counter, &text(1), &text(2), &text(3), &text(4)).map(Value::from)
    })
}

/// Derives the password of a type (`long`, `pin`, …) for a site. Each counter yields a different password.
fn derive(
    last: &LastKey,
    counter: u32,
    kind: &Str,
    password: &[u8],
    user: &[u8],
    site: &[u8],
) -> Result<String, FuncError> {
    let Some(templates) = templates(kind) else {
        return Ok(format!("cannot find password template {kind}"));
    };
    let key = last.key(password, user)?;
    let message = [SEED, &(site.len() as u32).to_be_bytes(), site, &counter.to_be_bytes()].concat();
    let seed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), &message);
    let (first, rest) = seed.as_ref().split_first().ok_or("empty digest")?;
    let template = templates[usize::from(*first) % templates.len()];
    Ok(template.bytes().zip(rest).map(|(class, byte)| pick(characters(class), *byte)).collect())
}

/// The key of the last master password and user. A chart derives the passwords of all its sites from one key, and a key costs a tenth of a second.
#[derive(Default)]
struct LastKey(Mutex<Option<(hmac::Tag, MasterKey)>>);

type MasterKey = [u8; 64];

impl LastKey {
    fn key(&self, password: &[u8], user: &[u8]) -> Result<MasterKey, FuncError> {
        let salt = [SEED, &(user.len() as u32).to_be_bytes(), user].concat();
        let asked = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &salt), password);
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((known, key)) if known.as_ref() == asked.as_ref() => Ok(*key),
            _ => {
                let key = timed(|| master_key(password, &salt))?;
                *last = Some((asked, key));
                Ok(key)
            }
        }
    }
}

fn master_key(password: &[u8], salt: &[u8]) -> Result<MasterKey, FuncError> {
    let mut key = [0; 64];
    let params = scrypt::Params::new(SCRYPT_LOG_N, SCRYPT_BLOCK, SCRYPT_PARALLEL).map_err(|e| e.to_string())?;
    scrypt::scrypt(password, salt, &params, &mut key).map_err(|e| e.to_string())?;
    Ok(key)
}

fn pick(characters: &str, byte: u8) -> char {
    char::from(characters.as_bytes()[usize::from(byte) % characters.len()])
}

/// Returns the templates for passwords of this type. The seed selects one of them.
fn templates(kind: &[u8]) -> Option<&'static [&'static str]> {
    Some(match kind {
        b"maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        b"long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        b"medium" => &["CvcnoCvc", "CvcCvcno"],
        b"short" => &["Cvcn"],
        b"basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        b"pin" => &["nnnn"],
        _ => return None,
    })
}

/// Returns the characters that a letter of a template stands for.
fn characters(class: u8) -> &'static str {
    match class {
        b'V' => "AEIOU",
        b'C' => "BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => "aeiou",
        b'c' => "bcdfghjklmnpqrstvwxyz",
        b'A' => "AEIOUBCDFGHJKLMNPQRSTVWXYZ",
        b'a' => "AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => "0123456789",
        b'o' => "@&%?,=[]_:-+*$#!'^~;()/.",
        _ => "AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

#[cfg(test)]
mod tests {
    use golibs::work;

    use super::*;

    #[test]
    fn only_another_password_or_user_costs_another_key() {
        let last = LastKey::default();
        let costs = |password: &str, user: &str| {
            let call = work::begin(0, None);
            let key = last.key(password.as_bytes(), user.as_bytes()).unwrap();
            (key, !call.end().time.elapsed.is_zero())
        };
        let (first, costly) = costs("password", "user");
        assert!(costly);
        assert_eq!(costs("password", "user"), (first, false));
        for (password, user) in [("other", "user"), ("password", "use"), ("password", "user\0")] {
            let (key, costly) = costs(password, user);
            assert!(costly && key != first, "{password} {user:?}");
        }
        assert_eq!(costs("password", "user"), (first, true), "one key is kept");
    }
}
