use super::*;
use crate::miller_rabin::is_probable_prime;
use crate::search::{random_bits, random_prime};

/// The lengths that have vector code, in bits: for each, the largest, the smallest and one in between.
const LENGTHS: [[u64; 3]; 3] = [[256, 193, 255], [1024, 961, 1000], [2048, 1985, 2047]];

fn one() -> BigUint {
    BigUint::from(1u32)
}

fn random(bits: u64) -> BigUint {
    BigUint::from_bytes_be(&random_bits(bits as usize).unwrap())
}

fn random_odd(bits: u64) -> BigUint {
    let mut n = random(bits);
    n.set_bit(0, true);
    n.set_bit(bits - 1, true);
    n
}

/// Returns edge cases of the arithmetic, and some random numbers.
fn moduli(bits: u64) -> Vec<BigUint> {
    let top = one() << (bits - 1);
    let mut moduli = vec![
        (&top << 1) - 1u32,
        (&top << 1) - 3u32,
        &top + 1u32,
        &top + 3u32,
        // Limbs of zeros and limbs of ones.
        &top + (one() << (bits / 2)) - 1u32,
        (&top << 1) - (one() << (bits / 2)) + 1u32,
        // One more than a multiple of a large power of two.
        &top + ((random(60) << 1 | one()) << 70) + 1u32,
        random_prime(bits as usize).unwrap(),
    ];
    moduli.extend((0..8).map(|_| random_odd(bits)));
    moduli
}

fn passes_fermat(n: &BigUint) -> bool {
    BigUint::from(2u32).modpow(&(n - 1u32), n) == one()
}

fn check_fermat(numbers: &[BigUint]) {
    for lanes in Lanes::all() {
        for batch in numbers.chunks(lanes.count()) {
            let expected: Vec<bool> = batch.iter().map(passes_fermat).collect();
            assert_eq!(lanes.fermat(batch).unwrap(), expected, "{lanes:?}: {batch:?}");
        }
    }
}

#[test]
fn the_filter_agrees_with_num_bigint() {
    for [largest, smallest, between] in LENGTHS {
        check_fermat(&moduli(largest));
        check_fermat(&moduli(smallest));
        check_fermat(&moduli(between));
        check_fermat(&[random_odd(largest), random_odd(smallest), random_odd(between)]);
        check_fermat(&[random_prime(largest as usize).unwrap()]);
    }
}

/// 2^p - 1 passes Fermat's test with base 2 for every prime p, and is composite for these.
#[test]
fn pseudoprimes_pass_the_filter_and_fail_the_test() {
    for exponent in [251, 1021, 2039] {
        let n = (one() << exponent) - 1u32;
        check_fermat(std::slice::from_ref(&n));
        assert!(Lanes::all().all(|lanes| lanes.fermat(std::slice::from_ref(&n)) == Some(vec![true])));
        assert!(!is_probable_prime(&n).unwrap());
    }
}

/// Carmichael numbers (6k + 1)(12k + 1)(18k + 1), of three primes, pass Fermat's test with every coprime base.
#[test]
fn carmichael_numbers_pass_the_filter_and_fail_the_test() {
    let primes = |k: &BigUint| [6u32, 12, 18].map(|factor| k * factor + 1u32);
    let start = random_odd(80);
    let k = (0u32..).map(|i| &start + i).find(|k| primes(k).iter().all(|p| is_probable_prime(p).unwrap())).unwrap();
    let n: BigUint = primes(&k).iter().product();
    assert_eq!(n.bits().div_ceil(64), 4);
    check_fermat(std::slice::from_ref(&n));
    assert!(Lanes::all().all(|lanes| lanes.fermat(std::slice::from_ref(&n)) == Some(vec![true])));
    assert!(!is_probable_prime(&n).unwrap());
}

#[test]
fn lengths_without_vector_code_are_not_filtered() {
    for bits in [64, 192, 257, 960, 1025, 1984, 2049, 4096] {
        let n = random_odd(bits);
        for lanes in Lanes::all() {
            assert_eq!(lanes.fermat(std::slice::from_ref(&n)), None, "{bits} bits");
        }
    }
}
