//! Charts that do a lot but nothing wrong: just below a limit, and the error just above it.

use std::time::Duration;

use go_template::{Limits, Map};

use super::{Cases, chart, file, is_error, render_within};

/// Renders this many documents, each with a checksum of the included template `what`; returns how many rendered.
fn checksums(what: &str, data: &str, documents: usize, limits: Limits) -> Result<usize, String> {
    let mut files =
        vec![file("templates/_h.tpl", format!("{{{{ define \"what\" }}}}{what}{{{{ end }}}}")), file("x.conf", data)];
    files.extend((0..documents).map(|i| {
        let text = format!(
            "kind: ConfigMap\nmetadata: {{name: a{i}, annotations: {{c: {{{{ include \"what\" . | sha256sum }}}}}}}}\n"
        );
        file(&format!("templates/d{i}.yaml"), text)
    }));
    render_within(chart(files)?, &Map::default(), limits).map(|rendered| rendered.manifests.len())
}

const CONFIG: &str = "data:\n  x: |\n{{ .Files.Get \"x.conf\" | indent 4 }}";

/// A CA and seven certificates, as in a chart with internal TLS.
const CERTIFICATES: &str = "{{ $ca := genCA \"ca\" 365 }}{{ range until 7 }}{{ $c := genSignedCert \"x\" nil (list \"a.svc\") 365 $ca }}\
                            k{{ . }}: {{ $c.Key | b64enc }}\n{{ end }}";

#[test]
fn discarded_text_does_not_count_as_output() {
    let mut cases = Cases::of(module_path!(), "discarded_text_does_not_count_as_output");
    cases.add("checksums of 11 KB, 120 times, with an output of 26 KB and 200 KB of memory", || {
        let limits = || Limits { output: 26_000, memory: 200_000, ..Limits::default() };
        let data = "a line of a file\n".repeat(540);
        assert_eq!(checksums(CONFIG, &data, 120, limits()), Ok(120));
        let shorter = Limits { output: 20_000, ..limits() };
        is_error(
            checksums(CONFIG, &data, 120, shorter),
            "limit output exceeded: 20000 bytes in the files rendered so far; ",
        );
        let kept = format!("{CONFIG}{{{{ $_ := set .Values (uuidv4) (.Files.Get \"x.conf\" | indent 4) }}}}");
        let expected = "limit memory exceeded: 200000 bytes at once: ";
        is_error(checksums(&kept, &data, 120, limits()), expected);
    });
    cases.run();
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes in an unoptimised build")]
fn many_templates_may_include_a_large_file() {
    let mut cases = Cases::of(module_path!(), "many_templates_may_include_a_large_file");
    let data = || "a line of a configuration file that is fairly long = 12345\n".repeat(15_500);
    cases.add_slow("checksums of 900 KB, 240 times", move || {
        assert_eq!(checksums(CONFIG, &data(), 240, Limits::default()), Ok(240));
    });
    cases.add_slow("checksums of 900 KB, 2000 times", move || {
        let expected = "limit steps exceeded: 10000000 template steps, most of them for large strings and lists";
        is_error(checksums(CONFIG, &data(), 2000, Limits::default()), expected);
    });
    cases.run();
}

#[test]
#[cfg_attr(debug_assertions, ignore = "takes minutes in an unoptimised build")]
fn each_include_may_generate_keys() {
    let mut cases = Cases::of(module_path!(), "each_include_may_generate_keys");
    cases.add_slow("eight keys, six times", || {
        assert_eq!(checksums(CERTIFICATES, "", 6, Limits::default()), Ok(6));
    });
    cases.run();
}

#[test]
fn keys_cost_function_time_but_no_steps() {
    let mut cases = Cases::of(module_path!(), "keys_cost_function_time_but_no_steps");
    let limits = |time| Limits { steps: 1000, function_time: Duration::from_millis(time), ..Limits::default() };
    cases.add_slow("eight keys in a minute", move || {
        assert_eq!(checksums(CERTIFICATES, "", 1, limits(60_000)), Ok(1));
    });
    cases.add_slow("eight keys in a millisecond", move || {
        let expected = "limit function time exceeded: 1ms of processor time in slow functions, most of it in genCA; \
                        call it less often: every include of a template that calls it calls it again";
        is_error(checksums(CERTIFICATES, "", 1, limits(1)), expected);
    });
    cases.run();
}
