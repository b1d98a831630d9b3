//! Checks that `ARCHITECTURE.md` is also true inside crates: their rooms are the modules at the root, and each imports
//! only rooms that it names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What is divided into rooms: the name in ARCHITECTURE.md, the folder, and the path of its root in code.
const HOUSES: [(&str, &str, &str); 4] = [
    ("controller", "controller/src", "crate::"),
    ("helm-operator", "helm-operator/src", "crate::"),
    ("helm_operator::reconcile", "helm-operator/src/reconcile", "crate::reconcile::"),
    ("helm_release::kube", "helm-release/src/kube", "crate::kube::"),
];

/// Returns the folder of a house's code.
fn source(folder: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "crates", folder].iter().collect()
}

/// Arrows that the table does not allow. Remove each with the import that it excuses, and add none.
const EXCEPTIONS: [(&str, &str); 0] = [];

/// What rooms import that the root of their house itself defines: the house, the room and the name. A root knows its
/// rooms, so each of these closes a circle.
const CIRCLES: [(&str, &str, &str); 1] = [
    // A rehearsal runs the loop itself: anything else could plan what the loop does not do. A step makes such a plan.
    ("helm_operator::reconcile", "rehearse", "reconcile"),
];

/// Returns the rooms in the table's order, lowest first, and the rooms that each one imports.
fn documented(name: &str) -> Vec<(String, BTreeSet<String>)> {
    let text = include_str!("../ARCHITECTURE.md");
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let heading = format!("\n#### `{name}`\n");
    let section = text.split(&heading).nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    let rows = section.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.strip_suffix(" |")?.split(" | ").collect();
        let [name, _, knows] = cells[..] else { return None };
        Some((name.trim_end_matches('`').to_owned(), quoted(knows).into_iter().collect()))
    });
    rows.collect()
}

/// Collects the crate's source files outside of tests, each with its module's path.
fn modules(source: &Path, folder: &Path, found: &mut Vec<(PathBuf, Vec<String>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "tests" || name.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            modules(source, &path, found);
        } else {
            let inside = path.strip_prefix(source).unwrap().with_extension("");
            let mut module: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
            module.retain(|part| !["mod", "lib", "main"].contains(&part.as_str()));
            found.push((path, module));
        }
    }
}

/// Returns the code without comments and without the tests at its end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let tests = text
        .match_indices("\n#[cfg(test)]\nmod ")
        .find(|(at, _)| !text[at + 1..].lines().nth(1).unwrap().ends_with(';'));
    let text = tests.map_or(&*text, |(at, _)| &text[..at]);
    text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Returns the first segments of paths from the crate's root in the code of a module.
fn roots(code: &str, module: &[String], root: &str) -> BTreeSet<String> {
    let up = "super::".repeat(module.len());
    let mut words = BTreeSet::new();
    for start in [root, &up] {
        for (at, _) in code.match_indices(start) {
            let is_inside = code[..at].ends_with(|before: char| before.is_alphanumeric() || ":_$".contains(before));
            let rest = &code[at + start.len()..];
            let tree = match rest.strip_prefix('{') {
                Some(inside) => top_level(inside),
                None => vec![rest],
            };
            if !is_inside {
                words.extend(tree.into_iter().map(first_word).filter(|word| !word.is_empty() && word != "super"));
            }
        }
    }
    words
}

fn first_word(path: &str) -> String {
    path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Returns the branches of an import tree after its opening brace.
fn top_level(inside: &str) -> Vec<&str> {
    let (mut depth, mut start, mut branches) = (0, 0, Vec::new());
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            ',' if depth == 0 => branches.push((start, at)),
            '}' if depth == 0 => {
                branches.push((start, at));
                break;
            }
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            start = at + 1;
        }
    }
    branches.into_iter().map(|(from, to)| &inside[from..to]).collect()
}

/// Returns the rooms of the names that a root exports: `pub use runtime::key::ResourceKey` makes `crate::ResourceKey` an
/// arrow to `runtime`.
fn exported(root: &str) -> BTreeMap<String, String> {
    let statements = root.split(';').map(str::trim);
    let uses =
        statements.filter_map(|one| one.strip_prefix("pub use ").or_else(|| one.strip_prefix("pub(crate) use ")));
    let names = uses.flat_map(|path| {
        let names = match path.split_once('{') {
            Some((_, names)) => names.trim_end_matches('}'),
            None => path.rsplit("::").next().unwrap(),
        };
        names.split(',').map(|name| (name.trim().to_owned(), first_word(path))).collect::<Vec<_>>()
    });
    names.collect()
}

