//! The one-line messages of `Ready` and `Deployed`, and the recovery that a status write reports. Without side effects.

use controller::report::shorten;

use crate::status::{Facts, ObjectCount, Status, condition};

/// The maximum length of a line of NOTES.txt in `Deployed`, in bytes.
const LINE: usize = 120;
/// Where to read the other lines.
const MORE: &str = " (the rest: helm get notes)";
/// The message of `Deployed` while a newer attempt fails.
const STILL: &str = " is still deployed";

/// Returns the message of `Ready` for a release whose objects are ready: `4 objects ready, chart shop-0.2.0, revision
/// 6`.
pub(crate) fn ready(facts: &Facts) -> String {
    let objects = match facts.objects.total {
        0 => "no objects".to_owned(),
        1 => "1 object ready".to_owned(),
        many => format!("{many} objects ready"),
    };
    let Some(release) = &facts.release else { return objects };
    let chart = if release.chart.is_empty() { String::new() } else { format!(", chart {}", release.chart) };
    format!("{objects}{chart}, revision {}", release.revision)
}

/// Returns the reason and message of `Deployed` for a deployed release; `None` without one.
///
/// The message is upstream's, which is the notes, if they have one line. It stays until new notes are known.
pub(crate) fn deployed(facts: &Facts, old: &Status) -> Option<(&'static str, String)> {
    let release = facts.release.as_ref()?;
    let reason = match facts.rolled_back_to {
        Some(_) => "RollbackSuccessful",
        None if release.revision <= 1 => "InstallSuccessful",
        None => "UpgradeSuccessful",
    };
    let line = match (facts.rolled_back_to, &facts.notes) {
        (Some(to), _) => format!("rolled back to revision {to}"),
        (None, Some(notes)) => brief(notes),
        (None, None) => kept(old).map(brief).unwrap_or_default(),
    };
    if facts.fault.is_none() {
        return Some((reason, line));
    }
    let chart = if release.chart.is_empty() { String::new() } else { format!(" of chart {}", release.chart) };
    let line = if line.is_empty() { line } else { format!("; {line}") };
    Some((reason, format!("revision {}{chart}{STILL}{line}", release.revision)))
}

/// Returns the notes that the status contains, if it does.
fn kept(old: &Status) -> Option<&str> {
    let known = old.find_true(condition::DEPLOYED).filter(|c| *c.reason != *"RollbackSuccessful")?;
    Some(known.message.split_once(STILL).map_or(&*known.message, |(_, notes)| notes.trim_start_matches("; ")))
}

/// Returns the first line of the notes that contains words, and where to read the others. Applied to its own result,
/// returns it unchanged.
fn brief(notes: &str) -> String {
    let mut lines = notes.lines().map(str::trim).filter(|line| line.contains(char::is_alphanumeric));
    let Some(first) = lines.next() else { return String::new() };
    let is_all = lines.next().is_none() && first.len() <= LINE + MORE.len();
    if is_all { first.to_owned() } else { shorten(first, LINE) + MORE }
}

/// Returns how many objects are ready, such as `3/4`.
pub(crate) fn ready_objects(count: ObjectCount) -> String {
    format!("{}/{}", count.ready, count.total)
}

/// Returns the message of a recovery: the failure, drift or stall that only the old status reports, and the current
/// state. Returns `None` if there is no recovery.
pub(crate) fn recovery(old: &Status, new: &Status) -> Option<String> {
    let trouble = |status: &Status| TROUBLE.into_iter().find_map(|kind| status.find_true(kind).cloned());
    let was = trouble(old)?;
    if trouble(new).is_some()
        || [condition::SUSPENDED, condition::PAUSED].iter().any(|kind| new.find_true(kind).is_some())
    {
        return None;
    }
    // Someone's `helm` command was running, which was not a failure, and its event was not a warning.
    let ready = new.find(condition::READY).filter(|_| *was.reason != *"ReleaseInFlight")?;
    let now = if *ready.status == *"False" && *ready.reason == *"Uninstalled" { return None } else { &ready.message };
    Some(format!("recovered from {}: {now}", was.reason))
}

