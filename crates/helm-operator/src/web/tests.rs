//! Tests of the page as HTML: hostile texts stay texts, and the page is whole without scripts, mouse and colours.

use jiff::Timestamp;
use serde_json::{Value, json};

use helm::origins::Key;

use super::actions::PageAction;
use super::address::{Filter, ValueRows};
use super::detail::{Detail, Drifted};
use super::differences::{Compared, Differences};
use super::model::Caches;
use super::process::{Controller, Process, WatchedKind};
use super::values::Values;
use super::{html, model};
use crate::inspect::build::build;
use crate::inspect::model::{Health, Hook, Name, Node};
use crate::inspect::revisions::Revision;
use crate::inspect::seen::Seen;
use crate::mask::Mask;
use crate::origins::rows::{Cell, From, Row, SetBy};
use crate::plan::account::{Account, AccountEntry};
use crate::plan::{self, compare};
use crate::view::coverage::Watching;
use crate::view::primary::Received;

const HOSTILE: [&str; 5] =
    ["<script>alert(1)</script>", "\"><img src=x onerror=y>", "' onload='z", "</table></main>", "&lt;\u{202e}txt"];

fn hostile(text: &str) -> Received {
    let conditions: Vec<Value> = ["Ready", "Custom"]
        .map(|kind| json!({"type": kind, "status": "False", "reason": text, "message": text, "lastTransitionTime": text}))
        .to_vec();
    let status = json!({
        "observedGeneration": 1, "conditions": conditions, "readyObjects": text,
        "deployedRelease": {"name": text, "revision": 2, "chart": text, "appVersion": text},
        "history": [{"revision": 1, "chart": text, "action": "install", "outcome": text}],
    });
    // The API server bounds names; anyone who may write the status decides about everything else.
    let name = &text[..text.len().min(253)];
    let metadata = json!({"name": name, "namespace": name, "generation": 1, "uid": "u"});
    let object = json!({"apiVersion": format!("{name}/v1"), "kind": name, "metadata": metadata, "status": status});
    serde_json::from_value(object).unwrap()
}

/// Truncates a name as the API server would, and as a filter does with its words.
fn name(text: &str) -> Name {
    let text = &text[..text.len().min(253)];
    Name { group: text.into(), kind: text.into(), namespace: text.into(), name: text.into() }
}

fn overview(text: &str, now: Timestamp) -> String {
    let row = model::row(&hostile(text).primary, now);
    let word = || name(text).name;
    let filter = Filter { kind: word(), namespace: word(), q: word(), state: word(), ..Filter::default() };
    let table = model::table((text, text), vec![row], &Filter::default());
    html::overview::overview(&model::overview(filter, Caches::Filling, vec![table]), 7, now).into_string()
}

fn detail(text: &str, now: Timestamp) -> Detail {
    let word = || text.to_owned();
    let mut release = build(&Seen::resource_alone(hostile(text)), now);
    let node = || Node { name: name(text), health: Health::Failed, why: text.into(), owns: Vec::new() };
    release.objects = vec![Node { owns: vec![node()], ..node() }, node()];
    release.hooks =
        vec![Hook { object: word(), events: vec![word()], phase: word(), started: Some(now), completed: None }];
    let revision = |revision: u32| Revision {
        revision,
        updated: Some(now),
        status: word(),
        chart: word(),
        app_version: word(),
        description: word(),
        did: word(),
        cause: word(),
    };
    release.next_attempt = Some(now);
    let drifted = vec![Drifted { name: name(text), change: word() }];
    let actions = vec![PageAction::Suspend];
    Detail { release, revisions: vec![revision(2), revision(1)], drifted, actions }
}

fn values(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    let from = || From { text: text.to_owned(), set_by: SetBy::Helm };
    let row = Row {
        path: vec![Key::Name(text.into()), Key::Index(1)],
        value: Cell::Known(json.clone()),
        from: from(),
        replaced: vec![(Cell::Known(json), from()), (Cell::Hidden, from())],
        is_removed: false,
        unread: vec![helm::reads::Unread {
            path: vec![text.to_owned()],
            nearest: Some(text.to_owned()),
            is_documented: false,
        }],
    };
    let values = Values {
        resource: name(text),
        which: ValueRows::Changed,
        rows: vec![row],
        omitted: 3,
        notes: vec![text.to_owned()],
    };
    html::values::values(&values).into_string()
}

