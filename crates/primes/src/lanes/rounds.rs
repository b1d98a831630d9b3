//! Rounds of the Miller-Rabin test, a base a lane. The modulus is the same, hence the exponent, and so the lanes share its windows.

use num_bigint::BigUint;

use super::arithmetic::Moduli;
use super::digits::{r_to_the, to_all_lanes, to_lanes};
use super::unit::Unit;
use super::{Job, PerLane};

/// How many bits of the exponent are taken at once.
const WINDOW: u64 = 5;

/// How many odd powers that needs.
const ODD_POWERS: usize = 1 << (WINDOW - 1);

/// The rounds of a number.
pub(super) struct Rounds<'n> {
    pub(super) n: &'n BigUint,
    pub(super) bases: &'n [BigUint],
}

/// A step of taking a power: so many squares, then a product with an odd power of the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    squares: u64,
    odd_power: usize,
}

impl Job for Rounds<'_> {
    type Output = bool;

    fn run<U: Unit, const L: usize, const W: usize>(self, unit: U) -> bool {
        let last = self.n - 1u32;
        let twos = last.trailing_zeros().unwrap_or(0);
        let steps = steps(&(&last >> twos));
        let n = to_all_lanes::<U, L>(self.n);
        let square = to_all_lanes::<U, L>(&r_to_the::<U, L>(2, self.n));
        let bases = to_lanes::<U, L>(self.bases);
        let powers: Vec<[PerLane; L]> = unit.run(
            #[inline(always)]
            || {
                let moduli = Moduli::<U, L, W>::new(unit, &n);
                let base = moduli.multiply(&moduli.load(&bases), &moduli.load(&square), &mut moduli.workspace());
                powers(&moduli, &base, &steps, twos)
            },
        );
        let (one, last) = (to_all_lanes::<U, L>(&BigUint::from(1u32)), to_all_lanes::<U, L>(&last));
        let passes = |lane: usize| {
            let is =
                |power: &[PerLane; L], number: &[PerLane; L]| power.iter().zip(number).all(|(a, b)| a[lane] == b[lane]);
            is(&powers[0], &one) || powers.iter().any(|power| is(power, &last))
        };
        (0..self.bases.len()).all(passes)
    }
}

/// The steps to an odd exponent, from its highest bits on. The first one has no squares.
fn steps(exponent: &BigUint) -> Vec<Step> {
    let mut steps = Vec::new();
    let (mut rest, mut squares) = (exponent.bits(), 0);
    while rest > 0 {
        if !exponent.bit(rest - 1) {
            squares += 1;
            rest -= 1;
            continue;
        }
        let lowest = (rest.saturating_sub(WINDOW)..rest).find(|bit| exponent.bit(*bit)).unwrap_or(rest - 1);
        let window = (lowest..rest).rev().fold(0, |bits, bit| bits << 1 | usize::from(exponent.bit(bit)));
        let squares_before = if steps.is_empty() { 0 } else { squares + (rest - lowest) };
        steps.push(Step { squares: squares_before, odd_power: window / 2 });
        (rest, squares) = (lowest, 0);
    }
    steps
}

/// The base to the exponent of the steps, and its squares up to so many times 2 times that exponent but one.
#[inline(always)]
fn powers<U: Unit, const L: usize, const W: usize>(
    moduli: &Moduli<U, L, W>,
    base: &[U::Vector; L],
    steps: &[Step],
    twos: u64,
) -> Vec<[PerLane; L]> {
    let never = moduli.unit.splat(0);
    let workspace = &mut moduli.workspace();
    let square = moduli.square(base, never, workspace);
    let mut odd_powers = [*base; ODD_POWERS];
    for i in 1..ODD_POWERS {
        odd_powers[i] = moduli.multiply(&odd_powers[i - 1], &square, workspace);
    }
    let mut power = *base;
    let mut is_first = true;
    for step in steps {
        for _ in 0..step.squares {
            power = moduli.square(&power, never, workspace);
        }
        let odd_power = &odd_powers[step.odd_power % ODD_POWERS];
        power = if is_first { *odd_power } else { moduli.multiply(&power, odd_power, workspace) };
        is_first = false;
    }
    let mut powers = vec![moduli.plain(&power)];
    let mut left = twos;
    while left > 1 {
        power = moduli.square(&power, never, workspace);
        powers.push(moduli.plain(&power));
        left -= 1;
    }
    powers
}
