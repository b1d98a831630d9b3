//! Which lease a process has, and where, and which other leases it waits for.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use kube::Client;

use crate::context::Context;
use crate::lease::{self, Election, Rivals};
use crate::manager::{Config, Error};
use crate::shards::{RING_LABEL, Ring};

/// The file that holds a pod's own namespace.
pub(super) const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Returns the lease of the process; `None` without leader election.
pub(super) fn election(
    context: &Context,
    config: &Config,
    (client, term): (Client, lease::Term),
) -> Result<Option<Election>, Error> {
    if let Some(ring) = &config.controllers.ring {
        return shard(context, config, ring, (client, term)).map(Some);
    }
    if let Some(selector) = &config.controllers.shard_selector {
        tracing::info!(%selector, "Serving a range of the resources, which is alpha");
    }
    if !config.leader_elect {
        tracing::warn!(
            "Leader election is off: a second process on these resources would write, too. Set --leader-elect where more than one may run"
        );
        return Ok(None);
    }
    let namespace = lease_namespace(config);
    if config.leader_election_id.is_empty() {
        return Err(Error::NoLeaseName { outside: namespace.is_err() });
    }
    let namespace = namespace?;
    let identity = context.identity.to_string();
    let name = lease_name(config);
    let lock = (namespace.as_str(), name.as_str());
    let requirement = context.readiness.require(&format!("lease {}/{}", lock.0, lock.1), "not read yet");
    let election = Election::new(client, lock, identity, (lease::Timing::default(), term));
    Ok(Some(election.required(requirement).witnessed_by(Arc::new(context.contact.clone()))))
}

/// Returns the lease of this shard, which has the shard's name.
fn shard(
    context: &Context,
    config: &Config,
    ring: &Ring,
    (client, term): (Client, lease::Term),
) -> Result<Election, Error> {
    if config.leader_elect {
        return Err(Error::LeaderInRing);
    }
    let namespace = lease_namespace(config)?;
    tracing::info!(ring = ring.name(), shard = ring.shard(), "Serving a share of the resources");
    let requirement = context.readiness.require(&format!("lease {namespace}/{}", ring.shard()), "not read yet");
    let lock = (namespace.as_str(), ring.shard());
    let election = Election::new(client, lock, ring.shard().to_owned(), (lease::Timing::default(), term));
    let labels = [(RING_LABEL.to_owned(), ring.name().to_owned())];
    let election = election.of_shard(labels.into()).instead_of(&config.leader_election_id);
    Ok(election.required(requirement).witnessed_by(Arc::new(context.contact.clone())))
}

/// Returns the processes that serve the same resources with other leases: for a shard, the leader that its ring
/// replaces; for a leader, the shards that replace it. They are unknown if the shards do not know the name of the
/// leader's lease.
pub(super) fn rivals(
    context: &Context,
    config: &Config,
    kinds: &BTreeSet<String>,
    client: Client,
) -> Result<Option<Rivals>, Error> {
    let (id, controllers) = (&config.leader_election_id, &config.controllers);
    let has_lease = controllers.ring.is_some() || config.leader_elect;
    if id.is_empty() || !has_lease || controllers.shard_selector.is_some() {
        return Ok(None);
    }
    let namespace = lease_namespace(config)?;
    let leader = (namespace.as_str(), id.as_str());
    let rivals = match &controllers.ring {
        Some(ring) => {
            let requirement = context.readiness.require(&format!("lease {namespace}/{}", ring.shard()), "not read yet");
            Rivals::of_shard(client, leader, requirement)
        }
        None => Rivals::of_leader(client, leader, RING_LABEL),
    };
    Ok(Some(rivals.serving(kinds)))
}

/// Returns the name of the process's lease. Each range has its own: otherwise only one of them would be served.
pub(super) fn lease_name(config: &Config) -> String {
    let id = &config.leader_election_id;
    match (&config.controllers.ring, &config.controllers.shard_selector) {
        (Some(ring), _) => ring.shard().to_owned(),
        (None, Some(selector)) => format!("{id}-{}", selector.digest()),
        (None, None) => id.clone(),
    }
}

fn lease_namespace(config: &Config) -> Result<String, Error> {
    let set = Some(&config.leader_election_namespace).filter(|set| !set.is_empty()).cloned();
    set.or_else(|| pod_namespace(Path::new(NAMESPACE_FILE))).ok_or(Error::NoLeaseNamespace)
}

/// Returns the process's own namespace, where its Service and Secrets are: the pod's, from this file; outside a cluster,
/// the lease's.
pub(super) fn own_namespace(file: &Path, lease: &str) -> Option<String> {
    pod_namespace(file).or_else(|| Some(lease.to_owned())).filter(|namespace| !namespace.is_empty())
}

fn pod_namespace(file: &Path) -> Option<String> {
    std::fs::read_to_string(file).ok().map(|read| read.trim().to_owned())
}
