//! Checks a version against a constraint, as Helm's `semverCompare` does: `cargo run -p golibs --example semver -- '>=1.25-0' v1.31.2`.

#![allow(clippy::print_stdout)] // The example's output.

use std::error::Error;

use golibs::semver::{Constraint, Version};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [constraint, version] = args.as_slice() else { return Err("usage: semver CONSTRAINT VERSION".into()) };
    println!("{}", Constraint::parse(constraint)?.check(&Version::parse(version)?));
    Ok(())
}
