//! The Miller-Rabin test, which alone decides what is prime. Uses only plain scalar arithmetic.
//!
//! A composite number passes a round with a random base less than one time in four, and a large random composite almost never does.

use getrandom::Error;
use num_bigint::BigUint;

use crate::montgomery::Modulus;
use crate::search::random_bits;

/// Number of random bases to test after base 2. FIPS 186-5 requires 5 for random candidates of 1,024 bits, for an error below 2^-112.
const ROUNDS: usize = 5;
/// Shorter candidates, such as the 256 bits of DSA's smaller prime, need more rounds.
const ROUNDS_BELOW_1000_BITS: usize = 32;

/// Returns whether an odd number above 3 is prime.
///
/// `false` is certain. `true` is wrong with a probability below 2^-112 for numbers that were chosen at random, but not for numbers that were
/// constructed to pass.
///
/// # Errors
/// The operating system has no random numbers.
pub fn is_probable_prime(n: &BigUint) -> Result<bool, Error> {
    match n.bits().div_ceil(64) {
        4 => test::<4>(n),
        16 => test::<16>(n),
        32 => test::<32>(n),
        _ => test_any(n),
    }
}

/// Splits `n - 1` into an odd factor and the exponent of a power of two.
fn split(n: &BigUint) -> (BigUint, u64) {
    let last = n - 1u32;
    let twos = last.trailing_zeros().unwrap_or(0);
    (last >> twos, twos)
}

fn rounds(n: &BigUint) -> usize {
    if n.bits() < 1000 { ROUNDS_BELOW_1000_BITS } else { ROUNDS }
}

/// Returns a random number from 2 to `n - 2`.
fn random_base(n: &BigUint) -> Result<BigUint, Error> {
    let range = n - 3u32;
    Ok(BigUint::from_bytes_be(&random_bits(n.bits() as usize + 64)?) % range + 2u32)
}

/// Tests a number of `L` limbs.
fn test<const L: usize>(n: &BigUint) -> Result<bool, Error> {
    let Some(modulus) = Modulus::<L>::new(n) else { return test_any(n) };
    let (odd, twos) = split(n);
    let passes = |mut power: [u64; L]| {
        if modulus.is_one(&power) || modulus.is_minus_one(&power) {
            return true;
        }
        (1..twos).any(|_| {
            power = modulus.square(&power);
            modulus.is_minus_one(&power)
        })
    };
    if !passes(modulus.power_of_two(&odd)) {
        return Ok(false);
    }
    for _ in 0..rounds(n) {
        if !passes(modulus.power(&random_base(n)?, &odd)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Tests a number of any other length, which is slower.
fn test_any(n: &BigUint) -> Result<bool, Error> {
    let (odd, twos) = split(n);
    let (one, last) = (BigUint::from(1u32), n - 1u32);
    for _ in 0..rounds(n) {
        let mut power = random_base(n)?.modpow(&odd, n);
        let passes = power == one
            || power == last
            || (1..twos).any(|_| {
                power = &power * &power % n;
                power == last
            });
        if !passes {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(number: &str, expected: bool) {
        let n = BigUint::parse_bytes(number.as_bytes(), 16).unwrap();
        assert_eq!(is_probable_prime(&n).unwrap(), expected, "{number}");
        assert_eq!(test_any(&n).unwrap(), expected, "{number}");
    }

    #[test]
    fn primes_pass_and_composites_fail() {
        check("2717", true);
        check("2711", false);
        check("7fffffff", true);
        // 561, the smallest Carmichael number.
        check("231", false);
        // The primes of P-256 and Curve25519 (255 bits), and a composite neighbour of each.
        check("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff", true);
        check("ffffffff00000001000000000000000000000000fffffffffffffffffffffffd", false);
        check("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed", true);
        check("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffef", false);
    }

    #[test]
    fn a_product_of_two_primes_is_composite() {
        let p = BigUint::parse_bytes(b"ffffffff00000001000000000000000000000000ffffffffffffffffffffffff", 16).unwrap();
        let square_of_square = (&p * &p) * (&p * &p);
        assert_eq!(square_of_square.bits().div_ceil(64), 16);
        assert!(!is_probable_prime(&square_of_square).unwrap());
    }
}
