//! Fermat's test with base 2, a modulus a lane. Its power takes nothing but squares and doublings.

use num_bigint::BigUint;

use super::arithmetic::Moduli;
use super::digits::{r_to_the, to_lanes};
use super::unit::Unit;
use super::{Job, PerLane};

/// So many of the exponent's highest bits are dealt with by a shift and one division.
const HEAD: u64 = 9;

/// The test of some odd numbers of the same length.
pub(super) struct Fermat<'n> {
    pub(super) numbers: &'n [BigUint],
}

impl Job for Fermat<'_> {
    type Output = Vec<bool>;

    fn run<U: Unit, const L: usize, const W: usize>(self, unit: U) -> Vec<bool> {
        let bits = self.numbers.iter().map(BigUint::bits).max().unwrap_or(0);
        let rest = bits.saturating_sub(HEAD);
        let starts: Vec<BigUint> = self.numbers.iter().map(|n| start::<U, L>(n, rest)).collect();
        let n = to_lanes::<U, L>(self.numbers);
        let start = to_lanes::<U, L>(&starts);
        let power = unit.run(
            #[inline(always)]
            || {
                let moduli = Moduli::<U, L, W>::new(unit, &n);
                moduli.plain(&powers(&moduli, &start, &n, rest))
            },
        );
        (0..self.numbers.len()).map(|lane| is_one(&power, lane)).collect()
    }
}

/// 2 to the exponent's bits from `rest` on, in Montgomery's form.
fn start<U: Unit, const L: usize>(n: &BigUint, rest: u64) -> BigUint {
    let head = (n >> rest).iter_u64_digits().next().unwrap_or(0);
    (r_to_the::<U, L>(1, n) << head) % n
}

/// Goes on from such starts to 2^(n - 1) in each lane.
#[inline(always)]
fn powers<U: Unit, const L: usize, const W: usize>(
    moduli: &Moduli<U, L, W>,
    start: &[PerLane; L],
    n: &[PerLane; L],
    rest: u64,
) -> [U::Vector; L] {
    let unit = moduli.unit;
    let mut power = moduli.load(start);
    let mut workspace = moduli.workspace();
    let mut bit = rest;
    while bit > 0 {
        bit -= 1;
        // The exponent n - 1 has the bits of the odd n but for the lowest.
        let (limb, shift) = ((bit / u64::from(U::LIMB)) as usize, (bit % u64::from(U::LIMB)) as u32);
        let doublings = if bit == 0 { unit.splat(0) } else { unit.load(&n[limb]) >> shift & unit.splat(1) };
        power = moduli.square(&power, doublings, &mut workspace);
    }
    power
}

fn is_one<const L: usize>(power: &[PerLane; L], lane: usize) -> bool {
    power.iter().enumerate().all(|(i, limb)| limb[lane] == u64::from(i == 0))
}
