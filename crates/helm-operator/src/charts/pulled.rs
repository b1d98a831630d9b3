//! Runs the controller of a fetched chart: with the registry's chart, else with the cached one, else with a stand-in
//! that reports why the chart is missing. Restarts the controller when the chart changes.
//!
//! ```text
//! fetch ─┬─ chart ──────────────────────┬─▶ run ◀── at each interval: fetch ── another chart ─▶ stop as at a shutdown, run
//!        └─ fails ─▶ cache, or stand-in ┘
//! ```
//!
//! A cached chart may be older than the one that another replica served last, and releases would return to it. So the
//! start asks the registry again for a while, and a cached chart is looked up sooner than at the next interval.
//!
//! For its kind, this is the same as a restart of the process: interrupted actions continue, and a changed chart is
//! rolled out under `maxParallelUpgrades`. Events about the chart concern the whole kind, so they refer to the process
//! instead of a resource.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use controller::context::Context;
use controller::reconciler;
use controller::report::{Outcome, chain};
use controller::runtime::backoff;
use controller::runtime::readiness::{self, Readiness};
use controller::runtime::reflector::WatchScope;
use helm::engine::Engine;
use registry::{Cache, Digest, Fetched};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::chart_controller::{ChartController, Source, open};
use super::cluster::Cluster;
use super::config::ChartConfig;
use super::{findings, start};
use crate::pull::{Error, Puller, Secrets};
use crate::rendering::unavailable::Unavailable;
use crate::status::reason::Reason;
use crate::watches::{Pull, Watch};

/// How long the start waits for the registry before the cache serves. The cache may hold an older version, which
/// releases would return to. Tests, whose registries answer at once, do not wait as long.
const FIRST_LOOK: Duration = Duration::from_secs(if cfg!(test) { 5 } else { 20 });

/// How long running reconciles may take before the controller starts again without their end.
const GRACE: Duration = Duration::from_secs(30);

/// How often to check that the cache still has a chart that is never looked up again.
const KEPT: Duration = Duration::from_secs(600);

const ACTION: &str = "Fetch";

/// What the controller runs with.
enum Serving {
    Chart {
        engine: Arc<Engine>,
        archive: PathBuf,
        digest: Digest,
        name: Digest,
        /// Whether it was looked up. Otherwise the cache had it, and the registry may have had a newer one for long.
        is_looked_up: bool,
    },
    /// No chart yet; the stand-in says why.
    Nothing(Arc<Unavailable>),
}

impl Serving {
    fn source(&self) -> Source {
        match self {
            Serving::Chart { engine, archive, .. } => Source::Engine(engine.clone(), archive.clone()),
            Serving::Nothing(unavailable) => Source::Own(unavailable.clone()),
        }
    }

    /// Describes the chart: `1.2.0 (sha256:…)`.
    fn described(&self) -> Option<String> {
        match self {
            Serving::Chart { engine, name, .. } => Some(format!("{} ({name})", engine.chart().metadata.version)),
            Serving::Nothing(_) => None,
        }
    }
}

/// Why a lookup found no chart to serve.
struct Missed {
    reason: Reason,
    why: String,
    /// Whether the registry answered: asking again at once would change nothing.
    is_answer: bool,
}

impl Missed {
    fn unloadable(error: reconciler::Error) -> Missed {
        Missed { reason: Reason::ChartUnavailable, why: chain(&*error), is_answer: true }
    }
}

impl From<Error> for Missed {
    fn from(error: Error) -> Missed {
        let reason = if error.is_unverified() { Reason::ChartUnverified } else { Reason::ChartUnavailable };
        Missed { reason, why: chain(&error), is_answer: error.is_answer() }
    }
}

/// Lets workers read what will be fetched. They read nothing else in that folder.
pub(super) fn prepare(watch: &Watch, context: &Context) {
    let cache = cache(context);
    if let Err(error) = cache.open() {
        tracing::warn!(
            kind = watch.kind,
            error = chain(&error),
            "Charts cannot be fetched: name a folder with --chart-cache"
        );
    }
    if let Some(workers) = &Cluster::of(context).workers {
        workers.admit_copy(cache.folder());
    }
}

fn cache(context: &Context) -> Arc<Cache> {
    context.part(|context| {
        let config = ChartConfig::of(context);
        let folder = std::path::absolute(&config.chart_cache).unwrap_or(config.chart_cache);
        Cache::new(folder, config.chart_cache_size)
    })
}

