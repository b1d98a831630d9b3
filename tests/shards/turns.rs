//! Which shards wrote for each release, and whether the release was theirs at that time: by what the API server's audit
//! log says that each write has stored.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};

use serde_json::Value;
use test_cluster::{Namespace, TestCluster};

/// Logs what each write for a release has stored, and nothing else: the records of thousands of releases are large.
pub(super) const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: None, verbs: [get, list, watch]}
- {level: None, userGroups: [system:serviceaccounts:kube-system, test-cluster:control-plane]}
- level: RequestResponse
  resources:
  - {group: test.my.domain, resources: [widgets, widgets/status]}
  - {group: '', resources: [configmaps, secrets]}
- {level: None}
";

/// A write that changed a release: its resource, the resource's status, a record or an object.
#[derive(Debug)]
pub(super) struct Write {
    /// etcd counts all writes, so these numbers also order writes to objects of different kinds.
    version: u64,
    /// The shard that sent it; `None` for the test and for the sharder.
    by: Option<String>,
    release: String,
    /// The request, for messages.
    what: String,
    /// The shard that the resource's label names from then on, or an empty text; `None` unless the write is the
    /// resource's.
    assigned: Option<String>,
}

/// What the writes for all releases say.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// The number of the shards' writes.
    pub(super) writes: usize,
    /// The shards that wrote for each release, in order: `a b` if a wrote and then b.
    turns: BTreeMap<String, Vec<String>>,
    /// Writes of a shard that did not have the resource.
    pub(super) wrong: Vec<String>,
}

impl Judged {
    /// Returns whether a release had a writer from the first shards, and after it one from the second.
    pub(super) fn has_turn(&self, from: &[&str], to: &[&str]) -> bool {
        let is_turn = |two: &[String]| from.contains(&two[0].as_str()) && to.contains(&two[1].as_str());
        self.turns.values().any(|shards| shards.windows(2).any(is_turn))
    }
}

/// Judges each write of a shard by the label that the resource had just before: it must name this shard. So two shards
/// cannot take turns unless the label does, too. A write that is stored after the acknowledgement of a drain is wrong,
/// even if it was sent before.
pub(super) fn judge(mut writes: Vec<Write>) -> Judged {
    // The log has them in the order of their answers.
    writes.sort_by_key(|write| write.version);
    let (mut judged, mut assigned) = (Judged::default(), BTreeMap::<String, String>::new());
    for write in writes {
        let shard = assigned.entry(write.release.clone()).or_default();
        if let Some(by) = &write.by {
            judged.writes += 1;
            if *by != *shard {
                judged.wrong.push(format!("{}: {} by {by}, while it was {shard:?}'s", write.version, write.what));
            }
            let turns = judged.turns.entry(write.release.clone()).or_default();
            if turns.last() != Some(by) {
                turns.push(by.clone());
            }
        }
        if let Some(now) = write.assigned {
            *shard = now;
        }
    }
    judged
}

/// Returns the writes for the releases of this namespace, in the order of the audit log.
pub(super) fn writes(cluster: &TestCluster, namespace: &Namespace<'_>) -> Vec<Write> {
    let log = BufReader::new(File::open(cluster.folder().join("audit.log")).unwrap());
    let mut reader = Reader::new(namespace.name());
    // The last line may be incomplete.
    let events = log.split(b'\n').filter_map(|line| serde_json::from_slice::<Value>(&line.unwrap()).ok());
    events.filter_map(|event| reader.write(&event)).collect()
}

/// Reads events of the audit log, oldest first.
struct Reader {
    namespace: String,
    /// What the names of the shards' users begin with.
    users: String,
    /// The label whose value is the shard that has a resource.
    label: String,
    stored: BTreeSet<u64>,
}

impl Reader {
    fn new(namespace: &str) -> Reader {
        Reader {
            namespace: namespace.to_owned(),
            users: format!("system:serviceaccount:{namespace}:"),
            label: format!("shard.alpha.sharding.timebertt.dev/{namespace}"),
            stored: BTreeSet::new(),
        }
    }

    /// Returns the write of an event; `None` if it changed no release.
    fn write(&mut self, event: &Value) -> Option<Write> {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let is_accepted = event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
        if !is_accepted || text("/objectRef/namespace") != self.namespace || text("/requestURI").contains("dryRun=All")
        {
            return None;
        }
        let names = [text("/objectRef/name"), text("/responseObject/metadata/name")];
        let release = release_of(names.into_iter().find(|name| !name.is_empty())?)?;
        let version = text("/responseObject/metadata/resourceVersion").parse::<u64>().ok();
        assert!(version.is_some() || text("/verb") == "delete", "the log does not say what this has stored: {event}");
        // A write that changes nothing is answered with the version of the write before.
        if version.is_some_and(|version| !self.stored.insert(version)) {
            return None;
        }
        let labels = &event["responseObject"]["metadata"]["labels"];
        let is_resource = text("/objectRef/resource") == "widgets" && version.is_some();
        Some(Write {
            // A deletion has no version. Its shard sends nothing else for the release until it is answered.
            version: version.or(self.stored.last().copied()).unwrap_or(0),
            by: text("/user/username").strip_prefix(&self.users).map(str::to_owned),
            release: release.to_owned(),
            what: format!("{} {}", text("/verb"), text("/requestURI")),
            assigned: is_resource.then(|| labels[&self.label].as_str().unwrap_or_default().to_owned()),
        })
    }
}

