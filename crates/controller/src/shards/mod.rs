//! Lets several processes share the resources: each is a shard of a ring, by the protocol of
//! kubernetes-controller-sharding, or serves one range of hashes. In a ring, labels assign a resource. Nothing here
//! assigns: that project's sharder does. A range is fixed, so a resource stays in it for its whole life.
//!
//! A shard has a lease (see [`crate::lease`]), and writes only within its term. [`Shard`] adds a term for each
//! resource, which ends when the resource goes to another shard, or is gone.

mod holdings;
mod kinds;
mod within;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use crate::runtime::shard_selector::{InvalidSelector, ShardSelector};
pub use holdings::{Holding, Shard};
pub use kinds::Kinds;
use kube::discovery::Scope;

/// The label of a shard's lease that names its ring.
pub const RING_LABEL: &str = "alpha.sharding.timebertt.dev/controllerring";

/// The API version of a `ControllerRing`.
pub const API_VERSION: &str = "sharding.timebertt.dev/v1alpha1";

/// The maximum length of a label's value and of the part of its key after the slash.
const MAX_LABEL: usize = 63;

/// A ring, and which of its shards this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring(Arc<Names>);

#[derive(Debug, PartialEq, Eq)]
struct Names {
    ring: String,
    shard: String,
    shard_label: String,
    drain_label: String,
}

/// The reason why a process cannot be a shard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRing {
    /// A name that cannot be part of a label.
    #[error("the {what} {name:?} must have at most {MAX_LABEL} characters: lower-case letters, digits, '-' and '.'")]
    Name {
        /// The named thing.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The process does not know the name of its pod.
    #[error("a shard needs a name: set HOSTNAME to the pod's name")]
    Nameless,
}

/// A kind that no ring can serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} is cluster-scoped, and the sharder never moves such a resource again: serve it by a process without --controller-ring"
)]
pub struct ClusterScoped(String);

/// How to tell which resources belong to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Share {
    /// Labels, which change.
    Ring(Ring),
    /// A hash, which does not.
    Range(ShardSelector),
}

/// How this shard must treat a resource, according to its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// This shard serves the resource.
    Ours,
    /// This shard must stop serving the resource, and confirm that by removing both labels.
    Drained,
    /// Another shard serves the resource, or none.
    Others,
}

impl Share {
    /// Returns how this shard must treat a resource with this uid, this namespace and these labels.
    pub fn standing(&self, uid: &str, namespace: &str, labels: &BTreeMap<String, String>) -> Standing {
        match self {
            Share::Ring(ring) => ring.standing(labels),
            Share::Range(selector) if selector.selects(uid, namespace) => Standing::Ours,
            Share::Range(_) => Standing::Others,
        }
    }
}

impl From<Ring> for Share {
    fn from(ring: Ring) -> Share {
        Share::Ring(ring)
    }
}

impl From<ShardSelector> for Share {
    fn from(selector: ShardSelector) -> Share {
        Share::Range(selector)
    }
}

impl Ring {
    /// Creates the names of this shard in this ring.
    ///
    /// # Errors
    /// A name is missing, or cannot be part of a label.
    pub fn new(ring: &str, shard: Option<&str>) -> Result<Ring, InvalidRing> {
        let shard = shard.filter(|shard| !shard.is_empty()).ok_or(InvalidRing::Nameless)?;
        check("ring", ring)?;
        check("shard", shard)?;
        Ok(Ring(Arc::new(Names {
            ring: ring.to_owned(),
            shard: shard.to_owned(),
            shard_label: format!("shard.alpha.sharding.timebertt.dev/{ring}"),
            drain_label: format!("drain.alpha.sharding.timebertt.dev/{ring}"),
        })))
    }

    /// Checks that the sharder moves resources of this kind.
    ///
    /// # Errors
    /// The kind is cluster-scoped: the sharder assigns each resource once, and does not reassign it when that shard is
    /// gone.
    pub fn serves(&self, kind: &str, scope: &Scope) -> Result<(), ClusterScoped> {
        match scope {
            Scope::Namespaced => Ok(()),
            Scope::Cluster => Err(ClusterScoped(kind.to_owned())),
        }
    }

    /// Returns the ring's name.
    pub fn name(&self) -> &str {
        &self.0.ring
    }

    /// Returns this shard's name, which is also the name of its lease.
    pub fn shard(&self) -> &str {
        &self.0.shard
    }

    /// Returns the key of the label whose value is the shard that serves a resource.
    pub fn shard_label(&self) -> &str {
        &self.0.shard_label
    }

    /// Returns the key of the label by which the sharder asks a shard to stop serving a resource.
    pub fn drain_label(&self) -> &str {
        &self.0.drain_label
    }

