//! The kinds that Rust serves, one file each.

// +kubebuilder:scaffold:modules
