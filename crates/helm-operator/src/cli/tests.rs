//! Tests of command lines and the configuration that they produce.

use std::ffi::OsString;
use std::time::Duration;

use super::*;
use crate::manager::{CertificateFiles, Config, Tls};

fn parse(line: &str) -> Result<Run, String> {
    let args = std::iter::once("op").chain(line.split_whitespace()).map(Into::into).collect();
    let matches = command("op").try_get_matches_from(with_run(args)).map_err(|e| e.to_string())?;
    match Cli::from_arg_matches(&matches).map_err(|e| e.to_string())?.command {
        Command::Run(run) => Ok(*run),
        other => Err(format!("{other:?}")),
    }
}

fn config(line: &str, env: &[(&str, &str)]) -> Result<Config, String> {
    let env = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
    parse(line)?.config(env).map_err(|e| e.to_string())
}

#[test]
fn the_defaults_match_upstream() {
    let config = config("run", &[]).unwrap();
    assert_eq!(config.process.controllers.reconcile_period, Duration::from_secs(60));
    assert_eq!(config.charts.hook_timeout, Duration::from_secs(3600));
    assert_eq!(config.charts.max_history, 10);
    assert_eq!(config.charts.progress_timeout, Duration::from_secs(600));
    assert_eq!(config.process.metrics_bind_address, ":8080");
    assert_eq!(config.process.health_probe_bind_address, ":8081");
    assert!(!config.process.leader_elect && config.process.controllers.namespaces.is_all());
    assert!(config.charts.suppress_override_values, "unlike upstream");
    assert_eq!(
        config.process.controllers.max_concurrent_reconciles,
        std::thread::available_parallelism().unwrap().get().max(8)
    );
    assert_eq!(parse("run").unwrap().watches_file, std::path::Path::new("./watches.yaml"));
}

#[test]
fn every_flag_reaches_the_configuration() {
    let line = "run --watches-file=w.yaml --reconcile-period=1m30s --hook-timeout=2h --progress-timeout=0 --max-concurrent-reconciles 3 --max-history=5 --metrics-bind-address=0 \
        --metrics-secure --metrics-require-rbac --health-probe-bind-address=127.0.0.1:0 --leader-elect --leader-election-id=me \
        --leader-election-namespace=ns --suppress-override-values=false --full-resync-period=12h --max-parallel-upgrades=5 --enable-http2=true --zap-devel=false --zap-encoder=console \
        --zap-log-level=debug --zap-stacktrace-level=panic --zap-time-encoding=iso8601";
    let config = config(line, &[("WATCH_NAMESPACE", "a, b")]).unwrap();
    assert_eq!((config.charts.hook_timeout, config.charts.max_history), (Duration::from_secs(7200), 5));
    assert_eq!(config.charts.progress_timeout, Duration::ZERO);
    assert_eq!(
        (config.process.controllers.reconcile_period, config.process.controllers.max_concurrent_reconciles),
        (Duration::from_secs(90), 3)
    );
    assert_eq!(config.charts.full_resync_period, Duration::from_secs(12 * 3600));
    assert_eq!(config.charts.max_parallel_upgrades, 5);
    assert_eq!(
        (&*config.process.metrics_bind_address, &*config.process.health_probe_bind_address),
        ("0", "127.0.0.1:0")
    );
    assert!(config.process.leader_elect && !config.charts.suppress_override_values);
    assert_eq!((&*config.process.leader_election_id, &*config.process.leader_election_namespace), ("me", "ns"));
    assert_eq!(*config.process.controllers.namespaces.0, ["a", "b"]);
    let telemetry = parse(line).unwrap().telemetry();
    assert_eq!(telemetry.encoder, Some(telemetry::Encoder::Console));
    assert_eq!(telemetry.time, Some(telemetry::TimeEncoding::Iso8601));
}

#[test]
fn a_flag_and_its_old_name_exclude_each_other() {
    let check = |line: &str, expected: &str| assert_eq!(config(line, &[]).map(|_| ()), Err(expected.to_owned()));
    check(
        "run --metrics-addr=:1 --metrics-bind-address=:2",
        "only one of --metrics-addr and --metrics-bind-address may be set",
    );
    check(
        "run --enable-leader-election --leader-elect",
        "only one of --enable-leader-election and --leader-elect may be set",
    );
    check("run --metrics-require-rbac", "--metrics-secure flag is required when --metrics-require-rbac is present");
}

