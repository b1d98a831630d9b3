//! One worker from the manager's point of view: starts it, hands it jobs, answers its lookups, and determines the cause
//! of its end.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use controller::runtime::priority::Priority;
use helm::engine::Capabilities;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use super::ending::{Ending, Past};
use super::lookup::{ClusterLookup, MAX_LOOKUPS, Query};
use super::message::{
    self, ClusterFacts, Confinement, Ended, Failure, FromWorker, Job, MAX_ANSWER, MAX_QUESTION, ToWorker,
};
use super::output::Output;
use super::worker::{SETTINGS, Settings};

/// The time that a render may take beyond the engine's own limit, whose error is better: it names the template.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The maximum time until a worker that broke off ends.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The maximum number of messages of a worker during one render. A worker that exceeds its limit of lookups by this
/// margin is no longer under our control.
const MAX_MESSAGES: usize = MAX_LOOKUPS + 10;

/// The part of a worker's standard error that is read, in bytes.
const MAX_STDERR: u64 = 16 << 10;

/// The multiple of one render's time limit after which a worker is replaced: its processor time is limited for its
/// whole life.
pub(super) const LIFE: u32 = 8;

#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(super) path: PathBuf,
    pub(super) args: Vec<OsString>,
}

impl Program {
    /// Returns this program, even if its file has been replaced.
    pub(crate) fn own() -> Program {
        let path = if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() };
        Program { path: path.unwrap_or_default(), args: vec!["render-worker".into()] }
    }
}

/// Why a render was broken off.
enum Break {
    /// It took too long.
    Late,
    /// The worker ended, or sent an invalid message.
    Socket(io::Error),
}

impl From<io::Error> for Break {
    fn from(error: io::Error) -> Break {
        Break::Socket(error)
    }
}

/// The worker's time for one render. It excludes the API server's time, which [`ClusterLookup`] limits, because that is
/// not the chart's fault.
struct Clock {
    limit: Duration,
    busy: Duration,
}

impl Clock {
    async fn of_worker<T>(&mut self, work: impl Future<Output = io::Result<T>>) -> Result<T, Break> {
        let began = Instant::now();
        let done = timeout(self.limit.saturating_sub(self.busy), work).await;
        self.busy += began.elapsed();
        Ok(done.map_err(|_| Break::Late)??)
    }
}

/// A running worker. Dropping it kills it.
pub(super) struct Worker {
    child: Child,
    socket: UnixStream,
    sent: Option<Arc<Capabilities>>,
    /// The chart that it rendered last.
    chart: PathBuf,
    /// What it has rendered before.
    pub(super) past: Past,
    pub(super) priority: Priority,
    busy: Duration,
    /// Whether it has restricted itself.
    is_ready: bool,
    /// Its confinement, until it is reported.
    pub(super) confinement: Option<Confinement>,
}

impl Worker {
    /// Starts a worker. It restricts itself, then waits for jobs.
    pub(super) fn start(program: &Program, settings: &Settings) -> io::Result<Worker> {
        let (ours, theirs) = Socket::pair()?;
        ours.set_nonblocking(true)?;
        let mut command = Command::new(&program.path);
        command.args(&program.args).env_clear().env(SETTINGS, serde_json::to_string(settings)?);
        // Templates print times in the operator's time zone. With this setting, mimalloc counts memory only once it is
        // used, not when it is reserved.
        let zone = ["TZ", "TZDIR"].into_iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.envs(zone).env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        // A signal from the terminal reaches only the operator, which lets renders finish.
        let child = command.arg0("render-worker").process_group(0).kill_on_drop(true).spawn()?;
        let socket = UnixStream::from_std(ours)?;
        let chart = PathBuf::new();
        let (priority, busy) = (settings.priority, Duration::ZERO);
        Ok(Worker {
            child,
            socket,
            sent: None,
            chart,
            past: Past::Clean,
            priority,
            busy,
            is_ready: false,
            confinement: None,
        })
    }

    /// Returns whether it has loaded this chart.
    pub(super) fn knows(&self, job: &Job) -> bool {
        self.chart == job.chart
    }

    /// Returns whether it would soon exceed the processor time of its life.
    pub(super) fn is_spent(&self, limit: Duration) -> bool {
        self.busy >= limit.saturating_mul(LIFE)
    }

