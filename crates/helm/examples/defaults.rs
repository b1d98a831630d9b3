//! Renders a chart with its default values: `cargo run -p hybrid-helm --example defaults -- CHART`.

#![allow(clippy::print_stdout)] // The example's output.

use std::error::Error;
use std::path::Path;

use go_template::Map;
use helm::chart::Chart;
use helm::engine::{Capabilities, Engine, ReleaseOptions, Request};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: render CHART")?;
    let engine = Engine::new(Chart::load(Path::new(&path))?);
    let release = ReleaseOptions { name: "rel".into(), namespace: "default".into(), revision: 1, is_upgrade: false };
    let rendered = engine.render(&Request {
        values: &Map::default(),
        release: &release,
        capabilities: &Capabilities::default(),
        lookup: None,
        skip_schema: false,
    })?;
    print!("{}", rendered.manifest());
    Ok(())
}
