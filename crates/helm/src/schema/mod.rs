//! To come: schema.
