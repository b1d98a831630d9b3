//! Describes what is wrong with the command line of `template`, in the words of Helm's flag library where it has them.

use golibs::strconv::NumError;

use super::comma_list::QuoteError;

/// The reason why a command line cannot be used.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum UsageError {
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    #[error("unknown flag: --{0}")]
    UnknownFlag(String),
    #[error("unknown shorthand flag: {letter:?} in -{flags}")]
    UnknownShorthand { letter: char, flags: String },
    #[error("flag needs an argument: --{0}")]
    NoValue(&'static str),
    #[error("flag needs an argument: {letter:?} in -{flags}")]
    NoShorthandValue { letter: char, flags: String },
    #[error("invalid argument {value:?} for \"{}--{flag}\" flag: {cause}", .short.map(|letter| format!("-{letter}, ")).unwrap_or_default())]
    Value { value: String, short: Option<char>, flag: &'static str, cause: ValueError },
    #[error("\"{0} template\" requires at least 1 argument\n\nUsage:  {0} template [NAME] [CHART] [flags]")]
    NoChart(String),
    #[error(
        "if any flags in the group [validate dry-run] are set none of the others can be; [dry-run validate] were all set"
    )]
    ValidateAndDryRun,
    #[error("expected at most two arguments, unexpected arguments: {}", .0.join(", "))]
    TooManyArguments(Vec<String>),
    #[error(
        "cannot fetch chart {chart:?} from {repository:?}: only charts on disk are rendered; fetch it first with 'helm pull --repo'"
    )]
    Repository { chart: String, repository: String },
    #[error("unpacked charts cannot be verified")]
    VerifyFolder,
    #[error("signatures are not checked here; run 'helm verify' first")]
    Verify,
    #[error("--{0} is not followed: say it in the kubeconfig")]
    Connection(&'static str),
}

/// The reason why a flag rejects a value.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum ValueError {
    #[error("{}", .error.message(.function, .text.as_bytes()))]
    Number { function: &'static str, text: String, error: NumError },
    #[error(transparent)]
    Duration(#[from] crate::watches::DurationError),
    #[error(transparent)]
    Quote(#[from] QuoteError),
    #[error("{0} must be formatted as key=value")]
    NoPair(String),
    #[error("invalid wait input {0:?}. Valid inputs are watcher, hookOnly, and legacy")]
    Wait(String),
    #[error("no plugins are run here; pipe the output through the program")]
    PostRenderer,
}
