//! Excerpts, and the flags of `template`.

use clap::{CommandFactory as _, FromArgMatches as _};
use helm::engine::Place;

use super::super::{Cli, Command, command};
use super::*;

fn place(template: &str, line: usize, column: Option<usize>) -> Place {
    Place { template: template.to_owned(), line, column }
}

fn excerpt(places: &[Place]) -> Option<String> {
    let source = |name: &str| (name == "c/t.yaml").then(|| "a: 1\nb:\n\tc: {{ .x }}\r\nd: 2\ne: 3\nf: 4\n".to_owned());
    excerpt::of(places, &source, false)
}

#[test]
fn a_caret_is_below_the_column_tabs_included() {
    let expected = " --> c/t.yaml:3:7\n  |\n1 | a: 1\n2 | b:\n3 | \tc: {{ .x }}\n  | \t      ^\n4 | d: 2\n5 | e: 3";
    assert_eq!(excerpt(&[place("c/t.yaml", 3, Some(7))]).unwrap(), expected);
}

#[test]
fn without_a_column_the_whole_line_is_marked() {
    let expected = " --> c/t.yaml:1\n  |\n1 | a: 1\n  | ^^^^\n2 | b:\n3 | \tc: {{ .x }}";
    assert_eq!(excerpt(&[place("c/t.yaml", 1, None)]).unwrap(), expected);
}

#[test]
fn the_innermost_place_with_a_source_is_shown() {
    let places = [place("c/t.yaml", 1, None), place("c/t.yaml", 6, Some(0)), place("gotpl", 1, Some(2))];
    assert!(excerpt(&places).unwrap().starts_with(" --> c/t.yaml:6:0\n"));
    assert_eq!(excerpt(&[place("gotpl", 1, None), place("c/t.yaml", 0, None)]), None);
}

#[test]
fn long_lines_are_cut_around_the_place_and_controls_do_not_reach_the_terminal() {
    let source = |_: &str| Some(format!("{}\u{1b}[2J{}", "x".repeat(1000), "y".repeat(1000)));
    let text = excerpt::of(&[place("t", 1, Some(1000))], &source, false).unwrap();
    assert!(text.lines().all(|line| line.chars().count() < 170), "{text}");
    assert!(text.contains("x\u{fffd}[2Jy") && !text.contains('\u{1b}'), "{text}");
    assert!(excerpt::of(&[place("t", 1, Some(3))], &source, true).unwrap().contains("\u{1b}[1;31m^"));
    assert_eq!(excerpt::of(&[place("t", 9, Some(3))], &|_| Some(String::new()), false).unwrap(), "  --> t:9:3\n   |");
}

fn parse(line: &str) -> Result<Template, clap::Error> {
    let matches = command("op").try_get_matches_from(line.split_whitespace())?;
    match Cli::from_arg_matches(&matches)?.command {
        Command::Template(template) => Ok(*template),
        _ => Err(Cli::command().error(clap::error::ErrorKind::InvalidSubcommand, "another command")),
    }
}

#[test]
fn helms_flags_are_taken() {
    let template = parse(
        "op template rel ./c -f a.yaml,b.yaml --set x=1,y=2 --set z={a,b} -n ns -s t.yaml -a v1 --kube-version v1.30.0",
    )
    .unwrap();
    assert_eq!(template.options.name_and_chart, ["rel", "./c"]);
    assert_eq!(template.options.values, ["a.yaml", "b.yaml"]);
    assert_eq!(template.options.set, ["x=1,y=2", "z={a,b}"]);
    assert!(!template.options.wants_cluster());
    assert!(parse("op template ./c --validate --kube-context other").unwrap().options.wants_cluster());
    assert!(parse("op template ./c --dry-run=server").unwrap().options.wants_cluster());
    assert!(
        parse("op template").is_err() && parse("op template a b c").is_err() && parse("op template c --nope").is_err()
    );
}

#[test]
fn booleans_may_have_a_value_and_the_last_of_several_flags_counts() {
    let check = |line: &str, expected: [bool; 2]| {
        let options = parse(&format!("op template c {line}")).unwrap().options;
        assert_eq!([options.include_crds, options.no_hooks], expected, "{line}");
    };
    check("", [false, false]);
    check("--include-crds --no-hooks=false", [true, false]);
    check("--include-crds=true --no-hooks=T", [true, true]);
    check("--include-crds --include-crds=0 --no-hooks --no-hooks", [false, true]);
    assert_eq!(parse("op template c -n a -n b").unwrap().options.namespace, "b");
    assert!(parse("op template c --include-crds=yes").unwrap_err().to_string().contains("strconv.ParseBool"));
}

#[test]
fn flags_that_would_change_the_result_unseen_are_refused() {
    let check = |line: &str, expected: Option<&str>| {
        let result = parse(&format!("op template c {line}")).unwrap().options.check();
        assert_eq!(result.err().map(|error| error.to_string()).as_deref(), expected, "{line}");
    };
    check("--qps 5 --color=never --username u --kube-token t --keyring k", None);
    check(
        "--repo=https://example.com",
        Some("--repo is not supported: fetch the chart with 'helm pull' and give its path"),
    );
    check("--post-renderer=sed", Some("--post-renderer is not supported: send the output through the program"));
    check(
        "--validate --kube-token=t",
        Some("--kube-token is not supported: write it into a kubeconfig and give that with --kubeconfig"),
    );
}

#[test]
fn help_has_examples() {
    let mut command = command("my-operator");
    let help = command.find_subcommand_mut("template").unwrap().render_long_help().to_string();
    assert!(help.contains("my-operator template rel ./chart --validate") && help.contains("--show-only"), "{help}");
}
