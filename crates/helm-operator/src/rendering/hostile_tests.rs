//! Tests of hostile code in a worker: what it reaches despite the confinement, and what its messages can do to the
//! manager.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use controller::metrics::Metrics;
use controller::runtime::priority::Priority;
use helm_release::kube::{Applier, MemoryApi};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::lookup::{ClusterLookup, LookupReach, MAX_LOOKUPS, Query, ReleaseReach};
use super::message::{Confinement, FromWorker, MAX_ANSWER, MAX_QUESTION, ToWorker};
use super::request::{RenderError, Rendered};
use super::tests::{chart, job};
use super::worker::{SETTINGS, Settings};
use crate::chart_metrics::ChartMetrics;
use crate::rendering::*;

/// The targets of the attacker.
#[derive(Serialize, Deserialize)]
struct Targets {
    folder: String,
    tcp: u16,
    manager: i32,
}

fn socket() -> UnixStream {
    UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap())
}

fn say(socket: &mut UnixStream, what: &impl Serialize) {
    socket.write_all(&message::encode(what, MAX_ANSWER).unwrap()).unwrap();
}

type Attempt = (&'static str, Box<dyn FnOnce() -> std::io::Result<()>>);

/// Attempts of native code, each of which succeeds in a process without confinement.
fn attempts(targets: Targets, mut inherited: File) -> Vec<Attempt> {
    let Targets { folder, tcp, manager } = targets;
    let in_folder = move |name: &str| format!("{folder}/{name}");
    let (chart, secret, other, unix) =
        (in_folder("chart/Chart.yaml"), in_folder("secret"), in_folder("chart/new"), in_folder("unix"));
    let of_manager = rustix::process::Pid::from_raw(manager).unwrap();
    fn attempt(name: &'static str, work: impl FnOnce() -> std::io::Result<()> + 'static) -> Attempt {
        (name, Box::new(work))
    }
    let of_system = attempts_on_the_system(&in_folder("chart"), manager);
    // The chart comes first: a descriptor that an attempt has closed stays unusable.
    let mut all = vec![
        attempt("its chart", move || fs::read(chart).map(drop)),
        attempt("a file beside its chart", move || fs::read(secret).map(drop)),
        attempt("a file of the system", || fs::read("/etc/passwd").map(drop)),
        attempt("the root folder", || fs::read_dir("/").map(drop)),
        attempt("its own memory map", || fs::read("/proc/self/maps").map(drop)),
        attempt("the manager's environment", move || fs::read(format!("/proc/{manager}/environ")).map(drop)),
        attempt("an inherited descriptor", move || inherited.read(&mut [0]).map(drop)),
        attempt("a new file", move || fs::write(other, "x")),
        attempt("a TCP port", move || TcpStream::connect(("127.0.0.1", tcp)).map(drop)),
        attempt("a UDP socket", || UdpSocket::bind("127.0.0.1:0").map(drop)),
        attempt("a Unix socket", move || UnixStream::connect(unix).map(drop)),
        attempt("another program", || Command::new("/bin/true").status().map(drop)),
        attempt("a thread", || std::thread::Builder::new().spawn(|| ()).map(drop)),
        attempt("a signal to the manager", move || Ok(rustix::process::test_kill_process(of_manager)?)),
        attempt("a handle of the manager", move || {
            Ok(rustix::process::pidfd_open(of_manager, rustix::process::PidfdFlags::empty()).map(drop)?)
        }),
        attempt("another limit", || {
            let limit = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
            Ok(rustix::process::setrlimit(rustix::process::Resource::Core, limit)?)
        }),
        attempt("another folder", || std::env::set_current_dir("/tmp")),
    ];
    all.extend(of_system);
    all
}

/// Attempts of native code on the manager's process and the kernel.
fn attempts_on_the_system(chart: &str, manager: i32) -> Vec<Attempt> {
    use rustix::process::{self, Pid, Resource, Rlimit};
    let (from, to, gone) =
        (format!("{chart}/Chart.yaml"), format!("{chart}/linked.yaml"), format!("{chart}/values.yaml"));
    let of_manager = Pid::from_raw(manager).unwrap();
    let group = process::getpgid(Some(of_manager)).unwrap();
    let none = rustix::thread::CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    let unlimited = Rlimit { current: None, maximum: None };
    let standard = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    fn attempt(name: &'static str, work: impl FnOnce() -> std::io::Result<()> + 'static) -> Attempt {
        (name, Box::new(work))
    }
    vec![
        attempt("the manager's memory", move || File::open(format!("/proc/{manager}/mem")).map(drop)),
        attempt("its own memory as a file", || File::options().write(true).open("/proc/self/mem").map(drop)),
        attempt("the processes", || fs::read_dir("/proc").map(drop)),
        attempt("an abstract socket", || {
            UnixStream::connect_addr(&SocketAddr::from_abstract_name("hostile-test")?).map(drop)
        }),
        attempt("a program in memory", || {
            Ok(rustix::fs::memfd_create("program", rustix::fs::MemfdFlags::CLOEXEC).map(drop)?)
        }),
        attempt("a signal to the manager's group", move || Ok(process::test_kill_process_group(group)?)),
        attempt("a signal to its own group", || Ok(process::test_kill_current_process_group()?)),
        attempt("the manager's limits", move || {
            Ok(process::prlimit(Some(of_manager), Resource::Nofile, unlimited).map(drop)?)
        }),
        attempt("the manager's priority", move || Ok(process::setpriority_process(Some(of_manager), 19)?)),
        attempt("a tracer", || Ok(process::set_ptracer(process::PTracer::Any)?)),
        attempt("a session", || Ok(process::setsid().map(drop)?)),
        attempt("another root", || Ok(process::chroot("/tmp")?)),
        attempt("another namespace", move || Ok(rustix::thread::move_into_link_name_space(standard.as_fd(), None)?)),
        attempt("other capabilities", move || Ok(rustix::thread::set_capabilities(None, sets)?)),
        attempt(
            "news of files",
            || Ok(rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC).map(drop)?),
        ),
        attempt("a hard link", move || fs::hard_link(from, to)),
        attempt("the end of a file of its chart", move || fs::remove_file(gone)),
    ]
}

