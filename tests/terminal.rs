//! What people see in a real terminal and a real shell, of resources on a real control plane: `status --watch` draws them again, and
//! words are completed with their names.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use test_cluster::{Namespace, TestCluster};

use crate::operator::{eventually, install_kinds};

const PROGRAM: &str = env!("CARGO_BIN_EXE_memcached-operator");

fn put(namespace: &Namespace<'_>, name: &str) {
    let resource =
        json!({"apiVersion": "cache.my.domain/v1", "kind": "Memcached", "metadata": {"name": name}, "spec": {}});
    namespace.apply(&resource.to_string()).unwrap();
}

/// Returns a terminal of this many rows: the side of the person, and that of the program.
fn terminal(rows: u16) -> (OwnedFd, OwnedFd) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let path = ptsname(&person, Vec::new()).unwrap();
    let program = rustix::fs::open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    tcsetwinsize(&program, Winsize { ws_row: rows, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (person, program)
}

#[test]
fn a_watched_status_is_drawn_over_itself_and_outlives_its_resource() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    install_kinds(cluster);
    let namespace = cluster.namespace("terminal").unwrap();
    put(&namespace, "evening");
    let (person, program) = terminal(4);
    let mut child = Command::new(PROGRAM)
        .args(["status", "memcached", "evening", "--watch", "-n", namespace.name()])
        .env("KUBECONFIG", cluster.kubeconfig_path())
        .stdin(Stdio::null())
        .stdout(program)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let seen = Arc::new(Mutex::new(String::new()));
    let (screen, mut reader) = (seen.clone(), File::from(person));
    // Ends with the program: the terminal then has no other side.
    let reading = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut bytes) {
            screen.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    });
    let shows = |what: &str| {
        eventually(what, || {
            let seen = seen.lock().unwrap();
            // The last picture, which starts in the first row.
            let last = seen.rsplit("\u{1b}[H").next().unwrap_or_default().to_owned();
            if last.contains(what) && last.ends_with("\u{1b}[J") { Ok(last) } else { Err(seen.clone()) }
        })
    };
    let whole = format!("Memcached {}/evening", namespace.name());
    let first = shows(&whole);
    assert!(first.lines().count() <= 4, "no line leaves the terminal: {first:?}");
    namespace.kubectl(["delete", "memcached", "evening"]).unwrap();
    let gone = shows("cannot be read at the moment: there is no Memcached \"evening\"");
    assert!(gone.contains(&whole), "what was known stays: {gone:?}");
    put(&namespace, "evening");
    eventually("the answer", || match shows(&whole) {
        picture if picture.contains("cannot be read") => Err(picture),
        picture => Ok(picture),
    });
    child.kill().unwrap();
    child.wait().unwrap();
    drop(child);
    reading.join().unwrap();
}

/// Returns the words that bash offers for the last one.
fn offered(cluster: &TestCluster, words: &[&str]) -> Vec<String> {
    let folder = std::path::Path::new(PROGRAM).parent().unwrap();
    let project = tempfile::tempdir().unwrap();
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/helm-charts/memcached");
    let watch = json!([{"group": "cache.my.domain", "version": "v1", "kind": "Memcached", "chart": chart}]);
    std::fs::write(project.path().join("watches.yaml"), watch.to_string()).unwrap();
    let script = r#"
        source <(memcached-operator completion bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _clap_complete_memcached_operator memcached-operator "${COMP_WORDS[COMP_CWORD]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let output = Command::new("bash")
        .args(["-c", script, "bash", "memcached-operator"])
        .args(words)
        .env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").unwrap()))
        .env("KUBECONFIG", cluster.kubeconfig_path())
        .current_dir(project.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

/// Waits until bash offers these words: on a busy machine, a completion may give up before the API server answers.
fn offers(cluster: &TestCluster, words: &[&str], expected: &[&str]) {
    eventually(&format!("completions of {words:?}"), || match offered(cluster, words) {
        found if found == expected => Ok(()),
        found => Err(found),
    });
}

#[test]
fn bash_completes_kinds_and_names_of_resources() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    install_kinds(cluster);
    let namespace = cluster.namespace("words").unwrap();
    ["evening", "event", "morning"].iter().for_each(|name| put(&namespace, name));
    let own = namespace.name();
    offers(cluster, &["sta"], &["status"]);
    offers(cluster, &["status", "-n", own, "mem"], &["memcached"]);
    offers(cluster, &["status", "-n", own, "memcached", "ev"], &["evening", "event"]);
    offers(cluster, &["history", "-n", own, "memcached/mo"], &["memcached/morning"]);
    offers(cluster, &["status", "-n", own, "mor"], &["morning"]);
    offers(cluster, &["rollback", "-n", own, "memcached", "m"], &["morning"]);
    offers(cluster, &["get", "m"], &["memcached"]);
    let nothing: [&str; 0] = [];
    assert_eq!(offered(cluster, &["status", "--kubeconfig=/nowhere", "memcached", "ev"]), nothing);
}
