use super::*;
use crate::kube::{Disturbance, Mark, MemoryApi, ObjectKey};
use crate::release::{ChartDocument, Info};
use crate::sample;

const RECORD: &str = "/api/v1/namespaces/ns/secrets/sh.helm.release.v1.web.v1";

fn release(version: u32, files: usize, notes: usize) -> Release {
    // A generator's output: text that does not compress.
    let noise = |n: usize| {
        let mut state = 88_172_645_463_325_252_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(33 + (state % 90) as u8)
        };
        (0..n).map(|_| next()).collect::<String>()
    };
    let chart = json!({"metadata": {"name": "c", "version": "1"}, "files": [{"name": "f", "data": noise(files)}]});
    Release {
        version,
        info: Info { status: Status::PendingInstall, notes: noise(notes), ..Info::default() },
        chart: Arc::new(ChartDocument::from_json(&chart.to_string()).unwrap()),
        config: json!({"a": 1}),
        manifest: "---\n".into(),
        ..sample::release()
    }
}

fn marks() -> Marks {
    let key = ObjectKey { group: "apps".into(), kind: "Deployment".into(), namespace: "ns".into(), name: "web".into() };
    let object = MarkedObject {
        key,
        api_version: "apps/v1".into(),
        digest: "d".into(),
        mark: Some(Mark(7)),
        kept: true,
        client: true,
    };
    Marks {
        inputs: "i".into(),
        owner: "u".into(),
        owner_type: "Memcached.cache.my.domain".into(),
        objects: vec![object],
        complete: true,
        delete_hooks: true,
        hooks_done: true,
        failed_farewells: 3,
        first_deployed: Some(jiff::Timestamp::UNIX_EPOCH),
        taken_over: true,
    }
}

#[test]
fn the_annotation_keeps_what_is_known_of_each_object() {
    for (kept, client) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut marks = marks();
        (marks.objects[0].kept, marks.objects[0].client) = (kept, client);
        assert_eq!(Marks::parse(&marks.to_text()), Some(marks));
    }
}

#[tokio::test]
async fn a_record_is_helms_secret_with_our_marks() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone());
    let mut first = release(1, 1, 1);
    storage.create(&first, &Marks::default()).await.unwrap();
    first.set_status(Status::Deployed, "Install complete");
    storage.update(&first, Some(&marks())).await.unwrap();
    let secret = server.object("/api/v1/namespaces/ns/secrets/sh.helm.release.v1.web.v1").unwrap();
    assert_eq!(secret["type"], "helm.sh/release.v1");
    assert_eq!(secret["metadata"]["labels"]["status"], "deployed");
    assert_eq!(secret["metadata"]["labels"]["owner"], "helm");
    let read = storage.get("ns", "web", 1).await.unwrap();
    assert_eq!((read.info.status, read.config), (Status::Deployed, json!({"a": 1})));
    let history = storage.history("ns", "web").await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].marks, Some(marks()));
}

#[tokio::test]
async fn every_revision_goes_at_once() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone());
    for version in 1..=3 {
        storage.create(&release(version, 1, 1), &Marks::default()).await.unwrap();
    }
    assert!(storage.create(&release(3, 1, 1), &Marks::default()).await.is_err(), "a revision is never made twice");
    let before = server.writes();
    storage.delete_all("ns", "web", &[1, 2, 3]).await.unwrap();
    assert_eq!(server.writes(), before + 1);
    assert!(server.paths().is_empty());
    storage.delete("ns", "web", 1).await.unwrap();
}

#[test]
fn a_large_release_loses_files_then_notes_then_fails() {
    let fitted = |files, notes| fit(&release(1, files, notes)).map(|packed| packed.unpack().unwrap());
    assert_eq!(fitted(5 << 18, 5).unwrap().info.notes.len(), 5);
    assert!(fitted(5 << 18, 5 << 18).unwrap().info.notes.is_empty());
    let mut endless = release(1, 1, 5 << 18);
    endless.manifest = endless.info.notes.clone();
    let error = fit(&endless).unwrap_err().to_string();
    assert!(error.starts_with("release \"web\" is too large to record: "), "{error}");
}

