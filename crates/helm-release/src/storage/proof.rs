//! Types for content read from records, by whether this operator wrote it. Only [`Sealed`] content is applied, restored
//! or run.

use super::seal::Content;
use crate::release::{Error, Packed, Release};

/// Content that this operator recorded itself. Only storage creates it: from its own writes, from content under a valid
/// seal, and from content that was compared with a chart's render.
#[derive(Clone, Debug)]
pub struct Sealed<T> {
    value: T,
    content: Content,
}

/// Content that someone else may have written: Helm, an upstream operator, or anyone who can write Secrets. It is only
/// compared, and never applied.
#[derive(Clone, Debug)]
pub struct Unproven<T> {
    facts: T,
    content: Content,
}

/// The content of a record.
#[derive(Clone, Debug)]
pub enum Stored<T> {
    /// This operator wrote it.
    Sealed(Sealed<T>),
    /// Anyone may have written it.
    Unproven(Unproven<T>),
}

impl<T> Sealed<T> {
    pub(crate) fn new(value: T, content: Content) -> Sealed<T> {
        Sealed { value, content }
    }

    /// Returns the recorded content.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Returns the same content in another form.
    pub(crate) fn map<U>(self, map: impl FnOnce(T) -> U) -> Sealed<U> {
        Sealed::new(map(self.value), self.content)
    }

    /// Returns the recorded content by value.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns the digest of the record that holds it.
    pub fn content(&self) -> Content {
        self.content
    }
}

impl<T> From<Sealed<T>> for Unproven<T> {
    /// Disregards the proof.
    fn from(Sealed { value, content }: Sealed<T>) -> Unproven<T> {
        Unproven::new(value, content)
    }
}

impl<T> Unproven<T> {
    pub(crate) fn new(facts: T, content: Content) -> Unproven<T> {
        Unproven { facts, content }
    }

    /// Returns the record's content.
    pub fn facts(&self) -> &T {
        &self.facts
    }

    /// Returns the digest of the record that holds it.
    pub fn content(&self) -> Content {
        self.content
    }
}

impl<T> Stored<T> {
    /// Returns the record's content, whether sealed or not.
    pub fn facts(&self) -> &T {
        match self {
            Stored::Sealed(sealed) => sealed.get(),
            Stored::Unproven(unproven) => unproven.facts(),
        }
    }

    /// Returns the content that this operator recorded; `None` if it did not write the record.
    pub fn sealed(self) -> Option<Sealed<T>> {
        match self {
            Stored::Sealed(sealed) => Some(sealed),
            Stored::Unproven(_) => None,
        }
    }

    /// Returns the digest of the record.
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
