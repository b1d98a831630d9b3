//! Imports a release that is recorded elsewhere as the next revision: in chunks by helm-operator-plugins, or in the
//! release's namespace from before records moved to a separate namespace.

use std::time::Duration;

use futures::future::BoxFuture;

use super::environment::leave_unended;
use super::give_up::is_under_test;
use super::remains::{expect_jobs_of_former, something_remains};
use super::resume::with_tests_to_run;
use super::test::DeployedRecord;
use super::uninstall::{lists_no_objects, marks_of};
use super::{Environment, Error, Records};
use crate::kube::{HookError, HookRun, Journal, ObjectKey, Owner, Slot, intern};
use crate::release::{HookPhase, Packed, Release, Status};
use crate::storage::{
    Elsewhere, Listing, MarkedObject, Marks, Record, Storage, Stored, Unended, Unsuccessful, Written,
};

/// An imported release.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Its revision: one more than the newest revision elsewhere, because the names of earlier ones may be taken. If
    /// its install or uninstall has begun, it is the same as there, because the objects of its hooks name that
    /// revision.
    pub version: u32,
    /// Its status: deployed, or uninstalling if its uninstall has begun. If only its install has, failed or to be continued.
    pub status: Status,
    /// Its record, which is proven only if this operator wrote the original.
    pub packed: Stored<Packed>,
    /// The resource version of the record.
    pub resource_version: u64,
    /// Its marks; the objects are not owned yet.
    pub marks: Marks,
}

/// How to treat an install that was interrupted before its records moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// It is continued.
    Continued,
    /// It is continued if any of its objects remains. Otherwise it counts as failed: since then, it may have failed and
    /// its objects may have been deleted.
    Doubtful,
}

/// What is known of a release that may be recorded elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Sought {
    /// The minimum of its newest revision there. An older one was imported before.
    pub at_least: u32,
    /// How to treat an install that did not succeed.
    pub begun: Begun,
    /// The evidence required that a release that was deployed, or is being uninstalled, still exists.
    pub evidence: Evidence,
}

/// The objects that must prove that a release still exists, because it may have been uninstalled since its records moved.
/// They are read one by one, until one is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// None: it is known to exist.
    Unneeded,
    /// Any object, unless the release has no object whose absence would prove that it is gone.
    IfAny,
    /// Any object.
    Needed,
}

/// Imports a release that is recorded elsewhere by writing our own record, or returns `None` if there is no such
/// release. Keeps the other records, and changes no object but those of hooks: before the release is recorded, the hooks
/// of other unended revisions elsewhere end, which their records say first. An install that did not succeed is
/// imported only if this operator wrote its record. A deployed revision that belonged to another resource is judged as in
/// a takeover. Repeating it is safe: a repetition writes the same record.
///
/// # Errors
/// The records or the objects cannot be read or decoded, or the new record exceeds a Secret.
pub async fn import(env: &Environment<'_>, sought: Sought) -> Result<Option<Imported>, Error> {
    let Some(found) = elsewhere(env, sought.at_least).await? else { return Ok(None) };
    if found.is_begun && !found.release.is_sealed() {
        return Ok(None);
    }
    let Elsewhere { release, marks, newest, is_begun, unsuccessful, unended } = found;
    let known = inventory(env, release.facts(), marks.clone()).await?;
    let others = all_listed(env, unsuccessful).await?;
    let known = with_others(known, &others);
    let becomes = match is_begun {
        true => Some((release.facts().version, begun_as(env, sought.begun, release.facts(), &known).await?)),
        false => established_as(env, sought.evidence, (&release, newest), &known).await?,
    };
    // Before the record: once that exists, nothing looks for them again.
    end_hooks(env, unended).await?;
    let Some((version, status)) = becomes else { return Ok(None) };
    let release = with_hooks_ended(env, release, marks.as_ref(), status).await?;
    let release = if successor(env, &known).is_some() { release.map(with_tests_to_run) } else { release };
    let known = as_owners(env, known, &others).await?;
    let marks = Marks { none_deployed_before: is_begun || known.none_deployed_before, ..known };
    let release = release.map(|one| imported(one, version, status));
    let (packed, resource_version) = record(env, &release, &marks).await?;
    Ok(Some(Imported { version, status, packed, resource_version, marks }))
}

