//! Reads YAML like Helm and prints it as JSON: `cargo run -p go-encoding --example yaml-to-json <values.yaml`.

#![allow(clippy::print_stdout)] // The example's output.

use std::error::Error;
use std::io::Read as _;

use go_encoding::{json, yaml};

fn main() -> Result<(), Box<dyn Error>> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text)?;
    let output = json::encode(&yaml::parse(&text)?, json::EscapeHtml::No, json::Layout::Compact)?;
    println!("{}", String::from_utf8_lossy(&output));
    Ok(())
}
