//! A model-based test: random edits of resources, foreign edits, chart changes, crashes and API faults against the real
//! control plane. Whenever the cluster is quiet, it must match a simple model (`check`).
//!
//! `model` holds what people asked for and the possible results, `world` acts on the cluster, and `proxy` breaks
//! requests in transit. A failure prints its seed and the shortest steps that still fail; `make model SEED=N` repeats
//! it, `make model MINUTES=30` tries new seeds for that long.

mod check;
pub(crate) mod http;
#[allow(clippy::module_inception, reason = "the reference model itself")]
mod model;
mod proxy;
mod world;

use std::env;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use test_cluster::{Options, TestCluster};

use model::Model;
use world::World;

/// The seeds that every run uses.
const SEEDS: [u64; 2] = [1, 2];
/// The number of steps of a run between its first and its last quiet point.
const STEPS: std::ops::Range<usize> = 10..30;

#[test]
fn the_cluster_is_as_the_model_says_whenever_it_is_quiet() {
    if TestCluster::shared_or_skip().is_none() {
        return;
    }
    // A separate cluster, because the test kills the API server.
    let cluster = TestCluster::start(Options::default()).unwrap();
    world::prepare(cluster);
    let (mut runs, began, limit) = (0, Instant::now(), minutes());
    for seed in seeds() {
        if runs >= SEEDS.len() && began.elapsed() > limit {
            break;
        }
        run(seed);
        runs += 1;
    }
    eprintln!("model: {runs} runs, {}, in {:.0} s", world::counts(), began.elapsed().as_secs_f32());
}

fn run(seed: u64) {
    eprintln!("model: seed {seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: 1, max_shrink_iters: 10, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config.clone(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let outcome = runner.run(&Model::sequential_strategy(STEPS), |(model, steps, seen)| {
        World::test_sequential(config.clone(), model, steps, seen);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
}

/// Returns `MODEL_SEED` alone, or the fixed seeds followed by new ones.
fn seeds() -> impl Iterator<Item = u64> {
    let only: Option<u64> = env::var("MODEL_SEED").ok().map(|seed| seed.parse().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let many = SEEDS.into_iter().chain(now..).take(if only.is_some() { 0 } else { usize::MAX });
    only.into_iter().chain(many)
}

/// Returns `MODEL_MINUTES`, the time for which to continue with new seeds.
fn minutes() -> Duration {
    Duration::from_secs(60 * env::var("MODEL_MINUTES").map_or(0, |minutes| minutes.parse::<u64>().unwrap()))
}