/// Returns the present owner if the revision with these marks belonged to a former one: no later revision of the
/// present owner succeeded.
fn successor<'a>(env: &'a Environment<'_>, known: &Marks) -> Option<&'a Owner> {
    env.decoration.owner.as_ref().filter(|owner| known.is_anothers(owner))
}

/// Returns the marks as they apply to the release's owner. What another resource did is judged as in a takeover: its
/// tests are due again, and so are its Jobs if all of its objects were deleted.
async fn as_owners(env: &Environment<'_>, known: Marks, others: &Unsuccessful<Marks>) -> Result<Marks, Error> {
    let Some(owner) = successor(env, &known) else {
        let owner_type = env.decoration.owner.as_ref().map(Owner::annotated_type).unwrap_or_default();
        let known = known.for_owner().unwrap_or(known);
        return Ok(Marks { owner: intern(owner_of(env)), owner_type: intern(&owner_type), ..known });
    };
    let jobs = finished_for_former(&known, others, owner);
    let noted = expect_jobs_of_former(env, &known, &jobs).await?;
    Ok(noted.unwrap_or(known).taken_by(owner))
}

/// Returns the Jobs that finished for a resource other than this owner, according to the records.
fn finished_for_former(known: &Marks, others: &Unsuccessful<Marks>, owner: &Owner) -> Vec<ObjectKey> {
    let has_run = |job: &ObjectKey| {
        let mut own = others.before.iter().chain(&others.later).filter(|marks| *marks.owner == *owner.uid);
        own.any(|marks| marks.find(job).is_some_and(|known| known.expires))
    };
    let is_owners = |job: &MarkedObject| known.is_noted_for(job, &owner.uid) || has_run(&job.key);
    let is_formers = |job: &&MarkedObject| job.expires && !is_owners(job);
    known.objects.iter().filter(is_formers).map(|job| job.key.clone()).collect()
}

/// Returns the objects of a revision that is recorded elsewhere: from its marks or, if they list none, from its
/// manifest.
async fn inventory(env: &Environment<'_>, release: &Release, marks: Option<Marks>) -> Result<Marks, Error> {
    match marks {
        Some(marks) if marks.complete || !marks.objects.is_empty() => Ok(marks),
        // They do not list the objects, because there were too many.
        Some(marks) => Ok(marks.with_inventory(marks_of(env, release, Some(&marks)).await?.objects)),
        None => marks_of(env, release, None).await,
    }
}

/// Returns the status of an install that did not succeed, once it is imported.
async fn begun_as(env: &Environment<'_>, begun: Begun, release: &Release, known: &Marks) -> Result<Status, Error> {
    let is_pending = release.info.status == Status::PendingInstall;
    let is_continued = is_pending && (begun == Begun::Continued || something_remains(env, known).await? == Some(true));
    Ok(if is_continued { Status::PendingInstall } else { Status::Failed })
}

/// Returns the revision and status under which a release that was deployed is imported; `None` if it is not imported.
async fn established_as(
    env: &Environment<'_>,
    evidence: Evidence,
    (release, newest): (&Stored<Release>, u32),
    known: &Marks,
) -> Result<Option<(u32, Status)>, Error> {
    let exists = match evidence {
        Evidence::Unneeded => true,
        Evidence::IfAny => something_remains(env, known).await? != Some(false),
        Evidence::Needed => something_remains(env, known).await? == Some(true),
    };
    let recorded = release.facts();
    let is_leaving = recorded.info.status == Status::Uninstalling && release.is_sealed();
    Ok(exists.then_some(match is_leaving {
        true => (recorded.version, Status::Uninstalling),
        false => (newest + 1, Status::Deployed),
    }))
}

/// Writes our own record; returns its content and its resource version.
async fn record(
    env: &Environment<'_>,
    release: &Stored<Release>,
    marks: &Marks,
) -> Result<(Stored<Packed>, u64), Error> {
    match release {
        Stored::Sealed(release) => {
            let Written { packed, resource_version } = env.storage.create(release.get(), marks).await?;
            Ok((Stored::Sealed(packed), resource_version))
        }
        Stored::Unproven(release) => {
            let (packed, resource_version) = env.storage.copy(release, marks).await?;
            Ok((Stored::Unproven(packed), resource_version))
        }
    }
}

