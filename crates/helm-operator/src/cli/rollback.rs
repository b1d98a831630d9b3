//! `rollback`: pins a release to one of its revisions with the annotation `pin`, and reports the result.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use controller::report::chain;
use helm_release::kube::{Api, Applier, Call, Resource};
use scaffold::annotations::PREFIX;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::Instant;

use super::diff::{self, Diff, Form};
use super::flags::WATCHES_FILE;
use super::kubeconfig::ClusterFlags;
use super::values::watch;
use crate::manager::operator::Operator;
use crate::terminal::plain_lines;
use crate::watches::{self, Watch};

/// The pause before the resource is read again.
const PAUSE: Duration = Duration::from_secs(1);

/// The arguments of `rollback`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Rollback {
    /// The kind of the resource
    kind: String,

    /// The name of the resource
    name: String,

    /// The revision to return to and to stay at, as 'history' lists it
    #[arg(long, value_name = "REVISION", required_unless_present = "end", conflicts_with = "end")]
    to: Option<u32>,

    /// Let the release follow its resource again
    #[arg(long)]
    end: bool,

    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// How long to wait for the operator
    #[arg(long, default_value = "60", value_name = "SECONDS")]
    timeout: u64,

    /// The namespace [default: that of the kubeconfig's context]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Path to the watches file, which names the kinds
    #[arg(long, default_value = WATCHES_FILE, value_name = "PATH")]
    watches_file: PathBuf,

    #[command(flatten)]
    cluster: ClusterFlags,

    /// With --dry-run, the namespace of the Secret that holds the key of release records: the operator's [default: the
    /// kubeconfig's]
    #[arg(long, env = "RECORD_KEY_NAMESPACE", hide_env = true, value_name = "NAMESPACE")]
    record_key_namespace: Option<String>,
}

pub(super) fn examples(name: &str) -> String {
    format!(
        "Examples:\n  # Return to revision 3, and stay there whatever spec, chart and values say\n  {name} rollback Shop web --to 3\n\n  \
         # What that would change\n  {name} rollback Shop web --to 3 --dry-run\n\n  \
         # Follow the resource again\n  {name} rollback Shop web --end\n\n\
         It sets or removes the annotation {PREFIX}pin, with your own rights, and waits for the operator."
    )
}

/// Rolls back, or plans it.
pub(super) fn run(asked: &Rollback, operator: Operator) -> ExitCode {
    if asked.dry_run {
        return diff::run(&asked.diff(), operator);
    }
    let done = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(asked.pin()),
        Err(error) => Err(error.to_string()),
    };
    match done {
        Ok(message) => super::print(&plain_lines(&message)),
        Err(why) => super::fail(&why),
    }
}

/// The progress of a pin, as the resource's status reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PinProgress {
    /// The operator has yet to act on the annotation.
    Pending,
    /// The operator has, and reports this message.
    Done(String),
    Refused(String),
}

impl Rollback {
    /// Returns the flags of a plan for the resource with the annotation.
    fn diff(&self) -> Diff {
        Diff {
            kind: Some(self.kind.clone()),
            names: vec![self.name.clone()],
            filename: Vec::new(),
            all: false,
            chart: None,
            offline: false,
            namespace: self.namespace.clone(),
            all_namespaces: false,
            output: Form::Text,
            full: false,
            watches_file: self.watches_file.clone(),
            cluster: self.cluster.clone(),
            record_key_namespace: self.record_key_namespace.clone(),
            annotate: Some(self.annotation()),
        }
    }

    fn annotation(&self) -> Value {
        let revision = self.to.map_or(Value::Null, |revision| revision.to_string().into());
        json!({"metadata": {"annotations": {format!("{PREFIX}pin"): revision}}})
    }

    /// Sets or removes the annotation, and waits for its effect.
    async fn pin(&self) -> Result<String, String> {
        let client = self.cluster.client().await?;
        let namespace = self.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let path = self.path(&client, &namespace).await?;
        let patch = self.annotation().to_string().into_bytes();
        let written =
            Api::send(&client, Call::merge(format!("{path}?fieldManager=helm-operator-rollback"), patch)).await;
        let mut resource: Value = written.and_then(|answer| answer.parse()).map_err(|error| chain(&error))?;
        let before = refusal(&resource).cloned();
        let until = Instant::now() + Duration::from_secs(self.timeout);
        loop {
            if let Some(why) = overtaken(&resource, self.to) {
                return Err(why);
            }
            match progress(&resource, self.to, before.as_ref()) {
                PinProgress::Done(message) => return Ok(message),
                PinProgress::Refused(why) => return Err(why),
                PinProgress::Pending if Instant::now() >= until => return Err(self.unanswered(&resource)),
                PinProgress::Pending => tokio::time::sleep(PAUSE).await,
            }
            let read = Api::send(&client, Call::get(path.clone())).await.and_then(|answer| answer.parse());
            resource = read.map_err(|error| chain(&error))?;
        }
    }

