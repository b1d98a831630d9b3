//! Runs a release's hooks: by weight and name, each waited for, deleted by its policy. Helm's `pkg/action/hooks.go`.

use std::future::Future;
use std::time::Duration;

use futures::future::BoxFuture;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::api::{Call, Error};
use super::apply::{Applier, bytes};
use super::{Decoration, FIELD_MANAGER, Object, ObjectError, objects_of};
use crate::release::{DeletePolicy, Hook, HookEvent, HookPhase};

/// How hooks are run.
pub struct HookRun<'a> {
    /// What the hooks' objects are given.
    pub decoration: &'a Decoration,
    /// How long one hook may take.
    pub timeout: Duration,
    /// Told while a hook is only being waited for.
    pub slot: &'a dyn Slot,
}

/// The place among the workers that a run takes up; given to others while it waits.
pub trait Slot: Send + Sync {
    /// Gives the place away.
    fn leave(&self);
    /// Takes a place again, when one is free.
    fn enter(&self) -> BoxFuture<'_, ()>;
    /// Takes what the run waits for now, in words for people: `hook templates/x.yaml: Job "y" is running (2m of 1h)`. Called as often
    /// as the caller likes; must return at once.
    fn waits_for(&self, _what: &str) {}
}

/// No limit on workers.
impl Slot for () {
    fn leave(&self) {}

    fn enter(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// Its object could not be made or deleted.
    #[error("cannot run hook {path}")]
    Api {
        /// Its template.
        path: String,
        /// Why.
        #[source]
        source: Error,
    },
    /// Its YAML is no object.
    #[error("cannot build an object for hook {path}")]
    Object {
        /// Its template.
        path: String,
        /// Why.
        #[source]
        source: ObjectError,
    },
    /// Its Job or Pod failed.
    #[error("hook {path} failed: {why}")]
    Failed {
        /// Its template.
        path: String,
        /// Which of its objects, and what its status says.
        why: String,
    },
    /// It took too long.
    #[error("hook {path} did not end within {seconds} s")]
    TimedOut {
        /// Its template.
        path: String,
        /// The limit.
        seconds: u64,
    },
}

impl Applier {
    /// Runs the hooks of an event and notes in them how it went. Stops at the first that fails.
    pub async fn run_hooks(&self, hooks: &mut [Hook], event: HookEvent, run: &HookRun<'_>) -> Result<(), HookError> {
        let mut order: Vec<usize> = (0..hooks.len()).filter(|i| hooks[*i].events.contains(&event)).collect();
        order.sort_by(|a, b| (hooks[*a].weight, &hooks[*a].name).cmp(&(hooks[*b].weight, &hooks[*b].name)));
        for (done, at) in order.iter().enumerate() {
            if let Err(error) = self.run_hook(&mut hooks[*at], run).await {
                // The hook's own error is what matters; a failing clean-up is only logged.
                let failed = self.delete_by_policy(&hooks[*at], DeletePolicy::HookFailed, run).await;
                log_cleanup(failed);
                for earlier in &order[..done] {
                    log_cleanup(self.delete_by_policy(&hooks[*earlier], DeletePolicy::HookSucceeded, run).await);
                }
                return Err(error);
            }
        }
        for at in order.iter().rev() {
            self.delete_by_policy(&hooks[*at], DeletePolicy::HookSucceeded, run).await?;
        }
        Ok(())
    }

    async fn run_hook(&self, hook: &mut Hook, run: &HookRun<'_>) -> Result<(), HookError> {
        if hook.delete_policies.is_empty() {
            hook.delete_policies = vec![DeletePolicy::BeforeHookCreation];
        }
        self.delete_by_policy(hook, DeletePolicy::BeforeHookCreation, run).await?;
        hook.last_run.started_at = Some(Timestamp::now());
        hook.last_run.phase = HookPhase::Failed;
        let mut paths = Vec::new();
        for object in objects(hook)? {
            paths.push((object.kind.clone(), self.create_hook(&object, run).await.map_err(|e| api(hook, e))?));
        }
        let waited = self.waiting(hook, run, self.completed(&paths)).await;
        hook.last_run.completed_at = Some(Timestamp::now());
        match waited?.map_err(|e| api(hook, e))? {
            Some(why) => Err(HookError::Failed { path: hook.path.clone(), why }),
            None => {
                hook.last_run.phase = HookPhase::Succeeded;
                Ok(())
            }
        }
    }