/// Ends the hooks of revisions that are recorded beside the release and did not end.
async fn end_hooks(env: &Environment<'_>, unended: Vec<Unended>) -> Result<(), Error> {
    let Some(beside) = env.storage.beside_releases() else { return Ok(()) };
    for Unended { mut release, marks } in unended {
        end_hooks_beside(env, &mut release, (&beside, &marks)).await?;
    }
    Ok(())
}

/// Returns the release to import once those of its hooks have ended that nothing waits for under its new number: those of
/// an install that counts as failed, and tests, which are due again.
async fn with_hooks_ended(
    env: &Environment<'_>,
    release: Stored<Release>,
    marks: Option<&Marks>,
    becomes: Status,
) -> Result<Stored<Release>, Error> {
    // The imported revision continues the action, and waits for its hooks.
    if matches!(becomes, Status::PendingInstall | Status::Uninstalling) {
        return Ok(release);
    }
    let ended = end_hooks_of_base(env, &release, marks).await?;
    Ok(match ended {
        Some(_) if becomes == Status::Deployed => release.map(with_tests_to_run),
        Some(ended) => release.map(|_| ended),
        None => release,
    })
}

/// Ends the hooks of the revision that the live objects come from. Returns the revision with their end, or `None` if this
/// operator did not record it beside the release, or none of its hooks may run.
async fn end_hooks_of_base(
    env: &Environment<'_>,
    release: &Stored<Release>,
    marks: Option<&Marks>,
) -> Result<Option<Release>, Error> {
    let beside = env.storage.beside_releases().filter(|_| release.is_sealed());
    let Some((beside, marks)) = beside.zip(marks) else { return Ok(None) };
    let mut ended = release.facts().clone();
    let has_ended = end_hooks_beside(env, &mut ended, (&beside, marks)).await?;
    Ok(has_ended.then_some(ended))
}

/// Ends the hooks of a revision that is recorded beside the release if they may run: those of an unfinished action, or
/// tests, during which a person's helm may replace the revision. Returns `false` if none may run.
async fn end_hooks_beside(
    env: &Environment<'_>,
    release: &mut Release,
    (beside, marks): (&Storage, &Marks),
) -> Result<bool, Error> {
    let unfinished = Records { storage: beside, marks };
    let deployed = DeployedRecord::at(beside, &env.decoration, marks);
    let journal: &dyn Journal = match release.info.status {
        Status::Deployed if is_under_test(release, marks) => &deployed,
        Status::Uninstalling => &unfinished,
        status if status.is_pending() => &unfinished,
        _ => return Ok(false),
    };
    end_hooks_of(env, release, journal).await?;
    Ok(true)
}

/// Ends the hooks of a revision that is recorded beside the release. Its record says so first: if the import fails and the
/// records' place is set back, the revision is given up there, rather than its hooks run again or count as succeeded. The
/// revision keeps its status.
async fn end_hooks_of(env: &Environment<'_>, release: &mut Release, journal: &dyn Journal) -> Result<(), Error> {
    let slot = Unreported(env.slot);
    let run = HookRun { slot: &slot, ..env.hook_run(journal) };
    if !release.has_unfinished_hooks() {
        let ended = env.applier.delete_ended(release, &run).await;
        return leave_unended(env, ended).map(|_| ());
    }
    for hook in release.hooks.iter_mut().filter(|hook| hook.last_run.is_unfinished()) {
        // When it started: an import that is repeated finds its own record only if it would write the same one.
        (hook.last_run.phase, hook.last_run.completed_at) = (HookPhase::Failed, hook.last_run.started_at);
    }
    let ended = match env.applier.abandon_hooks(release, &run).await {
        Err(error) if is_never_recorded(&error) => {
            tracing::warn!(release = release.name, %error, "cannot record the end of hooks where the records were before");
            env.applier.delete_ended(release, &run).await
        }
        ended => ended,
    };
    leave_unended(env, ended).map(|_| ())
}

/// Returns whether the end of a revision's hooks cannot be recorded, however often it is tried: the record is gone or too
/// large, or the server refuses to change it.
fn is_never_recorded(error: &HookError) -> bool {
    let HookError::Record { source, .. } = error else { return false };
    let is_replaced = source.downcast_ref().is_some_and(Error::is_replaced);
    !is_replaced && !outside::is_outage(&**source)
}

