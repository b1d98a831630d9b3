//! To come: values.
