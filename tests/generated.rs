//! Committed generated files are up to date. `make manifests` rewrites them.

use std::path::PathBuf;

use kube::CustomResourceExt as _;
use memcached_operator::api::memcached_backup::MemcachedBackup;

const HEADER: &str = "# Generated from src/api/memcached_backup.rs by `make manifests`.\n";

#[test]
fn generated_crd_of_memcached_backup_is_committed() {
    let yaml = serde_yaml::to_string(&MemcachedBackup::crd()).unwrap();
    check("config/crd/bases/cache.my.domain_memcachedbackups.yaml", &format!("{HEADER}{yaml}"));
}

fn check(file: &str, expected: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == expected, "{file} is stale: run `make manifests`");
}
