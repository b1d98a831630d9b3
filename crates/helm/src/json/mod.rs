//! To come: json.