#[test]
fn metrics_are_served_over_https_as_the_flags_of_scaffolds_ask() {
    let tls = |line: &str| config(line, &[]).unwrap().process.metrics_tls;
    assert_eq!(tls("run"), None);
    assert_eq!(tls("run --metrics-secure"), Some(Tls::default()));
    let scaffold = "--metrics-require-rbac --metrics-secure --metrics-bind-address=:8443 --leader-elect --leader-election-id=x \
        --health-probe-bind-address=:8081";
    assert_eq!(tls(scaffold), Some(Tls { require_rbac: true, ..Tls::default() }));
    let names = |folder: &str, certificate: &str, key: &str| {
        let folder = std::path::Path::new(folder);
        Some(CertificateFiles { certificate: folder.join(certificate), key: folder.join(key) })
    };
    let mounted = "run --metrics-secure --enable-http2 --metrics-cert-path=/certs";
    assert_eq!(
        tls(mounted),
        Some(Tls { files: names("/certs", "tls.crt", "tls.key"), http2: true, require_rbac: false })
    );
    let renamed = tls(&format!("{mounted} --metrics-cert-name=a.pem --metrics-cert-key=b.pem")).unwrap();
    assert_eq!(renamed.files, names("/certs", "a.pem", "b.pem"));
    let without = parse("run --metrics-cert-path=/certs").unwrap();
    assert_eq!((without.config(|_| None).unwrap().process.metrics_tls, without.warnings().len()), (None, 1));
}

#[test]
fn traces_are_sent_only_where_an_address_says() {
    let of = |line: &str| parse(line).unwrap().traces();
    assert!(of("run").unwrap().is_none() && of("run --traces-endpoint=").unwrap().is_none());
    let settings = of("run --traces-endpoint=http://a:4318/v1/traces --traces-ca-file=/ca").unwrap().unwrap();
    assert_eq!((settings.endpoint.path(), settings.ca_file), ("/v1/traces", Some("/ca".into())));
    assert!(of("run --traces-endpoint=a:b:c").unwrap_err().to_string().contains("must be a URL such as"));
    assert_eq!(
        parse("run --traces-ca-file=/ca").unwrap().warnings(),
        ["--traces-ca-file has no effect without --traces-endpoint"]
    );
}

#[test]
fn cloudevents_have_an_address_that_no_error_quotes() {
    let of = |line: &str| config(line, &[]).map(|config| config.process.notifications);
    assert!(of("run").unwrap().is_none());
    let settings = of(
        "run --cloudevents-sink=https://example.com/t0ken --cloudevents-secret-file=/key --cloudevents-mode=binary \
        --cloudevents-source=/clusters/prod",
    )
    .unwrap()
    .unwrap();
    assert_eq!(
        (settings.sink.to_string().as_str(), settings.source.as_str()),
        ("https://example.com", "/clusters/prod")
    );
    assert_eq!(settings.mode, controller::notifications::Mode::Binary);
    let default = of("run --cloudevents-sink=http://127.0.0.1:1").unwrap().unwrap();
    assert_eq!(default.source, "/helm-operator");
    for (line, expected) in [
        ("run --cloudevents-sink=http://example.com/t0ken", "must be an https URL"),
        ("run --cloudevents-sink=t0ken", "must be a URL"),
        ("run --cloudevents-secret-file=/key", "--cloudevents-sink is required"),
    ] {
        let error = of(line).map(drop).unwrap_err();
        assert!(error.contains(expected) && !error.contains("t0ken"), "{error}");
    }
}

#[test]
fn the_page_is_off_unless_it_has_an_address() {
    let process = |line: &str| config(line, &[]).unwrap().process;
    assert_eq!((&*process("run").web_bind_address, process("run").web_certificate), ("0", None));
    let on = process("run --web-bind-address=:8443 --web-cert-path=/certs");
    let folder = std::path::Path::new("/certs");
    let files = CertificateFiles { certificate: folder.join("tls.crt"), key: folder.join("tls.key") };
    assert_eq!((&*on.web_bind_address, on.web_certificate), (":8443", Some(files)));
    assert!(!on.web_actions && process("run --web-bind-address=:8443 --web-actions").web_actions);
    let warnings = |line: &str| parse(line).unwrap().warnings();
    assert_eq!(warnings("run --web-cert-path=/certs").len(), 1, "it has no effect alone");
    assert_eq!(warnings("run --web-actions"), ["--web-actions has no effect without --web-bind-address"]);
    assert!(warnings("run --web-actions --web-bind-address=:8443").is_empty());
}

#[test]
fn old_names_work_alone_and_warn() {
    let run = parse("run --metrics-addr=:1 --enable-leader-election --config=c.yaml").unwrap();
    let config = run.config(|_| None).unwrap();
    assert!(config.process.leader_elect && config.process.metrics_bind_address == ":1");
    assert_eq!(run.warnings().len(), 3);
}

