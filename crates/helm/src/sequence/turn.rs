//! When an object of an ordered release is applied.

/// The last round. Objects of later ones are applied in it.
const MAX_ROUND: u16 = 0x7fff;

/// The bit that is set if later rounds wait for the object.
const AWAITED: u16 = 1;

/// When an object is applied: in which round, and whether later rounds wait until it is ready. The default belongs to objects without an order. Small,
/// because caches hold one for each object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Turn(u16);

impl Turn {
    /// Creates the turn of an object that is applied in this round, which counts from 1, and that no later round waits
    /// for.
    pub fn of_round(round: usize) -> Turn {
        Turn::default().in_round(round)
    }

    /// Returns the turn of an object that later rounds wait for.
    #[must_use]
    pub fn awaited(self) -> Turn {
        Turn(self.0 | AWAITED)
    }

    /// Returns the same turn in another round.
    #[must_use]
    pub fn in_round(self, round: usize) -> Turn {
        let round = u16::try_from(round).unwrap_or(MAX_ROUND).min(MAX_ROUND);
        Turn(round << 1 | self.0 & AWAITED)
    }

    /// Returns the round, which counts from 1; 0 if the object has no order.
    pub fn round(self) -> u16 {
        self.0 >> 1
    }

    /// Returns whether later rounds wait until the object is ready.
    pub fn is_awaited(self) -> bool {
        self.0 & AWAITED == AWAITED
    }

    /// Returns the turn as a number, for records.
    pub fn to_number(self) -> u16 {
        self.0
    }

    /// Returns the turn with this number.
    pub fn from_number(number: u16) -> Turn {
        Turn(number)
    }
}
