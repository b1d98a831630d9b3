//! Checks that `ARCHITECTURE.md` is true: its tables list every crate, its dependencies in this workspace, and the
//! packages that it never pulls in.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::publishable::name_of;

/// One row of the tables.
#[derive(Debug, PartialEq)]
struct Row {
    depends_on: BTreeSet<String>,
    never_pulls_in: BTreeSet<String>,
}

/// Returns the words in backquotes.
fn quoted(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the rows of four cells whose first cell names a crate.
fn documented(text: &str) -> BTreeMap<String, Row> {
    let rows = text.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.strip_suffix(" |")?.split(" | ").collect();
        let [name, _, depends_on, never] = cells[..] else { return None };
        let row = Row { depends_on: quoted(depends_on), never_pulls_in: quoted(never) };
        Some((name.trim_end_matches('`').to_owned(), row))
    });
    rows.collect()
}

/// The crates and packages that a program of this workspace may be built from, with their dependencies outside of tests.
struct Graph {
    names: BTreeMap<String, String>,
    members: BTreeSet<String>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn of(metadata: &Value) -> Graph {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let list = |value: &Value| value.as_array().unwrap().clone();
        let names = list(&metadata["packages"]).iter().map(|p| (text(&p["id"]), name_of(p).to_owned())).collect();
        let members = list(&metadata["workspace_members"]).iter().map(text).collect();
        let is_normal = |dependency: &Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let edges = list(&metadata["resolve"]["nodes"]).into_iter().map(|node| {
            let normal = list(&node["deps"]).into_iter().filter(is_normal).map(|dependency| text(&dependency["pkg"]));
            (text(&node["id"]), normal.collect())
        });
        Graph { names, members, edges: edges.collect() }
    }

    /// Returns the crate's direct dependencies in this workspace.
    fn direct(&self, id: &String) -> BTreeSet<String> {
        self.edges[id].intersection(&self.members).map(|id| self.names[id].clone()).collect()
    }

    /// Returns everything that the crate pulls in.
    fn all(&self, id: &str) -> BTreeSet<String> {
        let (mut seen, mut pending) = (BTreeSet::new(), vec![id.to_owned()]);
        while let Some(id) = pending.pop() {
            pending.extend(self.edges[&id].iter().filter(|id| seen.insert((*id).clone())).cloned());
        }
        seen.iter().map(|id| self.names[id].clone()).collect()
    }
}

fn workspace() -> Graph {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--locked"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = cargo.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Graph::of(&serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn the_architecture_page_lists_every_crate_and_arrow() {
    let graph = workspace();
    let documented = documented(include_str!("../ARCHITECTURE.md"));
    let listed: BTreeSet<&String> = documented.keys().collect();
    assert_eq!(
        listed,
        graph.members.iter().map(|id| &graph.names[id]).collect(),
        "crates in ARCHITECTURE.md and in the workspace"
    );
    for id in &graph.members {
        let (name, pulled_in) = (&graph.names[id], graph.all(id));
        let row = &documented[name];
        assert_eq!(row.depends_on, graph.direct(id), "what {name} depends on");
        let forbidden: Vec<&String> = row.never_pulls_in.intersection(&pulled_in).collect();
        assert!(forbidden.is_empty(), "{name} pulls in {forbidden:?}");
    }
}

#[test]
fn what_a_crate_never_pulls_in_exists_somewhere() {
    let graph = workspace();
    let known: BTreeSet<&String> = graph.names.values().collect();
    for (name, row) in documented(include_str!("../ARCHITECTURE.md")) {
        for never in &row.never_pulls_in {
            assert!(known.contains(never), "{name}: no package is called {never}");
        }
    }
}

/// Checks that a build folder elsewhere (`CARGO_TARGET_DIR`) does not hide what a script has just built. The control
/// plane stays in `target`.
#[test]
fn scripts_find_programs_where_cargo_builds_them() {
    let hack = concat!(env!("CARGO_MANIFEST_DIR"), "/hack");
    let files = std::fs::read_dir(hack).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let is_fixed = |line: &&str| {
            let code = line.split_once('#').map_or(*line, |(code, _)| code);
            [
                "\"target/debug",
                "\"target/release",
                " target/debug/",
                " target/release/",
                "=target/debug",
                "=target/release",
            ]
            .iter()
            .any(|fixed| code.contains(fixed))
        };
        // A script's own usage text names the default.
        let said = |line: &&str| line.contains("default") || line.contains("OPERATOR is the program");
        let fixed: Vec<&str> = text.lines().filter(|line| is_fixed(line) && !said(line)).collect();
        assert_eq!(fixed, [""; 0], "{}", path.display());
    }
}
