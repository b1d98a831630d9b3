//! To come: storage.
