//! What the programs that compare this engine with Helm share.

pub mod cases;
pub mod terminal;

use clap::Parser;

/// `helm template`'s command line.
#[derive(Parser)]
struct Template {
    #[command(flatten)]
    options: helm::template::Options,
}

/// Renders as `helm template` with these arguments, the command's name included. Returns what it prints.
///
/// # Errors
/// Helm's message, without `Error: ` before it and the hint after it ([`without_hint`]).
pub fn template<A: Into<std::ffi::OsString> + Clone>(
    arguments: impl IntoIterator<Item = A>,
) -> Result<Vec<u8>, String> {
    let template = Template::try_parse_from(arguments).map_err(|error| error.to_string())?;
    template.options.run().map(|output| output.text).map_err(|error| without_hint(&error.to_string()).to_owned())
}

/// Returns a message of Helm without the hint to use `--debug`, which recorded ones lack.
pub fn without_hint(message: &str) -> &str {
    message.split("\n\nUse --debug").next().unwrap_or_default()
}
