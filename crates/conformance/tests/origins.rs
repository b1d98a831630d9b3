//! Checks on the repository's charts, and on the shared ones if they exist, that traced values are those that charts
//! render with, and that each has the origin that decides it.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // Tests may panic, and print what they count.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use conformance::cases::{self, Case};
use go_template::{Map, Value};
use helm::chart::Chart;
use helm::engine::{Capabilities, Engine, File, ReleaseOptions};
use helm::origins::{Key, Layer, Leaf, Origin, Traced, dotted, trace};
use helm::values::{self, merge_maps};
use helm::view::{Nulls, coalesce};

/// What all charts together showed.
#[derive(Debug, Default)]
struct Seen {
    charts: usize,
    leaves: usize,
    given: usize,
    /// Defaults, and those whose line contains the key.
    defaults: usize,
    on_their_line: usize,
}

/// Returns the folders with a `Chart.yaml`, without subcharts.
fn charts_below(folder: &Path) -> Vec<PathBuf> {
    if folder.join("Chart.yaml").exists() {
        return vec![folder.to_owned()];
    }
    let mut below: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    below.sort();
    below.iter().filter(|path| path.is_dir() && !path.ends_with("target")).flat_map(|path| charts_below(path)).collect()
}

fn repository(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder)
}

/// Splits values into layers that overlap: of every third key each layer has another value, or a null.
fn layers(given: &Map, defaults: &Map, random: &mut fastrand::Rng) -> Vec<Layer> {
    let mut owns: Vec<Map> = vec![given.deep_copy()];
    for layer in 0..3 {
        let own = Map::default();
        pick(defaults, &own, layer, random);
        owns.insert(layer, own);
    }
    merged(&owns)
}

/// Merges layers as `valuesFrom` and a `spec` are merged.
fn merged(owns: &[Map]) -> Vec<Layer> {
    let mut all: Vec<Layer> = Vec::new();
    for own in owns {
        let below = all.last().and_then(|layer| layer.merged.clone()).unwrap_or_default();
        all.push(Layer { own: Some(own.deep_copy()), merged: Some(merge_maps(&below, &own.deep_copy())) });
    }
    all
}

fn pick(from: &Map, into: &Map, layer: usize, random: &mut fastrand::Rng) {
    for (key, value) in from.snapshot() {
        match value {
            Value::Map(table) => {
                let inner = Map::default();
                pick(&table, &inner, layer, random);
                if !inner.is_empty() {
                    into.insert(key, inner);
                }
            }
            value if random.u8(..3) == 0 => {
                let value = match random.u8(..4) {
                    0 => Value::Nil,
                    1 => Value::from(format!("layer {layer}")),
                    _ => value,
                };
                into.insert(key, value);
            }
            _ => {}
        }
    }
}

/// Puts the leaves together again.
fn rebuilt(leaves: &[Leaf]) -> Map {
    let values = Map::default();
    assert!(
        leaves.iter().flat_map(|leaf| &leaf.path).all(|key| matches!(key, Key::Name(_))),
        "these layers set no items of lists"
    );
    for leaf in leaves.iter().filter(|leaf| !leaf.is_removed) {
        let mut table = values.clone();
        let (last, above) = leaf.path.split_last().unwrap();
        for key in above {
            let Key::Name(name) = key else { continue };
            table = match table.get(name) {
                Some(Value::Map(inner)) => inner,
                _ => {
                    let inner = Map::default();
                    table.insert(name.clone(), inner.clone());
                    inner
                }
            };
        }
        if let Key::Name(name) = last {
            table.insert(name.clone(), leaf.value.clone());
        }
    }
    values
}

fn text(values: &Map) -> String {
    format!("{:?}", Value::Map(values.clone()))
}

