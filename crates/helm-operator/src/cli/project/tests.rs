//! Tests with command lines of upstream's tutorials.

use clap::FromArgMatches as _;

use super::init::options;
use crate::cli::{Cli, Command, command};

fn parse(line: &str) -> Result<Command, String> {
    let matches = command("helm-operator").try_get_matches_from(line.split_whitespace()).map_err(|e| e.to_string())?;
    Ok(Cli::from_arg_matches(&matches).map_err(|e| e.to_string())?.command)
}

fn init_options(line: &str) -> Result<scaffold::Init, String> {
    match parse(line)? {
        Command::Init(init) => options(&init, &scaffold::Project::default()).map_err(|error| error.to_string()),
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn upstreams_spellings_choose_the_kind_of_project() {
    let is_hybrid = |line: &str| init_options(line).unwrap().hybrid.is_some();
    let hybrid = "op init --plugins=hybrid.helm.sdk.operatorframework.io --project-version=3 --domain my.domain --repo=github.com/example/memcached-operator --project-name a";
    assert!(is_hybrid(hybrid));
    assert!(is_hybrid("op init --hybrid --project-name a"));
    assert!(is_hybrid(
        "op init --plugins hybrid.helm.sdk.operatorframework.io/v1-alpha --license apache2 --owner me --project-name a"
    ));
    assert!(!is_hybrid("op init --plugins helm --domain example.com --project-name a"));
    assert!(!is_hybrid("op init --project-name a"));
    assert_eq!(init_options(hybrid).unwrap().repo.as_deref(), Some("github.com/example/memcached-operator"));
}

#[test]
fn settings_that_cannot_be_met_are_refused() {
    let check = |line: &str, expected: &str| {
        let error = init_options(line).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    check("op init --project-version=2 --project-name a", "only 3 is");
    check("op init --plugins=ansible --project-name a", "known ones: helm, hybrid.helm, go");
    check("op init --plugins=helm --hybrid --project-name a", "contradict");
}

#[test]
fn the_tutorials_apis_parse() {
    for line in [
        "op create api --plugins helm.sdk.operatorframework.io/v1 --group cache --version v1 --kind Memcached",
        "op create api --group cache --version v1 --kind MemcachedBackup --resource --controller --plugins=go/v3",
        "op create api --group cache --version v1 --kind X --resource=true --controller=false --namespaced=true --make=false",
        "op create api --helm-chart ./chart.tgz",
        "op generate crds --check",
        "op generate rbac --force",
    ] {
        parse(line).unwrap();
    }
}
