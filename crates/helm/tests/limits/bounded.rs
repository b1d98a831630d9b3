//! Runs each case in its own process under the operating system's limits, and measures it.
//!
//! `cargo test --release -p hybrid-helm --test limits -- --nocapture` prints the measurements.

use std::process::Command;

/// The operating system's limits for a case, generous because the build may not be optimised.
const ADDRESS_SPACE_KIB: u64 = 3 << 20;
const CPU_SECONDS: u64 = 90;

/// Maximum memory of a case beyond that of a small render, in KiB. Only used pages of stacks count.
const MEMORY_KIB: u64 = 300 << 10;

/// Maximum processor time of a case in an optimised build, in milliseconds.
const CPU_MILLISECONDS: u64 = 1000;

/// The same limit for functions that are slow by design and that a chart may call several dozen times: keys and password hashes.
const SLOW_MILLISECONDS: u64 = 15_000;

/// The environment variable with the number of the case that this process runs.
const CHILD: &str = "HELM_LIMITS_CASE";

/// The cases of one test.
pub(super) struct Cases {
    test: String,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    prepare: Box<dyn FnOnce() -> Run>,
    /// Maximum processor time in an optimised build, in milliseconds.
    cpu: u64,
}

type Run = Box<dyn FnOnce()>;

impl Cases {
    /// Creates an empty list for this test in this module (`module_path!()`).
    pub(super) fn of(module: &str, test: &str) -> Cases {
        let module = module.split_once("::").map_or("", |(_, module)| module);
        Cases { test: format!("{module}::{test}"), cases: Vec::new() }
    }

    /// Adds a case.
    pub(super) fn add(&mut self, name: impl Into<String>, run: impl FnOnce() + 'static) {
        self.add_prepared(name, || (), |()| run());
    }

    /// Adds a case that may take [`SLOW_MILLISECONDS`].
    pub(super) fn add_slow(&mut self, name: impl Into<String>, run: impl FnOnce() + 'static) {
        self.add(name, run);
        self.cases.last_mut().unwrap().cpu = SLOW_MILLISECONDS;
    }

    /// Adds a case with a preparation that is not measured.
    pub(super) fn add_prepared<T: 'static>(
        &mut self,
        name: impl Into<String>,
        prepare: impl FnOnce() -> T + 'static,
        run: impl FnOnce(T) + 'static,
    ) {
        let prepare = || -> Run {
            let prepared = prepare();
            Box::new(|| run(prepared))
        };
        self.cases.push(Case { name: name.into(), prepare: Box::new(prepare), cpu: CPU_MILLISECONDS });
    }

    /// Runs the cases in order. Panics if one fails or exceeds a limit.
    pub(super) fn run(self) {
        if let Some(index) = std::env::var_os(CHILD) {
            let index: usize = index.to_str().unwrap().parse().unwrap();
            return self.cases.into_iter().nth(index).map(|case| measured((case.prepare)())).unwrap();
        }
        let failed: Vec<String> = (0..self.cases.len()).filter_map(|index| self.run_one(index).err()).collect();
        assert!(failed.is_empty(), "{}", failed.join("\n"));
    }

    fn run_one(&self, index: usize) -> Result<(), String> {
        let limits = format!("ulimit -v {ADDRESS_SPACE_KIB} && ulimit -t {CPU_SECONDS} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.arg("-c").arg(limits).arg(std::env::current_exe().unwrap()).args([
            "--nocapture",
            "--exact",
            &self.test,
        ]);
        let output = command.env(CHILD, index.to_string()).output().unwrap();
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let name: String = self.cases[index].name.chars().take(120).collect();
        if !output.status.success() {
            return Err(format!("{name}: {}\n{stdout}{stderr}", output.status));
        }
        let Some(used) = Used::read(&stdout) else { return Err(format!("{name}: did not run\n{stdout}")) };
        println!("{:>6} ms {:>7.1} MiB  {name}", used.cpu, used.memory as f64 / 1024.0);
        used.check(self.cases[index].cpu).map_err(|problem| format!("{name}: {problem}"))
    }
}

/// Processor time in milliseconds, and memory in KiB beyond the memory at the start.
struct Used {
    cpu: u64,
    memory: u64,
}

impl Used {
    /// Parses the output of a case's process.
    fn read(text: &str) -> Option<Used> {
        let (_, numbers) = text.split_once("used ")?;
        let mut numbers = numbers.split_whitespace().map_while(|number| number.parse().ok());
        Some(Used { cpu: numbers.next()?, memory: numbers.next()? })
    }

    fn check(&self, cpu: u64) -> Result<(), String> {
        if self.memory > MEMORY_KIB {
            return Err(format!("takes {} KiB of memory, more than {MEMORY_KIB}", self.memory));
        }
        if !cfg!(debug_assertions) && self.cpu > cpu {
            return Err(format!("takes {} ms of processor time, more than {cpu}", self.cpu));
        }
        Ok(())
    }
}

fn measured(run: impl FnOnce()) {
    super::render("a: {{ list 1 | toYaml | quote }}").unwrap();
    // Resets the peak, which the preparation set.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let (cpu, memory) = (cpu_milliseconds(), status_kib("VmRSS:"));
    run();
    println!("used {} {}", cpu_milliseconds() - cpu, status_kib("VmHWM:").saturating_sub(memory));
}

/// Returns the processor time of all threads so far, in steps of 10 ms, or 0 if it is unknown.
fn cpu_milliseconds() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
    ticks.sum::<u64>() * 10
}

/// Returns a line of this process's status, or 0 if it is unknown.
fn status_kib(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|status| status.strip_prefix(line));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
