//! The faults between a process and the server: refusals, lost requests, lost responses, delays, broken watches.

use std::ops::Range;
use std::time::Duration;

use helm_release::kube::Call;
use serde::{Deserialize, Serialize};

/// The requests that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Which {
    /// Every read.
    Reads,
    /// Every write.
    Writes,
    /// Every request.
    All,
    /// Reads of release records, by name.
    Records,
    /// Writes of release records.
    RecordWrites,
    /// Every request for Secrets.
    Secrets,
    /// Writes of Services, one of the chart's last objects.
    Services,
    /// Discovery.
    Discovery,
    /// The lease.
    Lease,
    /// Lists and watches.
    Watches,
    /// The chart's `lookup`.
    Lookups,
    /// Lists and watches of Secrets that hold values.
    Sources,
    /// Lists and watches of ConfigMaps.
    Maps,
    /// Lists and watches of the charts' objects and of release records, but not those of resources.
    ObjectWatches,
    /// Reads, lists and watches of Deployments.
    Deployments,
    /// Deletions of Jobs.
    JobDeletions,
}

/// The effect of a fault on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// The server responds with this status.
    Status(u16),
    /// The request does not arrive.
    Unreachable,
    /// The request is served, but its response is lost.
    AnswerLost,
    /// The request takes this many milliseconds longer, half of them before it is served. So do the events of running
    /// watches.
    Slow(u64),
    /// The server has just started and answers 403 until it has loaded its roles.
    Starting,
}

/// A temporary fault.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The affected requests.
    pub which: Which,
    /// The effect on them.
    pub how: How,
    /// The affected share, in tenths.
    pub of_ten: u8,
    /// The duration in milliseconds.
    pub for_ms: u64,
    /// The number of the only affected request, counted from the beginning of the fault; 0 if the share counts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nth: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // Serde passes a reference.
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Fault {
    /// Creates a fault that affects every request for this many milliseconds.
    pub fn new(which: Which, how: How, for_ms: u64) -> Fault {
        Fault { which, how, of_ten: 10, for_ms, nth: 0 }
    }
}

struct Active {
    fault: Fault,
    /// When it begins and ends.
    when: Range<Duration>,
    /// The number of requests that it concerned.
    seen: u32,
}

impl Active {
    fn concerns(&self, call: &Call, now: Duration) -> bool {
        self.when.contains(&now) && concerns(self.fault.which, call)
    }
}

/// Failures of running watches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaks {
    /// How often all connections broke.
    pub cuts: u32,
    /// How often all watches expired.
    pub expiries: u32,
    /// How often the server restarted.
    pub restarts: u32,
    /// How often all watches received a bookmark.
    pub bookmarks: u32,
}

/// The active faults.
#[derive(Default)]
pub struct Faults {
    all: Vec<Active>,
    /// The requests that the server forbids per namespace, until the end of the run.
    forbidden: Vec<(Which, String)>,
    /// The failures of running watches.
    pub breaks: Breaks,
}

impl Faults {
    /// Begins a fault.
    pub fn begin(&mut self, fault: Fault, now: Duration) {
        let until = now + Duration::from_millis(fault.for_ms);
        self.all.push(Active { fault, when: now..until, seen: 0 });
    }

    /// Restarts the server: connections break, it is down for `away` milliseconds, and then rejects everything for
    /// `loading` milliseconds, until it has loaded its roles.
    pub fn restart(&mut self, away: u64, loading: u64, now: Duration) {
        self.breaks.restarts += 1;
        let fault = |how, for_ms| Fault::new(Which::All, how, for_ms);
        self.begin(fault(How::Unreachable, away), now);
        self.begin(fault(How::Starting, loading), now + Duration::from_millis(away));
    }

    /// Forbids requests for a namespace, and ends running watches.
    pub fn forbid(&mut self, which: Which, namespace: &str) {
        self.forbidden.push((which, format!("/namespaces/{namespace}/")));
        self.breaks.cuts += 1;
    }

    /// Returns whether such requests are forbidden anywhere.
    pub fn has_forbidden(&self, which: Which) -> bool {
        self.forbidden.iter().any(|(forbidden, _)| *forbidden == which)
    }

    /// Ends all temporary faults.
    pub fn end(&mut self) {
        self.all.clear();
    }

    /// Draws the effect on a request.
    pub fn of(&mut self, call: &Call, now: Duration, random: &mut fastrand::Rng) -> Option<How> {
        // A list of all namespaces includes this one.
        let is_in = |namespace: &String| call.path.contains(&**namespace) || !call.path.contains("/namespaces/");
        if self.forbidden.iter().any(|(which, namespace)| concerns(*which, call) && is_in(namespace)) {
            return Some(How::Status(403));
        }
        self.all.retain(|active| active.when.end > now);
        let mut drawn = None;
        for active in self.all.iter_mut().filter(|active| active.concerns(call, now)) {
            active.seen += 1;
            let Fault { how, of_ten, nth, .. } = active.fault;
            let mut is_affected = || if nth == 0 { random.u8(0..10) < of_ten } else { active.seen == nth };
            drawn = drawn.or_else(|| Some(how).filter(|_| is_affected()));
        }
        drawn
    }

    /// Draws how much longer an event of a watch takes.
    pub fn lateness(&self, watch: &Call, now: Duration, random: &mut fastrand::Rng) -> Duration {
        let concerned = self.all.iter().filter(|active| active.concerns(watch, now));
        let mut slow = concerned.filter_map(|active| match active.fault {
            Fault { how: How::Slow(ms), of_ten, nth: 0, .. } => Some((ms, of_ten)),
            _ => None,
        });
        let drawn = slow.find(|(_, of_ten)| random.u8(0..10) < *of_ten);
        drawn.map_or(Duration::ZERO, |(ms, _)| Duration::from_millis(ms))
    }
}

/// The group of the custom resources.
const RESOURCES: &str = "/apis/sim.example.com/";

fn concerns(which: Which, call: &Call) -> bool {
    let (path, is_read) = (&*call.path, call.method == http::Method::GET);
    let is_list = path.contains("limit=") || path.contains("watch=true");
    match which {
        Which::Reads => is_read,
        Which::Writes => !is_read,
        Which::All => true,
        Which::Records => is_read && path.contains("/sh.helm.release"),
        Which::RecordWrites => {
            !is_read && path.contains("/secrets") && !path.contains("-random") && !path.contains("-guarded")
        }
        Which::Secrets => path.contains("/secrets"),
        Which::Services => !is_read && path.contains("/services"),
        Which::Discovery => is_read && (path == "/api" || path == "/apis" || path == "/version"),
        Which::Lease => path.contains("/leases"),
        Which::Watches => is_read && is_list,
        Which::Lookups => is_read && path.ends_with("-guarded"),
        Which::Sources => is_read && is_list && path.contains("/secrets?") && path.contains("type!="),
        Which::Maps => is_read && is_list && path.contains("/configmaps?"),
        Which::ObjectWatches => {
            let is_other = path.contains(RESOURCES) || path.contains("type!=") || path.contains("/leases");
            is_read && is_list && !is_other
        }
        Which::Deployments => is_read && path.contains("/deployments"),
        Which::JobDeletions => call.method == http::Method::DELETE && path.contains("/jobs/"),
    }
}