/// The conditions that report trouble; the first true one names it.
const TROUBLE: [&str; 4] =
    [condition::RELEASE_FAILED, condition::IRRECONCILABLE, condition::STALLED, condition::DRIFTED];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::reason::Reason;
    use crate::status::{DeployedRelease, Fault, Health};

    fn facts(revision: u32, objects: usize) -> Facts {
        let (name, chart) = ("a".into(), "shop-0.2.0".into());
        let release = DeployedRelease { name, revision, chart, ..DeployedRelease::default() };
        let objects = ObjectCount { ready: objects, total: objects };
        Facts { generation: 1, release: Some(release), objects, ..Facts::default() }
    }

    fn fault() -> Option<Fault> {
        Some(Fault { condition: condition::RELEASE_FAILED, reason: Reason::UpgradeError, message: "no".into() })
    }

    fn after(facts: &Facts) -> Status {
        Status::default().next(facts, jiff::Timestamp::UNIX_EPOCH).unwrap()
    }

    #[test]
    fn a_ready_release_is_described_by_objects_chart_and_revision() {
        assert_eq!(ready(&facts(6, 4)), "4 objects ready, chart shop-0.2.0, revision 6");
        assert_eq!(ready(&facts(1, 1)), "1 object ready, chart shop-0.2.0, revision 1");
        assert_eq!(ready(&facts(1, 0)), "no objects, chart shop-0.2.0, revision 1");
        let mut unknown = facts(2, 3);
        unknown.release.as_mut().unwrap().chart = "".into();
        assert_eq!(ready(&unknown), "3 objects ready, revision 2");
    }

    #[test]
    fn deployed_names_how_the_revision_came_to_be_and_what_stays_after_a_failure() {
        let notes = |text: &str| Some(text.to_owned());
        let check = |facts: Facts, old: &Status, expected: (&'static str, &str)| {
            assert_eq!(deployed(&facts, old), Some((expected.0, expected.1.to_owned())), "{facts:?}");
        };
        let first = Facts { notes: notes("enjoy\n"), ..facts(1, 2) };
        check(first.clone(), &Status::default(), ("InstallSuccessful", "enjoy"));
        let old = after(&first);
        check(facts(1, 2), &old, ("InstallSuccessful", "enjoy"));
        let failed = Facts { fault: fault(), ..facts(1, 2) };
        check(failed.clone(), &old, ("InstallSuccessful", "revision 1 of chart shop-0.2.0 is still deployed; enjoy"));
        let broken = old.next(&failed, jiff::Timestamp::UNIX_EPOCH).unwrap();
        check(failed, &broken, ("InstallSuccessful", "revision 1 of chart shop-0.2.0 is still deployed; enjoy"));
        check(facts(1, 2), &broken, ("InstallSuccessful", "enjoy"));
        let back = Facts { rolled_back_to: Some(1), fault: fault(), notes: notes("enjoy"), ..facts(3, 2) };
        let said = "revision 3 of chart shop-0.2.0 is still deployed; rolled back to revision 1";
        check(back.clone(), &broken, ("RollbackSuccessful", said));
        let rolled_back = broken.next(&back, jiff::Timestamp::UNIX_EPOCH).unwrap();
        check(facts(4, 2), &rolled_back, ("UpgradeSuccessful", ""));
        let silent = Facts { fault: fault(), ..facts(2, 2) };
        check(silent, &Status::default(), ("UpgradeSuccessful", "revision 2 of chart shop-0.2.0 is still deployed"));
    }

    #[test]
    fn notes_are_one_line_and_stay_as_they_are() {
        for (notes, expected) in [
            ("", ""),
            ("enjoy\n", "enjoy"),
            ("\n***\n** Welcome **\n", "** Welcome **"),
            ("1. Get the URL:\n  export X=$(kubectl …)\n", "1. Get the URL: (the rest: helm get notes)"),
        ] {
            assert_eq!((brief(notes).as_str(), brief(&brief(notes)).as_str()), (expected, expected), "{notes:?}");
        }
        let long = brief(&"word ".repeat(100));
        assert!(long.ends_with(MORE) && long.len() <= LINE + MORE.len() && brief(&long) == long, "{long}");
    }

    #[test]
    fn a_recovery_names_what_is_over_and_how_it_is_now() {
        let fine = Facts { notes: Some("enjoy".to_owned()), ..facts(6, 4) };
        let of = |facts: Facts| after(&facts);
        let ready = "4 objects ready, chart shop-0.2.0, revision 6";
        let failed = of(Facts { fault: fault(), ..fine.clone() });
        assert_eq!(recovery(&failed, &of(fine.clone())), Some(format!("recovered from UpgradeError: {ready}")));
        let slow = Facts { health: Health::Progressing("x".into()), ..fine.clone() };
        assert_eq!(recovery(&failed, &of(slow.clone())), Some("recovered from UpgradeError: x".into()));
        let stuck = of(Facts { health: Health::TimedOut("x".into()), ..fine.clone() });
        assert_eq!(recovery(&stuck, &of(fine.clone())), Some(format!("recovered from ProgressTimeout: {ready}")));
        let drifted = of(Facts { drift: vec!["x changed y".into()], ..fine.clone() });
        assert_eq!(recovery(&drifted, &of(fine.clone())), Some(format!("recovered from DriftDetected: {ready}")));
        let in_flight =
            Fault { reason: Reason::ReleaseInFlight, condition: condition::IRRECONCILABLE, message: "x".into() };
        let suspended = of(Facts { suspended: true, ..fine.clone() });
        for (old, new) in [
            (of(fine.clone()), of(fine.clone())),
            (of(slow), of(fine.clone())),
            (failed.clone(), drifted.clone()),
            (of(Facts { fault: Some(in_flight), ..fine.clone() }), of(fine)),
            (failed, suspended),
        ] {
            assert_eq!(recovery(&old, &new), None);
        }
    }
}