/// Returns the release of an object or a record with this name; `None` if it belongs to none.
fn release_of(name: &str) -> Option<&str> {
    let name = name.strip_prefix("sh.helm.release.v1.").unwrap_or(name).split('.').next()?;
    name.starts_with("web-").then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a write with this version for one release: `a` by that shard, `=a` by the sharder, which assigns the
    /// release to that shard, `a=b` by the first shard, which gives it to the second.
    fn write((version, text): (u64, &str)) -> Write {
        let (by, assigned) = text.split_once('=').map_or((text, None), |(by, now)| (by, Some(now.to_owned())));
        let by = Some(by.to_owned()).filter(|by| !by.is_empty());
        Write { version, by, release: "web-0".to_owned(), what: "patch".to_owned(), assigned }
    }

    #[test]
    fn a_shard_may_write_only_while_the_label_names_it() {
        for (writes, expected) in [
            // Assigned, moved after a crash, and the same with answers that came late.
            (&[(1, "=a"), (2, "a"), (3, "a"), (4, "=b"), (5, "b")][..], &[][..]),
            (&[(1, "=a"), (3, "a"), (2, "a"), (5, "b"), (4, "=b")], &[]),
            // A drain's acknowledgement, in which the sharder's webhook names the next shard; a write that it overtook.
            (&[(1, "=a"), (2, "a"), (3, "a=b"), (4, "b")], &[]),
            (&[(1, "=a"), (2, "a=b"), (3, "a"), (4, "b")], &[3]),
            // Turns, with and without a move back.
            (&[(1, "=a"), (2, "a"), (3, "=b"), (4, "b"), (5, "=a"), (6, "a")], &[]),
            (&[(1, "=a"), (2, "a"), (3, "b"), (4, "a")], &[3]),
            (&[(1, "=a"), (2, "a"), (3, "=b"), (4, "b"), (5, "a"), (6, "b")], &[5]),
            // Nobody's.
            (&[(1, "="), (2, "a")], &[2]),
        ] {
            let judged = judge(writes.iter().copied().map(write).collect());
            let wrong: Vec<u64> =
                judged.wrong.iter().map(|one| one.split(':').next().unwrap().parse().unwrap()).collect();
            assert_eq!(wrong, expected, "{writes:?}");
        }
    }

    #[test]
    fn turns_of_a_release_are_found() {
        let judged = judge([(1, "=a"), (2, "a"), (3, "=b"), (4, "b"), (5, "b")].map(write).into());
        assert_eq!(judged.writes, 3);
        assert!(judged.has_turn(&["a"], &["b", "c"]) && !judged.has_turn(&["b"], &["a", "b", "c"]));
    }

    #[test]
    fn an_event_of_the_audit_log_becomes_a_write_unless_it_changed_nothing() {
        let event = |verb: &str, user: &str, [resource, name]: [&str; 2], metadata: Value| {
            json!({
                "verb": verb, "requestURI": format!("/{resource}"), "user": {"username": user},
                "objectRef": {"resource": resource, "namespace": "ns", "name": name},
                "responseStatus": {"code": 200}, "responseObject": {"metadata": metadata},
            })
        };
        let (b, widget) = ("system:serviceaccount:ns:b", ["widgets", "web-1"]);
        let at = |version: &str| json!({"resourceVersion": version});
        let labels = json!({"shard.alpha.sharding.timebertt.dev/ns": "b"});
        let mut refused = event("patch", b, widget, at("8"));
        refused["responseStatus"]["code"] = 409.into();
        let mut reader = Reader::new("ns");
        let mut read = |event: &Value| {
            let write = reader.write(event)?;
            Some(format!("{} {:?} {} {:?}", write.version, write.by, write.release, write.assigned))
        };
        let assigned = event("update", "admin", widget, json!({"resourceVersion": "7", "labels": labels}));
        assert_eq!(read(&assigned).as_deref(), Some(r#"7 None web-1 Some("b")"#));
        assert_eq!(read(&refused), None);
        assert_eq!(read(&event("patch", b, ["configmaps", "web-1"], at("7"))), None, "nothing new was stored");
        assert_eq!(read(&event("patch", b, widget, at("9"))).as_deref(), Some(r#"9 Some("b") web-1 Some("")"#));
        let record = ["secrets", "sh.helm.release.v1.web-1.v2"];
        assert_eq!(read(&event("create", b, record, at("8"))).as_deref(), Some(r#"8 Some("b") web-1 None"#));
        assert_eq!(read(&event("delete", b, record, json!({}))).as_deref(), Some(r#"9 Some("b") web-1 None"#));
        assert_eq!(read(&event("update", b, ["configmaps", "kube-root-ca.crt"], at("10"))), None);
    }
}
