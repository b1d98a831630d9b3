//! Renders the models for a terminal. Names and messages may come from anyone who can create objects, so characters
//! that control a terminal are replaced.

use jiff::{SignedDuration, Timestamp};

use super::model::{Cause, Event, Health, Hook, Name, Node, ReleaseReport, State};
use super::overview::{KindSummary, Line};
use super::revisions::Revision;
use crate::mask::Mask;
use crate::plan::account::Account;
use crate::status::history::HistoryEntry;
use crate::status::{Condition, condition};
use crate::terminal::plain;

/// The longest message in a table, in characters.
const CELL: usize = 120;

/// Renders a release. The first line names the cause.
pub(crate) fn release(release: &ReleaseReport, now: Timestamp) -> String {
    let mut out = format!("{}\n", headline(release));
    if let Some(cause) = &release.cause {
        out.push_str(&log(cause));
    }
    out.push_str(&facts(release, now));
    for remark in &release.remarks {
        out.push_str(&format!("  {}\n", plain(remark)));
    }
    section(&mut out, "OBJECTS", tree(&release.objects, ""));
    if release.omitted > 0 {
        out.push_str(&format!("  and {} more, which the status does not list\n", release.omitted));
    }
    section(&mut out, "HOOKS", table("  ", release.hooks.iter().map(hook)));
    section(&mut out, "HISTORY", table("  ", release.history.iter().map(entry)));
    section(&mut out, "EVENTS", table("  ", release.events.iter().map(|one| event(one, now))));
    if !release.hidden.is_empty() {
        out.push_str(&format!("\nNot shown, because you may not read it: {}\n", plain(&release.hidden.join(", "))));
    }
    out
}

/// Returns the first line: the resource, its state and the cause.
pub(crate) fn headline(release: &ReleaseReport) -> String {
    let name = self::name(&release.resource);
    let state = match release.state {
        State::Ready => "is ready",
        State::Suspended => "is suspended",
        State::Uninstalling => "is being uninstalled",
        State::Failed | State::Unserved | State::Progressing => "is not ready",
    };
    let is_ready = |condition: &&Condition| *condition.kind == *condition::READY && *condition.status == *"True";
    let message = match &release.cause {
        Some(cause) => Some(&*cause.message),
        None => release.conditions.iter().find(is_ready).map(|ready| &*ready.message),
    };
    match message.filter(|message| !message.is_empty()) {
        Some(message) => format!("{name} {state}: {}", plain(message)),
        None => format!("{name} {state}"),
    }
}

fn name(name: &Name) -> String {
    match name.namespace.as_str() {
        "" => plain(&format!("{} {}", name.kind, name.name)),
        namespace => plain(&format!("{} {namespace}/{}", name.kind, name.name)),
    }
}

fn log(cause: &Cause) -> String {
    let Some(container) = cause.container.as_ref().filter(|_| !cause.log.is_empty()) else { return String::new() };
    let lines = cause.log.iter().map(|line| format!("    {}\n", plain(line)));
    format!("  the log of container {:?} ends with:\n{}", container.container, lines.collect::<String>())
}

fn facts(release: &ReleaseReport, now: Timestamp) -> String {
    let mut out = String::new();
    if let Some(deployed) = &release.release {
        let app =
            if deployed.app_version.is_empty() { String::new() } else { format!(" (app {})", deployed.app_version) };
        let chart = if deployed.chart.is_empty() { "unknown" } else { &*deployed.chart };
        let line = format!("release {}, revision {}, chart {chart}{app}", deployed.name, deployed.revision);
        out.push_str(&format!("  {}\n", plain(&line)));
    }
    if let Some(at) = release.next_attempt {
        let wait = at.duration_since(now);
        let when = match wait.is_positive() {
            true => format!("next attempt in {}, at {at}", duration(wait)),
            // Repeating the same failure does not change the status, so the status does not show the time of the next
            // attempt.
            false => format!("attempts repeat, at most 5 min apart; the one at {at} failed in the same way"),
        };
        out.push_str(&format!("  {when}\n"));
    }
    out
}

fn section(out: &mut String, title: &str, body: String) {
    if !body.is_empty() {
        out.push_str(&format!("\n{title}\n{body}"));
    }
}

