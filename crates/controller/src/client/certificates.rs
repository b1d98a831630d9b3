//! Reads the certificates that another server's must lead to.

use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The reason why a file of certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file has no certificate.
    #[error("{} has no certificate in PEM", .0.display())]
    None(PathBuf),
}

/// Reads certificates in PEM.
pub(crate) fn certificates(file: &Path) -> Result<Vec<Vec<u8>>, CertificatesError> {
    let text = std::fs::read(file).map_err(|source| CertificatesError::Unread { path: file.to_owned(), source })?;
    let read: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&text).map(|one| one.map(|certificate| certificate.to_vec())).collect();
    read.ok().filter(|all| !all.is_empty()).ok_or_else(|| CertificatesError::None(file.to_owned()))
}
