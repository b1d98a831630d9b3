//! A person who uses helm: upgrades, rolls back and uninstalls a release through its records, at the pace of a real
//! command, and sometimes interrupted.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use helm_release::kube::{Api, Call, Error, Response};
use helm_release::release::{ChartDocument, Hook, HookEvent, Info, Release, Status};
use helm_release::storage::{Key, Keyring, Known, Marks, Storage};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::names::{self, JOBS, OBJECTS, SOME};
use crate::world::World;

/// Maximum duration of a command's step.
const PACE: Duration = Duration::from_millis(700);

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// `helm install`, before there is a resource.
    Install,
    /// `helm upgrade --set message=…`.
    Upgrade,
    /// `helm upgrade --reuse-values`, with a post-renderer that changes a message.
    PostRender,
    /// `helm rollback`.
    Rollback,
    /// `helm uninstall`.
    Uninstall,
}

/// The connection to the server. It strips annotations and owners from records, which Helm does not write.
struct Connection(Arc<World>);

impl Api for Connection {
    fn send(&self, mut call: Call) -> BoxFuture<'_, Result<Response, Error>> {
        if let Some((_, body)) = call.body.as_mut().filter(|_| call.method != http::Method::GET) {
            *body = without_marks(body, call.method == http::Method::PATCH);
        }
        Box::pin(async move {
            sleep(self.0.pause(PACE / 20)).await;
            match self.0.serve("helm", &call) {
                (..300, body) => Ok(body.into()),
                (code, body) => Err(Error::from_status(code, "Refused", &String::from_utf8_lossy(&body))),
            }
        })
    }
}

/// Removes annotations and owners from an object, or removes them with it if it is a patch: Helm replaces records.
fn without_marks(body: &[u8], is_patch: bool) -> Vec<u8> {
    let Ok(mut object) = serde_json::from_slice::<Value>(body) else { return body.to_vec() };
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["annotations", "ownerReferences"] {
            if is_patch {
                metadata.insert(field.into(), Value::Null);
            } else {
                metadata.remove(field);
            }
        }
    }
    object.to_string().into_bytes()
}

/// Runs a command to its end, or interrupts it after this many steps.
pub async fn run(world: Arc<World>, release: String, command: Command, steps: u8) {
    // Helm has no key. The storage needs one, but the connection strips the seal, so it proves nothing.
    let Some(key) = Key::new(&[7; 32]) else { return };
    let storage = Storage::new(Arc::new(Connection(world.clone())), Keyring::new(key, Vec::new()));
    let helm = Helm { world, storage, release };
    _ = match command {
        Command::Install => helm.install().await,
        Command::Upgrade | Command::PostRender | Command::Rollback => helm.revise(command, steps).await,
        Command::Uninstall => helm.uninstall(steps).await,
    };
}

/// The objects of a person's chart.
const MANIFEST: &str = "---
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME-config}
data: {message: \"mine\"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: NAME-data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

/// The pre-delete hook of that chart.
const FAREWELL: &str = "apiVersion: batch/v1
kind: Job
metadata: {name: NAME-farewell}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: hook, image: farewell}]}}}
";

struct Helm {
    world: Arc<World>,
    storage: Storage,
    release: String,
}

impl Helm {
    /// Installs a release with two objects and a pre-delete hook.
    async fn install(&self) -> Option<()> {
        let chart = ChartDocument::from_json(r#"{"metadata":{"name":"web","version":"0.1.0"}}"#).ok()?;
        let text = |text: &str| text.replace("NAME", &self.release);
        let now = Some(outside::now());
        let hook = Hook {
            name: text("NAME-farewell"),
            kind: "Job".into(),
            path: "web/templates/farewell.yaml".into(),
            manifest: text(FAREWELL),
            events: vec![HookEvent::PreDelete],
            ..Hook::default()
        };
        let release = Release {
            name: self.release.clone(),
            namespace: self.namespace().to_owned(),
            version: 1,
            info: Info { status: Status::Deployed, first_deployed: now, last_deployed: now, ..Info::default() },
            chart: Arc::new(chart),
            config: json!({}),
            manifest: text(MANIFEST),
            hooks: vec![hook],
            apply_method: "csa".into(),
            labels: Default::default(),
            record_uid: None,
            more: Default::default(),
        };
        self.storage.create(&release, &Marks::default()).await.ok()?;
        self.create(OBJECTS[0], json!({"kind": "ConfigMap", "data": {"message": "mine"}}));
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        self.create(OBJECTS[3], json!({"kind": "PersistentVolumeClaim", "spec": claim}));
        Some(())
    }

    /// Creates an object with Helm's metadata.
    fn create(&self, pattern: &str, mut object: Value) {
        let path = names::path(pattern, &self.release);
        let (collection, name) = path.rsplit_once('/').unwrap_or_default();
        object["apiVersion"] = "v1".into();
        object["metadata"] = json!({
            "name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {
                "meta.helm.sh/release-name": self.release, "meta.helm.sh/release-namespace": self.namespace(),
            },
        });
        let call = Call::post(format!("{collection}?fieldManager=helm"), object.to_string().into_bytes());
        _ = self.world.write("helm", &call);
    }