    /// Renders a job; the inner error is the chart's own. After an outer error the worker is dead.
    pub(super) async fn render(
        &mut self,
        job: &Arc<Job>,
        capabilities: &Arc<Capabilities>,
        lookup: &ClusterLookup,
        limit: Duration,
    ) -> Result<Result<Output, Failure>, Ending> {
        let mut clock = Clock { limit: limit.saturating_add(GRACE), busy: Duration::ZERO };
        let rendered = self.exchange(job, capabilities, lookup, &mut clock).await;
        self.busy += clock.busy;
        match rendered {
            Ok(answer) => {
                self.past = Past::Shared;
                self.chart.clone_from(&job.chart);
                Ok(answer)
            }
            Err(Break::Late) => Err(Ending::Time),
            Err(Break::Socket(error)) if error.kind() == io::ErrorKind::FileTooLarge => Err(Ending::TooLarge),
            Err(Break::Socket(error)) => Err(self.ending(&error).await),
        }
    }

    async fn exchange(
        &mut self,
        job: &Arc<Job>,
        capabilities: &Arc<Capabilities>,
        lookup: &ClusterLookup,
        clock: &mut Clock,
    ) -> Result<Result<Output, Failure>, Break> {
        let is_known = self.sent.as_ref().is_some_and(|sent| Arc::ptr_eq(sent, capabilities));
        let facts = (!is_known).then(|| ClusterFacts::from(&**capabilities));
        clock.of_worker(self.say(&ToWorker::Render(job.clone(), facts))).await?;
        self.sent = Some(capabilities.clone());
        for _ in 0..MAX_MESSAGES {
            let said = clock.of_worker(message::receive(&mut self.socket, MAX_ANSWER)).await?;
            match message::judge(said).await? {
                FromWorker::Ready(confinement) if !self.is_ready => {
                    (self.is_ready, self.confinement) = (true, Some(confinement));
                }
                FromWorker::Lookup(query) if self.is_ready => self.answer(&query, lookup, clock).await?,
                FromWorker::Rendered(output) if self.is_ready => return Ok(Ok(*output)),
                FromWorker::Failed(failure) if self.is_ready => return Ok(Err(failure)),
                _ => return Err(message::invalid("a message out of turn").into()),
            }
        }
        Err(message::invalid("too many messages").into())
    }

    async fn say(&mut self, what: &ToWorker) -> io::Result<()> {
        let frame = message::encode(what, MAX_QUESTION)?;
        self.socket.write_all(&frame).await
    }

    /// Executes a lookup with the manager's own permissions, and forwards the response as it arrives.
    async fn answer(&mut self, query: &Query, lookup: &ClusterLookup, clock: &mut Clock) -> Result<(), Break> {
        let mut answer = match lookup.open(query).await {
            Ok(Some(answer)) => answer,
            Ok(None) => return clock.of_worker(self.say(&ToWorker::Nothing)).await,
            Err(error) => return clock.of_worker(self.say(&ToWorker::Refused(error.to_string()))).await,
        };
        clock.of_worker(self.say(&ToWorker::Found)).await?;
        let ended = loop {
            match answer.next().await {
                Ok(Some(piece)) => clock.of_worker(self.pass(&piece)).await?,
                Ok(None) => break Ended(None),
                Err(error) => break Ended(Some(error.to_string())),
            }
        };
        clock.of_worker(self.pass(&[])).await?;
        let ended = message::encode(&ended, MAX_QUESTION)?;
        clock.of_worker(self.socket.write_all(&ended)).await
    }

    async fn pass(&mut self, piece: &[u8]) -> io::Result<()> {
        self.socket.write_all(&message::header(piece.len(), MAX_QUESTION)?).await?;
        self.socket.write_all(piece).await
    }

    /// Determines why the worker broke off.
    async fn ending(&mut self, error: &io::Error) -> Ending {
        if error.kind() == io::ErrorKind::InvalidData {
            return Ending::Crash(format!("it answered with {error}"));
        }
        match timeout(LAST_WORDS, self.child.wait()).await {
            Ok(Ok(status)) => Ending::read(status, &self.stderr().await),
            _ => Ending::Crash("it stopped answering".to_owned()),
        }
    }

    /// Reads the start of its standard error. It may quote values, so it is not shown.
    async fn stderr(&mut self) -> String {
        let mut text = Vec::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = timeout(LAST_WORDS, stderr.take(MAX_STDERR).read_to_end(&mut text)).await;
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }
}