    /// Returns what to report if the operator did not act in time. An earlier refusal may concern this pin.
    fn unanswered(&self, resource: &Value) -> String {
        let still = |refusal| format!("; the status still says: {}", message(refusal));
        format!(
            "the annotation is written, but the operator did not act on it within {} s{}",
            self.timeout,
            refusal(resource).map(still).unwrap_or_default()
        )
    }

    async fn path(&self, client: &kube::Client, namespace: &str) -> Result<String, String> {
        let watches = watches::load(&self.watches_file).map_err(|error| chain(&error))?;
        let watch =
            meant(&watches, &self.kind).map_err(|error| format!("{} serves {error}", self.watches_file.display()))?;
        if let Some(why) = ignored(watch, self.to) {
            return Err(format!("nothing is written: in {}, {why}", self.watches_file.display()));
        }
        let applier = Applier::new(std::sync::Arc::new(client.clone()));
        let resource = applier.mapper.resource(&watch.api_resource().api_version, &watch.kind).await;
        let resource: std::sync::Arc<Resource> = resource.map_err(|error| chain(&error))?;
        resource.path(namespace, &self.name).map_err(|error| chain(&error))
    }
}

/// Returns the watch of the kind with this name; kinds of several groups may share a name.
fn meant<'w>(watches: &'w [Watch], kind: &str) -> Result<&'w Watch, String> {
    watch::named(watches, Some(kind)).map_err(|error| match error {
        watch::Error::Several(names) => format!("several kinds {kind}: name one of {}", names.join(", ")),
        _ => {
            let served: Vec<&str> = watches.iter().map(|watch| watch.kind.as_str()).collect();
            format!("no kind {kind}, only {}", served.join(", "))
        }
    })
}

/// Returns why the operator would ignore the pin. It would stay on the resource, and roll the release back to an outdated
/// revision once the operator allows the annotation.
fn ignored(watch: &Watch, to: Option<u32>) -> Option<String> {
    let is_ignored = to.is_some() && !watch.annotations.counts("pin");
    is_ignored.then(|| format!("allowedAnnotations of {} lacks pin, so its operator ignores it", watch.full_name()))
}

/// Returns what the annotation is now, if someone else has changed it since. Then the status no longer answers this pin.
fn overtaken(resource: &Value, to: Option<u32>) -> Option<String> {
    let now = resource["metadata"]["annotations"][format!("{PREFIX}pin")].as_str();
    let is_ours = now == to.map(|revision| revision.to_string()).as_deref();
    let found = now.map_or_else(|| "is gone".to_owned(), |now| format!("is now {now:?}"));
    (!is_ours).then(|| format!("someone else has changed the annotation {PREFIX}pin in the meantime: it {found}"))
}

/// Judges what the status says about the annotation, once the resource has it. `before` is the refusal from before
/// that.
fn progress(resource: &Value, to: Option<u32>, before: Option<&Value>) -> PinProgress {
    let pinned = condition(resource, "Pinned").map(message);
    match (to, pinned) {
        (Some(to), Some(says))
            if says.contains(&format!("revision {to}:")) || says.contains(&format!("revision {to},")) =>
        {
            PinProgress::Done(says.to_owned())
        }
        (Some(to), _) => match refusal(resource).filter(|refusal| answers(refusal, to, before)) {
            Some(refusal) => PinProgress::Refused(message(refusal).to_owned()),
            None => PinProgress::Pending,
        },
        (None, Some(_)) => PinProgress::Pending,
        (None, None) => PinProgress::Done("the release follows its resource again".to_owned()),
    }
}

/// Returns whether a refusal answers a pin to this revision rather than an earlier pin. A refusal that names no pinned
/// revision may answer either, unless it is new.
fn answers(refusal: &Value, to: u32, before: Option<&Value>) -> bool {
    match refused_revision(message(refusal)) {
        Some(revision) => revision == to,
        None => Some(refusal) != before,
    }
}

/// Returns the revision that the release cannot be pinned to, if the message of a refusal names it.
fn refused_revision(message: &str) -> Option<u32> {
    let (_, named) = message.split_once("cannot return to revision ")?;
    named.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Finds the condition that refuses a pin. Any other failure may be the reason for the rollback.
fn refusal(resource: &Value) -> Option<&Value> {
    let found = condition(resource, "Irreconcilable")?;
    message(found).contains(&format!("{PREFIX}pin: ")).then_some(found)
}

/// Finds a condition that is true.
fn condition<'r>(resource: &'r Value, kind: &str) -> Option<&'r Value> {
    let conditions = resource["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == kind && one["status"] == "True")
}

