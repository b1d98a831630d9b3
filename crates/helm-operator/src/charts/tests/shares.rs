//! Measures what a shard keeps of the releases that other shards of its ring serve.

use controller::shards::Ring;
use helm_release::kube::{Mark, ObjectDigest};
use helm_release::storage::{MarkedObject, Proof};

use super::*;
use crate::view::release::{ReleaseRecords, Revision};

/// How many releases other shards have.
const RELEASES: usize = 3000;

/// The kinds of the `helm create` chart's objects.
const KINDS: [(&str, &str, &str); 3] = [
    ("apps/v1", "Deployment", "deployments"),
    ("v1", "Service", "services"),
    ("v1", "ServiceAccount", "serviceaccounts"),
];

/// Returns this process's private memory in bytes.
fn memory() -> usize {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let own = rollup.lines().filter(|line| line.starts_with("Private_"));
    own.map(|line| line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10).sum()
}

/// Returns the uid of one of a release's objects, or of its resource.
fn uid(release: usize, object: usize) -> String {
    format!("6f1c2d3e-4a5b-4c6d-8e7f-{object:04x}{release:08x}")
}

/// Returns an object of a release, as a watch sends it.
fn sent(release: usize, object: usize) -> Live {
    let owner = json!({
        "apiVersion": "cache.my.domain/v1", "kind": "Memcached", "name": format!("w{release}"), "uid": uid(release, 9),
        "controller": true, "blockOwnerDeletion": true,
    });
    let metadata = json!({
        "name": format!("w{release}-web"), "namespace": "ns", "uid": uid(release, object),
        "resourceVersion": (100_000 + release * 4 + object).to_string(), "ownerReferences": [owner],
        "labels": {"helm.sdk.operatorframework.io/chart": "memcached", "app.kubernetes.io/managed-by": "Helm"},
    });
    let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1});
    let whole = json!({"metadata": metadata, "spec": {"replicas": 1}, "status": status});
    let mut live: Live = serde_json::from_value(whole).unwrap();
    live.mark = Some(Mark(1 << 60 | (release * 4 + object) as u64));
    live
}

/// Returns the metadata of a release's record, as a watch sends it.
fn recorded(release: usize) -> RecordMeta {
    let objects = KINDS.iter().map(|(api_version, kind, _)| {
        let key = ObjectKey::new(outside::group_of(api_version), kind, "ns", &format!("w{release}-web"));
        let (digest, mark) = (ObjectDigest::parse("0123456789abcdef"), Some(Mark(1 << 60 | release as u64)));
        MarkedObject { digest, mark, ..MarkedObject::new(key, (*api_version).into()) }
    });
    let marks = Marks {
        inputs: format!("3:{release:032x}.{release:032x}"),
        owner: uid(release, 9).into(),
        owner_type: "Memcached.cache.my.domain".into(),
        complete: true,
        objects: objects.collect(),
        ..Marks::default()
    };
    // Read from text, as from the record.
    let marks = Marks::parse(&marks.to_text()).unwrap();
    RecordMeta {
        name: format!("w{release}"),
        namespace: "ns".into(),
        version: 1,
        status: Status::Deployed,
        resource_version: 100_000 + release as u64,
        proof: Proof::Foreign,
        has_other_key: false,
        owners: vec![uid(release, 9)],
        marks: Some(marks),
        written: Some(outside::now()),
        writer: Some("b".into()),
    }
}

#[tokio::test]
#[ignore = "measures the memory of its process: run it alone, with --nocapture"]
#[allow(clippy::print_stdout)] // The figures.
async fn what_a_shard_keeps_of_a_release_of_another_shard() {
    let share = Some(Ring::new("ring", Some("a")).unwrap().into());
    let server = Arc::new(MemoryApi::new());
    let world = World::taking(server, Arc::new(Stub::default()), Acceptance { share, ..Acceptance::default() });
    let epoch = Epoch { number: 1, began: Instant::now(), is_list: true };
    let [before, with_records, with_both] = [0, 1, 2].map(|stage| {
        for release in 0..RELEASES {
            match stage {
                0 => drop((recorded(release), sent(release, 0))),
                1 => world.releases.changed(recorded(release), epoch),
                _ => KINDS.iter().enumerate().for_each(|(object, (api_version, kind, plural))| {
                    let kind = Arc::new(resource(api_version, kind, plural));
                    Dependents(world.shared.clone(), kind, 1).changed(Arc::new(sent(release, object)), epoch);
                }),
            }
        }
        memory()
    });
    let each = |more: usize| more / RELEASES;
    println!(
        "a record: {} bytes; {} objects: {} bytes; a release of another shard: {} bytes",
        each(with_records - before),
        KINDS.len(),
        each(with_both - with_records),
        each(with_both - before),
    );
    println!(
        "sizes: release {}, revision {}, marks {}, object in marks {}, dependent {}",
        size_of::<ReleaseRecords>(),
        size_of::<Revision>(),
        size_of::<Marks>(),
        size_of::<MarkedObject>(),
        size_of::<crate::view::dependent::Dependent>(),
    );
}
