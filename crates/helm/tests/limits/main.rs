//! Charts that exceed limits: each fails with an error that names the limit, in bounded memory and time.
//!
//! `cargo test --release -p hybrid-helm --test limits -- --nocapture` prints what each case used.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // A test may panic, and prints its table.

mod advisories;
mod archives;
mod bounded;
mod functions;
mod honest;
mod nesting;
mod numbers;
mod one_call;
mod patterns;
mod schemas;
mod settings;
mod templates;
mod values;
mod yaml;

use std::sync::Arc;

use go_template::{Limits, Map};
use helm::chart::{Chart, File};
use helm::engine::{Capabilities, Engine, ReleaseOptions, Rendered, Request};

use bounded::Cases;

/// Maximum length of an error, in bytes.
const MAX_ERROR_BYTES: usize = 8 << 10;

fn file(name: &str, data: impl AsRef<[u8]>) -> File {
    File { name: name.to_owned(), data: data.as_ref().into() }
}

fn chart(files: Vec<File>) -> Result<Arc<Chart>, String> {
    let mut all = vec![file("Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n")];
    all.extend(files);
    Chart::from_files(all).map_err(|error| error.to_string())
}

fn render_chart(chart: Arc<Chart>, values: &Map) -> Result<Rendered, String> {
    render_within(chart, values, Limits::default())
}

fn render_within(chart: Arc<Chart>, values: &Map, limits: Limits) -> Result<Rendered, String> {
    let release = ReleaseOptions { name: "r".into(), namespace: "n".into(), revision: 1, is_upgrade: false };
    let capabilities = Capabilities::default();
    let request = Request { values, release: &release, capabilities: &capabilities, lookup: None, skip_schema: false };
    Engine::new(chart).with_limits(limits).render(&request).map_err(|error| error.to_string())
}

fn render(template: &str) -> Result<Rendered, String> {
    render_chart(chart(vec![file("templates/t.yaml", template)])?, &Map::default())
}

/// Asserts that the result is an error that contains the text and is not too long.
#[track_caller]
fn is_error<T>(result: Result<T, String>, expected: &str) {
    let Err(error) = result else { panic!("no error, wanted {expected:?}") };
    let shown: String = error.chars().take(2000).collect();
    assert!(error.contains(expected), "wanted {expected:?}, got {shown}");
    assert!(error.len() <= MAX_ERROR_BYTES, "{} bytes: {shown}", error.len());
}

impl Cases {
    /// Adds a template that fails with this error and does not harm the next render.
    fn fails(&mut self, template: &str, expected: &'static str) {
        assert!(!expected.is_empty());
        let owned = template.to_owned();
        self.add(template, move || {
            is_error(render(&owned).map(|_| ()), expected);
            assert_eq!(render("a: 1").unwrap().manifests[0].content, "a: 1");
        });
    }

    /// Adds an expression that yields this value.
    fn gives(&mut self, template: &str, expected: &'static str) {
        let owned = template.to_owned();
        self.add(template, move || {
            let rendered = render(&format!("a: {{{{ {owned} }}}}")).unwrap();
            let shown: String = rendered.manifests[0].content.chars().take(2000).collect();
            assert_eq!(shown, format!("a: {expected}"));
        });
    }
}
