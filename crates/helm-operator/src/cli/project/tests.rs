//! Tests with command lines of upstream's tutorials.

use clap::FromArgMatches as _;

use super::init::options;
use super::place;
use crate::cli::{Cli, Command, command};
use crate::watches;

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

#[test]
fn each_version_of_a_url_has_a_place_of_its_own_in_the_project() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let placed = |chart: &str, pull: &str| {
        let text = format!("- {{group: g, version: v1, kind: Shop, chart: '{chart}', pull: {{{pull}}}}}");
        place(&watches::parse(&text, |_| None).unwrap().watches.remove(0))
    };
    let shop = "oci://r.io/shop";
    assert_eq!(placed(shop, "version: ^1.2"), "oci://r.io/shop:^1.2");
    assert_eq!(placed(shop, "version: 2.0.0"), "oci://r.io/shop:2.0.0");
    assert_eq!(placed(shop, &format!("digest: '{digest}'")), format!("oci://r.io/shop@{digest}"));
    // The default, written out or not.
    assert_eq!((placed(shop, ""), placed(shop, "version: '*'")), (shop.to_owned(), shop.to_owned()));
    assert_eq!(placed("https://r.io/shop.tgz", ""), "https://r.io/shop.tgz");
}
