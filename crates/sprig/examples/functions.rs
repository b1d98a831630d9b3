//! Runs a template with Sprig's functions: `cargo run -p hybrid-sprig --example functions -- '{{ list 3 1 2 | sortAlpha | join "," }}'`.

#![allow(clippy::print_stdout)] // The example's output.

use std::error::Error;
use std::sync::Arc;

use go_template::{Map, Templates, Value, parse};

fn main() -> Result<(), Box<dyn Error>> {
    let text = std::env::args().nth(1).ok_or("usage: template TEXT")?;
    let mut templates = Templates::new("example");
    templates.add(&parse("example", text.as_str(), &sprig::func_map())?);
    let output = Arc::new(templates).execute("example", &Value::Map(Map::default()))?;
    println!("{}", String::from_utf8_lossy(&output));
    Ok(())
}
