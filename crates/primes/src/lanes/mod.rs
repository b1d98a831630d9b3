//! The tests' powers for several numbers at once, one in each lane of a vector unit: modulo several candidates, or of several bases.
//!
//! Which unit the processor has is found when the program runs. Without one, and for lengths that no key has, the caller has to use
//! plain arithmetic.

mod arithmetic;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod digits;
mod fermat;
#[cfg(target_arch = "x86_64")]
mod ifma;
mod rounds;
#[cfg(test)]
mod tests;
mod unit;

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Avx2, Avx512, Level};
use num_bigint::BigUint;

use fermat::Fermat;
use rounds::Rounds;
use unit::Unit;

/// How many lanes the widest unit has.
const MOST_LANES: usize = 8;

/// A number for each lane.
type PerLane = [u64; MOST_LANES];

/// A vector unit that the processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lanes {
    #[cfg(target_arch = "x86_64")]
    Ifma(Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

impl Lanes {
    /// The units that the processor has, the quickest first.
    pub(crate) fn all() -> impl Iterator<Item = Lanes> {
        #[cfg(target_arch = "x86_64")]
        let units = [Level::new().as_avx512().map(Lanes::Ifma), Level::new().as_avx2().map(Lanes::Avx2)];
        #[cfg(not(target_arch = "x86_64"))]
        let units: [Option<Lanes>; 0] = [];
        units.into_iter().flatten()
    }

    /// The quickest unit.
    pub(crate) fn best() -> Option<Lanes> {
        Lanes::all().next()
    }

    /// How many numbers are tested at once.
    pub(crate) fn count(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Lanes::Ifma(_) => Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2(_) => Avx2::LANES,
        }
    }

    /// Which of the numbers, odd and of the same length, pass Fermat's test with base 2, as all primes do: 2^(n - 1) is 1 modulo `n`.
    /// There may be as many as there are lanes. `None` for lengths that no key has.
    pub(crate) fn fermat(self, numbers: &[BigUint]) -> Option<Vec<bool>> {
        self.run(numbers.first()?.bits(), Fermat { numbers })
    }

    /// Whether the odd number passes rounds of the Miller-Rabin test with these bases, at most as many as there are lanes.
    /// `None` for lengths that no key has.
    pub(crate) fn pass_rounds(self, n: &BigUint, bases: &[BigUint]) -> Option<bool> {
        self.run(n.bits(), Rounds { n, bases })
    }

    /// Does the work on numbers of so many bits.
    fn run<J: Job>(self, bits: u64, job: J) -> Option<J::Output> {
        match (self, bits) {
            #[cfg(target_arch = "x86_64")]
            (Lanes::Ifma(unit), 193..=256) => Some(job.run::<_, 5, 11>(unit)),
            #[cfg(target_arch = "x86_64")]
            (Lanes::Ifma(unit), 961..=1024) => Some(job.run::<_, 20, 41>(unit)),
            #[cfg(target_arch = "x86_64")]
            (Lanes::Ifma(unit), 1985..=2048) => Some(job.run::<_, 40, 81>(unit)),
            #[cfg(target_arch = "x86_64")]
            (Lanes::Avx2(unit), 193..=256) => Some(job.run::<_, 10, 21>(unit)),
            #[cfg(target_arch = "x86_64")]
            (Lanes::Avx2(unit), 961..=1024) => Some(job.run::<_, 40, 81>(unit)),
            #[cfg(target_arch = "x86_64")]
            (Lanes::Avx2(unit), 1985..=2048) => Some(job.run::<_, 80, 161>(unit)),
            _ => None,
        }
    }
}

/// Work for a unit on numbers of `L` limbs, whose products have `W`.
trait Job {
    type Output;

    fn run<U: Unit, const L: usize, const W: usize>(self, unit: U) -> Self::Output;
}