#[test]
fn flags_without_a_command_are_those_of_run() {
    assert_eq!(
        config("--max-concurrent-reconciles=2 --leader-elect=false", &[])
            .unwrap()
            .process
            .controllers
            .max_concurrent_reconciles,
        2
    );
}

#[test]
fn the_old_operator_name_variable_names_the_lease_unless_a_flag_does() {
    let env = [("OPERATOR_NAME", "old")];
    assert_eq!(config("run", &env).unwrap().process.leader_election_id, "old");
    assert_eq!(config("run --leader-election-id=new", &env).unwrap().process.leader_election_id, "new");
}

#[test]
fn input_that_go_rejects_is_rejected() {
    let check = |line: &str, part: &str| {
        let error = parse(line).map(|_| ()).unwrap_err();
        assert!(error.contains(part), "{error}");
    };
    check("run --reconcile-period=5", r#"time: missing unit in duration "5""#);
    check("run --max-concurrent-reconciles=0", "0 is not in 1..=65535");
    check("run --leader-elect=maybe", r#"strconv.ParseBool: parsing "maybe": invalid syntax"#);
    check("run --no-such-flag", "--no-such-flag");
    check("run --zap-log-level=loud", "invalid log level \"loud\"");
}

#[test]
fn help_names_the_program_and_has_examples() {
    let help = command("my-operator").render_long_help().to_string();
    assert!(help.contains("my-operator run --leader-elect"), "{help}");
}

#[test]
fn the_version_line_has_upstreams_words() {
    let line = version::line("helm-operator");
    assert!(line.starts_with(r#"helm-operator version: "v"#) && line.contains("kubernetes version:"), "{line}");
}

#[test]
fn the_command_is_consistent() {
    command("op").debug_assert();
}

#[test]
fn every_word_is_completed_and_every_command_has_a_page() {
    for (line, word) in [("op temp", "template"), ("op run --watches-f", "--watches-file"), ("op status -o j", "json")]
    {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let last = words.len() - 1;
        let found = clap_complete::engine::complete(&mut command("op"), words, last, None).unwrap();
        assert!(found.iter().any(|one| one.get_value() == word), "{line}: {found:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    clap_mangen::generate_to(command("op").name("op"), folder.path()).unwrap();
    let page = std::fs::read_to_string(folder.path().join("op-run.1")).unwrap();
    assert!(page.contains("watches\\-file"), "{page}");
}

/// Returns a table of the flags of `run`, as clap knows them.
fn flags_page() -> String {
    let mut page = "# Flags\n\nThe flags of `run`. A flag applies to every watch that does not say otherwise in [watches.yaml](watches.md).\n\n\
                    | flag | default | means |\n|---|---|---|\n"
        .to_owned();
    let command = command("helm-operator");
    let run = command.find_subcommand("run").unwrap();
    let shown = |arg: &&clap::Arg| !arg.is_hide_set() && arg.get_long().is_some_and(|long| long != "help");
    for arg in run.get_arguments().filter(shown) {
        let value = arg.get_value_names().filter(|_| arg.get_action().takes_values());
        let value = value.map(|names| format!("={}", names[0])).unwrap_or_default();
        let default: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|").replace('*', "\\*");
        let default = if arg.get_action().takes_values() { default.join(",") } else { String::new() };
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        page += &format!("| `--{}{value}` | {default} | {help} |\n", arg.get_long().unwrap());
    }
    page + "\n`WATCH_NAMESPACE` in the environment names the namespaces to serve, separated by commas; empty means all.\n"
}

#[test]
fn the_page_of_flags_is_up_to_date() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flags.md");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, flags_page()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == flags_page(), "docs/flags.md is stale: run `make flags`");
}

#[test]
fn a_saved_chart_is_served_although_a_reconcile_hangs() {
    let hung = || Err(manager::Error::Run(manager::RunError::Grace(RELOAD_GRACE)));
    assert!(starts_again(Ok(()), true).unwrap() && starts_again(hung(), true).unwrap());
    assert!(!starts_again(Ok(()), false).unwrap() && starts_again(hung(), false).is_err());
}

#[test]
fn a_shard_selector_is_checked_at_start_and_excludes_a_ring() {
    let flag = "--shard-selector=shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')";
    let selector = config(&format!("run {flag}"), &[]).unwrap().process.controllers.shard_selector.unwrap();
    let expected = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')";
    assert_eq!(selector.to_string(), expected);
    let error = config("run --shard-selector=shard=a", &[]).unwrap_err();
    assert!(error.contains(&format!("a valid one is {expected}")), "{error}");
    let error = config(&format!("run --controller-ring=r {flag}"), &[]).unwrap_err();
    assert_eq!(error, "only one of --controller-ring and --shard-selector may be set");
}
