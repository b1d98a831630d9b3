//! Edits of resources that go on while shards change, and what became of them. Each has a number, which the resource's
//! colour then names.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use helm_release::release::Packed;
use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster, eventually_within};

use super::{LIMIT, WIDGET, list};

/// The time from one edit to the next, and how many releases each changes.
const PAUSE: Duration = Duration::from_secs(1);
const FEW: usize = 4;

/// The most releases that are edited at once.
const SOME: usize = 30;

pub(super) struct Edits<'a> {
    cluster: &'a TestCluster,
    namespace: &'a Namespace<'a>,
    releases: usize,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    /// The number of the last edit.
    last: u64,
    /// The number of each release's last edit.
    of: BTreeMap<String, u64>,
    /// How many resources were edited, each as often as it was.
    count: usize,
}

impl<'a> Edits<'a> {
    pub(super) fn new(cluster: &'a TestCluster, namespace: &'a Namespace<'a>, releases: usize) -> Edits<'a> {
        Edits { cluster, namespace, releases, made: Mutex::default() }
    }

    /// Edits a few releases each second, in turn, until this change has ended; returns its result.
    pub(super) fn meanwhile<T>(&self, change: impl FnOnce() -> T) -> T {
        thread::scope(|scope| {
            // Dropped at the end or by a panic, which ends the edits.
            let (going_on, ended) = mpsc::channel();
            scope.spawn(move || self.go_on(&ended));
            let changed = change();
            drop(going_on);
            changed
        })
    }

    fn go_on(&self, ended: &Receiver<()>) {
        let mut names = (0..self.releases).map(name).cycle();
        while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            let few: Vec<String> = names.by_ref().take(FEW).collect();
            self.edit(&few);
        }
    }

    /// Edits these releases; returns the number of the edit.
    pub(super) fn edit(&self, names: &[String]) -> u64 {
        // Locked until the server has it: two edits of one release arrive in the order of their numbers.
        let mut made = self.made();
        made.last += 1;
        let number = made.last;
        let spec = json!({"colour": format!("edit-{number}")});
        WIDGET.set_all(self.namespace, names.iter().map(|name| (name.clone(), spec.clone())));
        made.of.extend(names.iter().map(|name| (name.clone(), number)));
        made.count += names.len();
        number
    }

    /// Edits these releases, and waits until each has this edit or a later one; returns the seconds that it took.
    pub(super) fn serve(&self, names: &[String]) -> u64 {
        let (began, edit) = (Instant::now(), self.edit(names));
        eventually_within(LIMIT, "the edited releases", || {
            let late = self.maps(names).into_iter().filter(|map| number(&map["data"]) < edit).count();
            if late == 0 { Ok(()) } else { Err(late) }
        });
        began.elapsed().as_secs()
    }

    /// Returns the ConfigMaps of these releases. A list of thousands would slow down what is measured.
    fn maps(&self, names: &[String]) -> Vec<Value> {
        let get = ["--namespace", self.namespace.name(), "get", "configmaps", "--output=json"];
        let text = self.cluster.kubectl(get.into_iter().chain(names.iter().map(String::as_str))).unwrap();
        let found: Value = serde_json::from_str(&text).unwrap();
        // kubectl prints a single object without a list.
        found["items"].as_array().cloned().unwrap_or_else(|| vec![found])
    }

    /// Returns some releases, spread over all of them.
    pub(super) fn some(&self) -> Vec<String> {
        spread((0..self.releases).map(name).collect())
    }

    /// Returns some of the releases whose resources this shard has, spread over all of them.
    pub(super) fn some_of(&self, shard: &str) -> Vec<String> {
        let selector = format!("--selector=shard.alpha.sharding.timebertt.dev/{}={shard}", self.namespace.name());
        let columns = "jsonpath={.items[*].metadata.name}";
        let names = self.namespace.kubectl(["get", "widgets", &selector, "-o", columns]).unwrap();
        spread(names.split_whitespace().map(str::to_owned).collect())
    }

    /// Waits until the last edit of each release is served.
    pub(super) fn wait_served(&self) {
        let expected = self.made().of.clone();
        eventually_within(LIMIT, "the edits", || {
            let maps = list(self.namespace, "configmaps");
            let served: BTreeMap<&str, u64> = maps.iter().map(|map| (name_of(map), number(&map["data"]))).collect();
            let late = expected.iter().filter(|(name, number)| served.get(name.as_str()) != Some(*number));
            let late: Vec<&String> = late.map(|(name, _)| name).collect();
            if late.is_empty() { Ok(()) } else { Err(format!("{late:?}")) }
        });
    }

    /// Checks that nothing but an edit made a revision, that no edit made two, or one after a later edit, and that the
    /// last edit has one. A later edit may have replaced one that nobody served yet.
    pub(super) fn check_revisions(&self) {
        let (made, expected) = (revisions(self.namespace), self.made().of.clone());
        assert_eq!(made.len(), self.releases);
        for (release, edits) in made {
            // Without edits, a release has the revision that installed it.
            let last = expected.get(&release).copied().unwrap_or(0);
            let is_ascending = edits.windows(2).all(|two| two[0] < two[1]);
            assert!(
                is_ascending && edits.last() == Some(&last),
                "{release}, whose last edit is {last}, has revisions of the edits {edits:?}"
            );
        }
    }

    /// Returns how many edits of a resource there were.
    pub(super) fn count(&self) -> usize {
        self.made().count
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap()
    }
}

/// Returns the edits that each release's revisions were made of, oldest revision first.
fn revisions(namespace: &Namespace<'_>) -> BTreeMap<String, Vec<u64>> {
    let mut revisions: BTreeMap<String, BTreeMap<u32, u64>> = BTreeMap::new();
    for secret in list(namespace, "secrets") {
        let Some(record) = secret["data"]["release"].as_str() else { continue };
        let release = Packed::from_record(&STANDARD.decode(record).unwrap(), BTreeMap::new()).unwrap();
        revisions.entry(release.name).or_default().insert(release.version, number(&release.config));
    }
    revisions.into_iter().map(|(release, edits)| (release, edits.into_values().collect())).collect()
}

/// Returns the number of the edit that values or data with this colour come from; 0 if it was none.
fn number(values: &Value) -> u64 {
    let number = values["colour"].as_str().and_then(|colour| colour.strip_prefix("edit-"));
    number.map_or(0, |number| number.parse().unwrap())
}

fn name(n: usize) -> String {
    format!("web-{n}")
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

/// Returns at most [`SOME`] of these, at equal distances: the sharder moves resources in the order of their names.
fn spread(names: Vec<String>) -> Vec<String> {
    let distance = names.len().div_ceil(SOME).max(1);
    names.into_iter().step_by(distance).collect()
}
