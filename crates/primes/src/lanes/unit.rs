//! What the arithmetic in lanes asks of a processor: vectors whose lanes are numbers of 64 bits, each with a limb of another number.

use std::ops::{Add, BitAnd, Shl, Shr};

use super::PerLane;

/// A vector unit that is known to be there.
///
/// A limb has [`Unit::LIMB`] bits; what is above is carry that waits. All of it is inlined into code that is compiled for the unit.
pub(super) trait Unit: Copy {
    /// One limb of each lane.
    type Vector: Copy
        + Add<Output = Self::Vector>
        + BitAnd<Output = Self::Vector>
        + Shl<Output = Self::Vector>
        + Shr<u32, Output = Self::Vector>;

    /// How many lanes a vector has: at most [`super::MOST_LANES`].
    const LANES: usize;

    /// How many bits a limb has.
    const LIMB: u32;

    /// Runs the code compiled for this unit.
    fn run<T>(self, code: impl FnOnce() -> T) -> T;

    /// The same number in each lane.
    fn splat(self, number: u64) -> Self::Vector;

    /// The lanes' numbers; there may be more than there are lanes.
    fn load(self, lanes: &PerLane) -> Self::Vector;

    /// The numbers of the lanes, then zeros.
    fn store(self, vector: Self::Vector) -> PerLane;

    /// Adds the product of two limbs to the accumulators of its lower and upper half.
    /// A unit whose products fit in the lower one leaves the upper one alone.
    fn accumulate(self, lower: &mut Self::Vector, upper: &mut Self::Vector, a: Self::Vector, b: Self::Vector);

    /// The lowest limb of the product with a limb, whatever is above the first factor's.
    fn lowest(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// What is above the limb.
    #[inline(always)]
    fn carry(self, a: Self::Vector) -> Self::Vector {
        a >> Self::LIMB
    }

    /// The limb without what is above it.
    #[inline(always)]
    fn limb(self, a: Self::Vector) -> Self::Vector {
        a & self.splat((1 << Self::LIMB) - 1)
    }
}
