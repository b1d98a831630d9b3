//! `derivePassword`: the Master Password algorithm, which derives a password for a site from a master password.

use go_template::{FromValue, FuncError, Function, Param, Str, Value};
use ring::hmac;

use super::clock::timed;

const SEED: &[u8] = b"com.lyndir.masterpassword";

/// scrypt's cost as a power of two; with the block size, 32 MiB. Part of the algorithm.
const SCRYPT_LOG_N: u8 = 15;
const SCRYPT_BLOCK: u32 = 8;
const SCRYPT_PARALLEL: u32 = 2;

/// The function. Its counter is a `uint32`.
pub(super) fn function() -> Function {
    let params = vec![Param::Uint32, Param::String, Param::String, Param::String, Param::String];
    Function::new(params, None, |_, args| {
        let counter = match args[0] {
            Value::Uint(n, _) => n as u32,
            _ => 0,
        };
        let text = |i: usize| Str::from_value(&args[i]);
        derive(counter, &text(1), &text(2), &text(3), &text(4)).map(Value::from)
    })
}

/// Derives the password of a type (`long`, `pin`, …) for a site. Each counter gives another one.
fn derive(counter: u32, kind: &Str, password: &[u8], user: &[u8], site: &[u8]) -> Result<String, FuncError> {
    let Some(templates) = templates(kind) else {
        return Ok(format!("cannot find password template {kind}"));
    };
    let key = timed(|| master_key(password, user))?;
    let message = [SEED, &(site.len() as u32).to_be_bytes(), site, &counter.to_be_bytes()].concat();
    let seed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), &message);
    let (first, rest) = seed.as_ref().split_first().ok_or("empty digest")?;
    let template = templates[usize::from(*first) % templates.len()];
    Ok(template.bytes().zip(rest).map(|(class, byte)| pick(characters(class), *byte)).collect())
}

fn master_key(password: &[u8], user: &[u8]) -> Result<[u8; 64], FuncError> {
    let salt = [SEED, &(user.len() as u32).to_be_bytes(), user].concat();
    let mut key = [0; 64];
    let params = scrypt::Params::new(SCRYPT_LOG_N, SCRYPT_BLOCK, SCRYPT_PARALLEL).map_err(|e| e.to_string())?;
    scrypt::scrypt(password, &salt, &params, &mut key).map_err(|e| e.to_string())?;
    Ok(key)
}

fn pick(characters: &str, byte: u8) -> char {
    char::from(characters.as_bytes()[usize::from(byte) % characters.len()])
}

/// The templates for passwords of a type. The seed selects one.
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

/// The characters that a letter of a template stands for.
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
