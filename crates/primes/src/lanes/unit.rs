//! The vector operations that the arithmetic needs. Each 64-bit lane holds a limb of a different number.

use std::ops::{Add, BitAnd, Shl, Shr};

use super::PerLane;

/// A vector unit of this processor.
///
/// A limb has [`Unit::LIMB`] bits; the bits above it are a carry for the next limb. Everything is inlined into code that is compiled for the unit.
pub(super) trait Unit: Copy {
    /// One limb of each lane.
    type Vector: Copy
        + Add<Output = Self::Vector>
        + BitAnd<Output = Self::Vector>
        + Shl<Output = Self::Vector>
        + Shr<u32, Output = Self::Vector>;

    /// The number of lanes of a vector, at most [`super::MOST_LANES`].
    const LANES: usize;

    /// The number of bits of a limb.
    const LIMB: u32;

    /// Runs code that is compiled for this unit.
    fn run<T>(self, code: impl FnOnce() -> T) -> T;

    /// Puts the same number in each lane.
    fn splat(self, number: u64) -> Self::Vector;

    /// Loads as many of the numbers as there are lanes.
    fn load(self, lanes: &PerLane) -> Self::Vector;

    /// Returns the numbers of the lanes, then zeros.
    fn store(self, vector: Self::Vector) -> PerLane;

    /// Adds the product of two limbs to the accumulators of its lower and upper half. A unit whose products fit in the lower accumulator leaves the
    /// upper one alone.
    fn accumulate(self, lower: &mut Self::Vector, upper: &mut Self::Vector, a: Self::Vector, b: Self::Vector);

    /// Returns the lowest limb of the product. Ignores the bits of `a` above its limb.
    fn lowest(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Returns the bits above the limb.
    #[inline(always)]
    fn carry(self, a: Self::Vector) -> Self::Vector {
        a >> Self::LIMB
    }

    /// Returns the limb without the bits above it.
    #[inline(always)]
    fn limb(self, a: Self::Vector) -> Self::Vector {
        a & self.splat((1 << Self::LIMB) - 1)
    }
}
