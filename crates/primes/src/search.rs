//! Searching primes: a random start, a sieve over small primes, then the Miller-Rabin test.

use getrandom::Error;
use num_bigint::BigUint;

use crate::lanes::Lanes;
use crate::miller_rabin::is_probable_prime;
use crate::sieve::survivors;

/// How many candidates are sieved at once, for each bit that they have. A prime is found among them but once in 100,000 times:
/// of odd numbers of `b` bits, one in `0.35 b` is a prime.
const WINDOW: usize = 4;

/// So many random bits, as bytes with the most significant first.
///
/// # Errors
/// When the operating system gives no random numbers.
pub fn random_bits(bits: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; bits.div_ceil(8)];
    getrandom::fill(&mut bytes)?;
    if let Some(first) = bytes.first_mut() {
        *first &= 0xff >> ((8 - bits % 8) % 8);
    }
    Ok(bytes)
}

/// A random prime of exactly so many bits, the two highest of them set, so that the product of two has all of its bits.
///
/// # Errors
/// When the operating system gives no random numbers.
pub fn random_prime(bits: usize) -> Result<BigUint, Error> {
    loop {
        let mut start = BigUint::from_bytes_be(&random_bits(bits)?);
        for bit in [bits as u64 - 1, bits as u64 - 2, 0] {
            start.set_bit(bit, true);
        }
        if let Some(prime) = first_prime(&start, &BigUint::from(2u32), bits)? {
            return Ok(prime);
        }
    }
}

/// The first prime among `start`, `start + step`, ... within a window of some thousand, unless it is longer than so many bits.
///
/// # Errors
/// When the operating system gives no random numbers.
pub fn first_prime(start: &BigUint, step: &BigUint, bits: usize) -> Result<Option<BigUint>, Error> {
    let mut candidates = survivors(start, step, WINDOW * bits)
        .map(|index| start + step * index)
        .take_while(|candidate| candidate.bits() <= bits as u64);
    let lanes = Lanes::best();
    loop {
        let batch: Vec<BigUint> = candidates.by_ref().take(lanes.map_or(1, Lanes::count)).collect();
        if batch.is_empty() {
            return Ok(None);
        }
        for candidate in plausible(batch, lanes) {
            if is_probable_prime(&candidate)? {
                return Ok(Some(candidate));
            }
        }
    }
}

/// The candidates without those that Fermat's test in lanes finds composite: with such lanes, most.
fn plausible(batch: Vec<BigUint>, lanes: Option<Lanes>) -> Vec<BigUint> {
    match lanes.and_then(|lanes| lanes.fermat(&batch)) {
        Some(passes) => batch.into_iter().zip(passes).filter_map(|(n, passes)| passes.then_some(n)).collect(),
        None => batch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_prime_has_all_of_its_bits() {
        let prime = random_prime(256).unwrap();
        assert_eq!(prime.bits(), 256);
        assert!(prime.bit(254) && is_probable_prime(&prime).unwrap());
    }
}
