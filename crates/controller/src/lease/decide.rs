//! Decides what a candidate does, given the lease as it last saw it. A pure function.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use std::time::Duration;
use tokio::time::Instant;

use super::Timing;

/// The lease as last read or written.
pub(super) struct Seen {
    pub(super) lease: Lease,
    /// Local time of the last observed change.
    pub(super) at: Instant,
}

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// There is no lease yet.
    Create(LeaseSpec),
    /// We hold the lease and renew it, or it is free to take.
    Update(LeaseSpec),
    /// Another candidate holds it.
    Wait,
}

/// The candidate that wants the lease.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claimant {
    pub(super) identity: String,
    pub(super) rule: Rule,
}

/// Which lease counts as held by the claimant, and when another holder's lease may be taken.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Rule {
    /// Many candidates want one lease. Each has an identity that no other process has.
    Candidate,
    /// The lease is this shard's alone. Another process may have had the same name: the pod's container before it was
    /// restarted, or a pod of a StatefulSet that was deleted by force. So only the lease that this process acquired,
    /// at this time, is its own.
    Shard { acquired: Option<Timestamp> },
}

impl Seen {
    /// Records the lease as read at `at`. If it equals the one before, the time of its last change stays.
    pub(super) fn again(before: Option<Seen>, lease: Lease, at: Instant) -> Seen {
        match before {
            Some(before) if before.lease.spec == lease.spec => Seen { lease, at: before.at },
            _ => Seen { lease, at },
        }
    }

    pub(super) fn held_by(&self, claimant: &Claimant) -> bool {
        let acquired = || self.lease.spec.as_ref()?.acquire_time.as_ref().map(|time| time.0);
        let is_same_process = match &claimant.rule {
            Rule::Candidate => true,
            Rule::Shard { acquired: own } => own.is_some() && acquired() == *own,
        };
        self.holder() == Some(&claimant.identity) && is_same_process
    }

    pub(super) fn holder(&self) -> Option<&str> {
        self.lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
    }

    /// Returns whether there is a holder that may still be running controllers.
    pub(super) fn is_held(&self, now: Instant) -> bool {
        let seconds = self.lease.spec.as_ref().and_then(|s| s.lease_duration_seconds).unwrap_or(0);
        self.holder().is_some() && self.at + Duration::from_secs(u64::try_from(seconds).unwrap_or(0)) > now
    }
}

/// Returns the next step. `now` is our clock, which measures waiting; `wall` is the wall-clock time that is written for
/// readers.
pub(super) fn next_step(
    observed: Option<&Seen>,
    claimant: &Claimant,
    timing: &Timing,
    now: Instant,
    wall: Timestamp,
) -> Step {
    let identity = &*claimant.identity;
    let Some(observed) = observed else { return Step::Create(spec(identity, timing, wall, wall, 0)) };
    let old = observed.lease.spec.as_ref();
    let transitions = old.and_then(|s| s.lease_transitions).unwrap_or(0);
    if observed.held_by(claimant) {
        let acquired = old.and_then(|s| s.acquire_time.as_ref()).map_or(wall, |t| t.0);
        return Step::Update(spec(identity, timing, acquired, wall, transitions));
    }
    if observed.is_held(now) {
        return Step::Wait;
    }
    Step::Update(spec(identity, timing, wall, wall, transitions.saturating_add(1)))
}

/// Returns whether the lease, as read, is from before this time, at which this process wrote it.
pub(super) fn is_before(read: Option<&Lease>, written: Timestamp) -> bool {
    let renewed = read.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref());
    renewed.is_none_or(|renewed| renewed.0 < written)
}

/// Returns the released lease, which has no holder and expires at once.
pub(super) fn released(lease: &Lease, wall: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        lease_transitions: lease.spec.as_ref().and_then(|s| s.lease_transitions),
        acquire_time: Some(MicroTime(wall)),
        renew_time: Some(MicroTime(wall)),
        ..LeaseSpec::default()
    }
}

