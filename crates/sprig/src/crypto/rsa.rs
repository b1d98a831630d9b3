//! Generates and checks RSA keys in PKCS#1. ring signs with them.

use std::fmt::Display;

use go_template::FuncError;
use num_bigint::BigUint;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};

use super::der::{self, Element, integer, sequence, tag};
use super::no_random;

/// The usual public exponent.
const EXPONENT: u32 = 65_537;

/// Generates a key of this many bits.
///
/// # Errors
/// The operating system has no random numbers, or the key does not pass [`checked`]. The latter is a bug, but an error is better than a bad key.
pub(super) fn generate(bits: usize) -> Result<Vec<u8>, FuncError> {
    loop {
        let p = primes::random_prime(bits / 2).map_err(no_random)?;
        let q = primes::random_prime(bits / 2).map_err(no_random)?;
        if let Some(numbers) = numbers(&p, &q) {
            return checked(encode(&numbers));
        }
    }
}

/// Returns the key if it can sign.
///
/// When ring loads a key, it checks that the numbers belong together, but not that the factors are prime. A signature reveals this, because ring
/// verifies each signature before returning it.
fn checked(key: Vec<u8>) -> Result<Vec<u8>, FuncError> {
    let invalid = |reason: &dyn Display| FuncError::new(format!("generated RSA key is invalid: {reason}"));
    let pair = RsaKeyPair::from_der(&key).map_err(|refused| invalid(&refused))?;
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), b"any message", &mut signature)
        .map_err(|_| invalid(&"it cannot sign"))?;
    Ok(key)
}

/// The numbers of a key in PKCS#1's order: modulus, public and private exponent, factors, and their exponents and coefficient.
type Numbers = [BigUint; 8];

/// Computes the numbers of a key; returns `None` if the exponent has no inverse for these primes.
fn numbers(p: &BigUint, q: &BigUint) -> Option<Numbers> {
    let (p, q) = if p > q { (p, q) } else { (q, p) };
    let one = BigUint::from(1u32);
    let e = BigUint::from(EXPONENT);
    let (p_less, q_less) = (p - &one, q - &one);
    let d = e.modinv(&(&p_less * &q_less))?;
    let coefficient = q.modinv(p)?;
    Some([p * q, e, d.clone(), p.clone(), q.clone(), &d % &p_less, &d % &q_less, coefficient])
}

fn encode(numbers: &Numbers) -> Vec<u8> {
    let encoded: Vec<u8> = numbers.iter().flat_map(|n| integer(&n.to_bytes_be())).collect();
    sequence(&[&integer(&[]), &encoded])
}

/// Encodes the modulus and exponent of a private key as a sequence.
pub(super) fn public(key: &[u8]) -> Option<Vec<u8>> {
    let mut numbers = der::only(key, tag::SEQUENCE)?.inside();
    numbers.next(tag::INTEGER)?;
    let (n, e) = (numbers.next(tag::INTEGER)?, numbers.next(tag::INTEGER)?);
    Some(sequence(&[n.whole, e.whole]))
}

/// Returns whether the bytes have the structure of a private key with two primes.
pub(super) fn is_private_key(bytes: &[u8]) -> bool {
    let Some(key) = der::only(bytes, tag::SEQUENCE) else { return false };
    let mut numbers = key.inside();
    let all: Vec<Element<'_>> = std::iter::from_fn(|| numbers.next(tag::INTEGER)).collect();
    all.len() == 9 && all[0].unsigned().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prime(bits: usize) -> BigUint {
        primes::random_prime(bits).unwrap()
    }

    fn refusal(key: Vec<u8>) -> String {
        checked(key).unwrap_err().to_string()
    }

    #[test]
    fn a_generated_key_has_the_asked_length_and_passes_the_check() {
        let key = generate(2048).unwrap();
        assert_eq!(RsaKeyPair::from_der(&key).unwrap().public().modulus_len(), 256);
        assert!(is_private_key(&key));
    }

    #[test]
    fn a_key_whose_numbers_do_not_belong_together_is_refused() {
        let (p, q, other) = (prime(1024), prime(1024), prime(1024));
        let key = numbers(&p, &q).unwrap();
        assert!(checked(encode(&key)).is_ok());
        // ring ignores the private exponent (number 2) and uses only the exponents of the factors, which are derived from it.
        for i in [0, 1, 3, 4, 5, 6, 7] {
            let mut changed = key.clone();
            changed[i] = if i == 0 { &p * &other } else { &key[i] + 2u32 };
            assert!(checked(encode(&changed)).is_err(), "number {i}");
        }
        assert!(refusal(encode(&numbers(&p, &q).unwrap())[1..].to_vec()).contains("InvalidEncoding"));
    }

    #[test]
    fn a_key_of_a_composite_number_cannot_sign_and_is_refused() {
        let composite = prime(512) * prime(512);
        let key = encode(&numbers(&composite, &prime(1024)).unwrap());
        assert!(RsaKeyPair::from_der(&key).is_ok(), "ring does not test whether the factors are prime");
        assert_eq!(refusal(key), "generated RSA key is invalid: it cannot sign");
    }

    #[test]
    fn a_key_that_is_too_short_is_refused() {
        assert_eq!(
            refusal(encode(&numbers(&prime(512), &prime(512)).unwrap())),
            "generated RSA key is invalid: TooSmall"
        );
    }
}