/// Ends the hooks of a release that is recorded elsewhere and deleted without being imported, as if an uninstall without
/// hooks had found it here. Returns its inventory, or `None` if there is no such release, or if the server forbids to look
/// for it. If its record is lost or damaged, its marks count; without them, the inventory is empty. Repeating it is safe.
///
/// # Errors
/// The records cannot be read or written, or discovery fails.
pub async fn end_hooks_elsewhere(env: &Environment<'_>) -> Result<Option<Marks>, Error> {
    let found = match elsewhere(env, 0).await {
        Err(error) if lists_no_objects(&error) => return marked_inventory(env).await,
        // Without the right to look there, the operator hardly wrote there.
        Err(error) if error.is_forbidden_list() => return Ok(None),
        found => found?,
    };
    let Some(mut found) = found else { return Ok(None) };
    // Before any other request: the journals write what was read.
    end_hooks(env, std::mem::take(&mut found.unended)).await?;
    end_hooks_of_base(env, &found.release, found.marks.as_ref()).await?;
    match recorded_inventory(env, found).await {
        Err(error) if lists_no_objects(&error) => marked_inventory(env).await,
        recorded => recorded.map(Some),
    }
}

/// A worker slot whose waits are not reported. A status that says what an import waits for would count as that of an
/// action at work: after a restart, the install would be continued although its hooks have ended.
struct Unreported<'a>(&'a dyn Slot);

impl Slot for Unreported<'_> {
    fn leave(&self) {
        self.0.leave();
    }

    fn enter(&self) -> BoxFuture<'_, ()> {
        self.0.enter()
    }

    fn pause(&self, time: Duration) -> BoxFuture<'_, ()> {
        self.0.pause(time)
    }

    fn hook_left(&self, what: &str) {
        self.0.hook_left(what);
    }
}

/// Returns the release as our record describes it.
fn imported(mut release: Release, version: u32, status: Status) -> Release {
    let from = std::mem::replace(&mut release.version, version);
    release.set_status(status, format!("Imported from revision {from}, which was recorded elsewhere"));
    release
}

/// Returns the inventory of a release that is recorded elsewhere.
async fn recorded_inventory(env: &Environment<'_>, found: Elsewhere) -> Result<Marks, Error> {
    let Elsewhere { release, marks, unsuccessful, .. } = found;
    let known = match marks {
        Some(marks) if marks.complete => marks,
        marks => marks_of(env, release.facts(), marks.as_ref()).await?,
    };
    with_unsuccessful(env, known, unsuccessful).await
}

/// Adds to the inventory that a revision's manifest lists, if it was imported, the objects of the revisions that did not
/// succeed before: no record here lists them, unless its marks do.
///
/// # Errors
/// As [`end_hooks_elsewhere`].
pub async fn with_unsuccessful_before(env: &Environment<'_>, version: u32, known: Marks) -> Result<Marks, Error> {
    let of = (&*env.decoration.namespace, &*env.decoration.release);
    match env.storage.unsuccessful_before_import(of, owner_of(env), version).await? {
        Some(unsuccessful) => with_unsuccessful(env, known, unsuccessful).await,
        None => Ok(known),
    }
}

/// Adds the objects of revisions that did not succeed.
async fn with_unsuccessful(
    env: &Environment<'_>,
    known: Marks,
    unsuccessful: Unsuccessful<Listing>,
) -> Result<Marks, Error> {
    Ok(with_others(known, &all_listed(env, unsuccessful).await?))
}

fn with_others(known: Marks, Unsuccessful { before, later }: &Unsuccessful<Marks>) -> Marks {
    with_objects_of(with_later(known, later), before)
}

async fn all_listed(
    env: &Environment<'_>,
    Unsuccessful { before, later }: Unsuccessful<Listing>,
) -> Result<Unsuccessful<Marks>, Error> {
    let later = listed(env, later).await?;
    Ok(Unsuccessful { before: listed(env, before).await?, later })
}

/// Returns the marks of these revisions, with their objects.
async fn listed(env: &Environment<'_>, revisions: Vec<Listing>) -> Result<Vec<Marks>, Error> {
    let mut all = Vec::with_capacity(revisions.len());
    for one in revisions {
        all.push(match one {
            Listing::Marked(marks) => *marks,
            Listing::Recorded(record) => read(env, *record).await?,
        });
    }
    Ok(all)
}

