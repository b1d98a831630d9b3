//! An operator for the charts of a watches file: `cargo run -p helm-operator --example charts -- watches.yaml`.

use helm_operator::manager::{Config, Error, Manager};
use helm_operator::telemetry;

#[tokio::main]
async fn main() -> Result<(), Error> {
    telemetry::init(telemetry::Options::default());
    let watches = std::env::args().nth(1).unwrap_or_else(|| "watches.yaml".to_owned());
    Manager::new(Config::default()).watches(watches)?.run().await
}