    async fn create_hook(&self, object: &Object, run: &HookRun<'_>) -> Result<String, Error> {
        let resource = self.mapper.resource(&object.api_version, &object.kind).await?;
        let namespace = run.decoration.namespace_of(object, &resource);
        let collection = resource.collection(namespace)?;
        let body = run.decoration.decorate(object, &resource);
        let call = Call::post(format!("{collection}?fieldManager={FIELD_MANAGER}"), bytes(&body));
        let made: Value = self.api().send(call).await?.parse()?;
        resource.path(namespace, made["metadata"]["name"].as_str().unwrap_or(&object.name))
    }

    /// Waits with a limit, without keeping a worker's place.
    async fn waiting<T>(&self, hook: &Hook, run: &HookRun<'_>, wait: impl Future<Output = T>) -> Result<T, HookError> {
        run.slot.leave();
        let ended = tokio::time::timeout(run.timeout, wait).await;
        run.slot.enter().await;
        ended.map_err(|_| HookError::TimedOut { path: hook.path.clone(), seconds: run.timeout.as_secs() })
    }

    /// Waits until each Job and Pod has ended; says why one failed. Other kinds are done once they exist.
    async fn completed(&self, paths: &[(String, String)]) -> Result<Option<String>, Error> {
        for (kind, path) in paths.iter().filter(|(kind, _)| kind == "Job" || kind == "Pod") {
            let name = path.rsplit('/').next().unwrap_or_default();
            let mut pause = Pause::default();
            loop {
                let live: Value = self.api().send(Call::get(path)).await?.parse()?;
                match outcome(kind, &live["status"]) {
                    Some(Ok(())) => break,
                    Some(Err(why)) => return Ok(Some(format!("{kind} {name:?}: {why}"))),
                    None => pause.next().await,
                }
            }
        }
        Ok(None)
    }

    async fn delete_by_policy(&self, hook: &Hook, policy: DeletePolicy, run: &HookRun<'_>) -> Result<(), HookError> {
        if hook.kind == "CustomResourceDefinition" || !hook.delete_policies.contains(&policy) {
            return Ok(());
        }
        for object in objects(hook)?.iter().filter(|object| !object.name.is_empty()) {
            let gone = self.delete_hook(object, run);
            self.waiting(hook, run, gone).await?.map_err(|e| api(hook, e))?;
        }
        Ok(())
    }

    async fn delete_hook(&self, object: &Object, run: &HookRun<'_>) -> Result<(), Error> {
        let resource = self.mapper.resource(&object.api_version, &object.kind).await?;
        let path = resource.path(run.decoration.namespace_of(object, &resource), &object.name)?;
        let options = json!({"propagationPolicy": "Background"});
        let mut call = Call::delete(&path, bytes(&options));
        let mut pause = Pause::default();
        loop {
            match self.api().send(call).await {
                Err(error) if error.is_not_found() => return Ok(()),
                answer => answer?,
            };
            call = Call::new(Method::GET, &path);
            pause.next().await;
        }
    }
}

/// Longer and longer waits between two looks at a hook's object.
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Pause(Duration::from_millis(50))
    }
}

impl Pause {
    async fn next(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(Duration::from_secs(2));
    }
}

fn objects(hook: &Hook) -> Result<Vec<Object>, HookError> {
    objects_of(&hook.manifest).map_err(|source| HookError::Object { path: hook.path.clone(), source })
}

fn api(hook: &Hook, source: Error) -> HookError {
    HookError::Api { path: hook.path.clone(), source }
}

fn log_cleanup(result: Result<(), HookError>) {
    if let Err(error) = result {
        tracing::warn!(%error, "cannot delete a hook's object");
    }
}

/// How a Job or Pod ended; nothing while it runs.
fn outcome(kind: &str, status: &Value) -> Option<Result<(), String>> {
    let message = |of: &Value| of["message"].as_str().or(of["reason"].as_str()).unwrap_or("no reason given").to_owned();
    if kind == "Pod" {
        return match status["phase"].as_str() {
            Some("Succeeded") => Some(Ok(())),
            Some("Failed") => Some(Err(message(status))),
            _ => None,
        };
    }
    let conditions = status["conditions"].as_array()?;
    let is_true = |kind: &str| conditions.iter().find(|c| c["type"] == kind && c["status"] == "True");
    match (is_true("Complete"), is_true("Failed")) {
        (Some(_), _) => Some(Ok(())),
        (None, Some(failed)) => Some(Err(message(failed))),
        (None, None) => None,
    }
}
