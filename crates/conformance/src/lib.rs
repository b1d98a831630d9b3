//! Code that the programs share that compare this engine with Helm.

pub mod cases;
pub mod terminal;

use clap::Parser;

/// `helm template`'s command line.
#[derive(Parser)]
struct Template {
    #[command(flatten)]
    options: helm::template::Options,
}

/// Renders as `helm template` does with these arguments, which start with the command's name. Returns its output.
///
/// # Errors
/// Fails with Helm's message, without `Error: ` before it and the hint after it ([`without_hint`]).
pub fn template<A: Into<std::ffi::OsString> + Clone>(
    arguments: impl IntoIterator<Item = A>,
) -> Result<Vec<u8>, String> {
    let template = Template::try_parse_from(arguments).map_err(|error| error.to_string())?;
    template.options.run().map(|output| output.text).map_err(|error| without_hint(&error.to_string()).to_owned())
}

/// Returns one of Helm's messages without the hint to use `--debug`, which recorded messages do not contain.
pub fn without_hint(message: &str) -> &str {
    message.split("\n\nUse --debug").next().unwrap_or_default()
}