/// Renders all templates with merged values; `None` if the chart refuses them.
fn rendered(engine: &Engine, given: &Map, merged: &Map) -> Option<Vec<File>> {
    let view = engine.resolve(given, &mut Vec::new()).ok()?;
    let release = ReleaseOptions { name: "rel".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
    // Templates change values.
    engine.execute(&view, &merged.deep_copy(), &release, &Capabilities::default(), None).ok()
}

fn check(folder: &Path, given: &Map, seen: &mut Seen) {
    // Helm rejects some charts as well.
    let Ok(chart) = Chart::load_with_lines(folder) else { return };
    seen.charts += 1;
    let engine = Engine::new(Arc::clone(&chart));
    for seed in 0..2 {
        let mut random = fastrand::Rng::with_seed(seed);
        let layers = match seed {
            0 => merged(&[given.deep_copy()]),
            _ => layers(given, &chart.values, &mut random),
        };
        let values = layers.last().unwrap().merged.clone().unwrap();
        let Ok(traced) = trace(&chart, &layers) else { continue };
        let view = engine.resolve(&values, &mut Vec::new()).unwrap();
        let expected = coalesce(&view, &values, Nulls::Remove, &mut Vec::new()).unwrap();
        let again = rebuilt(&traced.leaves);
        for values in [&traced.values, &again] {
            assert!(text(values) == text(&expected), "{}: other values than a render's", folder.display());
        }
        if seed == 0 {
            let (first, second) = (rendered(&engine, &values, &expected), rendered(&engine, &values, &again));
            assert!(first == second || is_random(&engine, &values), "{}", folder.display());
        }
        each_has_an_origin(folder, &traced, seen);
        given_values_decide(&chart, &layers, &traced, &mut random);
    }
}

/// Returns whether two renders of the same values differ.
fn is_random(engine: &Engine, given: &Map) -> bool {
    let render = || {
        let view = engine.resolve(given, &mut Vec::new()).unwrap();
        let values = coalesce(&view, given, Nulls::Remove, &mut Vec::new()).unwrap();
        rendered(engine, given, &values)
    };
    render() != render()
}

fn each_has_an_origin(folder: &Path, traced: &Traced, seen: &mut Seen) {
    for leaf in &traced.leaves {
        seen.leaves += 1;
        match &leaf.origin {
            Origin::Given(_) => seen.given += 1,
            Origin::Default(default) => {
                seen.defaults += 1;
                let below: PathBuf = default.file.split('/').skip(1).collect();
                let file = fs::read(folder.join(below)).unwrap_or_default();
                let lines: Vec<&[u8]> = file.split(|byte| *byte == b'\n').collect();
                let line = default.line.and_then(|line| lines.get(line - 1));
                let Some(Key::Name(key)) = leaf.path.last() else { continue };
                let is_there = line.is_some_and(|line| String::from_utf8_lossy(line).contains(&*key.to_text()));
                // Files of archives and of aliased subcharts are elsewhere.
                seen.on_their_line += usize::from(is_there || (file.is_empty() && default.line.is_some()));
            }
            Origin::Helm => {
                let is_empty = matches!(&leaf.value, Value::Map(table) if table.is_empty());
                assert!(is_empty, "{}: {} has no origin", folder.display(), dotted(&leaf.path));
            }
        }
    }
}

/// Checks that changing a value in the layer that is its origin changes the merged value.
fn given_values_decide(chart: &Arc<Chart>, layers: &[Layer], traced: &Traced, random: &mut fastrand::Rng) {
    let of_layers: Vec<(&Leaf, usize)> = traced
        .leaves
        .iter()
        .filter_map(|leaf| match leaf.origin {
            Origin::Given(layer) if !leaf.is_removed && leaf.path.iter().all(|key| matches!(key, Key::Name(_))) => {
                Some((leaf, layer))
            }
            _ => None,
        })
        .collect();
    let Some((leaf, layer)) = random.choice(&of_layers) else { return };
    let owns: Vec<Map> = layers.iter().map(|layer| layer.own.clone().unwrap().deep_copy()).collect();
    let marker = "a marker";
    if !set(&owns[*layer], &leaf.path, marker) {
        // A parent's global: it is set at another path.
        return;
    }
    // Another value may enable or disable subcharts.
    let Ok(changed) = trace(chart, &merged(&owns)) else { return };
    let Some(found) = changed.leaves.iter().find(|other| other.path == leaf.path) else { return };
    assert!(matches!(&found.value, Value::String(text) if *text == marker), "{}: {found:?}", dotted(&leaf.path));
}

fn set(values: &Map, path: &[Key], text: &str) -> bool {
    let (last, above) = path.split_last().unwrap();
    let mut table = values.clone();
    for key in above {
        let Key::Name(name) = key else { return false };
        let Some(Value::Map(inner)) = table.get(name) else { return false };
        table = inner;
    }
    let Key::Name(name) = last else { return false };
    table.get(name).is_some() && table.insert(name.clone(), text).is_some()
}

fn given(folder: &Path, case: &Case) -> Map {
    case.values.as_ref().map(|file| values::read(&fs::read(folder.join(file)).unwrap()).unwrap()).unwrap_or_default()
}

fn check_corpus(folder: &Path, seen: &mut Seen) {
    let mut last = PathBuf::new();
    for case in cases::read(folder).unwrap() {
        // One case of each chart, with values if it has any.
        if last == case.dir {
            continue;
        }
        check(&folder.join(&case.dir), &given(folder, &case), seen);
        last = case.dir;
    }
}

fn report(seen: &Seen) {
    println!("{seen:?}");
    assert!(seen.charts > 0 && seen.given > 0 && seen.defaults > 0);
    assert!(seen.on_their_line * 1000 >= seen.defaults * 995, "{seen:?}");
}

#[test]
fn our_charts_render_with_the_traced_values() {
    let mut seen = Seen::default();
    for folder in ["helm-charts", "examples", "crates/parity/own"].map(repository) {
        charts_below(&folder).iter().for_each(|chart| check(chart, &Map::default(), &mut seen));
    }
    check_corpus(&repository("crates/conformance/own"), &mut seen);
    report(&seen);
}

#[test]
fn shared_charts_render_with_the_traced_values() {
    let Some(archive) = shared_cases::path("corpus/corpus.tgz") else { return };
    let unpacked = tempfile::tempdir().unwrap();
    let done = Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(unpacked.path()).status().unwrap();
    assert!(done.success(), "cannot unpack {}", archive.display());
    let mut seen = Seen::default();
    check_corpus(&unpacked.path().join("dev"), &mut seen);
    report(&seen);
}