#[test]
#[ignore = "a process that another test starts"]
fn attacker() {
    let Ok(text) = std::env::var("TARGETS") else { return };
    let settings: Settings = serde_json::from_str(&std::env::var(SETTINGS).unwrap()).unwrap();
    let attempts = attempts(serde_json::from_str(&text).unwrap(), File::open("/etc/hostname").unwrap());
    let confinement = confine::confine(&settings).unwrap();
    let mut socket = socket();
    say(&mut socket, &confinement);
    for (name, attempt) in attempts {
        say(&mut socket, &Some((name, attempt().map_err(|error| error.raw_os_error()))));
    }
    say(&mut socket, &None::<()>);
    // Waits until the other side has checked.
    _ = socket.read(&mut [0]);
}

#[test]
fn native_code_in_a_worker_reaches_nothing_but_its_chart() {
    let folder = tempfile::tempdir().unwrap();
    fs::rename(chart("a: 1").0.keep(), folder.path().join("chart")).unwrap();
    fs::write(folder.path().join("secret"), "s3cret").unwrap();
    let _unix = UnixListener::bind(folder.path().join("unix")).unwrap();
    // A connection to it would succeed if it were not rejected first.
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name("hostile-test").unwrap()).unwrap();
    let files = || {
        let names = fs::read_dir(folder.path().join("chart")).unwrap().map(|file| file.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let (before, priority) = (files(), rustix::process::getpriority_process(None).unwrap());
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let targets = Targets {
        folder: folder.path().to_str().unwrap().to_owned(),
        tcp: tcp.local_addr().unwrap().port(),
        manager: std::process::id().cast_signed(),
    };
    let settings = Settings {
        memory: 96 << 20,
        cpu_seconds: 30,
        folders: vec![folder.path().join("chart")],
        priority: Priority::Normal,
    };
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let args = ["rendering::hostile_tests::attacker", "--exact", "--ignored", "--nocapture", "--test-threads=1"];
    let mut command = Command::new("/proc/self/exe");
    command.args(args).stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
    command.env(SETTINGS, serde_json::to_string(&settings).unwrap());
    command.env("TARGETS", serde_json::to_string(&targets).unwrap());
    let mut process = command.spawn().unwrap();
    // Drops the worker's end of the socket.
    drop(command);
    let mut hear = || message::read(&mut ours, MAX_ANSWER);
    let confinement: Confinement = message::decode(&hear().unwrap()).unwrap();
    assert_eq!(confinement, Confinement { files: true, calls: true });
    // glibc reports a lack of memory or of processes if a call that starts one is rejected.
    let refused = [libc::EPERM, libc::EACCES, libc::ENOMEM, libc::EAGAIN].map(Some);
    let (mut reached, mut tried) = (Vec::new(), 0);
    type Tried = Option<(String, Result<(), Option<i32>>)>;
    while let Some((name, result)) = message::decode::<Tried>(&hear().unwrap()).unwrap() {
        tried += 1;
        match result {
            Ok(()) => reached.push(name),
            Err(code) => assert!(refused.contains(&code), "{name}: {code:?}"),
        }
    }
    assert_eq!((reached, tried), (vec!["its chart".to_owned()], 34));
    assert_eq!((files(), rustix::process::getpriority_process(None).unwrap()), (before, priority));
    // Only one thread confined itself: the test harness has a main thread.
    let threads = fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    let statuses = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap());
    let status = statuses.into_iter().find(|status| status.starts_with("Name:\trendering")).unwrap();
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert!(status.contains(&format!("{set}:\t0000000000000000\n")), "{set}");
    }
    drop(ours);
    assert!(process.wait().unwrap().success());
}

