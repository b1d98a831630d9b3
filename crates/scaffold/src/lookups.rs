//! Finds the key of watches.yaml that a chart's lookups in other namespaces require.

use helm::chart::Chart;
use helm::engine::{LookupGrant, lookups};

use crate::watches::Watch;

/// Names the first lookup that the entry does not allow, and the key that allows all of them.
pub(crate) fn closed(watch: &Watch, chart: &Chart) -> Option<String> {
    let calls = lookups(chart);
    let needed = LookupGrant::of(&calls);
    let first = calls.iter().find(|call| !watch.grant.covers(&LookupGrant::of([*call])))?;
    Some(format!(
        "templates may look up more than their release may read: {first}; add 'lookup: {needed}' to the entry of {}",
        watch.gvk.kind
    ))
}
