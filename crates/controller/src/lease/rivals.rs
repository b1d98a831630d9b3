//! Keeps one leader and the shards of a ring apart when an operator changes from one to the other: they hold different
//! leases, so an election alone does not notice them.
//!
//! A shard waits while the leader's lease is held. A leader, once it holds its own, waits while a shard that names that
//! lease holds one. Each writes its own lease before it looks, so at least one of two that begin at the same time sees
//! the other; then the shard gives way. Neither waits for a process that serves other kinds, for instance a
//! cluster-scoped kind, which a ring refuses. Requests are sent only before a process begins to serve. A lease that a
//! crashed process left counts as held for its duration, as in an election: the time in it is by a clock that may
//! differ from ours.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{Instant, sleep, timeout};

use super::decide::Seen;
use super::others::SERVES;
use crate::report::chain;
use crate::runtime::pages;
use crate::runtime::readiness::Requirement;

/// The annotation of a shard's lease that names the lease of the leader that its ring replaces.
pub(super) const INSTEAD_OF: &str = "helm.sdk.operatorframework.io/instead-of";

/// The pause between two reads of the leases.
const PAUSE: Duration = Duration::from_secs(2);

/// The time limit of a read. It is shorter than the renew deadline, because a process that reads once does not renew.
const LIMIT: Duration = Duration::from_secs(5);

/// Processes that serve the same resources, and hold other leases than this one.
pub struct Rivals {
    api: Api<Lease>,
    /// The name of the leader's lease.
    leader: String,
    /// The label of the leases of shards; `None` if the leader is the rival.
    shards: Option<&'static str>,
    /// The kinds that this process serves; empty if they are unknown.
    kinds: BTreeSet<String>,
    /// The leases as last read, by name.
    seen: BTreeMap<String, Seen>,
    requirement: Option<Requirement>,
}

impl Rivals {
    /// Creates the rivals of the leader with the lease `namespace/leader`: shards, whose leases have this label.
    pub fn of_leader(client: Client, (namespace, leader): (&str, &str), label: &'static str) -> Rivals {
        Rivals { shards: Some(label), ..Rivals::new(client, (namespace, leader)) }
    }

    /// Creates the rival of a shard: the leader with the lease `namespace/leader`. The first successful read meets the
    /// requirement, because a Deployment ends the old pods only once the new ones are ready.
    pub fn of_shard(client: Client, (namespace, leader): (&str, &str), requirement: Requirement) -> Rivals {
        Rivals { requirement: Some(requirement), ..Rivals::new(client, (namespace, leader)) }
    }

    fn new(client: Client, (namespace, leader): (&str, &str)) -> Rivals {
        Rivals {
            api: Api::namespaced(client, namespace),
            leader: leader.to_owned(),
            shards: None,
            kinds: BTreeSet::new(),
            seen: BTreeMap::new(),
            requirement: None,
        }
    }

    /// Sets the kinds that this process serves: `Shop.apps.my.domain`. A process that serves none of them is no rival.
    /// Default: unknown.
    pub fn serving(self, kinds: &BTreeSet<String>) -> Rivals {
        Rivals { kinds: kinds.clone(), ..self }
    }

    /// Returns whether the rival goes first if both begin at the same time.
    pub fn goes_first(&self) -> bool {
        self.shards.is_none()
    }

    /// Waits until no rival may write. Cancel safe.
    pub async fn gone(&mut self) {
        let mut told = String::new();
        while let Some(rival) = self.running().await {
            if told != rival {
                tracing::warn!("Waiting with all resources, so that no two processes write: {rival}");
                told = rival;
            }
            sleep(PAUSE).await;
        }
    }

    /// Describes a rival that may write; `None` if there is none, or if this process may not read the leases.
    pub async fn running(&mut self) -> Option<String> {
        let leases = match timeout(LIMIT, self.leases()).await {
            Ok(Ok(leases)) => leases,
            // A role from before rivals were looked for lacks the right.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 403 | 404) => {
                let error = &status.message;
                tracing::warn!(error, "Cannot look for processes that hold another lease: add {}", super::RULE);
                Vec::new()
            }
            Ok(Err(error)) => return Some(self.unknown(&chain(&error))),
            Err(_) => return Some(self.unknown("no answer in time")),
        };
        self.requirement.iter().for_each(Requirement::meet);
        self.see(leases, Instant::now())
    }

    async fn leases(&self) -> Result<Vec<Lease>, kube::Error> {
        match self.shards {
            Some(label) => pages::list(self.api.clone(), ListParams::default().labels(label), Some).await,
            None => Ok(self.api.get_opt(&self.leader).await?.into_iter().collect()),
        }
    }

    fn unknown(&self, why: &str) -> String {
        self.requirement.iter().for_each(|requirement| requirement.fails(why));
        format!("their leases cannot be read: {why}")
    }

    /// Stores the current leases, and describes one that a rival may hold. A lease that is gone counts as held until it
    /// would have expired.
    fn see(&mut self, leases: Vec<Lease>, now: Instant) -> Option<String> {
        for lease in leases {
            let name = lease.name_any();
            let before = self.seen.remove(&name);
            self.seen.insert(name, Seen::again(before, lease, now));
        }
        let is_running = |seen: &Seen| self.is_rival(&seen.lease) && seen.is_held(now);
        let (lease, seen) = self.seen.iter().find(|(_, seen)| is_running(seen))?;
        Some(format!("{} holds the lease {lease}", seen.holder().unwrap_or_default()))
    }

    /// Returns whether a lease is the leader's, or that of a shard that takes the leader's place, and its holder serves
    /// kinds of ours. The sharder holds the leases of silent shards.
    fn is_rival(&self, lease: &Lease) -> bool {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_ref());
        let is_other = self.shards.is_none()
            || (annotation(lease, INSTEAD_OF) == Some(&self.leader) && holder == lease.metadata.name.as_ref());
        is_other && self.shares_kinds(lease)
    }

    /// Returns whether the holder of a lease may serve one of our kinds. Without the annotation, it may serve any kind.
    fn shares_kinds(&self, lease: &Lease) -> bool {
        let is_shared = |serves: &String| serves.split(',').any(|kind| self.kinds.contains(kind));
        self.kinds.is_empty() || annotation(lease, SERVES).is_none_or(is_shared)
    }
}

