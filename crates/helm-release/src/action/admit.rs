//! Judges a release that this operator did not record: it is admitted if everything in it is rendered by the chart or
//! already live.
//!
//! Generated values, such as passwords, differ between renders, so the live ones are kept. Any other difference is
//! intentional, so the chart's value wins.
//!
//! An object that can be compared with nothing is left out of what is admitted: a later rollback would create it. Its kind
//! is not served, or it would be deleted once it finished. If the chart renders it as well, the chart's form takes its
//! place: otherwise the record would lack it when it is compared again.

use super::compare::{is_as_whole, is_covered, is_whole};
use super::keys::served;
use super::resume::{has_delete_hooks, not_run, with_tests_to_run};
use super::{Candidate, Environment, Error};
use crate::kube::{ApplyError, Decoration, Live, Object, ObjectKey, Rule, recorded_objects, without_objects};
use crate::release::{Hook, HookEvent, Release, Status};
use crate::storage::{Content, Sealed, Unproven};

/// Whether a release that this operator did not record counts as its own.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "one at a time, and taken apart at once")]
pub enum Admission {
    /// The release counts as this operator's.
    Admitted(Admitted),
    /// The release does not count; holds the part that the chart does not render.
    Refused(String),
}

/// A release that was admitted, with the chart's hooks.
#[derive(Debug)]
pub struct Admitted {
    /// The release.
    pub release: Sealed<Release>,
    /// Whether its record has these objects and hooks already.
    pub(crate) is_as_stored: bool,
}

impl From<Sealed<Release>> for Admitted {
    /// Wraps a release that this operator recorded itself.
    fn from(release: Sealed<Release>) -> Admitted {
        Admitted { release, is_as_stored: true }
    }
}

impl Admitted {
    /// Returns the chart's current render instead of a deployed revision whose record is damaged.
    pub fn rendered_again(candidate: &Candidate, decoration: &Decoration, version: u32) -> Admitted {
        let mut release = candidate.as_release(decoration, version);
        release.info.last_deployed = Some(outside::now());
        release.set_status(Status::Deployed, "Recorded again, because the record was changed by somebody else");
        Admitted { release: Sealed::new(release, Content::of(&[])), is_as_stored: false }
    }

    /// Returns the release with its tests yet to run, because they ran for another resource.
    #[must_use]
    pub fn with_tests_to_run(self) -> Admitted {
        let is_test = |hook: &Hook| hook.events.contains(&HookEvent::Test);
        if !self.release.get().hooks.iter().any(|hook| is_test(hook) && hook.last_run.started_at.is_some()) {
            return self;
        }
        Admitted { release: self.release.map(with_tests_to_run), is_as_stored: false }
    }

    /// Returns whether any of its hooks runs when the release is uninstalled.
    pub fn has_delete_hooks(&self) -> bool {
        has_delete_hooks(&self.release.get().hooks)
    }
}

/// Compares a recorded release with what the chart renders now. Reads the live objects that differ.
///
/// # Errors
/// The manifest cannot be parsed, or an object cannot be read.
pub async fn admit(
    env: &Environment<'_>,
    recorded: &Unproven<Release>,
    candidate: &Candidate,
) -> Result<Admission, Error> {
    let (release, namespace) = (recorded.facts(), &env.decoration.namespace);
    let all = recorded_objects(&release.manifest, namespace)?;
    let objects = served(env, all.clone()).await?;
    let rendered = served(env, candidate.objects.clone()).await?;
    if let Some((key, _)) = rendered.iter().find(|(key, _)| !objects.iter().any(|(known, _)| known == key)) {
        return Ok(Admission::Refused(format!("it lacks {key}, which the chart renders")));
    }
    let proven = match compared(env, &objects, &rendered).await? {
        Ok(proven) => proven,
        Err(why) => return Ok(Admission::Refused(why)),
    };
    let is_rendered = |object: &Object, key: &ObjectKey| {
        let mut same = candidate.objects.iter().filter(|chart| chart.key(namespace) == *key);
        same.any(|chart| object.is_rendered_as(chart, namespace))
    };
    let is_left_out = |object: &Object| {
        let key = object.key(namespace);
        !object.name.is_empty() && !proven.contains(&key) && !is_rendered(object, &key)
    };
    let left_out: Vec<ObjectKey> =
        all.iter().filter(|object| is_left_out(object)).map(|object| object.key(namespace)).collect();
    let is_whole = left_out.is_empty();
    let manifest =
        if is_whole { Some(release.manifest.clone()) } else { without_objects(&release.manifest, is_left_out)? };
    let Some(mut manifest) = manifest else {
        return Ok(Admission::Refused("a list in it has objects that nothing proves, besides others".into()));
    };
    add_rendered(&mut manifest, candidate, |object| left_out.contains(&object.key(namespace)))?;
    let has_hooks = run_the_same(&release.hooks, &candidate.hooks);
    let hooks = if has_hooks { release.hooks.clone() } else { not_run(&candidate.hooks) };
    let release = Sealed::new(Release { manifest, hooks, ..release.clone() }, recorded.content());
    Ok(Admission::Admitted(Admitted { release, is_as_stored: is_whole && has_hooks }))
}

/// Adds the chart's documents of these objects to a manifest, unless one of them is in a list with others.
fn add_rendered(manifest: &mut String, candidate: &Candidate, is_added: impl Fn(&Object) -> bool) -> Result<(), Error> {
    if !candidate.objects.iter().any(&is_added) {
        return Ok(());
    }
    let Some(rendered) = without_objects(&candidate.manifest, |object| !is_added(object))? else { return Ok(()) };
    if !manifest.is_empty() && !manifest.ends_with('\n') {
        manifest.push('\n');
    }
    manifest.push_str(&rendered);
    Ok(())
}

