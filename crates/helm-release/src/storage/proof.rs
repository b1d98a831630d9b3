//! What is read from records, by whether this operator wrote it. Only what is [`Sealed`] is applied, restored or run.

use super::seal::Content;
use crate::release::{Error, Packed, Release};

/// What this operator recorded itself. Only storage makes one: from its own writes, from what a valid seal covers, and from what was compared with a
/// chart's render.
#[derive(Clone, Debug)]
pub struct Sealed<T> {
    value: T,
    content: Content,
}

/// What somebody else may have written: Helm, an upstream operator, or whoever may write Secrets. It is compared with, and never applied as it stands.
#[derive(Clone, Debug)]
pub struct Unproven<T> {
    facts: T,
    content: Content,
}

/// What a record holds.
#[derive(Clone, Debug)]
pub enum Stored<T> {
    /// This operator wrote it.
    Sealed(Sealed<T>),
    /// Anybody may have written it.
    Unproven(Unproven<T>),
}

impl<T> Sealed<T> {
    pub(crate) fn new(value: T, content: Content) -> Sealed<T> {
        Sealed { value, content }
    }

    /// What was recorded.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Takes what was recorded.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// The digest of the record that holds it.
    pub fn content(&self) -> Content {
        self.content
    }
}

impl<T> Unproven<T> {
    pub(crate) fn new(facts: T, content: Content) -> Unproven<T> {
        Unproven { facts, content }
    }

    /// What the record says.
    pub fn facts(&self) -> &T {
        &self.facts
    }

    /// The digest of the record that says it.
    pub fn content(&self) -> Content {
        self.content
    }
}

impl<T> Stored<T> {
    /// What the record says, whoever wrote it.
    pub fn facts(&self) -> &T {
        match self {
            Stored::Sealed(sealed) => sealed.get(),
            Stored::Unproven(unproven) => unproven.facts(),
        }
    }

    /// What this operator recorded; `None` if it did not write the record.
    pub fn sealed(self) -> Option<Sealed<T>> {
        match self {
            Stored::Sealed(sealed) => Some(sealed),
            Stored::Unproven(_) => None,
        }
    }

    /// The digest of the record.
    pub fn content(&self) -> Content {
        match self {
            Stored::Sealed(sealed) => sealed.content(),
            Stored::Unproven(unproven) => unproven.content(),
        }
    }

    /// Returns whether this operator wrote it.
    pub fn is_sealed(&self) -> bool {
        matches!(self, Stored::Sealed(_))
    }

    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Stored<U> {
        match self {
            Stored::Sealed(Sealed { value, content }) => Stored::Sealed(Sealed::new(map(value), content)),
            Stored::Unproven(Unproven { facts, content }) => Stored::Unproven(Unproven::new(map(facts), content)),
        }
    }

    fn try_map<U>(&self, map: impl FnOnce(&T) -> Result<U, Error>) -> Result<Stored<U>, Error> {
        Ok(match self {
            Stored::Sealed(Sealed { value, content }) => Stored::Sealed(Sealed::new(map(value)?, *content)),
            Stored::Unproven(Unproven { facts, content }) => Stored::Unproven(Unproven::new(map(facts)?, *content)),
        })
    }
}

impl Sealed<Release> {
    /// Packs the release.
    ///
    /// # Errors
    /// The values cannot be written as JSON.
    pub(crate) fn pack(&self) -> Result<Sealed<Packed>, Error> {
        Ok(Sealed::new(Packed::pack(&self.value)?, self.content))
    }
}

impl Stored<Packed> {
    /// Unpacks the release.
    ///
    /// # Errors
    /// The JSON exceeds the size limit.
    pub fn unpack(&self) -> Result<Stored<Release>, Error> {
        self.try_map(Packed::unpack)
    }
}

impl Stored<Release> {
    /// Packs the release.
    ///
    /// # Errors
    /// The values cannot be written as JSON.
    pub fn pack(&self) -> Result<Stored<Packed>, Error> {
        self.try_map(Packed::pack)
    }
}