fn message(condition: &Value) -> &str {
    condition["message"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_of_several_groups_is_named_with_its_group() {
        let entry = |group, kind| format!("- {{group: {group}, version: v1, kind: {kind}, chart: c}}\n");
        let text = [entry("a.b", "Shop"), entry("c.d", "Shop"), entry("a.b", "Web")].concat();
        let watches = watches::parse(&text, |_| None).unwrap().watches;
        let group = |kind| meant(&watches, kind).map(|watch| watch.full_name());
        assert_eq!(group("shop").unwrap_err(), "several kinds shop: name one of Shop.a.b, Shop.c.d");
        assert_eq!((group("Shop.c.d"), group("web")), (Ok("Shop.c.d".into()), Ok("Web.a.b".into())));
        assert_eq!(group("Cache").unwrap_err(), "no kind Cache, only Shop, Shop, Web");
    }

    #[test]
    fn a_pin_that_the_operator_ignores_is_not_written_but_can_be_removed() {
        let entry = |kind, more| format!("- {{group: a.b, version: v1, kind: {kind}, chart: c{more}}}\n");
        let text = [
            entry("Shop", ", allowedAnnotations: [suspend]"),
            entry("Web", ", allowedAnnotations: [pin]"),
            entry("Any", ""),
        ];
        let watches = watches::parse(&text.concat(), |_| None).unwrap().watches;
        let why = "allowedAnnotations of Shop.a.b lacks pin, so its operator ignores it";
        assert_eq!(ignored(&watches[0], Some(3)).as_deref(), Some(why));
        for (watch, to) in [(&watches[0], None), (&watches[1], Some(3)), (&watches[2], Some(3))] {
            assert_eq!(ignored(watch, to), None, "{} {to:?}", watch.kind);
        }
    }

    #[test]
    fn another_persons_pin_is_not_taken_for_this_one() {
        let pinned = |to: &str| json!({"metadata": {"annotations": {format!("{PREFIX}pin"): to, "other": "3"}}});
        for (resource, to, expected) in [
            (pinned("3"), Some(3), None),
            (json!({"metadata": {}}), None, None),
            (pinned("5"), Some(3), Some("it is now \"5\"")),
            (json!({"metadata": {"annotations": {"other": "3"}}}), Some(3), Some("it is gone")),
            (pinned("5"), None, Some("it is now \"5\"")),
        ] {
            let found = overtaken(&resource, to);
            assert_eq!(found.is_some(), expected.is_some(), "{resource} {to:?}");
            assert!(found.iter().zip(expected).all(|(found, expected)| found.ends_with(expected)), "{found:?}");
        }
    }

    #[test]
    fn the_status_says_what_became_of_the_annotation() {
        let resource = |kind: &str, reason: &str, message: &str| json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": reason, "message": message}]}});
        let none = json!({});
        let at = resource("Pinned", "PinAnnotation", "the release stays at revision 3, which revision 6 repeats: x");
        let own = resource("Pinned", "PinAnnotation", "the release stays at revision 3: x");
        for (resource, to, expected) in [
            (&none, Some(3), PinProgress::Pending),
            (&at, Some(3), PinProgress::Done("the release stays at revision 3, which revision 6 repeats: x".into())),
            (&own, Some(3), PinProgress::Done("the release stays at revision 3: x".into())),
            (&at, Some(6), PinProgress::Pending),
            (&at, None, PinProgress::Pending),
            (&none, None, PinProgress::Done("the release follows its resource again".into())),
        ] {
            assert_eq!(progress(resource, to, None), expected, "{resource} {to:?}");
        }
        let why = format!("annotation {PREFIX}pin: no");
        let failed = resource("Irreconcilable", "RenderError", "no");
        assert_eq!(progress(&failed, Some(3), None), PinProgress::Pending, "the reason for the rollback");
        let missing = resource("Irreconcilable", "InvalidAnnotation", &why);
        assert_eq!(progress(&missing, Some(3), None), PinProgress::Refused(why));
    }

    #[test]
    fn the_refusal_of_an_earlier_pin_is_not_taken_for_this_ones() {
        let refused = |why: &str| {
            let message = format!("annotation {PREFIX}pin: {why}");
            json!({"type": "Irreconcilable", "status": "True", "reason": "InvalidAnnotation", "message": message})
        };
        let missing = |to: u32| refused(&format!("the release cannot return to revision {to}; it has these: 1, 2, 3"));
        let put_back = refused("the newest record of the release is that of revision 1, older than revision 3");
        for (before, now, is_refused) in [
            (Some(missing(99)), missing(99), false),
            (Some(missing(33)), missing(33), false),
            // The operator was still at the earlier pin.
            (None, missing(99), false),
            (Some(missing(99)), missing(3), true),
            (None, missing(3), true),
            // The same pin again.
            (Some(missing(3)), missing(3), true),
            (Some(missing(99)), put_back.clone(), true),
            (Some(put_back.clone()), put_back, false),
        ] {
            let resource = json!({"status": {"conditions": [now]}});
            let found = progress(&resource, Some(3), before.as_ref());
            assert_eq!(matches!(found, PinProgress::Refused(_)), is_refused, "{before:?} {resource}");
        }
    }
}