fn process(text: &str) -> String {
    let word = || text.to_owned();
    let watched = WatchedKind { group: word(), kind: word(), state: Watching::Refused };
    let queue = controller::runtime::queue::Sizes::default();
    let one = Controller { group: word(), kind: word(), chart: word(), resources: 1, queue, watches: vec![watched] };
    let process = Process {
        version: "0",
        replica: Some(word()),
        leader: Some(word()),
        waits_for: vec![word()],
        controllers: vec![one],
    };
    html::process::idle("none", Some(&process), 7).into_string() + &html::process::process(&process).into_string()
}

fn differences(text: &str) -> String {
    let object =
        |value: &str| json!({"apiVersion": "v1", "kind": text, "metadata": {"name": text}, "data": {text: value}});
    let resource = crate::plan::Name { kind: text.into(), name: text.into(), ..Default::default() };
    let plan = compare(resource, &[object(text)], &[object("b")]);
    let entry = AccountEntry {
        fields: vec![text.into()],
        refused: Some(text.into()),
        losers: vec![text.into()],
        phase: text.into(),
        ..AccountEntry::of(
            plan::Name { kind: text.into(), name: text.into(), ..Default::default() },
            plan::ChangeKind::Hook,
        )
    };
    let did = Some(Account { changes: vec![entry], ..Account::default() });
    let found = Ok(Compared { plan, mask: Mask::default(), did });
    let differences = Differences { resource: name(text), from: 1, to: 2, found };
    html::differences::differences(&differences).into_string()
}

fn pages(text: &str, now: Timestamp) -> [String; 4] {
    let release = html::release::release(&detail(text, now), Some(PageAction::Resume), 7, now).into_string();
    [overview(text, now), release, values(text), process(text)]
}

/// Returns the tags of a page, without what their quoted attributes contain.
fn tags(page: &str) -> Vec<String> {
    let (mut tags, mut tag, mut is_quoted) = (Vec::new(), None::<String>, false);
    for c in page.chars() {
        match (&mut tag, c) {
            (None, '<') => tag = Some(String::new()),
            (None, _) => {}
            (Some(_), '"') => is_quoted = !is_quoted,
            (Some(_), '>') if !is_quoted => tags.extend(tag.take()),
            (Some(text), c) if !is_quoted => text.push(c),
            _ => {}
        }
    }
    assert!(tag.is_none() && !is_quoted, "a tag is open at the end");
    tags
}

#[test]
fn hostile_names_and_texts_change_no_tag() {
    let harmless = pages("harmless", Timestamp::UNIX_EPOCH).map(|page| tags(&page));
    let names = |page: &str| -> std::collections::BTreeSet<String> { tags(page).into_iter().collect() };
    let of_diff = names(&differences("harmless"));
    for text in HOSTILE {
        // How many lines differ depends on the text, but not what they may contain.
        let strange: Vec<String> = names(&differences(text)).difference(&of_diff).cloned().collect();
        assert!(strange.iter().all(|tag| tag.trim_start_matches('/') == "mark"), "{text}: {strange:?}");
        let pages = pages(text, Timestamp::UNIX_EPOCH);
        for (page, expected) in pages.iter().zip(&harmless) {
            assert_eq!(&tags(page), expected, "{text}");
            assert!(!page.contains('\u{202e}'), "the direction of text stays");
        }
    }
}

#[test]
fn long_texts_are_cut() {
    let pages = pages(&"x".repeat(1 << 20), Timestamp::UNIX_EPOCH);
    for page in pages {
        assert!(page.len() < 100 << 10, "{}", page.len());
    }
}