/// Returns the marks of a revision with the objects in its manifest. A record that this operator did not write does not
/// prove in which form they are live.
async fn read(env: &Environment<'_>, Record { release, marks, .. }: Record) -> Result<Marks, Error> {
    let mut read = match marks_of(env, release.facts(), marks.as_ref()).await {
        // Its manifest cannot be parsed.
        Err(Error::Manifest(_)) => Marks::default(),
        read => read?,
    };
    if let Some(own) = marks {
        return Ok(own.with_inventory(read.objects));
    }
    read.objects.iter_mut().for_each(|object| object.digest = None);
    Ok(read)
}

async fn marked_inventory(env: &Environment<'_>) -> Result<Option<Marks>, Error> {
    let (namespace, name) = (&env.decoration.namespace, &env.decoration.release);
    let found = env.storage.marks_elsewhere(namespace, name, owner_of(env)).await?;
    Ok(found.map(|(known, unsuccessful)| with_others(known, &unsuccessful)))
}

/// Adds what later, unsuccessful revisions did.
fn with_later(mut known: Marks, later: &[Marks]) -> Marks {
    if later.is_empty() {
        return known;
    }
    known.complete = false;
    known.objects.iter_mut().for_each(|object| doubt(object, later));
    with_objects_of(known, later)
}

/// Adds the objects of other revisions that the imported one lacks. They have no digest: it does not render them.
fn with_objects_of(mut known: Marks, others: &[Marks]) -> Marks {
    for object in others.iter().flat_map(|marks| &marks.objects) {
        match known.objects.iter_mut().find(|one| one.key == object.key) {
            Some(one) => one.attempted &= object.attempted,
            None => {
                known.objects.push(MarkedObject { digest: None, mark: None, expires: false, ..object.clone() });
                known.complete = false;
            }
        }
    }
    known
}

/// Drops the mark of an imported object, because a later revision may have changed it, and its digest if that revision
/// renders it differently and may have recreated it. A finished Job is in doubt only if the later revision's Job ran as
/// well, or was about to replace it. Whether a missing Job has finished depends on the last revision that ran or
/// deleted it.
fn doubt(object: &mut MarkedObject, later: &[Marks]) {
    let others: Vec<&MarkedObject> = later.iter().filter_map(|marks| marks.find(&object.key)).collect();
    let may_be_live = |other: &&MarkedObject| {
        other.digest.is_some() && other.digest != object.digest && (has_acted_on(other) || !object.expires)
    };
    if others.iter().any(may_be_live) {
        object.digest = None;
    }
    object.mark = None;
    if let Some(last) = others.iter().rfind(|other| has_acted_on(other)) {
        (object.expires, object.deleted) = (last.expires, last.deleted);
    }
    // It may have left this definition.
    object.adopted = others.iter().fold(object.adopted, |adopted, other| adopted.or(other.adopted));
}

/// Returns whether a revision ran a Job that the server deletes once it finished, or deleted it before it finished.
fn has_acted_on(object: &MarkedObject) -> bool {
    object.expires || object.deleted
}

async fn elsewhere(env: &Environment<'_>, at_least: u32) -> Result<Option<Elsewhere>, Error> {
    let (namespace, name) = (&env.decoration.namespace, &env.decoration.release);
    Ok(env.storage.elsewhere(namespace, name, owner_of(env), at_least).await?)
}

