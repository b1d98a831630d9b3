//! Prints the manifest in a release record, ours or Helm's: `kubectl get secret sh.helm.release.v1.NAME.v1 -o
//! jsonpath='{.data.release}' | base64 -d | cargo run -p helm-release --example record`.

#![allow(clippy::print_stdout)] // The example's output.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read as _;

use helm_release::release::Packed;

fn main() -> Result<(), Box<dyn Error>> {
    let mut record = Vec::new();
    std::io::stdin().read_to_end(&mut record)?;
    let release = Packed::from_record(&record, BTreeMap::new())?;
    println!("# {} revision {}: {}", release.name, release.version, release.info.status.as_str());
    print!("{}", release.manifest);
    Ok(())
}
