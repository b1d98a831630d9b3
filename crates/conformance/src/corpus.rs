//! Replays corpora: real charts with the recorded output of `helm template`.
//!
//! Compares bytes first, then parsed documents in order, then the same without random parts.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use conformance::cases::{self, Case};
use go_encoding::yaml;
use go_template::{List, ListType, Value};
use helm::manifest;

use crate::report::{Outcome, Report};

/// Compares the output of every case in the directory's `cases.jsonl` whose name contains `only`.
pub(crate) fn run(folder: &Path, only: &str, report: &mut Report) -> anyhow::Result<()> {
    each(folder, only, |case| {
        report.add(&case.repo, &case.id(), &outcome(folder, case)?);
        Ok(())
    })
}

/// Calls the function with every case whose name contains `only`.
pub(crate) fn each(folder: &Path, only: &str, mut work: impl FnMut(&Case) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let cases = cases::read(folder)?;
    cases.iter().filter(|case| case.id().contains(only) || case.repo.contains(only)).try_for_each(&mut work)
}

fn outcome(folder: &Path, case: &Case) -> anyhow::Result<Outcome> {
    let expected = folder.join(&case.expected);
    let wanted = fs::read(&expected).with_context(|| format!("cannot read {}", expected.display()))?;
    let random = match &case.random {
        Some(file) => random_parts(&folder.join(file))?,
        None => Vec::new(),
    };
    let wanted_text = || String::from_utf8_lossy(&wanted).into_owned();
    Ok(match (case.status.as_str(), render(folder, case)) {
        ("error", Err(got)) if format!("Error: {got}").trim() == wanted_text().trim() => Outcome::Exact,
        ("error", Err(got)) => Outcome::OtherText(wanted_text(), format!("Error: {got}")),
        (_, Ok(got)) if got == wanted => Outcome::Exact,
        ("error", Ok(_)) => Outcome::Wrong(wanted_text(), "output".to_owned()),
        (_, Ok(got)) => compare(&wanted, &got, &random),
        (_, Err(got)) => Outcome::Wrong("output".to_owned(), got),
    })
}

fn render(folder: &Path, case: &Case) -> Result<Vec<u8>, String> {
    let mut args = vec!["template".into(), "rel".into(), folder.join(&case.dir).into_os_string()];
    args.extend(["--namespace".into(), "ns".into()]);
    if let Some(values) = &case.values {
        args.extend(["-f".into(), folder.join(values).into_os_string()]);
    }
    args.extend(case.args.iter().map(Into::into));
    conformance::template(args)
}

/// Returns the random parts of the output: document index and JSON pointer.
fn random_parts(file: &Path) -> anyhow::Result<Vec<(usize, String)>> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(serde_json::from_str(&text)?)
}

fn compare(wanted: &[u8], got: &[u8], random: &[(usize, String)]) -> Outcome {
    let texts = || (String::from_utf8_lossy(wanted).into_owned(), String::from_utf8_lossy(got).into_owned());
    let wrong = || {
        let (wanted, got) = texts();
        Outcome::Wrong(wanted, got)
    };
    let (Ok(mut left), Ok(mut right)) = (documents(wanted), documents(got)) else { return wrong() };
    if left.len() != right.len() {
        return wrong();
    }
    if same(&left, &right) {
        return Outcome::Alike("same documents");
    }
    for (document, pointer) in random {
        let path: Vec<String> =
            pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
        for documents in [&mut left, &mut right] {
            if let Some(value) = documents.get_mut(*document) {
                mask(value, &path);
            }
        }
    }
    if same(&left, &right) { Outcome::Alike("same except for random parts") } else { wrong() }
}

fn documents(text: &[u8]) -> Result<Vec<Value>, yaml::Error> {
    let text = String::from_utf8_lossy(text);
    let documents: Result<Vec<Value>, _> =
        manifest::split(&text).iter().map(|one| yaml::parse(one.as_bytes())).collect();
    Ok(documents?.into_iter().filter(|document| !matches!(document, Value::Nil)).collect())
}

fn same(left: &[Value], right: &[Value]) -> bool {
    left.iter().zip(right).all(|(left, right)| {
        let text = |value| {
            go_encoding::json::encode(value, go_encoding::json::EscapeHtml::No, go_encoding::json::Layout::Compact)
                .unwrap_or_default()
        };
        text(left) == text(right)
    })
}

/// Replaces the value at the path with a placeholder.
fn mask(value: &mut Value, path: &[String]) {
    let Some((step, rest)) = path.split_first() else {
        *value = "*".into();
        return;
    };
    match value {
        Value::Map(map) => {
            if let Some(mut inner) = map.get(step.as_bytes()) {
                mask(&mut inner, rest);
                map.insert(step.as_str(), inner);
            }
        }
        Value::List(list) => {
            let mut items = list.to_vec();
            if let Some(item) = step.parse::<usize>().ok().and_then(|index| items.get_mut(index)) {
                mask(item, rest);
            }
            *value = Value::List(List::new(ListType::Interface, items));
        }
        _ => {}
    }
}
