//! The Rust reconcilers, one file each.

// +kubebuilder:scaffold:modules