/// Runs a worker's protocol until the job arrives.
fn begin() -> Option<UnixStream> {
    std::env::var(SETTINGS).ok()?;
    let mut socket = socket();
    say(&mut socket, &FromWorker::Ready(Confinement { files: true, calls: true }));
    let job: ToWorker = message::decode(&message::read(&mut socket, MAX_QUESTION).unwrap()).unwrap();
    assert!(matches!(job, ToWorker::Render(..)));
    Some(socket)
}

/// Sends a lookup, and returns the reason if it was rejected.
fn ask(socket: &mut UnixStream, namespace: &str, name: &str) -> Option<String> {
    asked(socket, Query::new("v1", "Secret", namespace, name))
}

fn asked(socket: &mut UnixStream, query: Query) -> Option<String> {
    let frame = message::encode(&FromWorker::Lookup(query), MAX_ANSWER).unwrap();
    socket.write_all(&frame).ok()?;
    let mut hear = || message::read(&mut *socket, MAX_QUESTION);
    match message::decode(&hear().ok()?).ok()? {
        ToWorker::Found => {
            while !hear().ok()?.is_empty() {}
            hear().ok()?;
            Some("found".into())
        }
        ToWorker::Nothing => Some("nothing".into()),
        ToWorker::Refused(why) => Some(why),
        ToWorker::Render(..) => None,
    }
}

#[test]
#[ignore = "a process that another test starts"]
fn endless_asker() {
    let Some(mut socket) = begin() else { return };
    for n in 0.. {
        if ask(&mut socket, "ns", &n.to_string()).is_none() {
            return;
        }
    }
}

#[test]
#[ignore = "a process that another test starts"]
fn curious_asker() {
    let Some(mut socket) = begin() else { return };
    let answers = ["ns", "kube-system", ""].map(|namespace| ask(&mut socket, namespace, "").unwrap_or_default());
    let output = Output { manifest: answers.join("\n"), ..Output::default() };
    say(&mut socket, &FromWorker::Rendered(Box::new(output)));
    _ = socket.read(&mut [0]);
}

