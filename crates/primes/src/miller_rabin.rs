//! The Miller-Rabin test: composites pass a round with a random base less often than one time in four, large random ones hardly ever.

use getrandom::Error;
use num_bigint::BigUint;

use crate::lanes::Lanes;
use crate::montgomery::Modulus;
use crate::search::random_bits;

/// How many random bases a candidate has to pass, after base 2. For random candidates of 1,024 bits, FIPS 186-5 asks for 5 to be wrong
/// less often than once in 2^112; shorter ones (DSA's of 256 bits) need more.
const ROUNDS: usize = 5;
const ROUNDS_OF_SHORT: usize = 32;

/// Shorter numbers than this count as short, in bits.
const SHORT: u64 = 1000;

/// Whether an odd number above 3 is prime, but for a negligible chance.
///
/// # Errors
/// When the operating system gives no random numbers.
pub fn is_probable_prime(n: &BigUint) -> Result<bool, Error> {
    match n.bits().div_ceil(64) {
        4 => test::<4>(n),
        16 => test::<16>(n),
        32 => test::<32>(n),
        _ => test_any(n),
    }
}

/// `n - 1` as an odd number times a power of two.
fn split(n: &BigUint) -> (BigUint, u64) {
    let last = n - 1u32;
    let twos = last.trailing_zeros().unwrap_or(0);
    (last >> twos, twos)
}

fn rounds(n: &BigUint) -> usize {
    if n.bits() < SHORT { ROUNDS_OF_SHORT } else { ROUNDS }
}

/// A number from 2 to `n - 2`.
fn random_base(n: &BigUint) -> Result<BigUint, Error> {
    let range = n - 3u32;
    Ok(BigUint::from_bytes_be(&random_bits(n.bits() as usize + 64)?) % range + 2u32)
}

/// The test for numbers of so many limbs.
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
    // Base 2 is computed apart from the lanes that chose the candidate: a fault there must not make a key of a composite.
    if !passes(modulus.power_of_two(&odd)) {
        return Ok(false);
    }
    let bases = (0..rounds(n)).map(|_| random_base(n)).collect::<Result<Vec<_>, _>>()?;
    let one_by_one = |bases: &[BigUint]| bases.iter().all(|base| passes(modulus.power(base, &odd)));
    let lanes = Lanes::best();
    Ok(bases.chunks(lanes.map_or(1, Lanes::count)).all(|batch| {
        let in_lanes = lanes.filter(|lanes| 2 * batch.len() > lanes.count());
        in_lanes.and_then(|lanes| lanes.pass_rounds(n, batch)).unwrap_or_else(|| one_by_one(batch))
    }))
}

/// The test for numbers of any length, slower.
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
    fn primes_and_composites_are_told_apart() {
        check("2717", true);
        check("2711", false);
        check("7fffffff", true);
        // Carmichael's number 561.
        check("231", false);
        // The primes of the curves P-256 and Curve25519 (which has 255 bits), and their neighbours.
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