pub(super) fn spec(
    identity: &str,
    timing: &Timing,
    acquired: Timestamp,
    renewed: Timestamp,
    transitions: i32,
) -> LeaseSpec {
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(i32::try_from(timing.lease_duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: Some(MicroTime(acquired)),
        renew_time: Some(MicroTime(renewed)),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing {
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };

    /// Checks what `me` does with a lease of this holder (`-`: there is no lease) that has not changed for this many
    /// seconds.
    fn check(holder: &str, unchanged: u64, expected: &str) {
        let wall = Timestamp::UNIX_EPOCH;
        let start = Instant::now();
        let lease = Lease { spec: Some(spec(holder, &TIMING, wall, wall, 3)), ..Lease::default() };
        let observed = (holder != "-").then_some(Seen { lease, at: start });
        let later = start + Duration::from_secs(unchanged);
        let me = Claimant { identity: "me".into(), rule: Rule::Candidate };
        let step = match next_step(observed.as_ref(), &me, &TIMING, later, wall) {
            Step::Create(s) => format!("create as {:?} {}", s.holder_identity.unwrap(), s.lease_transitions.unwrap()),
            Step::Update(s) => format!("update as {:?} {}", s.holder_identity.unwrap(), s.lease_transitions.unwrap()),
            Step::Wait => "wait".to_owned(),
        };
        assert_eq!(step, expected, "{holder} {unchanged}");
    }

    #[tokio::test]
    async fn a_lease_is_taken_only_when_nobody_can_hold_it() {
        check("-", 0, r#"create as "me" 0"#);
        check("me", 0, r#"update as "me" 3"#);
        check("me", 100, r#"update as "me" 3"#);
        check("other", 0, "wait");
        check("other", 14, "wait");
        check("other", 15, r#"update as "me" 4"#);
        check("", 0, r#"update as "me" 4"#);
    }

    /// Checks what the shard `me` does with a lease. `acquired` is the second at which it acquired its own; the lease was
    /// acquired by `holder` at second 7, for `duration` seconds, and has been `unchanged` for so many.
    fn check_shard(acquired: Option<i64>, (holder, duration): (&str, i32), unchanged: u64, expected: &str) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let start = Instant::now();
        let mut held = spec(holder, &TIMING, at(7), at(7), 3);
        held.lease_duration_seconds = Some(duration);
        let observed = Seen { lease: Lease { spec: Some(held), ..Lease::default() }, at: start };
        let me = Claimant { identity: "me".into(), rule: Rule::Shard { acquired: acquired.map(at) } };
        let later = start + Duration::from_secs(unchanged);
        let step = match next_step(Some(&observed), &me, &TIMING, later, at(100)) {
            Step::Create(_) => "create".to_owned(),
            Step::Update(s) => format!("update, acquired at {}", s.acquire_time.unwrap().0.as_second()),
            Step::Wait => "wait".to_owned(),
        };
        assert_eq!(step, expected, "{acquired:?} {holder} {duration} {unchanged}");
    }

    #[tokio::test]
    async fn a_shard_takes_what_another_process_holds_only_after_its_whole_duration() {
        check_shard(Some(7), ("me", 15), 0, "update, acquired at 7");
        check_shard(Some(7), ("me", 15), 100, "update, acquired at 7");
        check_shard(None, ("me", 15), 14, "wait");
        check_shard(None, ("me", 15), 15, "update, acquired at 100");
        check_shard(Some(6), ("me", 15), 14, "wait");
        check_shard(Some(7), ("shardlease-controller", 30), 29, "wait");
        check_shard(Some(7), ("shardlease-controller", 30), 30, "update, acquired at 100");
        check_shard(None, ("", 1), 0, "update, acquired at 100");
    }

    #[tokio::test]
    async fn a_changed_lease_is_valid_again() {
        let wall = Timestamp::UNIX_EPOCH;
        let lease = |renewed: i64| {
            let renewed = Timestamp::from_second(renewed).unwrap();
            Lease { spec: Some(spec("other", &TIMING, wall, renewed, 0)), ..Lease::default() }
        };
        let start = Instant::now();
        let late = start + Duration::from_secs(14);
        let first = Seen::again(None, lease(1), start);
        let same = Seen::again(Some(first), lease(1), late);
        assert_eq!(same.at, start);
        assert_eq!(Seen::again(Some(same), lease(2), late).at, late);
    }
}
