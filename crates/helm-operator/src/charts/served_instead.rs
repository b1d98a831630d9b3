//! Waits until the server serves a kind. Until then, explains what it serves instead: another version, another
//! spelling, or nothing of the kind.

use std::sync::Arc;
use std::time::Duration;

use controller::context::Context;
use controller::report::chain;
use controller::runtime::backoff;
use controller::runtime::readiness::Requirement;
use controller::runtime::reflector::WatchScope;
use helm_release::kube::{Error, Mapper, Resource};

use super::cluster::Cluster;
use crate::spelling::nearest;
use crate::watches::Watch;

/// How many kinds of a group a message names.
const NAMED: usize = 8;

/// The maximum pause between two lookups of a kind that is not served yet.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Waits for the custom resource's definition, which may be created after the operator starts.
pub(super) async fn wait(context: &Context, watch: &Watch, requirement: &Requirement) -> Option<Arc<Resource>> {
    let cluster = Cluster::of(context);
    let mapper = &cluster.applier.mapper;
    let (api_version, kind) = (watch.api_resource().api_version, &watch.kind);
    let mut last = String::new();
    for attempt in 1.. {
        let error = match mapper.resource(&api_version, kind).await {
            Ok(resource) => {
                cluster.dependencies.require_lists(&context.controller, [WatchScope::ALL]);
                return Some(resource);
            }
            Err(error) => explain(&error, watch, mapper),
        };
        if mapper.is_unserved(&watch.group, kind) {
            cluster.dependencies.require_lists(&context.controller, []);
        }
        // Readiness logs the reminders, in one line for all kinds.
        if last != error {
            tracing::warn!(api_version, kind, error, "The custom resource is not served yet");
            requirement.fails(&error);
            last = error;
        }
        tokio::select! {
            biased;
            () = tokio::time::sleep(backoff::wait(attempt).min(LONGEST_WAIT)) => {}
            () = context.shutdown.cancelled() => return None,
        }
    }
    None
}

/// Explains why a watched kind cannot be served now, and what to do.
pub(crate) fn explain(error: &Error, watch: &Watch, mapper: &Mapper) -> String {
    match error {
        Error::NoKind { .. } => {
            let (_, served) = mapper.known_api_versions();
            format!("{error}: {}", instead(watch, &kinds(&served)))
        }
        other => chain(other),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Served<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

/// Returns the kinds in a list such as `v1`, `v1/Pod`, `apps/v1` and `apps/v1/Deployment`.
fn kinds(api_versions: &[String]) -> Vec<Served<'_>> {
    api_versions.iter().filter_map(|text| kind(text)).collect()
}

fn kind(text: &str) -> Option<Served<'_>> {
    let (api_version, kind) = text.rsplit_once('/')?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // In a group version without a kind, the last part is the version.
    kind.starts_with(|first: char| first.is_ascii_uppercase()).then_some(Served { group, version, kind })
}

/// Returns what to correct, or what to install.
fn instead(watch: &Watch, served: &[Served<'_>]) -> String {
    let of_group: Vec<Served<'_>> = served.iter().copied().filter(|one| one.group == watch.group).collect();
    let correct = match watch.line {
        0 => "correct the watch".to_owned(),
        line => format!("correct the entry in line {line} of the watches file"),
    };
    let names = || of_group.iter().map(|one| one.kind);
    let exact = || of_group.iter().any(|one| one.kind == watch.kind).then_some(&*watch.kind);
    if let Some(near) = exact().or_else(|| nearest(&watch.kind, names())) {
        return format!("the server serves {near} in {}; {correct}", versions(&of_group, near));
    }
    if let Some(other) = served.iter().find(|one| one.kind == watch.kind) {
        return format!("the server serves {} in {}; {correct}", other.kind, api_version(other));
    }
    let install = "install its definition (make install, or kubectl apply -k config/crd)";
    match of_group.is_empty() {
        true => format!("nothing of group {:?} is installed; {install}", watch.group),
        false => format!("of group {:?} the server serves {}; {install}, or {correct}", watch.group, list(names())),
    }
}

/// Returns the versions in which a kind is served: `g/v1, g/v2`.
fn versions(served: &[Served<'_>], kind: &str) -> String {
    served.iter().filter(|one| one.kind == kind).map(api_version).collect::<Vec<_>>().join(", ")
}

fn api_version(served: &Served<'_>) -> String {
    format!("{}/{}", served.group, served.version).trim_start_matches('/').to_owned()
}

/// Lists a few names, each once.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: std::collections::BTreeSet<&str> = names.collect();
    let shown = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED { format!("{shown}, …") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(group: &str, version: &str, kind: &str) -> String {
        let text = format!("# ours\n- {{group: '{group}', version: {version}, kind: {kind}, chart: c}}\n");
        let watch = crate::watches::parse(&text, |_| None).unwrap().watches.remove(0);
        let served = [
            "apps/v1",
            "apps/v1/Deployment",
            "g.x",
            "g.x/v1",
            "g.x/v1/Shop",
            "g.x/v1/Tool",
            "g.x/v2/Shop",
            "v1",
            "v1/Pod",
        ];
        instead(&watch, &kinds(&served.map(str::to_owned)))
    }

    #[test]
    fn a_kind_that_is_not_served_is_answered_with_what_is() {
        let correct = "correct the entry in line 2 of the watches file";
        for ((group, version, kind), expected) in [
            (("g.x", "v3", "Shop"), format!("the server serves Shop in g.x/v1, g.x/v2; {correct}")),
            (("g.x", "v1", "shop"), format!("the server serves Shop in g.x/v1, g.x/v2; {correct}")),
            (("g.x", "v1", "Shp"), format!("the server serves Shop in g.x/v1, g.x/v2; {correct}")),
            (("", "v2", "Pod"), format!("the server serves Pod in v1; {correct}")),
            (("h.x", "v1", "Tool"), format!("the server serves Tool in g.x/v1; {correct}")),
            (
                ("g.x", "v1", "Warehouse"),
                format!(
                    "of group \"g.x\" the server serves Shop, Tool; install its definition (make install, or kubectl apply -k config/crd), or {correct}"
                ),
            ),
            (
                ("none.x", "v1", "Warehouse"),
                "nothing of group \"none.x\" is installed; install its definition (make install, or kubectl apply -k config/crd)".to_owned(),
            ),
        ] {
            assert_eq!(said(group, version, kind), expected);
        }
    }
}
