//! Renders a chart with one template under the limits that hold in production, for several targets.

use std::sync::LazyLock;

use helm::chart::Chart;
use helm::engine::{Capabilities, Engine, ReleaseOptions, Request};

static RELEASE: LazyLock<ReleaseOptions> =
    LazyLock::new(|| ReleaseOptions { name: "r".into(), namespace: "n".into(), revision: 1, is_upgrade: false });
static CAPABILITIES: LazyLock<Capabilities> = LazyLock::new(Capabilities::default);

/// Slow functions that find nothing: they generate keys and hash passwords.
const SLOW: [&[u8]; 7] =
    [b"genPrivateKey", b"genCA", b"genSelf", b"genSigned", b"bcrypt", b"htpasswd", b"derivePassword"];

/// Renders `input` (a template, a NUL byte, values as YAML) as the template `name`; checks that errors have text.
pub fn render(name: &str, input: &[u8]) {
    if SLOW.iter().any(|slow| input.windows(slow.len()).any(|part| part == *slow)) {
        return;
    }
    let (template, values) = match input.iter().position(|byte| *byte == 0) {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &b""[..]),
    };
    let Ok(values) = helm::values::read(values) else { return };
    let files: [(&str, &[u8]); 5] = [
        ("Chart.yaml", b"apiVersion: v2\nname: c\nversion: 0.1.0\n"),
        ("values.yaml", b"own: {a: [1, b, 1.5, null, {c: true}], s: text}\n"),
        ("notes.txt", b"first\nsecond\n"),
        ("templates/_h.tpl", b"{{ define \"h\" }}{{ . | toYaml | nindent 2 }}{{ end }}"),
        (name, template),
    ];
    let Ok(chart) = Chart::from_files(files) else { return };
    let request =
        Request { values: &values, release: &RELEASE, capabilities: &CAPABILITIES, lookup: None, skip_schema: false };
    if let Err(error) = Engine::new(chart).render(&request) {
        assert!(!error.to_string().is_empty());
    }
}
