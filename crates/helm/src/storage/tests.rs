use super::*;
use crate::kube::{Mark, MemoryApi, ObjectKey};
use crate::release::{ChartDocument, Info};

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
        name: "web".into(),
        namespace: "ns".into(),
        version,
        info: Info { status: Status::PendingInstall, notes: noise(notes), ..Info::default() },
        chart: Arc::new(ChartDocument::from_json(&chart.to_string()).unwrap()),
        config: json!({"a": 1}),
        manifest: "---\n".into(),
        hooks: vec![],
        apply_method: "ssa".into(),
        labels: BTreeMap::new(),
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
