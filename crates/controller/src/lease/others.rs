//! Finds other operators that serve the same kinds, which their leases list. Without leader election, nothing else
//! keeps two processes apart, so a process that starts without it warns about running operators.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::report::chain;
use crate::runtime::pages;

/// The annotation of a lease that lists the kinds its holder serves: `Memcached.cache.my.domain,Shop.apps.my.domain`.
pub(super) const SERVES: &str = "helm.sdk.operatorframework.io/serves";

/// How long startup waits for the leases.
const LIMIT: Duration = Duration::from_secs(2);

/// A holder counts as running for this many lease durations, because clocks may differ.
const PATIENCE: i64 = 2;

/// A running operator that serves some of our kinds.
#[derive(Debug, PartialEq, Eq)]
struct Other {
    lease: String,
    holder: String,
    kinds: BTreeSet<String>,
}

/// Warns about each operator that holds a lease and serves one of these kinds. Without permission to list leases, it
/// finds none.
pub async fn warn_of_others(client: &Client, kinds: &BTreeSet<String>) {
    let leases: Api<Lease> = Api::all(client.clone());
    let others = |lease: Lease| serving(&lease, kinds, outside::now());
    let found = match tokio::time::timeout(LIMIT, pages::list(leases, ListParams::default(), others)).await {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => return tracing::debug!(error = chain(&error), "Cannot list the leases of other operators"),
        Err(_) => return tracing::debug!("Listing the leases of other operators took too long"),
    };
    for other in found {
        let kinds = other.kinds.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        tracing::warn!(
            lease = other.lease,
            holder = other.holder,
            "Another operator already serves {kinds}, and both will write: stop it, or run this one with --leader-elect and the same lease"
        );
    }
}

/// Returns the holder of a lease, if it is running and serves one of these kinds.
fn serving(lease: &Lease, kinds: &BTreeSet<String>, now: Timestamp) -> Option<Other> {
    let spec = lease.spec.as_ref()?;
    let holder = spec.holder_identity.clone().filter(|holder| !holder.is_empty())?;
    let duration = i64::from(spec.lease_duration_seconds?).saturating_mul(PATIENCE);
    let silent = now.as_second() - spec.renew_time.as_ref()?.0.as_second();
    let served = lease.metadata.annotations.as_ref()?.get(SERVES)?;
    let kinds: BTreeSet<String> = served.split(',').filter(|kind| kinds.contains(*kind)).map(str::to_owned).collect();
    let (namespace, name) = (lease.metadata.namespace.as_deref()?, lease.metadata.name.as_deref()?);
    let is_other = silent <= duration && !kinds.is_empty();
    is_other.then(|| Other { lease: format!("{namespace}/{name}"), holder, kinds })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_holder_that_runs_and_serves_one_of_the_kinds_is_another_operator() {
        let lease = |holder: &str, serves: &str| -> Lease {
            let lease = json!({
                "metadata": {"name": "shop", "namespace": "shop-system", "annotations": {SERVES: serves}},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
            });
            serde_json::from_value(lease).unwrap()
        };
        let kinds: BTreeSet<String> = ["Shop.a.b", "Cart.a.b"].map(str::to_owned).into();
        let after = |lease: &Lease, seconds: i64| {
            let then: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
            serving(lease, &kinds, Timestamp::from_second(then.as_second() + seconds).unwrap())
        };
        let running = lease("pod_1", "Other.a.b,Shop.a.b");
        let found = after(&running, 30).unwrap();
        assert_eq!((found.lease.as_str(), found.holder.as_str()), ("shop-system/shop", "pod_1"));
        assert_eq!(found.kinds, ["Shop.a.b".to_owned()].into());
        assert_eq!(after(&running, 31), None, "it has ended");
        assert_eq!(after(&lease("", "Shop.a.b"), 0), None, "it was released");
        assert_eq!(after(&lease("pod_1", "Shop.a.c"), 0), None, "another group");
        assert_eq!(serving(&Lease::default(), &kinds, outside::now()), None);
    }
}