#[test]
fn a_page_runs_no_script_and_loads_nothing_from_elsewhere() {
    for page in pages("shop", Timestamp::UNIX_EPOCH) {
        let page = page.replace("<script src=\"/page.js\" defer></script>", "");
        for forbidden in ["<script", " style=", "<style", "http://", "https://", "//", " on", "<img", "<iframe"] {
            let found = tags(&page).iter().any(|tag| format!("<{tag}").contains(forbidden));
            assert!(!found && (forbidden == " on" || !page.contains(forbidden)), "{forbidden}: {page}");
        }
    }
    assert!(!html::STYLE.contains("url(") && !html::STYLE.contains("@import"));
    for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "import"]
    {
        assert!(!html::SCRIPT.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn a_page_can_be_read_by_ear_and_keyboard() {
    for page in pages("shop", Timestamp::UNIX_EPOCH) {
        for part in [
            "<!DOCTYPE html><html lang=\"en\">",
            "<title>",
            "<meta name=\"viewport\"",
            "<main id=\"content\"",
            "<nav aria-label=",
            "<a class=\"skip\" href=\"#content\">",
            "<h1",
            "<th scope=\"col\"",
            "<th scope=\"row\">",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let pages = page.matches("<!DOCTYPE html>").count();
        assert_eq!(page.matches("<h1").count(), pages);
        let labels = page.matches("<label for=").count();
        let fields = page.matches("<input id=").count() + page.matches("<select ").count();
        assert_eq!(labels, fields, "each field has a label");
    }
    for part in [":focus-visible", "prefers-color-scheme: dark", "max-width: 40rem"] {
        assert!(html::STYLE.contains(part), "{part}");
    }
}

#[test]
fn the_contrast_of_each_colour_is_at_least_that_of_wcag_aa() {
    let blocks: Vec<&str> = html::STYLE.split(":root {").skip(1).map(|rest| rest.split('}').next().unwrap()).collect();
    assert_eq!(blocks.len(), 2, "light and dark");
    for block in blocks {
        let colour = |name: &str| {
            let (_, rest) = block.split_once(&format!("--{name}: #")).unwrap();
            let channel = |at: usize| {
                let value = f64::from(u8::from_str_radix(&rest[at..at + 2], 16).unwrap()) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
        };
        for ground in ["ground", "head", "marked"] {
            for text in ["text", "quiet", "link", "failed", "ready", "waiting"] {
                let (a, b) = (colour(text), colour(ground));
                let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
                assert!(contrast >= 4.5, "{text} on {ground}: {contrast}");
            }
        }
    }
}

#[test]
fn an_overview_groups_what_fails_by_reason() {
    let table = model::tests::shown(&Filter::default());
    let overview = model::overview(Filter::default(), Caches::Complete, vec![table]);
    let page = html::overview::overview(&overview, 7, "2026-01-03T00:00:00Z".parse().unwrap()).into_string();
    let places: Vec<usize> = ["InstallError (1)", "Progressing (2)", "Ready</span> (1)"]
        .map(|group| page.find(group).unwrap_or_else(|| panic!("{group}: {page}")))
        .to_vec();
    assert!(places.is_sorted(), "{page}");
    assert!(page.contains("<a href=\"/Shop.g.io/ns/a\">ns/<wbr>a</a>") && page.contains(">2d</time>"), "{page}");
    assert!(page.contains("1 of 4 ready") && page.contains("shop-0.2.0"), "{page}");
}

#[test]
fn an_overview_of_five_thousand_failing_releases_is_less_than_a_mebibyte() {
    let mut row = model::row(&hostile("shop").primary, Timestamp::UNIX_EPOCH);
    row.line.message = "x".repeat(4096);
    let table = model::table(("g.io", "Shop"), vec![row; 5000], &Filter::default());
    let overview = model::overview(Filter::default(), Caches::Complete, vec![table]);
    let page = html::overview::overview(&overview, 7, Timestamp::UNIX_EPOCH).into_string();
    assert!(page.len() < 1 << 20, "{}", page.len());
    assert!(page.contains("4500 more are not shown"));
}

#[test]
fn a_release_says_what_is_next() {
    let now: Timestamp = "2026-01-03T00:00:00Z".parse().unwrap();
    let page = |next: Option<Timestamp>| {
        let mut detail = detail("shop", now);
        detail.release.next_attempt = next;
        html::release::release(&detail, None, 7, now).into_string()
    };
    assert!(!page(None).contains("Next attempt"));
    let soon = now + jiff::SignedDuration::from_secs(60);
    assert!(page(Some(soon)).contains("2026-01-03T00:01:00Z</time></dd>"));
    assert!(page(Some(now)).contains("and then after at most 5 minutes each"));
}
