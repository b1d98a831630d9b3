//! Manages a test cluster from the command line: `cluster build` builds its binaries, `cluster up` leaves one running,
//! `cluster down` stops it, `cluster run COMMAND…` runs a command with its own cluster. Used by `make cluster-up`,
//! `cluster-down` and `demo`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use std::{env, fs};

use test_cluster::{Options, RealNode, TestCluster};

const USAGE: &str = "usage: cluster build | up | down | run [--keep] [--audit] COMMAND [ARGUMENT...]

build build missing binaries, which takes 10 to 15 minutes the first time
up    start a cluster, leave it running and print its export KUBECONFIG line
down  stop it
run   run COMMAND with KUBECONFIG set to its own cluster, which stops with the command;
      --keep leaves the cluster running, like `up`; --audit logs requests to $CLUSTER_FOLDER/audit.log
";

type Outcome = Result<ExitCode, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let words: Vec<&str> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let outcome = match words.as_slice() {
        ["build"] => test_cluster::build().map(|_| ExitCode::SUCCESS).map_err(Into::into),
        ["up"] => up(),
        ["down"] => down(),
        ["run", "--keep", command, ..] if is_command(command) => run(&arguments[2..], options(true, false)),
        ["run", "--audit", command, ..] if is_command(command) => run(&arguments[2..], options(false, true)),
        ["run", "--keep", "--audit", command, ..] if is_command(command) => run(&arguments[3..], options(true, true)),
        ["run", command, ..] if is_command(command) => run(&arguments[1..], Options::default()),
        _ => {
            say(USAGE.trim_end());
            return ExitCode::from(2);
        }
    };
    outcome.unwrap_or_else(|error| {
        say(&format!("error: {error}"));
        ExitCode::FAILURE
    })
}

fn is_command(word: &str) -> bool {
    !word.starts_with('-')
}

fn options(keep: bool, audit: bool) -> Options {
    Options { folder: keep.then(kept_folder), audit, ..Options::default() }
}

fn up() -> Outcome {
    let cluster = start(options(true, false))?;
    // The only line on standard output, so that `eval "$(make -s cluster-up)"` works.
    writeln!(io::stdout(), "export KUBECONFIG={}", cluster.kubeconfig_path().display())?;
    cluster.leave_running()?;
    Ok(ExitCode::SUCCESS)
}

fn down() -> Outcome {
    let ended = TestCluster::end_left_running(&kept_folder())?;
    say(if ended { "the cluster has stopped" } else { "no cluster was running" });
    Ok(ExitCode::SUCCESS)
}

fn run(command: &[OsString], options: Options) -> Outcome {
    let keep = options.folder.is_some();
    let cluster = start(options)?;
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).env("KUBECONFIG", cluster.kubeconfig_path()).env("KUBECTL", cluster.bin("kubectl"));
    let status = child.env("CLUSTER_FOLDER", cluster.folder()).status()?;
    if keep {
        cluster.leave_running()?;
    }
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn start(options: Options) -> Result<TestCluster, Box<dyn std::error::Error>> {
    if let Some(folder) = &options.folder {
        clear_stopped(folder)?;
    }
    let node = RealNode::prepared();
    let kind = if node.is_some() { "one node that runs containers" } else { "one simulated node" };
    say(&format!("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and {kind}"));
    let began = Instant::now();
    let cluster = TestCluster::start(Options { node, ..options })?;
    say(&format!("the cluster is up after {:.1} s", began.elapsed().as_secs_f64()));
    Ok(cluster)
}

/// Removes the files of an earlier `up`; fails if its cluster is still running.
fn clear_stopped(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let kubeconfig = folder.join("admin.kubeconfig");
    if TestCluster::is_left_running(folder) {
        return Err(format!(
            "a cluster is already running: `export KUBECONFIG={}`, or `cluster down`",
            kubeconfig.display()
        )
        .into());
    }
    TestCluster::end_left_running(folder)?;
    folder.parent().map_or(Ok(()), fs::create_dir_all)?;
    Ok(())
}

/// Returns the directory of a cluster that is left running.
fn kept_folder() -> PathBuf {
    test_cluster::home().join("up")
}

fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
