//! `encryptAES` and `decryptAES`: AES-256 in CBC mode. The first block is random; the key is the password, truncated or padded with zeros.

use aes::Aes256;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use go_template::FuncError;

use crate::encoding::base::decode64;

use super::random;

const BLOCK: usize = 16;

fn cipher(password: &[u8]) -> Aes256 {
    let mut key = [0; 32];
    let length = password.len().min(key.len());
    key[..length].copy_from_slice(&password[..length]);
    Aes256::new(&key.into())
}

/// Encrypts the text and encodes it as base64.
pub(super) fn encrypt(password: &[u8], text: &[u8]) -> Result<String, FuncError> {
    if text.is_empty() {
        return Ok(String::new());
    }
    let cipher = cipher(password);
    let mut previous: [u8; BLOCK] = random()?;
    let mut out = previous.to_vec();
    let padding = BLOCK - text.len() % BLOCK;
    let padded = [text, &[padding as u8; BLOCK][..padding]].concat();
    for plain in padded.chunks_exact(BLOCK) {
        let mut block: [u8; BLOCK] = std::array::from_fn(|i| plain[i] ^ previous[i]);
        cipher.encrypt_block((&mut block).into());
        out.extend_from_slice(&block);
        previous = block;
    }
    Ok(STANDARD.encode(out))
}

/// Decrypts text. With a wrong password, returns garbage, or an error where Go panics.
pub(super) fn decrypt(password: &[u8], text: &[u8]) -> Result<Vec<u8>, FuncError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let bytes = decode64(text).map_err(|error| FuncError::new(error.to_string()))?;
    let Some((first, rest)) = bytes.split_at_checked(BLOCK) else {
        let length = bytes.len();
        return Err(FuncError::new(format!(
            "runtime error: slice bounds out of range [:{BLOCK}] with capacity {length}"
        )));
    };
    if rest.len() % BLOCK != 0 {
        return Err("crypto/cipher: input not full blocks".into());
    }
    let cipher = cipher(password);
    let mut out = Vec::with_capacity(rest.len());
    let mut previous = first;
    for encrypted in rest.chunks_exact(BLOCK) {
        let mut block: [u8; BLOCK] = std::array::from_fn(|i| encrypted[i]);
        cipher.decrypt_block((&mut block).into());
        out.extend(block.iter().zip(previous).map(|(b, p)| b ^ p));
        previous = encrypted;
    }
    unpad(out)
}

fn unpad(mut text: Vec<u8>) -> Result<Vec<u8>, FuncError> {
    let Some(padding) = text.last().map(|b| usize::from(*b)) else {
        return Err("runtime error: index out of range [-1]".into());
    };
    match text.len().checked_sub(padding) {
        Some(length) => {
            text.truncate(length);
            Ok(text)
        }
        None => {
            let end = text.len() as i64 - padding as i64;
            Err(FuncError::new(format!("runtime error: slice bounds out of range [:{end}]")))
        }
    }
}
