//! A small `helm template`: `cargo run -p hybrid-helm --example template -- NAME CHART [KEY=VALUE …]`.
//!
//! The feature `cli` turns `Options` into clap arguments with all of Helm's flags.

#![allow(clippy::print_stdout, clippy::print_stderr)] // The example's output.

use std::process::ExitCode;

use helm::template::Options;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(name), Some(chart)) = (args.next(), args.next()) else {
        eprintln!("usage: template NAME CHART [KEY=VALUE …]");
        return ExitCode::FAILURE;
    };
    let options = Options {
        name_and_chart: vec![name, chart],
        namespace: "default".to_owned(),
        set: args.collect(),
        ..Options::default()
    };
    match options.run() {
        Ok(output) => {
            output.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            print!("{}", String::from_utf8_lossy(&output.text));
            ExitCode::SUCCESS
        }
        Err(error) => {
            let places = error.in_template().into_iter().flat_map(|error| error.places());
            places.for_each(|place| eprintln!("at {}:{}", place.template, place.line));
            eprintln!("Error: {error}");
            ExitCode::FAILURE
        }
    }
}