    /// Returns the selector of this shard's resources.
    pub fn selector(&self) -> String {
        format!("{}={}", self.0.shard_label, self.0.shard)
    }

    /// Returns how this shard must treat a resource with these labels.
    pub fn standing(&self, labels: &BTreeMap<String, String>) -> Standing {
        match (labels.get(&self.0.shard_label), labels.contains_key(&self.0.drain_label)) {
            (Some(shard), false) if *shard == self.0.shard => Standing::Ours,
            (Some(shard), true) if *shard == self.0.shard => Standing::Drained,
            _ => Standing::Others,
        }
    }

    /// Returns the merge patch by which a shard gives a resource up. Both labels go in one write, because the sharder
    /// assigns a resource as soon as the shard's label is gone.
    pub fn acknowledgement(&self, uid: &str, resource_version: &str) -> serde_json::Value {
        let labels = BTreeMap::from([(self.shard_label(), None::<&str>), (self.drain_label(), None)]);
        serde_json::json!({"metadata": {"uid": uid, "resourceVersion": resource_version, "labels": labels}})
    }
}

fn check(what: &'static str, name: &str) -> Result<(), InvalidRing> {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_valid = name.len() <= MAX_LABEL
        && name.starts_with(is_end)
        && name.ends_with(is_end)
        && name.chars().all(|c| is_end(c) || c == '-' || c == '.');
    if is_valid { Ok(()) } else { Err(InvalidRing::Name { what, name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_serves_no_cluster_scoped_kinds() {
        let ring = Ring::new("memcached", Some("pod-1")).unwrap();
        assert!(ring.serves("Memcached", &Scope::Namespaced).is_ok());
        let error = ring.serves("Shelf", &Scope::Cluster).unwrap_err().to_string();
        assert!(error.starts_with("Shelf is cluster-scoped") && error.contains("--controller-ring"), "{error}");
    }

    #[test]
    fn a_shard_serves_what_bears_its_name_until_it_is_asked_to_stop() {
        let ring = Ring::new("memcached", Some("pod-1")).unwrap();
        assert_eq!(ring.selector(), "shard.alpha.sharding.timebertt.dev/memcached=pod-1");
        let (shard, drain) = (ring.shard_label().to_owned(), ring.drain_label().to_owned());
        for (shard_value, drain_value, expected) in [
            (Some("pod-1"), None, Standing::Ours),
            (Some("pod-1"), Some("true"), Standing::Drained),
            (Some("pod-1"), Some(""), Standing::Drained),
            (Some("pod-2"), None, Standing::Others),
            (Some("pod-2"), Some("true"), Standing::Others),
            (None, None, Standing::Others),
            (None, Some("true"), Standing::Others),
        ] {
            let labels = [(&shard, shard_value), (&drain, drain_value)];
            let labels = labels.into_iter().filter_map(|(key, value)| Some((key.clone(), value?.to_owned()))).collect();
            assert_eq!(ring.standing(&labels), expected, "{labels:?}");
        }
        let other = Ring::new("other", Some("pod-1")).unwrap();
        assert_eq!(other.standing(&[(shard, "pod-1".to_owned())].into()), Standing::Others, "another ring's label");
    }

    #[test]
    fn both_labels_go_in_one_write_of_the_version_that_was_seen() {
        let ring = Ring::new("memcached", Some("pod-1")).unwrap();
        assert_eq!(
            ring.acknowledgement("u", "7").to_string(),
            r#"{"metadata":{"labels":{"drain.alpha.sharding.timebertt.dev/memcached":null,"shard.alpha.sharding.timebertt.dev/memcached":null},"resourceVersion":"7","uid":"u"}}"#
        );
    }

    #[test]
    fn names_must_fit_into_labels() {
        let long = "x".repeat(64);
        for (ring, shard, expected) in [
            ("a.b-c", Some("pod-1"), "ok"),
            ("a", None, "a shard needs a name: set HOSTNAME to the pod's name"),
            ("a", Some(""), "a shard needs a name: set HOSTNAME to the pod's name"),
            (
                "A",
                Some("b"),
                r#"the ring "A" must have at most 63 characters: lower-case letters, digits, '-' and '.'"#,
            ),
            (
                "a",
                Some("-b"),
                r#"the shard "-b" must have at most 63 characters: lower-case letters, digits, '-' and '.'"#,
            ),
        ] {
            let message = Ring::new(ring, shard).map_or_else(|error| error.to_string(), |_| "ok".to_owned());
            assert_eq!(message, expected);
        }
        assert!(Ring::new(&long, Some("b")).is_err() && Ring::new("", Some("b")).is_err());
    }
}