/// Runs the controller until the process ends.
pub(super) async fn run(controller: ChartController, pull: Pull, context: Context) -> Result<(), reconciler::Error> {
    let config = ChartConfig::of(&context);
    let namespace = config.own_namespace(&context.client).to_owned();
    let secrets = Secrets { client: context.client.clone(), namespace };
    let puller = Puller::new(pull, cache(&context), Some(secrets)).over(config.chart_hop);
    let lookout = Lookout { watch: controller.watch.clone(), puller, context: context.clone() };
    let mut serving = tokio::select! {
        serving = lookout.first() => serving,
        () = context.shutdown.cancelled() => return Ok(()),
    };
    let mut readiness = context.readiness.clone();
    loop {
        if let Serving::Chart { engine, .. } = &serving {
            findings::report(&controller.watch, engine.chart());
        }
        let shutdown = context.shutdown.child_token();
        let mut handles = context.clone();
        (handles.shutdown, handles.readiness) = (shutdown.clone(), readiness);
        let mut running = start::run(controller.rendering_by(serving.source()), handles);
        let next = tokio::select! {
            biased;
            ended = &mut running => return ended,
            next = lookout.next(&serving) => next,
        };
        lookout.announce(&serving, &next);
        serving = next;
        shutdown.cancel();
        // Resources that come and go are not seen until the next controller has listed.
        Cluster::of(&context).dependencies.require_lists(&context.controller, [WatchScope::ALL]);
        // A controller that does not end in time is dropped, as if the process had been killed.
        if let Ok(ended) = timeout(GRACE, &mut running).await {
            ended?;
        }
        drop(running);
        readiness = readiness_of_next(&context, &controller.watch);
    }
}

/// Returns the readiness to which the next controller of a kind reports. It is the process's until the kind's lists
/// have been complete once: a controller that ends before leaves requirements that only the next one can meet. From
/// then on, the process stays ready, because only one kind lists again.
fn readiness_of_next(context: &Context, watch: &Watch) -> Readiness {
    let kind = readiness::kind(&watch.kind, &watch.api_resource().api_version);
    if context.readiness.awaits(&kind) { context.readiness.clone() } else { Readiness::default() }
}

/// Looks for the chart of a watch.
struct Lookout {
    watch: Watch,
    puller: Puller,
    context: Context,
}

impl Lookout {
    /// Returns what to start with.
    async fn first(&self) -> Serving {
        let Missed { reason, why, .. } = match self.first_look().await {
            Ok(serving) => return serving,
            Err(missed) => missed,
        };
        let (kind, chart, error) = (&self.watch.kind, self.watch.chart.display(), &why);
        match self.cached().await {
            Some(serving) => {
                tracing::warn!(kind, %chart, error, "The chart cannot be looked up: the one in the cache serves");
                serving
            }
            None => {
                tracing::error!(kind, %chart, error, "The chart cannot be fetched: its resources wait for it");
                let name = self.puller.pull.source.location.name();
                let unavailable = Unavailable::new(name, self.watch.overrides.clone());
                unavailable.because(reason, self.explained(why));
                Serving::Nothing(Arc::new(unavailable))
            }
        }
    }

    /// Looks until the registry answers, but no longer than [`FIRST_LOOK`]. Looks once if the cache is known to have no chart
    /// to serve instead.
    async fn first_look(&self) -> Result<Serving, Missed> {
        let end = Instant::now() + FIRST_LOOK;
        let why = format!("no answer within {FIRST_LOOK:?}");
        let mut missed = Missed { reason: Reason::ChartUnavailable, why, is_answer: false };
        let mut failures = 0_u32;
        loop {
            match timeout_at(end, self.look()).await {
                Ok(Ok(serving)) => return Ok(serving),
                Ok(Err(failed)) => missed = failed,
                Err(_) => return Err(missed),
            }
            if missed.is_answer || matches!(timeout_at(end, self.puller.cached()).await, Ok(Ok(None))) {
                return Err(missed);
            }
            failures += 1;
            sleep_until(end.min(Instant::now() + backoff::wait(failures))).await;
        }
    }

    /// Returns the chart in the cache.
    async fn cached(&self) -> Option<Serving> {
        let mut serving = self.open(&self.puller.cached().await.ok()??).ok()?;
        if let Serving::Chart { is_looked_up, .. } = &mut serving {
            *is_looked_up = false;
        }
        Some(serving)
    }