fn tree(nodes: &[Node], indent: &str) -> String {
    let mut out = String::new();
    for node in nodes {
        let why = if node.why.is_empty() { String::new() } else { format!(": {}", node.why) };
        let line = format!("{indent}{} {} {}{why}", node.name.kind, node.name.name, word(node.health));
        out.push_str(&format!("  {}\n", plain(&line)));
        out.push_str(&tree(&node.owns, &format!("{indent}  ")));
    }
    out
}

fn word(health: Health) -> &'static str {
    match health {
        Health::Ready => "ready",
        Health::Progressing => "NOT READY",
        Health::Failed => "FAILED",
        Health::Missing => "MISSING",
        Health::Unknown => "unknown",
    }
}

fn hook(hook: &Hook) -> Vec<String> {
    let took = match (hook.started, hook.completed) {
        (Some(started), Some(completed)) => duration(completed.duration_since(started)),
        (Some(started), None) => format!("since {started}"),
        _ => String::new(),
    };
    vec![hook.object.clone(), hook.events.join(","), hook.phase.clone(), took]
}

fn entry(entry: &HistoryEntry) -> Vec<String> {
    let updated = entry.updated.map(|time| time.to_string()).unwrap_or_default();
    let (revision, action, outcome) = (entry.revision.to_string(), entry.action.to_string(), entry.outcome.to_string());
    vec![revision, updated, action, outcome, entry.chart.to_string(), cell(&entry.cause)]
}

fn event(event: &Event, now: Timestamp) -> Vec<String> {
    let age = event.time.map(|time| format!("{} ago", duration(now.duration_since(time)))).unwrap_or_default();
    let count = if event.count > 1 { format!("{} (x{})", event.reason, event.count) } else { event.reason.clone() };
    vec![age, count, cell(&event.message)]
}

/// Renders releases of one kind, one line each.
pub(crate) fn lines(lines: &[Line]) -> String {
    if lines.is_empty() {
        return "no resources found\n".to_owned();
    }
    let head = ["NAMESPACE", "NAME", "STATE", "OBJECTS", "REVISION", "CHART", "MESSAGE"].map(str::to_owned).to_vec();
    table("", std::iter::once(head).chain(lines.iter().map(row)))
}

fn row(line: &Line) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    let revision = if line.revision == 0 { "-".to_owned() } else { line.revision.to_string() };
    let Name { namespace, name, .. } = &line.resource;
    let (namespace, state) = (or_dash(namespace), format!("{:?}", line.state));
    vec![namespace, name.clone(), state, or_dash(&line.objects), revision, or_dash(&line.chart), cell(&line.message)]
}

/// How many unready releases of a kind are named.
const NAMED: usize = 5;

/// Renders all kinds, with the worst releases of each.
pub(crate) fn kinds(kinds: &[KindSummary]) -> String {
    let head = ["KIND", "GROUP", "READY"].map(str::to_owned).to_vec();
    let row = |kind: &KindSummary| {
        let ready = if kind.error.is_empty() { format!("{}/{}", kind.ready, kind.total) } else { cell(&kind.error) };
        vec![kind.kind.clone(), kind.group.clone(), ready]
    };
    let mut out = table("", std::iter::once(head).chain(kinds.iter().map(row)));
    for kind in kinds.iter().filter(|kind| !kind.unready.is_empty()) {
        let more = kind.unready.len().saturating_sub(NAMED);
        out.push('\n');
        for line in kind.unready.iter().take(NAMED) {
            out.push_str(&format!("{} {:?}: {}\n", name(&line.resource), line.state, cell(&line.message)));
        }
        if more > 0 {
            out.push_str(&format!("and {more} more of kind {} are not ready\n", plain(&kind.kind)));
        }
    }
    out
}