#[test]
fn marks_read_back_and_too_many_are_left_out() {
    assert_eq!(Marks::parse(&marks().to_text()), Some(marks()));
    assert_eq!(Marks::parse("helm"), None);
    let mut many = marks();
    many.objects = vec![many.objects[0].clone(); 5000];
    let read = Marks::parse(&many.to_text()).unwrap();
    assert!(read.objects.is_empty() && !read.complete && read.inputs == "i");
}

#[tokio::test]
async fn marks_without_an_owner_leave_the_labels_of_a_record_as_they_are() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone());
    storage.create(&release(1, 1, 1), &marks()).await.unwrap();
    let metadata = || server.object(RECORD).unwrap()["metadata"].clone();
    let before = metadata();
    storage.mark("ns", "web", 1, &Marks::default()).await.unwrap();
    assert_eq!(metadata()["labels"], before["labels"]);
    assert_ne!(metadata()["annotations"], before["annotations"]);
}

#[test]
fn the_annotation_says_nothing_of_what_is_not_so() {
    assert_eq!(Marks::default().to_text(), r#"{"i":"","u":"","k":"","c":false,"h":false,"o":[]}"#);
}

#[test]
fn a_release_that_fits_keeps_its_files_and_notes() {
    let whole = release(1, 9, 9);
    assert_eq!(fit(&whole).unwrap().to_record(), Packed::pack(&whole).unwrap().to_record());
}

#[tokio::test]
async fn a_record_keeps_the_users_labels_beside_helms_own() {
    let storage = Storage::new(Arc::new(MemoryApi::new()));
    let labels = BTreeMap::from([("team".to_owned(), "x".to_owned())]);
    storage.create(&Release { labels: labels.clone(), ..release(1, 1, 1) }, &Marks::default()).await.unwrap();
    assert_eq!(storage.get("ns", "web", 1).await.unwrap().labels, labels);
}

#[tokio::test]
async fn whoever_writes_learns_the_resource_version_of_the_record() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone());
    let live = || server.object(RECORD).unwrap()["metadata"]["resourceVersion"].clone();
    let created = storage.create(&release(1, 1, 1), &Marks::default()).await.unwrap();
    assert_eq!(live(), created.resource_version.to_string());
    let updated = storage.update(&release(1, 1, 1), None).await.unwrap();
    assert_eq!(live(), updated.resource_version.to_string());
    let marked = storage.mark("ns", "web", 1, &marks()).await.unwrap();
    assert_eq!(live(), marked.to_string());
    assert!(created.resource_version < updated.resource_version && updated.resource_version < marked);
}

#[tokio::test]
async fn a_deletion_that_fails_is_not_taken_for_a_revision_that_was_gone() {
    let server = Arc::new(MemoryApi::new());
    let storage = Storage::new(server.clone());
    storage.create(&release(1, 1, 1), &Marks::default()).await.unwrap();
    server.disturb("DELETE", 1, Disturbance::Refused(503));
    let error = storage.delete("ns", "web", 1).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot delete release record \"sh.helm.release.v1.web.v1\"");
}

#[tokio::test]
async fn revisions_go_one_by_one_where_the_server_forbids_to_delete_them_all() {
    for (code, one_by_one) in [(403, true), (405, true), (503, false)] {
        let server = Arc::new(MemoryApi::new());
        let storage = Storage::new(server.clone());
        for version in 1..=2 {
            storage.create(&release(version, 1, 1), &Marks::default()).await.unwrap();
        }
        server.disturb("DELETE /api/v1/namespaces/ns/secrets?", 1, Disturbance::Refused(code));
        let writes = server.writes();
        let deleted = storage.delete_all("ns", "web", &[1, 2]).await;
        assert_eq!((deleted.is_ok(), server.paths().is_empty()), (one_by_one, one_by_one), "{code}");
        assert_eq!(server.writes() - writes, if one_by_one { 2 } else { 0 }, "{code}");
    }
}