    /// Waits until a chart other than the served one is available.
    async fn next(&self, serving: &Serving) -> Serving {
        let (mut failures, mut last) = (0_u32, String::new());
        let mut was_looked_up = matches!(serving, Serving::Chart { is_looked_up: true, .. });
        loop {
            match serving {
                Serving::Nothing(_) => sleep(backoff::wait(failures.saturating_add(1))).await,
                // What another process served in the meantime may be newer.
                Serving::Chart { .. } if !was_looked_up => {
                    sleep(backoff::wait(failures.saturating_add(1)).min(self.interval())).await;
                }
                Serving::Chart { .. } => {
                    sleep(self.interval()).await;
                    if !self.moves() && matches!(self.puller.cached().await, Ok(Some(_))) {
                        continue;
                    }
                }
            }
            let Missed { reason, why, .. } = match self.look().await {
                Ok(found) if is_same(&found, serving) => {
                    (failures, last, was_looked_up) = (0, String::new(), true);
                    continue;
                }
                Ok(found) => return found,
                Err(missed) => missed,
            };
            failures = failures.saturating_add(1);
            if last != why {
                self.warn(serving, reason, &why);
                last.clone_from(&why);
            }
            if let Serving::Nothing(unavailable) = serving {
                unavailable.because(reason, self.explained(why));
            }
        }
    }

    /// Fetches the chart and loads it. Only a chart that loads may serve a later start.
    async fn look(&self) -> Result<Serving, Missed> {
        let fetched = self.puller.fetch().await?;
        let serving = self.open(&fetched)?;
        self.puller.keep(&fetched)?;
        Ok(serving)
    }

    /// Loads a chart, from the registry or from the cache, and checks that it belongs where it was found.
    fn open(&self, fetched: &Fetched) -> Result<Serving, Missed> {
        let engine = open(&self.watch, &fetched.archive).map_err(Missed::unloadable)?;
        self.puller.check_place(fetched, &engine.chart().metadata)?;
        let (archive, digest, name) = (fetched.archive.clone(), fetched.digest, fetched.name);
        Ok(Serving::Chart { engine, archive, digest, name, is_looked_up: true })
    }

    /// Reports that the registry has nothing to serve.
    fn warn(&self, serving: &Serving, reason: Reason, why: &str) {
        let (kind, chart) = (&self.watch.kind, self.watch.chart.display());
        tracing::warn!(kind, %chart, error = why, "The chart cannot be looked up: trying again");
        let meanwhile = match serving.described() {
            Some(served) => format!("{served} is served meanwhile"),
            None => "none is served meanwhile".to_owned(),
        };
        let note = format!("{kind}: {}; {meanwhile}", self.explained(why.to_owned()));
        self.context.publish(Outcome::warning(reason.as_str(), ACTION, note));
    }

    /// Reports the chart that is served from now on.
    fn announce(&self, before: &Serving, serving: &Serving) {
        let Some(now) = serving.described() else { return };
        let (kind, chart) = (&self.watch.kind, self.watch.chart.display());
        let before = before.described().map(|before| format!("{before} → ")).unwrap_or_default();
        tracing::info!(kind, %chart, versions = format!("{before}{now}"), "Another chart is there: serving it, and upgrading its releases");
        let note = format!("{kind}: chart {chart} {before}{now}; its releases are upgraded");
        self.context.publish(Outcome::normal("ChartUpdated", ACTION, note));
    }

    /// Returns whether the registry may have another chart. If not, it is enough to check that the cache still has it,
    /// because new workers read it again.
    fn moves(&self) -> bool {
        let Pull { source, interval, .. } = &self.puller.pull;
        source.moves() && !interval.is_zero()
    }

    /// Returns the pause before the next lookup, up to a tenth longer, so that kinds and replicas do not send requests
    /// at the same time.
    fn interval(&self) -> Duration {
        let interval = Some(self.puller.pull.interval).filter(|interval| !interval.is_zero()).unwrap_or(KEPT);
        interval + interval.mul_f64((outside::random() % 1000) as f64 / 10_000.0)
    }

    fn explained(&self, why: String) -> String {
        format!("cannot fetch the chart {}: {why}", self.watch.chart.display())
    }
}

fn is_same(found: &Serving, serving: &Serving) -> bool {
    match (found, serving) {
        (Serving::Chart { digest: a, .. }, Serving::Chart { digest: b, .. }) => a == b,
        _ => false,
    }
}
