//! To come: regex.
