//! base64 and base32 in Go's standard encodings: padded, ignoring line breaks, with errors that name a byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// An invalid byte. Holds its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal base{base} data at input byte {byte}")]
pub(crate) struct Corrupt {
    base: u8,
    byte: usize,
}

const ALPHABET64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const ALPHABET32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

pub(super) fn encode64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(super) fn encode32(bytes: &[u8]) -> Vec<u8> {
    encode(bytes, ALPHABET32, 5, 8)
}

/// Splits the bits into digits and pads the last group.
fn encode(bytes: &[u8], alphabet: &[u8], digit_bits: usize, group: usize) -> Vec<u8> {
    let group_bytes = group * digit_bits / 8;
    let mut out = Vec::with_capacity(bytes.len().div_ceil(group_bytes) * group);
    for chunk in bytes.chunks(group_bytes) {
        let bits =
            chunk.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte)) << (8 * (group_bytes - chunk.len()));
        let digits = (chunk.len() * 8).div_ceil(digit_bits);
        for i in 0..group {
            let digit = (bits >> (digit_bits * (group - 1 - i))) as usize & (alphabet.len() - 1);
            out.push(if i < digits { alphabet[digit] } else { b'=' });
        }
    }
    out
}

/// Decodes a group of digits.
fn push_bytes(out: &mut Vec<u8>, digits: &[u8], digit_bits: usize, group: usize) {
    let bits = digits.iter().fold(0u64, |bits, digit| bits << digit_bits | u64::from(*digit));
    let bits = bits << (digit_bits * (group - digits.len()));
    for i in 0..digits.len() * digit_bits / 8 {
        out.push((bits >> (group * digit_bits - 8 * (i + 1))) as u8);
    }
}

fn is_line_break(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

pub(crate) fn decode64(text: &[u8]) -> Result<Vec<u8>, Corrupt> {
    // The crate rejects some input that Go accepts, such as line breaks, and its error messages differ.
    STANDARD.decode(text).or_else(|_| decode64_by_byte(text))
}

fn decode64_by_byte(text: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let corrupt = |byte| Err(Corrupt { base: 64, byte });
    let skip_breaks = |at: usize| at + text[at..].iter().take_while(|b| is_line_break(**b)).count();
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut digits = Vec::with_capacity(4);
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        at += 1;
        if let Some(digit) = ALPHABET64.iter().position(|b| *b == byte) {
            digits.push(digit as u8);
            if digits.len() == 4 {
                push_bytes(&mut out, &digits, 6, 4);
                digits.clear();
            }
            continue;
        }
        if is_line_break(byte) {
            continue;
        }
        if byte != b'=' || digits.len() < 2 {
            return corrupt(at - 1);
        }
        if digits.len() == 2 {
            at = skip_breaks(at);
            match text.get(at) {
                None => return corrupt(text.len()),
                Some(b'=') => at += 1,
                Some(_) => return corrupt(at - 1),
            }
        }
        at = skip_breaks(at);
        if at < text.len() {
            return corrupt(at);
        }
        push_bytes(&mut out, &digits, 6, 4);
        return Ok(out);
    }
    if digits.is_empty() { Ok(out) } else { corrupt(text.len() - digits.len()) }
}

pub(super) fn decode32(text: &[u8]) -> Result<Vec<u8>, Corrupt> {
    let corrupt = |byte| Err(Corrupt { base: 32, byte });
    let text: Vec<u8> = text.iter().copied().filter(|b| !is_line_break(*b)).collect();
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let mut digits = Vec::with_capacity(8);
    for (i, byte) in text.iter().enumerate() {
        let rest = &text[i + 1..];
        if *byte == b'=' && digits.len() >= 2 && rest.len() < 8 {
            if rest.len() + digits.len() < 7 {
                return corrupt(text.len());
            }
            let padding = rest.iter().take(7 - digits.len());
            if let Some(k) = padding.into_iter().position(|b| *b != b'=') {
                return corrupt(i + k);
            }
            if matches!(digits.len(), 3 | 6) {
                return corrupt(i);
            }
            push_bytes(&mut out, &digits, 5, 8);
            return Ok(out);
        }
        let Some(digit) = ALPHABET32.iter().position(|b| b == byte) else { return corrupt(i) };
        digits.push(digit as u8);
        if digits.len() == 8 {
            push_bytes(&mut out, &digits, 5, 8);
            digits.clear();
        }
    }
    if digits.is_empty() { Ok(out) } else { corrupt(text.len() - digits.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_round_trips() {
        for length in 0..=11 {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 37 + 200) as u8).collect();
            assert_eq!(decode64(encode64(&bytes).as_bytes()).as_ref(), Ok(&bytes));
            assert_eq!(decode32(&encode32(&bytes)).as_ref(), Ok(&bytes));
        }
    }

    #[test]
    fn errors_name_the_same_byte_as_go() {
        for (text, byte) in
            [("a", 0), ("ab=", 3), ("ab=c", 2), ("=", 0), ("a=bc", 1), ("ab==c", 4), ("abc=d", 4), ("a*", 1)]
        {
            assert_eq!(decode64(text.as_bytes()), Err(Corrupt { base: 64, byte }), "{text}");
        }
        for (text, byte) in [("A", 0), ("AB", 0), ("AB=", 3), ("AB===A==", 4), ("ABC=====", 3), ("A1", 1)] {
            assert_eq!(decode32(text.as_bytes()), Err(Corrupt { base: 32, byte }), "{text}");
        }
    }
}
