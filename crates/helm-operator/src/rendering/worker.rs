//! The worker process: it restricts itself, then renders the manager's jobs until its socket is closed.
//!
//! The socket is its standard input, in both directions, so output that the program prints earlier is harmless.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use controller::runtime::priority::Priority;
use go_template::Value;
use helm::chart::Chart;
use helm::disk::SchemaCopies;
use helm::engine::{self, Capabilities, Engine, Lookup, LookupError};
use outside::sync::lock;
use serde::{Deserialize, Serialize};

use super::lookup::{self, Query, Repeated};
use super::message::{self, Ended, Failure, FromWorker, Job, MAX_ANSWER, MAX_QUESTION, Reason, ToWorker};
use super::output::{self, Analysed, Output};
use super::{confine, weight};

/// The environment variable that contains a worker's [`Settings`].
pub(super) const SETTINGS: &str = "HELM_OPERATOR_RENDER_WORKER";

/// The maximum number of charts that a worker keeps in memory.
const MAX_CHARTS: usize = 8;

/// The part of a render's memory that its objects may take in the manager.
pub(super) const OBJECTS: u64 = 4;

/// The limits of a worker.
#[derive(Serialize, Deserialize)]
pub(super) struct Settings {
    /// The limit of its memory, in bytes.
    pub(super) memory: u64,
    /// The limit of its processor time.
    pub(super) cpu_seconds: u64,
    pub(super) folders: Vec<PathBuf>,
    /// The priority of its renders; a worker for retries has the lowest processor priority.
    pub(super) priority: Priority,
}

