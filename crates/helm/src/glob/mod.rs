//! To come: glob.