/// Renders the revisions of a release.
pub(crate) fn revisions(revisions: &[Revision]) -> String {
    let head =
        ["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "CHANGES", "DESCRIPTION", "CAUSE"].map(str::to_owned);
    let row = |one: &Revision| {
        let updated = one.updated.map(|time| time.to_string()).unwrap_or_default();
        let cause = if one.cause.is_empty() { "-".to_owned() } else { one.cause.clone() };
        let (status, chart, app) = (one.status.clone(), one.chart.clone(), one.app_version.clone());
        vec![one.revision.to_string(), updated, status, chart, app, cell(&one.did), cell(&one.description), cause]
    };
    table("", std::iter::once(head.to_vec()).chain(revisions.iter().map(row)))
}

/// Renders what a revision did when it was made.
pub(crate) fn account(revision: u32, did: &Account, mask: &Mask) -> String {
    let lines = did.lines(mask).into_iter().map(|line| format!("  {}\n", plain(&line)));
    format!("\nWHAT REVISION {revision} DID: {}\n{}", did.summary(), lines.collect::<String>())
}

/// Aligns cells in columns.
pub(crate) fn table(indent: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    let rows: Vec<Vec<String>> = rows.map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{indent}{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Shortens a message for a table, to one line.
fn cell(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(CELL) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Formats a duration in one unit, as kubectl does: `12s`, `4m`, `3h`, `5d`.
pub(crate) fn duration(took: SignedDuration) -> String {
    match took.as_secs().max(0) {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ ..7200 => format!("{}m", seconds / 60),
        seconds @ ..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::model::{CauseKind, Container};

    fn name_of(kind: &str, name: &str) -> Name {
        Name { group: String::new(), kind: kind.into(), namespace: "shop".into(), name: name.into() }
    }

    fn shown() -> ReleaseReport {
        let container =
            Container { namespace: "shop".into(), pod: "web-1".into(), container: "app".into(), previous: true };
        let pod =
            Node { name: name_of("Pod", "web-1"), health: Health::Progressing, why: "it crashes".into(), owns: vec![] };
        let web =
            Node { name: name_of("Deployment", "web"), health: Health::Failed, why: "no".into(), owns: vec![pod] };
        ReleaseReport {
            resource: name_of("Shop", "web"),
            state: State::Failed,
            cause: Some(Cause {
                kind: CauseKind::Crash,
                message: "pod \"web-1\" keeps crashing".into(),
                container: Some(container),
                log: vec!["starting".into(), "no \u{1b}[31mdatabase".into()],
            }),
            release: Some(crate::status::DeployedRelease {
                name: "web".into(),
                revision: 3,
                chart: "shop-0.2.0".into(),
                app_version: "1.6".into(),
                override_values_are_strings: false,
            }),
            next_attempt: Timestamp::from_second(72).ok(),
            remarks: vec!["Drifted: x".into()],
            conditions: vec![],
            objects: vec![
                web,
                Node { name: name_of("Service", "web"), health: Health::Ready, why: String::new(), owns: vec![] },
            ],
            omitted: 2,
            hooks: vec![],
            history: vec![],
            events: vec![Event {
                time: Timestamp::from_second(0).ok(),
                warning: false,
                reason: "DriftCorrected".into(),
                message: "repaired".into(),
                count: 2,
            }],
            hidden: vec!["pods in namespace \"b\"".into()],
        }
    }

    #[test]
    fn a_release_begins_with_its_cause_and_hides_what_controls_a_terminal() {
        let expected = "\
Shop shop/web is not ready: pod \"web-1\" keeps crashing
  the log of container \"app\" ends with:
    starting
    no \u{fffd}[31mdatabase
  release web, revision 3, chart shop-0.2.0 (app 1.6)
  next attempt in 12s, at 1970-01-01T00:01:12Z
  Drifted: x

OBJECTS
  Deployment web FAILED: no
    Pod web-1 NOT READY: it crashes
  Service web ready
  and 2 more, which the status does not list

EVENTS
  60s ago  DriftCorrected (x2)  repaired

Not shown, because you may not read it: pods in namespace \"b\"
";
        assert_eq!(release(&shown(), Timestamp::from_second(60).unwrap()), expected);
    }

    #[test]
    fn the_model_is_json_with_stable_names() {
        let json = serde_json::to_value(shown()).unwrap();
        for (pointer, expected) in [
            ("/state", "failed"),
            ("/cause/kind", "crash"),
            ("/cause/container/previous", "true"),
            ("/release/chart", "shop-0.2.0"),
            ("/nextAttempt", "1970-01-01T00:01:12Z"),
            ("/objects/0/owns/0/name", "web-1"),
            ("/objects/0/health", "failed"),
        ] {
            let found = json.pointer(pointer).unwrap();
            assert_eq!(found.as_str().map_or_else(|| found.to_string(), str::to_owned), expected, "{pointer}");
        }
    }
}
