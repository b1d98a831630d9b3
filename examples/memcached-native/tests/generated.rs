//! The committed definition is that of the Rust type. `make manifests` rewrites it.

use kube::CustomResourceExt as _;
use memcached_native::Memcached;

#[test]
fn generated_definition_is_committed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/config/crd/bases/cache.example.com_memcacheds.yaml");
    let header = "# Generated from src/api.rs by `make manifests`.\n";
    let expected = format!("{header}{}", serde_yaml::to_string(&Memcached::crd()).unwrap());
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, &expected).unwrap();
    }
    assert!(std::fs::read_to_string(path).unwrap_or_default() == expected, "stale: run `make manifests`");
}
