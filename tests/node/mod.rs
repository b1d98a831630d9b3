//! Real containers: memcached's responses during an upgrade, how a kubelet's findings reach `Ready`, the images of a
//! release, and webhooks in a pod. `make e2e-node` provides the node and runs these tests.

mod released;
mod webhooks;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::{condition, left, set, wait_ready};
use crate::operator::{Operator, eventually};
use crate::reader::get;
use crate::ready::told;

const PORT: u16 = 11211;

fn cluster() -> &'static TestCluster {
    static CLUSTER: OnceLock<TestCluster> = OnceLock::new();
    CLUSTER.get_or_init(TestCluster::with_real_node)
}

/// Sends commands to a memcached on a new connection; returns the whole response.
fn ask(address: &str, commands: &str) -> io::Result<String> {
    let address: SocketAddr = format!("{address}:{PORT}").parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(format!("{commands}quit\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Returns the memory for items in MiB, as memcached reports it.
fn memory(address: &str) -> io::Result<u64> {
    let answer = ask(address, "stats settings\r\n")?;
    let bytes = answer.lines().find_map(|line| line.strip_prefix("STAT maxbytes ")?.parse::<u64>().ok());
    bytes.map(|bytes| bytes >> 20).ok_or_else(|| io::Error::other(answer))
}

fn pods(namespace: &Namespace<'_>, release: &str) -> Vec<Value> {
    let selector = format!("app.kubernetes.io/instance={release}");
    let list = namespace.kubectl(["get", "pods", "-l", &selector, "-o", "json"]).unwrap();
    serde_json::from_str::<Value>(&list).unwrap()["items"].as_array().unwrap().clone()
}

/// Returns the addresses of the release's pods, once exactly this many exist, each with this much memory for items in
/// MiB.
fn addresses(namespace: &Namespace<'_>, release: &str, count: usize, mebibytes: u64) -> Vec<String> {
    eventually("pods with their settings", || {
        let pods = pods(namespace, release);
        let found: Vec<String> =
            pods.iter().filter_map(|pod| Some(pod["status"]["podIP"].as_str()?.to_owned())).collect();
        let all = found.len() == count && pods.len() == count;
        let right = || found.iter().all(|address| memory(address).is_ok_and(|now| now == mebibytes));
        if all && right() { Ok(found) } else { Err(pods) }
    })
}

/// Queries a Service every 5 ms.
struct Client {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// A client's observations of a Service.
#[derive(Debug, Default)]
struct Seen {
    answers: usize,
    failures: Vec<String>,
    /// The longest time between two responses.
    longest_gap: Duration,
    /// The settings of the pods that responded, in MiB, in order of appearance.
    memories: Vec<u64>,
}

impl Client {
    fn start(address: String) -> Client {
        let ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ended);
        Client { ended, thread: thread::spawn(move || Client::run(&address, &told)) }
    }

    fn run(address: &str, ended: &AtomicBool) -> Seen {
        let (mut seen, mut answered) = (Seen::default(), Instant::now());
        while !ended.load(Ordering::Relaxed) {
            match memory(address) {
                Ok(memory) => {
                    seen.answers += 1;
                    seen.longest_gap = seen.longest_gap.max(answered.elapsed());
                    answered = Instant::now();
                    if !seen.memories.contains(&memory) {
                        seen.memories.push(memory);
                    }
                }
                Err(error) => seen.failures.push(error.to_string()),
            }
            // A closed connection occupies a local port for a minute; avoid using them all up.
            thread::sleep(Duration::from_millis(5));
        }
        seen
    }

    fn stop(self) -> Seen {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
#[ignore = "needs a node that runs containers: make e2e-node"]
fn memcached_answers_from_its_installation_through_a_rolling_update_to_its_end() {
    let namespace = cluster().namespace("answers").unwrap();
    let _operator = Operator::start_charts(cluster(), &namespace, &[]);
    let probe = json!({"tcpSocket": {"port": "memcached"}, "periodSeconds": 1});
    set(&namespace, "web", json!({"replicaCount": 3, "readinessProbe": probe}));
    wait_ready(&namespace, "web");
    let old = addresses(&namespace, "web", 3, 64);
    for address in &old {
        let answer = ask(address, "set word 0 0 5\r\nhello\r\nget word\r\n").unwrap();
        assert_eq!(answer, "STORED\r\nVALUE word 0 5\r\nhello\r\nEND\r\n");
    }

    let service = get(&namespace, ["service", "web-memcached"])["spec"]["clusterIP"].as_str().unwrap().to_owned();
    eventually("answer of the Service", || memory(&service));
    let client = Client::start(service.clone());
    set(&namespace, "web", json!({"replicaCount": 3, "readinessProbe": probe, "memory": 32}));
    wait_ready(&namespace, "web");
    let new = addresses(&namespace, "web", 3, 32);
    let seen = client.stop();
    let _ = writeln!(
        io::stderr(),
        "{} answers, {} failures, longest gap {:?}",
        seen.answers,
        seen.failures.len(),
        seen.longest_gap
    );
    assert!(old.iter().all(|address| !new.contains(address)), "{old:?} {new:?}");
    assert_eq!(seen.memories, [64, 32], "{seen:?}");
    // The chart's `preStop` keeps a pod until kube-proxy, which syncs once a second, no longer sends it connections.
    assert!(seen.failures.is_empty() && seen.longest_gap < Duration::from_secs(5), "{seen:?}");

    namespace.kubectl(["delete", "memcached", "web", "--timeout=60s"]).unwrap();
    eventually("nothing left", || match (left(&namespace), pods(&namespace, "web")) {
        (names, pods) if names.is_empty() && pods.is_empty() => Ok(()),
        rest => Err(rest),
    });
    assert!(new.iter().chain([&service]).all(|address| ask(address, "").is_err()));
}

#[test]
#[ignore = "needs a node that runs containers: make e2e-node"]
fn ready_follows_what_the_kubelet_finds() {
    let namespace = cluster().namespace("verdicts").unwrap();
    let _operator = Operator::start_charts(cluster(), &namespace, &[]);
    let probe = |port: Value| json!({"tcpSocket": {"port": port}, "periodSeconds": 1});
    set(&namespace, "probe", json!({"replicaCount": 1, "readinessProbe": probe(json!(1))}));
    set(&namespace, "image", json!({"replicaCount": 1, "image": {"tag": "absent", "pullPolicy": "Never"}}));
    set(&namespace, "crash", json!({"replicaCount": 1, "extraArgs": ["--no-such-option"]}));
    let mut late = probe(json!("memcached"));
    late["initialDelaySeconds"] = 5.into();
    set(&namespace, "late", json!({"replicaCount": 2, "readinessProbe": late}));
    never_ready_before_its_pods(&namespace, "late");

    let container = |release: &str| {
        let pod = pods(&namespace, release)[0]["metadata"]["name"].as_str().unwrap().to_owned();
        format!("pod {pod:?}: container \"memcached\"")
    };
    told(&namespace, "probe", &[&container("probe"), "runs, but its readiness probe fails"]);
    told(&namespace, "image", &[&container("image"), "cannot pull image", "ErrImageNeverPull"]);
    told(&namespace, "crash", &[&container("crash"), "keeps crashing: exit code 1"]);
    let running = &pods(&namespace, "probe")[0];
    assert!(running["status"]["containerStatuses"][0]["state"]["running"].is_object(), "{running}");
    memory(running["status"]["podIP"].as_str().unwrap()).unwrap();

    set(&namespace, "probe", json!({"replicaCount": 1, "readinessProbe": probe(json!("memcached"))}));
    wait_ready(&namespace, "probe");
    namespace.kubectl(["delete", "memcached", "--all", "--timeout=60s"]).unwrap();
    eventually("nothing left", || match left(&namespace) {
        names if names.is_empty() => Ok(()),
        names => Err(names),
    });
}

/// Waits until a release is ready, and checks that `Ready` stays False until the probes pass, even while the containers
/// already run.
fn never_ready_before_its_pods(namespace: &Namespace<'_>, release: &str) {
    let mut waited = false;
    eventually("ready release", || {
        let resource = get(namespace, ["memcached", release]);
        let ready = condition(&resource, "Ready")["status"].clone();
        let states: Vec<Value> =
            pods(namespace, release).iter().map(|pod| pod["status"]["containerStatuses"][0].clone()).collect();
        let running = states.len() == 2 && states.iter().all(|state| state["state"]["running"].is_object());
        let passed = states.len() == 2 && states.iter().all(|state| state["ready"] == true);
        assert!(ready != "True" || passed, "{resource} {states:?}");
        waited |= running && !passed && ready == "False";
        if ready == "True" { Ok(()) } else { Err(ready) }
    });
    assert!(waited, "its containers never ran unready");
}
