//! Tests of excerpts, and of the flags of `template`.

use clap::FromArgMatches as _;
use helm::engine::Position;

use super::super::{Cli, Command, command};
use super::usage::UsageError;
use super::*;

fn place(template: &str, line: usize, column: Option<usize>) -> Position {
    Position { template: template.to_owned(), line, column }
}

fn excerpt(places: &[Position]) -> Option<String> {
    let source = |name: &str| (name == "c/t.yaml").then(|| "a: 1\nb:\n\tc: {{ .x }}\r\nd: 2\ne: 3\nf: 4\n".to_owned());
    excerpt::of(places, &source, Colour::Never)
}

#[test]
fn the_caret_lines_up_with_the_column_even_after_tabs() {
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
fn long_lines_are_cut_around_the_error_and_control_characters_are_escaped() {
    let source = |_: &str| Some(format!("{}\u{1b}[2J{}", "x".repeat(1000), "y".repeat(1000)));
    let text = excerpt::of(&[place("t", 1, Some(1000))], &source, Colour::Never).unwrap();
    assert!(text.lines().all(|line| line.chars().count() < 170), "{text}");
    assert!(text.contains("x\u{fffd}[2Jy") && !text.contains('\u{1b}'), "{text}");
    assert!(excerpt::of(&[place("t", 1, Some(3))], &source, Colour::Ansi).unwrap().contains("\u{1b}[1;31m^"));
    assert_eq!(
        excerpt::of(&[place("t", 9, Some(3))], &|_| Some(String::new()), Colour::Never).unwrap(),
        "  --> t:9:3\n   |"
    );
}

fn line(line: &str, env: &[(&str, &str)]) -> Result<args::Line, (Vec<String>, Box<UsageError>)> {
    let words: Vec<String> = line.split_whitespace().skip(2).map(str::to_owned).collect();
    args::read(&words, "op", |name| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
}

fn parse_in(text: &str, env: &[(&str, &str)]) -> Result<Template, String> {
    let plain = line(text, env).map_err(|(_, error)| error.to_string())?.plain();
    let words = ["op", "template"].into_iter().map(str::to_owned).chain(plain);
    let matches = command("op").try_get_matches_from(words).map_err(|e| e.to_string())?;
    match Cli::from_arg_matches(&matches).map_err(|e| e.to_string())?.command {
        Command::Template(template) => Ok(*template),
        _ => Err("another command".to_owned()),
    }
}

fn parse(line: &str) -> Result<Template, String> {
    parse_in(line, &[])
}

#[test]
fn helms_flags_are_accepted() {
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
fn help_has_examples() {
    let mut command = command("my-operator");
    let help = command.find_subcommand_mut("template").unwrap().render_long_help().to_string();
    assert!(help.contains("my-operator template rel ./chart --validate") && help.contains("--show-only"), "{help}");
}

#[test]
fn flags_are_written_as_helm_takes_them() {
    let template = parse(
        "op template -nfirst -n=x --include-crds=true --no-hooks=f -fa.yaml --values=\"b,c\",d --set a=1 --set= -s t -g=false \
         --color=never --qps=3 --wait --wait=legacy --timeout 5s -l a=b,c=d -- -c",
    )
    .unwrap();
    let options = &template.options;
    assert_eq!(options.name_and_chart, ["-c"]);
    assert_eq!(options.namespace, "x", "the last one counts");
    assert!(options.include_crds && !options.no_hooks && !options.generate_name);
    assert_eq!(options.values, ["a.yaml", "b,c", "d"]);
    assert_eq!(options.set, ["a=1", ""]);
    assert_eq!(options.dry_run, None);
    assert_eq!(parse("op template c --dry-run").unwrap().options.dry_run.as_deref(), Some("client"));
}

#[test]
fn a_command_line_that_helm_rejects_is_rejected_in_its_words() {
    let check = |text: &str, expected: &str| assert_eq!(parse(text).map(|_| ()), Err(expected.to_owned()), "{text}");
    check("op template", "\"op template\" requires at least 1 argument\n\nUsage:  op template [NAME] [CHART] [flags]");
    check("op template a b c d", "expected at most two arguments, unexpected arguments: c, d");
    check("op template c --nope=1", "unknown flag: --nope");
    check("op template c -gzq", "unknown shorthand flag: 'z' in -zq");
    check("op template c --=x", "bad flag syntax: --=x");
    check("op template c -n", "flag needs an argument: 'n' in -n");
    check("op template c --set", "flag needs an argument: --set");
    check(
        "op template c --debug=maybe",
        "invalid argument \"maybe\" for \"--debug\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
    );
    check("op template c -l a", "invalid argument \"a\" for \"-l, --labels\" flag: a must be formatted as key=value");
    check(
        "op template c --timeout 5",
        "invalid argument \"5\" for \"--timeout\" flag: time: missing unit in duration \"5\"",
    );
    check(
        "op template c --validate --dry-run=client",
        "if any flags in the group [validate dry-run] are set none of the others can be; [dry-run validate] were all set",
    );
}

#[test]
fn unsupported_flags_are_rejected_with_advice() {
    let check = |text: &str, part: &str| {
        let error = parse(text).map(|_| ()).unwrap_err();
        assert!(error.contains(part), "{error}");
    };
    check("op template c --repo https://x.example", "fetch it first with 'helm pull --repo'");
    check("op template c.tgz --verify", "run 'helm verify' first");
    check("op template c --post-renderer x", "pipe the output");
    check("op template c --validate --kube-token x", "--kube-token is not followed: say it in the kubeconfig");
    assert!(parse("op template c --kube-token x --kube-as-group a --kube-as-group b").is_ok());
}

#[test]
fn the_environment_and_the_kubeconfig_fill_in_for_missing_flags() {
    let env = [("HELM_NAMESPACE", "from-env"), ("HELM_DEBUG", "1")];
    let options = parse_in("op template c", &env).unwrap().options;
    assert_eq!((options.namespace.as_str(), options.debug), ("from-env", true));
    assert_eq!(parse_in("op template c -n flag", &env).unwrap().options.namespace, "flag");

    let mut read = line("op template c --kube-context other", &[]).unwrap();
    read.default_namespace(|path, context| Some(format!("{path}|{context}")));
    assert!(read.plain().contains(&"--namespace=|other".to_owned()), "{:?}", read.plain());
}

#[test]
fn old_flags_warn_as_in_helm() {
    let (warnings, _) = line("op template c --validate --dry-run", &[]).unwrap_err();
    assert_eq!(warnings, ["Flag --validate has been deprecated, use '--dry-run=server' instead"]);
    let warnings = line("op template c --atomic --atomic=false", &[]).unwrap().warnings;
    assert_eq!(warnings, ["Flag --atomic has been deprecated, use --rollback-on-failure instead"]);
}
