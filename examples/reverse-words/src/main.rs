//! The reverse-words tutorial in Rust: a Deployment and a LoadBalancer for each `ReverseWordsApp`.

use std::process::ExitCode;

use helm_operator::Operator;

fn main() -> ExitCode {
    Operator::new().native(reverse_words::Controller).main()
}