/// Runs a worker until the manager closes its socket. Returns the exit code.
pub(crate) fn main() -> ExitCode {
    let settings = std::env::var(SETTINGS).ok().and_then(|text| serde_json::from_str(&text).ok());
    let Some(settings) = settings else {
        eprintln!("Error: the operator itself starts this command");
        return ExitCode::FAILURE;
    };
    match serve(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve(settings: &Settings) -> io::Result<()> {
    let confinement = confine::confine(settings)?;
    // Descriptors from before are unusable now.
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    panic::set_hook(Box::new(note_panic));
    let mut renderer = Renderer::new(socket, settings.memory / OBJECTS);
    renderer.say(&FromWorker::Ready(confinement))?;
    loop {
        let question = match renderer.hear() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            question => question?,
        };
        let ToWorker::Render(job, facts) = message::decode(&question)? else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        drop(question);
        if let Some(facts) = facts {
            renderer.capabilities = Arc::new(facts.capabilities());
        }
        let answer = renderer.answer(&job);
        renderer.say_bounded(&answer)?;
    }
}

thread_local! {
    /// The place of the last panic.
    static PANICKED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Records the place of a panic, but not the message, which may quote values. Aborts as if out of memory if `stacker`
/// panics, because that means there was no memory for another stack.
fn note_panic(info: &panic::PanicHookInfo<'_>) {
    if info.location().is_some_and(|place| place.file().contains("stack_restore_guard")) {
        eprintln!("memory allocation of a stack failed");
        std::process::abort();
    }
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    PANICKED.with_borrow_mut(|panicked| *panicked = place);
}

type Key = (PathBuf, BTreeMap<String, PathBuf>, String);

struct Renderer {
    socket: Arc<Mutex<UnixStream>>,
    capabilities: Arc<Capabilities>,
    /// The charts by path, copies of documents and digest, in the order of their last use.
    engines: Vec<(Key, Arc<Analysed>)>,
    /// The maximum memory of the objects, in bytes.
    weight: u64,
}

impl Renderer {
    fn new(socket: UnixStream, weight: u64) -> Renderer {
        let (socket, capabilities) = (Arc::new(Mutex::new(socket)), Arc::default());
        Renderer { socket, capabilities, engines: Vec::new(), weight }
    }

    fn say(&self, what: &FromWorker) -> io::Result<()> {
        lock(&self.socket).write_all(&message::encode(what, MAX_ANSWER)?)
    }

    /// Sends an answer as [`say`](Self::say) does; an answer that is too large becomes an error.
    fn say_bounded(&self, answer: &FromWorker) -> io::Result<()> {
        match self.say(answer) {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let message =
                    format!("the rendered manifests exceed {} MiB (limit MAX_ANSWER): {error}", MAX_ANSWER >> 20);
                self.say(&FromWorker::Failed(Failure { reason: Reason::RenderLimit, message }))
            }
            said => said,
        }
    }

    fn hear(&self) -> io::Result<Vec<u8>> {
        message::read(&mut *lock(&self.socket), MAX_QUESTION)
    }

    fn answer(&mut self, job: &Job) -> FromWorker {
        match guarded(|| self.render(job)) {
            Ok(output) => FromWorker::Rendered(Box::new(output)),
            Err(failure) => {
                if failure.reason == Reason::InternalError {
                    // A panic may have left an inconsistent state.
                    self.engines.clear();
                }
                FromWorker::Failed(failure)
            }
        }
    }

    fn render(&mut self, job: &Job) -> Result<Output, Failure> {
        let (engine, values) = (self.engine(job)?, job.values()?);
        let release = output::release_options(&job.name, &job.namespace, job.revision);
        let request = engine::Request {
            values: &values,
            release: &release,
            capabilities: &self.capabilities,
            lookup: Some(Arc::new(Asking { socket: self.socket.clone(), repeated: Mutex::default() })),
            skip_schema: job.skip_schema,
        };
        let output = engine.rendered(&request)?;
        weight::check(&output, self.weight).map(|()| output)
    }

    /// Returns the job's chart, which is loaded once.
    fn engine(&mut self, job: &Job) -> Result<Arc<Analysed>, Failure> {
        let key = (job.chart.clone(), job.copies.clone(), job.digest.clone());
        let engine = match self.engines.iter().position(|(known, _)| *known == key) {
            Some(at) => self.engines.remove(at).1,
            None => Arc::new(Analysed::new(Arc::new(Engine::new(load(job)?)))),
        };
        if self.engines.len() >= MAX_CHARTS {
            self.engines.remove(0);
        }
        self.engines.push((key, engine.clone()));
        Ok(engine)
    }
}

fn load(job: &Job) -> Result<Arc<Chart>, Failure> {
    let changed = |how: String| Failure {
        reason: Reason::ChartChanged,
        message: format!("chart {} {how} since the operator started: restart the operator", job.chart.display()),
    };
    let copies = SchemaCopies(job.copies.clone());
    let chart =
        Chart::load_with(&job.chart, &copies).map_err(|error| changed(format!("became unreadable ({error})")))?;
    if chart.digest() != job.digest { Err(changed("changed".to_owned())) } else { Ok(chart) }
}

/// Converts a panic into a failure.
fn guarded(render: impl FnOnce() -> Result<Output, Failure>) -> Result<Output, Failure> {
    panic::catch_unwind(AssertUnwindSafe(render)).unwrap_or_else(|_| {
        let message = format!("rendering panicked at {}", PANICKED.take());
        Err(Failure { reason: Reason::InternalError, message })
    })
}

/// `lookup` through the manager.
struct Asking {
    socket: Arc<Mutex<UnixStream>>,
    repeated: Mutex<Repeated>,
}

impl Asking {
    fn ask(&self, query: &Query) -> io::Result<Result<Option<Vec<u8>>, String>> {
        let mut socket = lock(&self.socket);
        socket.write_all(&message::encode(&FromWorker::Lookup(query.clone()), MAX_ANSWER)?)?;
        Ok(match message::decode(&message::read(&mut *socket, MAX_QUESTION)?)? {
            ToWorker::Found => pieces(&mut socket)?.map(Some),
            ToWorker::Nothing => Ok(None),
            ToWorker::Refused(why) => Err(why),
            ToWorker::Render(..) => return Err(io::ErrorKind::InvalidData.into()),
        })
    }
}

impl Lookup for Asking {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, LookupError> {
        lookup::once(&self.repeated, Query::new(api_version, kind, namespace, name), |query| {
            self.ask(query).map_err(|e| LookupError::new(e.to_string()))?.map_err(LookupError::new)
        })
    }
}

/// Reads the chunks of a response; returns the error if it broke off.
fn pieces(socket: &mut UnixStream) -> io::Result<Result<Vec<u8>, String>> {
    let mut json = Vec::new();
    loop {
        let piece = message::read(socket, MAX_QUESTION)?;
        if piece.is_empty() {
            break;
        }
        json.extend_from_slice(&piece);
    }
    let Ended(why) = message::decode(&message::read(socket, MAX_QUESTION)?)?;
    Ok(why.map_or(Ok(json), Err))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer_that_quotes_no_values() {
        let failure = guarded(|| std::panic::panic_any("s3cret")).err().unwrap();
        assert_eq!(failure.reason, Reason::InternalError);
        assert!(failure.message.starts_with("rendering panicked at ") && !failure.message.contains("s3cret"));
    }
}