/// Returns the names that the code of a root itself defines.
fn defined(root: &str) -> BTreeSet<String> {
    const KINDS: [&str; 7] = ["fn ", "const ", "static ", "struct ", "enum ", "trait ", "type "];
    let items = root.lines().filter_map(|line| {
        let line = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
        let line = line.strip_prefix("async ").unwrap_or(line);
        KINDS.iter().find_map(|kind| line.strip_prefix(*kind)).map(first_word)
    });
    items.collect()
}

/// Returns the code of a house's root.
fn root_of(folder: &str) -> String {
    let files = ["lib.rs", "mod.rs"].map(|file| source(folder).join(file));
    code(files.iter().find(|file| file.exists()).unwrap())
}

/// Returns the names that each room imports through the root of its house.
fn imported((_, folder, path): (&str, &str, &str)) -> BTreeMap<String, BTreeSet<String>> {
    let (source, mut found) = (source(folder), Vec::new());
    modules(&source, &source, &mut found);
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, module) in found.iter().filter(|(_, module)| !module.is_empty()) {
        names.entry(module[0].clone()).or_default().extend(roots(&code(file), module, path));
    }
    names
}

/// Returns the rooms that each room imports.
fn real(house: (&str, &str, &str)) -> BTreeMap<String, BTreeSet<String>> {
    let (exported, imported) = (exported(&root_of(house.1)), imported(house));
    let arrows = imported.iter().map(|(room, names)| {
        let known = names.iter().map(|name| exported.get(name).unwrap_or(name));
        let known = known.filter(|name| imported.contains_key(*name) && *name != room);
        (room.clone(), known.cloned().collect())
    });
    arrows.collect()
}

#[test]
fn the_architecture_page_lists_every_room_and_arrow() {
    for house in HOUSES {
        let (name, documented, real) = (house.0, documented(house.0), real(house));
        let listed: BTreeSet<&String> = documented.iter().map(|(room, _)| room).collect();
        assert_eq!(listed, real.keys().collect(), "rooms of {name} in ARCHITECTURE.md and in the code");
        for (room, knows) in &documented {
            let excused = EXCEPTIONS.iter().filter(|(from, _)| from == room).map(|(_, to)| (*to).to_owned());
            let all: BTreeSet<String> = knows.iter().cloned().chain(excused).collect();
            assert_eq!(&all, &real[room], "what {room} knows");
        }
    }
}

#[test]
fn rooms_know_only_what_is_listed_above_them() {
    for (name, ..) in HOUSES {
        let documented = documented(name);
        let floor = |room: &str| documented.iter().position(|(listed, _)| listed == room);
        for (room, knows) in &documented {
            for known in knows {
                assert!(floor(known) < floor(room), "{name}: {room} knows {known}, which is not listed above it");
            }
        }
    }
}

#[test]
fn rooms_import_nothing_that_the_root_of_their_house_defines() {
    for house in HOUSES {
        let (name, defined) = (house.0, defined(&root_of(house.1)));
        let found = imported(house).into_iter().flat_map(|(room, names)| {
            names.intersection(&defined).map(|name| (room.clone(), name.clone())).collect::<Vec<_>>()
        });
        let listed = CIRCLES.iter().filter(|(house, ..)| *house == name);
        let listed: BTreeSet<(String, String)> =
            listed.map(|(_, room, name)| ((*room).to_owned(), (*name).to_owned())).collect();
        assert_eq!(found.collect::<BTreeSet<_>>(), listed, "what rooms of {name} import from its root");
    }
}

/// Checks that deciding code has no client. What it knows is in the table.
#[test]
fn deciding_knows_nothing_of_acting() {
    let (source, mut found) = (source("helm-operator/src"), Vec::new());
    modules(&source, &source.join("reconcile/decide"), &mut found);
    for (path, _) in found {
        let code = code(&path);
        assert!(!code.contains("dyn Api"), "{} uses a client", path.display());
    }
}

/// Checks that files exist which pages name by room: `reconcile/steps/deploy`.
#[test]
fn every_file_of_a_room_that_a_page_names_exists() {
    let rooms: BTreeSet<String> = HOUSES.into_iter().flat_map(|house| real(house).into_keys()).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let decisions = fs::read_dir(root.join("docs/decisions")).unwrap().map(|entry| entry.unwrap().path());
    for page in decisions.chain([root.join("ARCHITECTURE.md")]) {
        let text = fs::read_to_string(&page).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let Some((room, _)) = word.trim_end_matches('/').split_once('/') else { continue };
            let is_file = word.bytes().all(|b| b.is_ascii_lowercase() || b"_/".contains(&b));
            let exists = |path: PathBuf| path.is_dir() || path.with_extension("rs").exists();
            let is_there = HOUSES.iter().any(|(_, folder, _)| exists(source(folder).join(word)));
            if is_file && rooms.contains(room) {
                assert!(is_there, "{}: there is no {word}", page.display());
            }
        }
    }
}
