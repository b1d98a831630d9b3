//! Leader election with one lease, by client-go's rules, so that two processes never run controllers at once; and the
//! lease of a shard, by the same rules.
//!
//! The API server checks each write against the version that was read. Whether another holder's lease has expired
//! depends only on how long *we* have seen it unchanged, so clocks may differ. A leader that cannot renew within
//! [`Timing::renew_deadline`] gives up before anyone can take over. Counterpart: client-go's `tools/leaderelection`, whose
//! candidates take a deleted lease at once; here it counts as held until it would have expired.

mod decide;
mod others;
#[cfg(test)]
mod ring_tests;
mod rivals;
mod term;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client, Resource as _};
use outside::sync::lock;
use tokio::time::Instant;

use crate::report::chain;
use crate::runtime::last_error::{LastError, Transition};
use crate::runtime::readiness::Requirement;
use decide::{Claimant, Rule, Seen, Step, is_before, next_step};
pub use others::warn_of_others;
pub use rivals::Rivals;
pub use term::{Term, UnderWay};

/// client-go's three durations. Each must be longer than the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long other candidates wait for a silent leader.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry_period: Duration,
}

impl Default for Timing {
    /// Returns controller-runtime's defaults.
    fn default() -> Timing {
        Timing {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// How long after the end of the term writes in flight may delay the release of the lease. Together with the pause
/// between renewals, it stays below the renew deadline, and together with the grace period below the scaffold's
/// `terminationGracePeriodSeconds`, 10.
pub(crate) const SETTLING: Duration = Duration::from_millis(1_500);

/// How long after the end of the term writes in flight may delay the stop of the controllers. The rest of [`SETTLING`]
/// is for the stop, and for the writes that it abandons: they may take a second to arrive.
pub(crate) const ANSWERS: Duration = Duration::from_millis(300);

/// The leader could not renew its lease, or another candidate took it: this process must stop its controllers at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("leader election lost")]
pub struct Lost;

/// The process that holds the lease, as a candidate last saw it. Clones show the same.
#[derive(Clone, Debug, Default)]
pub struct Holder(Arc<Mutex<Option<String>>>);

impl Holder {
    /// Returns the holder's identity; `None` without a holder or without leader election.
    pub fn identity(&self) -> Option<String> {
        lock(&self.0).clone()
    }

    fn saw(&self, holder: Option<&str>) {
        let mut known = lock(&self.0);
        if known.as_deref() != holder {
            *known = holder.map(str::to_owned);
        }
    }
}

/// Learns what the lease proves about its server.
pub trait Witness: Send + Sync {
    /// Learns that the lease is stored as this process last wrote it.
    fn confirmed(&self);

    /// Learns that the lease is older than what this process wrote, or missing: the server was restored from a backup.
    fn refuted(&self);
}

/// A candidate for a lease.
pub struct Election {
    api: Api<Lease>,
    path: String,
    name: String,
    claimant: Claimant,
    /// The labels that this process sets on the lease; others may set more.
    labels: BTreeMap<String, String>,
    timing: Timing,
    term: Term,
    observed: Option<Seen>,
    last_error: LastError,
    requirement: Option<Requirement>,
    /// Whether the lease existed when it was acquired.
    took_over: bool,
    /// The kinds that the holder serves, for operators without leader election to read.
    serves: String,
    /// The lease of the leader that the shard's ring replaces, for leaders to read.
    instead_of: String,
    holder: Holder,
    witness: Option<Arc<dyn Witness>>,
    /// The time in the lease as this process last wrote it.
    written: Option<Timestamp>,
    /// Whether a shard's lease was deleted. The sharder then assigns its resources to other shards.
    is_deleted: bool,
}

impl Election {
    /// Creates a candidate with this identity for the lease `namespace/name`, with this timing and term.
    pub fn new(
        client: Client,
        (namespace, name): (&str, &str),
        identity: String,
        (timing, term): (Timing, Term),
    ) -> Election {
        let api: Api<Lease> = Api::namespaced(client, namespace);
        let path = format!("{}/{name}", Lease::url_path(&(), Some(namespace)));
        let (name, last_error) = (name.to_owned(), LastError::default());
        let claimant = Claimant { identity, rule: Rule::Candidate };
        Election {
            api,
            path,
            name,
            claimant,
            labels: BTreeMap::new(),
            timing,
            term,
            observed: None,
            last_error,
            requirement: None,
            took_over: false,
            serves: String::new(),
            instead_of: String::new(),
            holder: Holder::default(),
            witness: None,
            written: None,
            is_deleted: false,
        }
    }

    /// Sets who learns whether the lease is as this process last wrote it.
    pub fn witnessed_by(self, witness: Arc<dyn Witness>) -> Election {
        Election { witness: Some(witness), ..self }
    }

    /// Makes this lease a shard's, with these labels. Its name is the identity, which another process may have had
    /// before.
    pub fn of_shard(mut self, labels: BTreeMap<String, String>) -> Election {
        self.claimant.rule = Rule::Shard { acquired: None };
        Election { labels, ..self }
    }

    /// Sets the lease of the leader that the shard's ring replaces. Default: none.
    pub fn instead_of(self, leader: &str) -> Election {
        Election { instead_of: leader.to_owned(), ..self }
    }

    /// Sets where to show who holds the lease.
    pub fn shown_by(self, holder: Holder) -> Election {
        Election { holder, ..self }
    }

    /// Sets the requirement that the first successful attempt meets, no matter who leads then.
    pub fn required(self, requirement: Requirement) -> Election {
        Election { requirement: Some(requirement), ..self }
    }

    /// Sets the kinds that the lease lists as served by its holder: `Shop.apps.my.domain`. Default: none.
    pub fn serving(self, kinds: &BTreeSet<String>) -> Election {
        Election { serves: kinds.iter().map(String::as_str).collect::<Vec<_>>().join(","), ..self }
    }

    /// Waits until this candidate leads. Cancel safe.
    pub async fn acquire(&mut self) {
        tracing::info!(lease = self.name, identity = self.claimant.identity, "Attempting to acquire leader lease");
        while !self.attempt(self.timing.renew_deadline).await {
            tokio::time::sleep(jittered(self.timing.retry_period)).await;
        }
        tracing::info!(lease = self.name, identity = self.claimant.identity, "Successfully acquired lease");
    }

    /// Returns whether a shard's lease was another process's before: resources may still bear the shard's name.
    pub fn took_over(&self) -> bool {
        self.took_over
    }

    /// Returns a reference to the lease, for events. It is complete once the lease was read or written.
    pub fn reference(&self) -> ObjectReference {
        self.observed.as_ref().map(|observed| observed.lease.object_ref(&())).unwrap_or_default()
    }

    /// Renews the lease until that fails for too long. Cancel safe; the lease then expires or is
    /// [released](Self::release).
    pub async fn hold(&mut self) -> Lost {
        // Others count from the write that made this candidate the leader, no matter how late its response arrived.
        let since = self.observed.as_ref().map_or_else(Instant::now, |o| o.at);
        let mut deadline = since + self.timing.renew_deadline;
        while Instant::now() < deadline {
            let started = Instant::now();
            if self.attempt(deadline - started).await {
                deadline = started + self.timing.renew_deadline;
            } else if self.taken() {
                break;
            }
            tokio::time::sleep_until(deadline.min(Instant::now() + self.timing.retry_period)).await;
        }
        self.term.set_end(Instant::now());
        if self.is_deleted {
            self.leave_free().await;
        }
        tracing::error!(lease = self.name, identity = self.claimant.identity, "Failed to renew lease");
        Lost
    }

    /// Ends the term, and waits a moment for the answers to the writes in flight. From then on the client sends no write
    /// but the lease's.
    pub async fn end_term(&mut self) {
        let ended = self.term.end();
        self.term.settle_by(ended + ANSWERS).await;
    }

    /// Releases the lease, so that the next leader need not wait for it to expire. Ends the term first, unless it has
    /// ended, because no write of this process may arrive after the next leader's first write. Leaves the lease to expire
    /// if one still may by a deadline that counts from the end of the term. Does nothing if another candidate holds the
    /// lease.
    pub async fn release(&mut self) {
        let Some(observed) = self.observed.take().filter(|o| o.held_by(&self.claimant)) else { return };
        let ended = self.term.end();
        // The sharder deletes released leases, which is no sign of a restored server.
        self.written = None;
        if !self.term.settle_by(ended + SETTLING).await {
            tracing::warn!(lease = self.name, "Leaving the lease to expire: a write has not been answered");
            return;
        }
        let lease = self.lease(Some(&observed), decide::released(&observed.lease, outside::now()));
        self.term.except(self.path.clone());
        match tokio::time::timeout(
            self.timing.retry_period,
            self.api.replace(&self.name, &PostParams::default(), &lease),
        )
        .await
        {
            Ok(Ok(_)) => tracing::info!(lease = self.name, "Released lease"),
            Ok(Err(error)) => tracing::warn!(lease = self.name, error = chain(&error), "Failed to release lease"),
            Err(_) => tracing::warn!(lease = self.name, "Failed to release lease in time"),
        }
    }

    /// Releases the lease of a process that serves nothing yet, so that it can acquire it again later. Writes are allowed
    /// from then on, even if the lease is left to expire: no controller has started.
    pub async fn give_back(&mut self) {
        self.release().await;
        self.term.lift();
    }

    /// Tries once to take or renew the lease; returns whether this candidate then leads.
    async fn attempt(&mut self, limit: Duration) -> bool {
        match tokio::time::timeout(limit, self.step()).await {
            Ok(Ok(leads)) => {
                self.last_error.recover();
                self.holder.saw(self.observed.as_ref().and_then(Seen::holder));
                self.requirement.iter().for_each(Requirement::meet);
                leads
            }
            Ok(Err(error)) => {
                self.failed(explain(&error));
                false
            }
            Err(_) => {
                self.failed("no answer in time".to_owned());
                false
            }
        }
    }

    async fn step(&mut self) -> Result<bool, kube::Error> {
        // A leader knows what it wrote. If that is no longer stored, the write fails.
        if !self.observed.as_ref().is_some_and(|o| o.held_by(&self.claimant)) {
            self.observe().await?;
        }
        if self.is_deleted {
            return Ok(false);
        }
        // The term counts from before the time that is written, because others may count from that.
        let (started, wall) = (Instant::now(), in_microseconds(outside::now()));
        match next_step(self.observed.as_ref(), &self.claimant, &self.timing, started, wall) {
            Step::Wait => Ok(false),
            Step::Create(spec) => self.write(false, spec, started).await,
            Step::Update(spec) => self.write(true, spec, started).await,
        }
    }

    async fn observe(&mut self) -> Result<(), kube::Error> {
        let read = self.api.get_opt(&self.name).await?;
        if self.written.take_if(|written| is_before(read.as_ref(), *written)).is_some() {
            tracing::warn!(lease = self.name, "The server was restored: the lease is older than what was written");
            self.witness.iter().for_each(|witness| witness.refuted());
            self.is_deleted = read.is_none() && self.claimant.rule != Rule::Candidate;
        }
        let (before, now) = (self.observed.take(), Instant::now());
        self.observed = match read {
            Some(lease) => Some(Seen::again(before, lease, now)),
            // Until its next renewal fails, the holder of a deleted lease writes; it then creates the lease again.
            None => before.filter(|seen| seen.is_held(now)),
        };
        Ok(())
    }

    async fn write(&mut self, exists: bool, spec: LeaseSpec, started: Instant) -> Result<bool, kube::Error> {
        if let Rule::Shard { acquired } = &mut self.claimant.rule {
            let time = spec.acquire_time.as_ref().map(|time| time.0);
            self.took_over = exists && (*acquired != time || self.took_over);
            *acquired = time;
        }
        let lease = self.lease(self.observed.as_ref().filter(|_| exists), spec);
        let written = match exists {
            false => self.api.create(&PostParams::default(), &lease).await,
            true => self.api.replace(&self.name, &PostParams::default(), &lease).await,
        };
        match written {
            Ok(lease) => {
                self.term.set_end(started + self.timing.renew_deadline);
                self.written = lease.spec.as_ref().and_then(|spec| Some(spec.renew_time.as_ref()?.0));
                self.witness.iter().for_each(|witness| witness.confirmed());
                self.observed = Some(Seen { lease, at: started });
                Ok(true)
            }
            Err(error) => {
                // The write may have succeeded, so the lease must be read before the next one. The time of the last
                // observed change stays, but the lease is no longer claimed.
                self.observed = self.observed.take().filter(|o| !o.held_by(&self.claimant));
                Err(error)
            }
        }
    }

    /// Returns the lease that replaces the observed one, with the metadata of others. The uid makes the server reject it if
    /// the observed lease is gone: otherwise a replace would create it, whatever its resource version.
    fn lease(&self, observed: Option<&Seen>, spec: LeaseSpec) -> Lease {
        let mut metadata = observed.map(|observed| observed.lease.metadata.clone()).unwrap_or_default();
        let mut labels = metadata.labels.take().unwrap_or_default();
        labels.extend(self.labels.clone());
        let mut annotations = metadata.annotations.take().unwrap_or_default();
        // The last holder may have written others.
        for (key, value) in [(others::SERVES, &self.serves), (rivals::INSTEAD_OF, &self.instead_of)] {
            annotations.remove(key);
            if !value.is_empty() {
                annotations.insert(key.to_owned(), value.clone());
            }
        }
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            labels: Some(labels).filter(|labels| !labels.is_empty()),
            annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
            managed_fields: None,
            ..metadata
        };
        Lease { metadata, spec: Some(spec) }
    }

    /// Creates a deleted lease again, without a holder: the next process of the shard's name must find that there was one,
    /// and wait until the sharder has moved the resources.
    async fn leave_free(&self) {
        let lease = self.lease(None, decide::released(&Lease::default(), outside::now()));
        let collection = self.path.rsplit_once('/').map_or("", |(collection, _)| collection);
        self.term.except(collection.to_owned());
        let parameters = PostParams::default();
        let created = self.api.create(&parameters, &lease);
        if !matches!(tokio::time::timeout(self.timing.retry_period, created).await, Ok(Ok(_))) {
            tracing::warn!(lease = self.name, "Cannot create the deleted lease again");
        }
    }

    /// Returns whether this candidate has lost the lease, as far as it knows: another holds it, or a shard's was deleted.
    fn taken(&self) -> bool {
        self.is_deleted || self.observed.as_ref().is_some_and(|o| !o.held_by(&self.claimant))
    }

    /// Logs an error once, and again after a while, rather than on every attempt.
    fn failed(&mut self, error: String) {
        let lease = &self.name;
        self.requirement.iter().for_each(|requirement| requirement.fails(&error));
        match self.last_error.fail(error, Instant::now()) {
            Transition::Failed(error) | Transition::Reminder(error) => {
                tracing::error!(lease, error, "Error retrieving or updating resource lock");
            }
            Transition::StillFailing(error) => tracing::debug!(lease, error, "Still no access to the resource lock"),
            Transition::Nothing | Transition::Recovered => {}
        }
    }
}

/// The permissions that an election needs in the lease's namespace. A leader lists the leases of shards.
const RULE: &str = "{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, create, update]}";

/// Returns the error's message and what to do about it.
fn explain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            format!("{}; add this rule to the operator's role in the lease's namespace: {RULE}", chain(error))
        }
        kube::Error::Api(status) if status.code == 404 => {
            format!("{}; correct --leader-election-namespace", chain(error))
        }
        _ => chain(error),
    }
}

/// Drops what the API does not store of a time, so that a stored time equals the one that was written.
fn in_microseconds(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// Returns a unique name: the host's, with a random number.
pub fn identity(host: Option<&str>) -> String {
    format!("{}_{:016x}", host.unwrap_or("manager"), outside::random())
}

/// Lengthens the pause by up to 1.2 times its length, as client-go does, so that candidates do not try in step.
fn jittered(period: Duration) -> Duration {
    let share = (outside::random() >> 11) as f64 / (1_u64 << 53) as f64;
    period + period.mul_f64(1.2 * share)
}