/// Returns the keys, as written, of the recorded objects if each is what the chart renders or what is live. Leaves out those
/// that may have finished. Otherwise, returns why the release is refused.
async fn compared(
    env: &Environment<'_>,
    objects: &[(ObjectKey, Object)],
    rendered: &[(ObjectKey, Object)],
) -> Result<Result<Vec<ObjectKey>, String>, Error> {
    let namespace = &env.decoration.namespace;
    let mut proven = Vec::with_capacity(objects.len());
    for (key, object) in objects {
        let chart = rendered.iter().find(|(known, _)| known == key).map(|(_, object)| object);
        if chart.is_some_and(|chart| object.is_rendered_as(chart, namespace)) {
            proven.push(object.key(namespace));
            continue;
        }
        // An object out of reach is not even read: the outcome would reveal its content to whoever wrote the record.
        if let Err(refused) = env.options.reach.admits(key, namespace) {
            return Ok(Err(refused.to_string()));
        }
        match judge(env, (key, object), chart).await? {
            Verdict::Proven => proven.push(object.key(namespace)),
            Verdict::Finished => {}
            Verdict::Unproven => return Ok(Err(format!("{key} is neither what the chart renders nor what is live"))),
        }
    }
    Ok(Ok(proven))
}

/// Returns whether two lists of hooks do the same whenever this operator runs them. Versions of Helm differ in trailing
/// whitespace.
fn run_the_same(recorded: &[Hook], rendered: &[Hook]) -> bool {
    let runs = |hook: &&Hook| hook.events.iter().any(|event| *event != HookEvent::Other);
    let same = |(a, b): (&Hook, &Hook)| {
        (&a.name, &a.kind, &a.events, a.weight, &a.delete_policies)
            == (&b.name, &b.kind, &b.events, b.weight, &b.delete_policies)
            && a.manifest.trim() == b.manifest.trim()
    };
    let (recorded, rendered): (Vec<&Hook>, Vec<&Hook>) =
        (recorded.iter().filter(runs).collect(), rendered.iter().filter(runs).collect());
    recorded.len() == rendered.len() && recorded.into_iter().zip(rendered).all(same)
}

/// What is known of an object that a record has in another form than the chart.
enum Verdict {
    /// Each part is rendered or live.
    Proven,
    /// It is missing, as it would be if the server had deleted it once it finished. Nothing shows that it was ever there.
    Finished,
    /// A part is neither rendered nor live.
    Unproven,
}

/// Compares a recorded object with the chart's and the live one, which the release must be allowed to own.
async fn judge(
    env: &Environment<'_>,
    (key, object): (&ObjectKey, &Object),
    chart: Option<&Object>,
) -> Result<Verdict, Error> {
    let failed =
        |source| ApplyError::Failed { verb: "read", object: format!("{} {:?}", object.kind, object.name), source };
    let (recorded, rendered) = (object.as_sent(), chart.map(Object::as_sent));
    let Some(live) = env.applier.read_whole(object, &env.decoration).await.map_err(failed)? else {
        // The record alone says that it expires.
        let may_have_finished = object.expires() && chart.is_none_or(Object::expires);
        let is_charts = rendered.as_ref() == Some(&recorded);
        return Ok(match may_have_finished {
            true if is_charts => Verdict::Proven,
            true => Verdict::Finished,
            false => Verdict::Unproven,
        });
    };
    let Ok(found) = serde_json::from_value::<Live>(live.clone()) else { return Ok(Verdict::Unproven) };
    // Whoever wrote the record must not learn what someone else's object contains.
    if Rule::for_new(env.options.adopt).admits(&env.decoration, &found, &key.namespace).is_err() {
        return Ok(Verdict::Unproven);
    }
    let is_of_parts = is_whole(object) && !is_as_whole(&recorded, rendered.as_ref(), &live);
    // Labels and annotations that record ownership are added later.
    let is_proven = !is_of_parts && is_covered(&recorded, rendered.as_ref(), Some(&live));
    Ok(if is_proven { Verdict::Proven } else { Verdict::Unproven })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_that_run_the_same_are_the_same() {
        use HookEvent::{PreDelete, Test};
        let hook = |event| crate::sample::hook("h", &[event]);
        let changed = |change: fn(&mut Hook)| {
            let mut hook = hook(PreDelete);
            change(&mut hook);
            vec![hook]
        };
        for (what, recorded, same) in [
            ("the same", changed(|_| ()), true),
            ("that ran", changed(|hook| hook.last_run.phase = crate::release::HookPhase::Succeeded), true),
            ("without its last line's end", changed(|hook| _ = hook.manifest.pop()), true),
            ("another object", changed(|hook| hook.manifest = hook.manifest.replace("name: h", "name: evil")), false),
            ("another event", changed(|hook| hook.events = vec![HookEvent::PostDelete]), false),
            ("another weight", changed(|hook| hook.weight = 1), false),
            (
                "deleted at another time",
                changed(|hook| hook.delete_policies = vec![crate::release::DeletePolicy::HookFailed]),
                false,
            ),
            ("one more", vec![hook(PreDelete), hook(PreDelete)], false),
            ("a test more", vec![hook(Test), hook(PreDelete)], false),
            ("one more that never runs", vec![hook(HookEvent::Other), hook(PreDelete)], true),
            ("none", Vec::new(), false),
        ] {
            assert_eq!(run_the_same(&recorded, &[hook(PreDelete)]), same, "{what}");
        }
    }
}