/// Returns the uid of the release's owner; empty if it has none.
fn owner_of<'a>(env: &'a Environment<'_>) -> &'a str {
    env.decoration.owner.as_ref().map_or("", |owner| &owner.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::{Adopted, Mark, ObjectDigest, ObjectKey};

    const A: &str = "000000000000000a";
    const B: &str = "000000000000000b";

    fn object(name: &str, digest: &str) -> MarkedObject {
        let key = ObjectKey::new("", "ConfigMap", "ns", name);
        MarkedObject { digest: ObjectDigest::parse(digest), mark: Some(Mark(1)), ..MarkedObject::new(key, "v1".into()) }
    }

    fn marks(objects: Vec<MarkedObject>) -> Marks {
        Marks { complete: true, objects, ..Marks::default() }
    }

    #[test]
    fn an_object_that_a_later_revision_renders_differently_is_in_doubt() {
        let same = ObjectDigest::parse(A);
        for (behaviour, later, expected) in [
            ("no later one", vec![], same),
            ("in the same form", vec![A], same),
            ("in another form", vec![B], None),
            ("in another form, and then in the same again", vec![B, A], None),
            ("only listed", vec![""], same),
        ] {
            let later: Vec<Marks> = later.into_iter().map(|digest| marks(vec![object("a", digest)])).collect();
            let imported = with_later(marks(vec![object("a", A)]), &later);
            assert_eq!(imported.objects[0].digest, expected, "{behaviour}");
            assert_eq!((imported.complete, imported.objects[0].mark.is_some()), (later.is_empty(), later.is_empty()));
        }
    }

    #[test]
    fn what_later_revisions_did_to_a_job_says_whether_it_has_finished_and_in_which_form_it_may_be_live() {
        let job = |digest, expires, deleted| MarkedObject { expires, deleted, ..object("load", digest) };
        let (ran, nothing) = (|digest| job(digest, true, false), |digest| job(digest, false, false));
        let deletes = |digest| job(digest, false, true);
        let same = ObjectDigest::parse(A);
        for (behaviour, later, expected) in [
            ("not reached", vec![nothing(B)], (true, false, same)),
            ("another ran", vec![ran(B)], (true, false, None)),
            ("deleted for another", vec![deletes(B)], (false, true, None)),
            ("deleted, and another ran", vec![job(B, true, true)], (true, true, None)),
            ("deleted, and not reached again", vec![deletes(B), nothing(A)], (false, true, None)),
            ("dropped", vec![deletes(A)], (false, true, same)),
            ("dropped, then run again", vec![deletes(A), ran(A)], (true, false, same)),
        ] {
            let later: Vec<Marks> = later.into_iter().map(|job| marks(vec![job])).collect();
            let imported = with_later(marks(vec![ran(A)]), &later);
            let [job] = &imported.objects[..] else { panic!("{:?}", imported.objects) };
            assert_eq!((job.expires, job.deleted, job.digest), expected, "{behaviour}");
        }
    }

    #[test]
    fn an_object_that_another_revision_has_made_is_not_only_attempted() {
        let attempted = |attempted| MarkedObject { attempted, ..object("b", A) };
        for (later, expected) in
            [(vec![true], true), (vec![true, true], true), (vec![true, false], false), (vec![false, true], false)]
        {
            let later: Vec<Marks> = later.into_iter().map(|one| marks(vec![attempted(one)])).collect();
            let imported = with_later(marks(vec![object("a", A)]), &later);
            assert_eq!(imported.objects.iter().map(|object| object.attempted).collect::<Vec<_>>(), [false, expected]);
        }
    }

    #[test]
    fn what_only_later_revisions_have_is_listed_once_and_what_they_leave_is_not_deleted() {
        let left = MarkedObject { adopted: Some(Adopted::Claimed), ..object("a", A) };
        let later = [marks(vec![object("b", A)]), marks(vec![left, object("b", B)])];
        let imported = with_later(marks(vec![object("a", A)]), &later);
        let listed = imported.objects.iter().map(|object| (&*object.key.name, object.digest, object.adopted));
        let expected = [("a", ObjectDigest::parse(A), Some(Adopted::Claimed)), ("b", None, None)];
        assert_eq!(listed.collect::<Vec<_>>(), expected);
    }

    /// Notes what a run reports.
    #[derive(Default)]
    struct Noted(std::sync::Mutex<Vec<String>>);

    impl Slot for Noted {
        fn leave(&self) {}

        fn enter(&self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }

        fn waiting_for(&self, what: &str, _: &str) {
            self.0.lock().unwrap().push(what.to_owned());
        }

        fn hook_left(&self, what: &str) {
            self.0.lock().unwrap().push(what.to_owned());
        }
    }

    #[test]
    fn an_import_reports_hooks_that_it_leaves_but_not_what_it_waits_for() {
        let noted = Noted::default();
        let slot = Unreported(&noted);
        slot.waiting_for("hook a: waiting for Job \"a\" to be deleted", "");
        slot.hook_left("hook a may still run");
        assert_eq!(*noted.0.lock().unwrap(), ["hook a may still run"]);
    }
}