fn annotation<'a>(lease: &'a Lease, key: &str) -> Option<&'a String> {
    lease.metadata.annotations.as_ref()?.get(key)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outside::MemoryApi;
    use serde_json::json;

    use super::*;
    use crate::runtime::readiness::Readiness;

    fn lease(name: &str, holder: &str, instead_of: &str) -> Lease {
        let renewed = "1970-01-01T02:46:40.000000Z";
        let spec = json!({"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed});
        let lease = json!({"metadata": {"name": name, "annotations": {INSTEAD_OF: instead_of}}, "spec": spec});
        serde_json::from_value(lease).unwrap()
    }

    /// Returns the lease of a holder that serves these kinds.
    fn serving(kinds: &str, mut lease: Lease) -> Lease {
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.insert(SERVES.to_owned(), kinds.to_owned());
        lease
    }

    /// Returns the rivals of a process that serves shops.
    fn rivals(of_shard: bool) -> Rivals {
        let client = crate::testing::client(&Default::default(), &Default::default());
        let rivals = match of_shard {
            true => Rivals::of_shard(client, ("ns", "lock"), Readiness::default().require("lease", "not read yet")),
            false => Rivals::of_leader(client, ("ns", "lock"), "ring"),
        };
        rivals.serving(&["Shop.a.b".to_owned()].into())
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_lease_that_is_held_for_the_same_operator_and_kind_makes_a_process_wait() {
        let leader = |serves: &str| serving(serves, lease("lock", "a_1", ""));
        let shard = |serves: &str| serving(serves, lease("pod-1", "pod-1", "lock"));
        for (behaviour, of_shard, lease, expected) in [
            ("the leader runs", true, lease("lock", "a_1", ""), Some("a_1 holds the lease lock")),
            ("it has ended", true, lease("lock", "", ""), None),
            ("a shard runs", false, lease("pod-1", "pod-1", "lock"), Some("pod-1 holds the lease pod-1")),
            ("it has ended", false, lease("pod-1", "", "lock"), None),
            ("the sharder has its lease", false, lease("pod-1", "shardlease-controller", "lock"), None),
            ("it is another operator's", false, lease("pod-1", "pod-1", "other"), None),
            ("the leader has our kind", true, leader("Cart.a.b,Shop.a.b"), Some("a_1 holds the lease lock")),
            ("it has other kinds", true, leader("Cart.a.b,Shop.a.c"), None),
            ("a shard has our kind", false, shard("Shop.a.b,Till.a.b"), Some("pod-1 holds the lease pod-1")),
            ("it has other kinds", false, shard("Cart.a.b"), None),
        ] {
            let seen = rivals(of_shard).see(vec![lease], Instant::now());
            assert_eq!(seen.as_deref(), expected, "{behaviour}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_does_not_change_or_is_gone_counts_until_it_has_expired() {
        let (mut rivals, start) = (rivals(true), Instant::now());
        let mut see = |lease: Option<Lease>, second: u64| {
            rivals.see(lease.into_iter().collect(), start + Duration::from_secs(second)).is_some()
        };
        let held = |holder: &str| Some(lease("lock", holder, ""));
        assert!(see(held("a_1"), 0) && see(held("a_1"), 14) && see(None, 14));
        assert!(!see(held("a_1"), 15));
        assert!(see(held("b_1"), 20), "another process took it");
        assert!(!see(held(""), 21), "it released it");
    }

    /// The clock of a live process may be far behind.
    #[tokio::test(start_paused = true)]
    async fn a_lease_of_long_ago_counts_as_long_as_it_changes_and_for_its_duration_after_that() {
        let server = Arc::new(MemoryApi::new());
        server.serve("coordination.k8s.io/v1", "Lease", "leases");
        let client = crate::testing::client(&server, &Default::default());
        let mut rivals = Rivals { api: Api::namespaced(client, "ns"), ..rivals(true) };
        let since = Instant::now();
        rivals.gone().await;
        assert_eq!(since.elapsed().as_secs(), 0, "no lease delays a start");
        for second in [40, 42, 44] {
            let mut lease = serde_json::to_value(lease("lock", "a_1", "")).unwrap();
            lease["spec"]["renewTime"] = format!("1970-01-01T02:46:{second}.000000Z").into();
            server.put("/apis/coordination.k8s.io/v1/namespaces/ns/leases/lock", lease, "a_1");
            assert_eq!(rivals.running().await.as_deref(), Some("a_1 holds the lease lock"), "renewed at {second}");
            sleep(PAUSE).await;
        }
        let since = Instant::now();
        rivals.gone().await;
        let waited = (since.elapsed() + PAUSE).as_secs();
        assert!((15..=17).contains(&waited), "it waited {waited} s after the last change");
    }
}