    fn namespace(&self) -> &'static str {
        names::namespace(&self.release)
    }

    /// Creates the next revision. Stops if another action is pending, as Helm does.
    async fn revise(&self, command: Command, steps: u8) -> Option<()> {
        let history = self.storage.history(self.namespace(), &self.release).await.ok()?;
        let newest = history.last().filter(|newest| !newest.status.is_pending())?;
        let deployed = history.iter().rfind(|one| one.status == Status::Deployed)?;
        let mut old = self.read(deployed.version).await?;
        let from = match command {
            Command::Rollback => history.first()?.version,
            _ => deployed.version,
        };
        let mut new = self.read(from).await?;
        new.version = newest.version + 1;
        (new.info.status, new.info.last_deployed) = (Status::PendingUpgrade, Some(outside::now()));
        if command != Command::Rollback {
            new.manifest = new.manifest.replace("message: \"m", "message: \"helm-m");
        }
        if command == Command::Upgrade {
            let message = format!("helm-{}", new.config["message"].as_str().unwrap_or_default());
            new.config["message"] = message.into();
        }
        self.storage.create(&new, &Marks::default()).await.ok()?;
        self.apply(&new, steps).await?;
        self.prune(&old, &new);
        old.set_status(Status::Superseded, old.info.description.clone());
        self.storage.update(&old, &Marks::default()).await.ok()?;
        new.set_status(Status::Deployed, "Upgrade complete");
        self.storage.update(&new, &Marks::default()).await.ok().map(|_| ())
    }

    async fn read(&self, version: u32) -> Option<Release> {
        let record = self.storage.get(self.namespace(), &self.release, version).await.ok()?;
        Some(record.release.facts().clone())
    }

    /// Changes the ConfigMap; the other objects are equal in both revisions.
    async fn apply(&self, release: &Release, steps: u8) -> Option<()> {
        for step in 0..3 {
            sleep(self.world.pause(PACE)).await;
            if step == steps {
                return None;
            }
            let message = release.manifest.split("message: \"").nth(1).and_then(|rest| rest.split('"').next());
            let change = json!({"data": {"message": message?}}).to_string().into_bytes();
            let path = names::path(OBJECTS[0], &self.release);
            _ = self.world.write("helm", &Call::merge(format!("{path}?fieldManager=helm"), change));
        }
        Some(())
    }

    /// Deletes the objects that only the older revision has.
    fn prune(&self, old: &Release, new: &Release) {
        for object in SOME {
            let path = names::path(object, &self.release);
            let name = path.rsplit('/').next().unwrap_or_default();
            if old.manifest.contains(name) && !new.manifest.contains(name) {
                _ = self.world.write("helm", &Call::delete(path, b"{}".to_vec()));
            }
        }
    }

    /// Deletes the objects, then the records.
    async fn uninstall(&self, steps: u8) -> Option<()> {
        let history = self.storage.history(self.namespace(), &self.release).await.ok()?;
        history.last()?;
        let kept = OBJECTS[4];
        let all = OBJECTS.iter().chain(&SOME).chain(&JOBS[..1]).filter(|object| **object != kept);
        for (step, object) in all.enumerate() {
            sleep(self.world.pause(PACE / 4)).await;
            if step == usize::from(steps) {
                return None;
            }
            let path = names::path(object, &self.release);
            let is_kept = |object: Arc<Value>| object["metadata"]["annotations"][crate::actors::KEEP].is_string();
            if !self.world.object(&path).is_some_and(is_kept) {
                _ = self.world.write("helm", &Call::delete(path, b"{}".to_vec()));
            }
        }
        for record in &history {
            let known = Known { version: record.version, resource_version: None };
            self.storage.delete(self.namespace(), &self.release, known).await.ok()?;
        }
        Some(())
    }
}