#[test]
#[ignore = "a process that another test starts"]
fn bomber() {
    let Some(mut socket) = begin() else { return };
    let hooks = "{},".repeat(5_000_000);
    let bomb = format!(r#"{{"Rendered":{{"manifest":"","hooks":[{hooks}{{}}],"notes":"","crds":[],"unread":[]}}}}"#);
    socket.write_all(&message::header(bomb.len(), MAX_ANSWER).unwrap()).unwrap();
    socket.write_all(bomb.as_bytes()).unwrap();
    _ = socket.read(&mut [0]);
}

/// Processes that send an unexpected message once they have a job, and then wait.
macro_rules! speakers {
    ($($name:ident => $bytes:expr,)*) => {$(
        #[test]
        #[ignore = "a process that another test starts"]
        fn $name() {
            let Some(mut socket) = begin() else { return };
            // The manager may close the socket before the end.
            _ = socket.write_all(&$bytes);
            _ = socket.read(&mut [0]);
        }
    )*};
}

speakers! {
    says_how_long_it_will_be => u32::MAX.to_le_bytes(),
    says_nothing => 0_u32.to_le_bytes(),
    says_no_text => framed(&[0xff; 100]),
    says_no_message => framed(b"{\"Render\": 1}"),
    says_a_nested_message => framed("[".repeat(200_000).as_bytes()),
    says_a_long_name => framed(lookup_of(&"a".repeat(5000)).as_bytes()),
    ends_in_the_middle => *b"\x09\0\0\0abc",
}

/// Returns a frame with this text.
fn framed(text: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_le_bytes();
    [&length[..], text].concat()
}

fn lookup_of(name: &str) -> String {
    json!({"Lookup": Query::new("v1", "Secret", "ns", name)}).to_string()
}

#[test]
#[ignore = "a process that another test starts"]
fn early_speaker() {
    if std::env::var(SETTINGS).is_ok() {
        let mut socket = socket();
        say(&mut socket, &FromWorker::Rendered(Box::default()));
        _ = socket.read(&mut [0]);
    }
}

/// Sends a lookup that no template of the chart contains.
#[test]
#[ignore = "a process that another test starts"]
fn uninvited_asker() {
    let Some(mut socket) = begin() else { return };
    let queries = [
        Query::new("rbac.authorization.k8s.io/v1", "ClusterRole", "", ""),
        Query::new("v1", "Node", "", "a"),
        Query::new("v1", "Secret", "ns/../kube-system", "a"),
        Query::new("v1", "Secret", "ns", "../../kube-system/secrets/a"),
        Query::new("v1", "Secret", "ns", "a?x=/log"),
        Query::new("v1", "Secret", "ns", "a/status"),
        Query::new("v1/namespaces/kube-system", "Secret", "ns", "a"),
        Query::new("v1", "secrets/a", "ns", "a"),
    ];
    let answers = queries.map(|query| asked(&mut socket, query).unwrap_or_default());
    let output = Output { manifest: answers.join("\u{1}"), ..Output::default() };
    say(&mut socket, &FromWorker::Rendered(Box::new(output)));
    _ = socket.read(&mut [0]);
}

/// Sends the same lookup again and again.
#[test]
#[ignore = "a process that another test starts"]
fn flooder() {
    let Some(mut socket) = begin() else { return };
    while ask(&mut socket, "ns", "a").is_some() {}
}

#[test]
#[ignore = "a process that another test starts"]
fn repeater() {
    let Some(mut socket) = begin() else { return };
    loop {
        say(&mut socket, &FromWorker::Ready(Confinement::default()));
    }
}

/// Returns the time limit of a process; one that only waits needs little.
fn limit_of(process: &str) -> Duration {
    Duration::from_secs(if process == "ends_in_the_middle" { 3 } else { 30 })
}

/// Renders with one of the processes above, and returns the reads that reached the server.
async fn rendered_by(process: &str) -> (Result<Rendered<Output>, RenderError>, Vec<String>) {
    let args =
        [&format!("rendering::hostile_tests::{process}"), "--exact", "--ignored", "--nocapture", "--test-threads=1"];
    let program = Program { path: "/proc/self/exe".into(), args: args.map(Into::into).into() };
    let rendering = Rendering { workers: 1, memory: 96 << 20, timeout: limit_of(process) };
    let workers = Workers::new(rendering, program, ChartMetrics::new(&Metrics::default())).unwrap();
    let (folder, digest) = chart("a: 1");
    let api = Arc::new(MemoryApi::new());
    api.serve("v1", "Secret", "secrets");
    for namespace in ["ns", "kube-system"] {
        api.put(&format!("/api/v1/namespaces/{namespace}/secrets/a"), json!({"data": {"x": "eA=="}}), "someone");
    }
    let release =
        ReleaseReach { served: Arc::default(), namespace: "ns".into(), named: Arc::default(), rule: Arc::default() };
    let applier = Applier::new(api.clone());
    let lookup = ClusterLookup::new(applier, tokio::runtime::Handle::current(), LookupReach::Release(release));
    let rendered = workers.render(job(folder.path(), &digest), &Arc::default(), &lookup).await;
    let rendered = rendered.map_err(|error| lookup.judge(error));
    let log = api.log().into_iter().filter(|line| line.contains("/secrets"));
    (rendered, log.collect())
}

#[tokio::test]
async fn a_worker_that_asks_without_end_is_ended_and_the_server_is_asked_so_often_only() {
    let (rendered, log) = rendered_by("endless_asker").await;
    let error = rendered.err().unwrap();
    assert_eq!((error.reason(), log.len()), ("RenderLimit", MAX_LOOKUPS));
    assert!(error.to_string().contains("more than 1000 different objects"), "{error}");
}

#[tokio::test]
async fn a_worker_reads_no_other_namespace() {
    let (rendered, log) = rendered_by("curious_asker").await;
    let manifest = rendered.unwrap().done().unwrap().manifest;
    let answers: Vec<_> = manifest.lines().collect();
    assert_eq!(answers[0], "found");
    assert!(answers[1..].iter().all(|answer| answer.contains("is not allowed")) && answers.len() == 3, "{answers:?}");
    assert_eq!(log, ["GET /api/v1/namespaces/ns/secrets"]);
}

#[tokio::test]
async fn a_worker_cannot_make_the_manager_parse_millions_of_hooks() {
    let error = rendered_by("bomber").await.0.err().unwrap();
    assert_eq!(error.reason(), "RenderLimit");
    assert!(error.to_string().contains("it answered with a message of too many values"), "{error}");
}

#[tokio::test]
async fn a_worker_that_says_something_odd_is_ended_and_nothing_is_asked_for_it() {
    for (process, because) in [
        ("says_how_long_it_will_be", "it answered with a frame of 4294967295 bytes"),
        ("says_nothing", "it answered with an unreadable message"),
        ("says_no_text", "it answered with an unreadable message"),
        ("says_no_message", "it answered with an unreadable message"),
        ("says_a_nested_message", "it answered with a message of too many values"),
        ("says_a_long_name", "it answered with a lookup of a very long name"),
        ("ends_in_the_middle", "longer than 3s"),
        ("early_speaker", "it answered with a message out of turn"),
    ] {
        let (rendered, log) = rendered_by(process).await;
        let error = rendered.err().unwrap();
        assert_eq!((error.reason(), log), ("RenderLimit", vec![]), "{process}");
        assert!(error.to_string().contains(because), "{process}: {error}");
    }
}

#[tokio::test]
async fn a_worker_gets_nothing_that_its_chart_does_not_ask_for() {
    let (rendered, log) = rendered_by("uninvited_asker").await;
    let manifest = rendered.unwrap().done().unwrap().manifest;
    let answers: Vec<_> = manifest.split('\u{1}').collect();
    assert_eq!(answers.len(), 8, "{answers:?}");
    assert!(answers.iter().all(|answer| *answer != "found"), "{answers:?}");
    assert!(log.iter().all(|line| line.starts_with("GET /api/v1/namespaces/ns/secrets/a%")), "{log:?}");
}

#[tokio::test]
async fn a_worker_that_asks_for_one_object_without_end_is_ended_too() {
    let (rendered, log) = rendered_by("flooder").await;
    assert_eq!((rendered.err().unwrap().reason(), log.len()), ("RenderLimit", MAX_LOOKUPS));
}

#[tokio::test]
async fn a_worker_that_repeats_itself_is_ended() {
    let error = rendered_by("repeater").await.0.err().unwrap();
    assert!(error.to_string().contains("it answered with a message out of turn"), "{error}");
}
