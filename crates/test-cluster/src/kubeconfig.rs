//! Kubeconfigs and the API server's token file.

use std::fs::File;
use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Attempt, Error};

/// A user with full rights and a token that is generated per cluster.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) token: String,
    /// The group besides `system:masters`.
    pub(crate) group: &'static str,
}

impl User {
    pub(crate) fn new(name: &str, group: &'static str) -> Result<User, Error> {
        Ok(User { name: name.to_owned(), token: random_token()?, group })
    }

    /// Returns its line in the API server's token file.
    pub(crate) fn line(&self) -> String {
        format!("{},{},{},\"system:masters,{}\"\n", self.token, self.name, self.name, self.group)
    }
}

pub(crate) fn with_token(port: u16, certificate: &[u8], token: &str) -> String {
    let certificate = STANDARD.encode(certificate);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: test-cluster
  cluster:
    server: https://127.0.0.1:{port}
    certificate-authority-data: {certificate}
users:
- name: user
  user:
    token: {token}
contexts:
- name: test-cluster
  context:
    cluster: test-cluster
    user: user
    namespace: default
current-context: test-cluster
"
    )
}

/// Returns 128 random bits in hexadecimal.
pub(crate) fn random_token() -> Result<String, Error> {
    let mut bytes = [0u8; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .attempt(|| "read /dev/urandom".into())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
