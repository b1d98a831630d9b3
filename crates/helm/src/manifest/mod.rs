//! To come: manifest.
