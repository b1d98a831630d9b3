//! A filter: Fermat's test for several candidates at once, one in each lane of a vector unit.
//!
//! It only rejects. `miller_rabin` decides in plain arithmetic whether a candidate is prime. The unit is chosen at run time; without one, and for
//! lengths that keys do not have, nothing is filtered.

mod arithmetic;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod digits;
mod fermat;
#[cfg(target_arch = "x86_64")]
mod ifma;
#[cfg(test)]
mod tests;
mod unit;

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Avx2, Avx512, Level};
use num_bigint::BigUint;

use fermat::pass;
use unit::Unit as _;

/// The number of lanes of the widest unit.
const MOST_LANES: usize = 8;

type PerLane = [u64; MOST_LANES];

/// A vector unit of this processor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lanes {
    #[cfg(target_arch = "x86_64")]
    Ifma(Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
}

impl Lanes {
    /// Returns the units of this processor, fastest first.
    pub(crate) fn all() -> impl Iterator<Item = Lanes> {
        #[cfg(target_arch = "x86_64")]
        let units = [Level::new().as_avx512().map(Lanes::Ifma), Level::new().as_avx2().map(Lanes::Avx2)];
        #[cfg(not(target_arch = "x86_64"))]
        let units: [Option<Lanes>; 0] = [];
        units.into_iter().flatten()
    }

    /// Returns the fastest unit.
    pub(crate) fn best() -> Option<Lanes> {
        Lanes::all().next()
    }

    /// Returns how many numbers one test takes.
    pub(crate) fn count(self) -> usize {
        match self {
            #[cfg(target_arch = "x86_64")]
            Lanes::Ifma(_) => Avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Lanes::Avx2(_) => Avx2::LANES,
        }
    }

    /// Returns which of the numbers pass Fermat's test with base 2, as all primes do: 2^(n - 1) is 1 modulo `n`. The numbers must be odd and of the
    /// same length, and there must be no more of them than lanes. Returns `None` for lengths that keys do not have.
    pub(crate) fn fermat(self, numbers: &[BigUint]) -> Option<Vec<bool>> {
        match (self, numbers.first()?.bits()) {
            #[cfg(target_arch = "x86_64")]
            (Lanes::Ifma(unit), 193..=256) => Some(pass::<_, 5, 11>(unit, numbers)),
            #[cfg(target_arch = "x86_64")]
            (Lanes::Ifma(unit), 961..=1024) => Some(pass::<_, 20, 41>(unit, numbers)),
            #[cfg(target_arch = "x86_64")]
            (Lanes::Ifma(unit), 1985..=2048) => Some(pass::<_, 40, 81>(unit, numbers)),
            #[cfg(target_arch = "x86_64")]
            (Lanes::Avx2(unit), 193..=256) => Some(pass::<_, 10, 21>(unit, numbers)),
            #[cfg(target_arch = "x86_64")]
            (Lanes::Avx2(unit), 961..=1024) => Some(pass::<_, 40, 81>(unit, numbers)),
            #[cfg(target_arch = "x86_64")]
            (Lanes::Avx2(unit), 1985..=2048) => Some(pass::<_, 80, 161>(unit, numbers)),
            _ => None,
        }
    }
}
