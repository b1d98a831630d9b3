//! An operator for the charts of a watches file, without a command line: `cargo run -p helm-operator --example charts -- watches.yaml`.

use helm_operator::manager::{Config, Error};
use helm_operator::{Operator, telemetry};

#[tokio::main]
async fn main() -> Result<(), Error> {
    telemetry::init(telemetry::Options::default());
    let watches = std::env::args().nth(1).unwrap_or_else(|| "watches.yaml".to_owned());
    Operator::new().watches(watches)?.manager(Config::default()).run().await
}
