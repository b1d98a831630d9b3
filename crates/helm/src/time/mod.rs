//! To come: time.
