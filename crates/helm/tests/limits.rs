//! Charts that ask for more than there is: each ends with an error that names the limit, in bounded memory and time.
//!
//! Every test runs in a process of its own under limits of the system, so that nothing can pass by being merely slow or large.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // A test may panic, and says what it skipped.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use flate2::{Compression, write::GzEncoder};
use go_template::Map;
use helm::chart::{Chart, File};
use helm::engine::{Capabilities, Engine, ReleaseOptions, Rendered, Request};
use helm::{strvals, values};

/// What each test may use: address space in KiB and seconds of processor time, generous since this build is not optimised.
const MEMORY_KIB: u64 = 3 << 20;
const CPU_SECONDS: u64 = 90;

const CHILD: &str = "HELM_LIMITS_CHILD";

/// Runs the test again as a process under the limits; what it does there is the closure.
fn bounded(test: &str, run: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return run();
    }
    let limits = format!("ulimit -v {MEMORY_KIB} && ulimit -t {CPU_SECONDS} && exec \"$0\" \"$@\"");
    let this = std::env::current_exe().unwrap();
    let output =
        Command::new("sh").arg("-c").arg(limits).arg(this).args(["--exact", test]).env(CHILD, "1").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{test}: {}\n{}", output.status, String::from_utf8_lossy(&text));
}

fn file(name: &str, data: impl AsRef<[u8]>) -> File {
    File { name: name.to_owned(), data: data.as_ref().into() }
}

fn chart(files: Vec<File>) -> Result<Arc<Chart>, String> {
    let mut all = vec![file("Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n")];
    all.extend(files);
    Chart::load_files(all).map_err(|error| error.to_string())
}

fn render_chart(chart: Arc<Chart>, values: &Map) -> Result<Rendered, String> {
    let release = ReleaseOptions { name: "r".into(), namespace: "n".into(), revision: 1, is_upgrade: false };
    let capabilities = Capabilities::default();
    let request = Request { values, release: &release, capabilities: &capabilities, lookup: None, skip_schema: false };
    Engine::new(chart).render(&request).map_err(|error| error.to_string())
}

fn render(template: &str) -> Result<Rendered, String> {
    render_chart(chart(vec![file("templates/t.yaml", template)])?, &Map::default())
}

/// The template fails, its error has the text, and the next render is none the worse.
#[track_caller]
fn check(template: &str, expected: &str) {
    let start = &template[..template.len().min(80)];
    let clock = std::time::Instant::now();
    match render(template) {
        Ok(_) => assert_eq!(expected, "", "{start} renders"),
        Err(error) => {
            let shown: String = error.chars().take(2000).collect();
            assert!(!expected.is_empty() && error.contains(expected), "{start}: {shown}");
        }
    }
    eprintln!("{:?} {start}", clock.elapsed());
    assert_eq!(render("a: 1").unwrap().manifests[0].content, "a: 1");
}

#[test]
fn templates_that_never_end_are_stopped() {
    bounded("templates_that_never_end_are_stopped", || {
        check("{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}", "nested reference name: a");
        check(
            "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
            "exceeded maximum template depth",
        );
        check(
            "{{ $_ := set .Values \"t\" \"{{ tpl .Values.t . }}\" }}{{ tpl .Values.t . }}",
            "limit executions exceeded",
        );
        check(
            "{{ define \"a\" }}{{ include \"b\" . }}{{ end }}{{ define \"b\" }}{{ tpl \"{{ include `a` . }}\" . }}{{ end }}{{ include \"a\" . }}",
            "nested reference name",
        );
        check("{{ range until 1000000000 }}x{{ end }}", "MAX_LIST_ITEMS");
        check("{{ range 1000000000 }}{{ end }}", "limit steps exceeded");
        check("{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}", "exceeded");
        check("{{ range untilStep 0 1000000000 1 }}{{ end }}", "MAX_LIST_ITEMS");
        check("{{ seq 1 1000000000 }}", "MAX_LIST_ITEMS");
    });
}

#[test]
fn texts_do_not_grow_without_end() {
    bounded("texts_do_not_grow_without_end", || {
        check("{{ repeat 10000000000 \"x\" }}", "MAX_STRING_BYTES");
        check("{{ repeat 1000000 (repeat 10000 \"x\") }}", "MAX_STRING_BYTES");
        check("{{ indent 10000000000 \"x\" }}", "MAX_STRING_BYTES");
        check("{{ $s := repeat 100000 \"\\n\" }}{{ indent 10000 $s }}", "MAX_STRING_BYTES");
        check("{{ $s := repeat 100000 \"x\" }}{{ replace \"x\" $s $s }}", "MAX_STRING_BYTES");
        check("{{ $s := repeat 100000 \"x\" }}{{ join $s (until 100000) }}", "MAX_STRING_BYTES");
        check("{{ $s := repeat 100000 \"x\" }}{{ regexReplaceAll \"x\" $s $s }}", "MAX_STRING_BYTES");
        check("{{ $s := repeat 100000 \"x\" }}{{ regexReplaceAllLiteral \"x\" $s $s }}", "MAX_STRING_BYTES");
        check("{{ $s := repeat 100000 \"x\" }}{{ wrapWith 1 $s $s }}", "MAX_STRING_BYTES");
        check("{{ randAlphaNum 10000000000 }}", "MAX_STRING_BYTES");
        for grow in [
            "printf \"%s%s\" $x $x",
            "cat $x $x",
            "print $x $x",
            "list $x $x | join \"\"",
            "quote $x $x",
            "b64enc $x",
            "b32enc $x",
            "toJson $x",
            "toYaml (list $x $x)",
        ] {
            check(
                &format!("{{{{ $x := \"0123456789\" }}}}{{{{ range 200 }}}}{{{{ $x = {grow} }}}}{{{{ end }}}}"),
                "limit",
            );
        }
        check("{{ range until 100000 }}{{ repeat 100000 \"x\" }}{{ end }}", "limit output exceeded");
    });
}

#[test]
fn widths_of_printf_are_those_of_go() {
    bounded("widths_of_printf_are_those_of_go", || {
        check("a: {{ printf \"%9999999999d\" 1 | quote }}", "");
        check("a: {{ printf \"%1000000d\" 1 | len }}", "");
        check("a: {{ printf \"%.1000000f\" 1.5 | len }}", "");
        check("a: {{ printf \"%*d\" 1000000000 1 | quote }}", "");
        check(
            "{{ $x := list 1 }}{{ range 10 }}{{ $x = list $x $x $x $x $x $x $x $x }}{{ end }}{{ printf \"%v\" $x }}",
            "limit",
        );
    });
}

#[test]
fn nested_values_do_not_grow_without_end() {
    bounded("nested_values_do_not_grow_without_end", || {
        let doubled = "{{ $x := list 1 }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}";
        for (call, expected) in [
            ("toYaml $x", "limit"),
            ("toJson $x", "limit"),
            ("toToml (dict \"x\" $x)", "limit"),
            ("deepCopy $x", "MAX_VALUE_NODES"),
            ("print $x", "limit"),
            ("join \",\" $x", "limit"),
        ] {
            check(&format!("{doubled}{{{{ $y := {call} }}}}"), expected);
        }
        let maps = "{{ $x := dict }}{{ range 60 }}{{ $x = dict \"a\" $x \"b\" $x }}{{ end }}";
        for call in ["toJson $x", "toToml $x", "deepCopy $x"] {
            check(&format!("{maps}{{{{ $y := {call} }}}}"), "limit");
        }
        check(&format!("{maps}{{{{ $y := merge (deepCopy $x) $x }}}}"), "limit");
        let deep = "{{ $x := list 1 }}{{ range 100000 }}{{ $x = list $x }}{{ end }}";
        for call in ["toYaml $x", "toJson $x", "toYamlPretty $x", "toToml (dict \"x\" $x)", "deepCopy $x"] {
            check(&format!("{deep}{{{{ $y := {call} }}}}"), "limit MAX_");
        }
    });
}

#[test]
fn many_copies_of_a_large_value_are_stopped() {
    bounded("many_copies_of_a_large_value_are_stopped", || {
        let many = |before: &str, call: &str| {
            check(
                &format!(
                    "{before}{{{{ $all := dict }}}}{{{{ range $i := until 100000 }}}}{{{{ $_ := set $all (print $i) ({call}) }}}}{{{{ end }}}}"
                ),
                "limit",
            );
        };
        let list = "{{ $l := until 100000 }}";
        let text = "{{ $s := repeat 1000000 \"ab\" }}";
        many(list, "deepCopy $l");
        many(list, "first $l");
        many("{{ $m := dict \"l\" (until 10000) }}{{ $m = deepCopy $m }}", "deepCopy $m");
        many("{{ $j := until 100000 | toJson }}", "fromJsonArray $j");
        many("{{ $j := dict \"a\" (until 100000) | toJson }}", "fromYaml $j");
        many(text, "contains \"abb\" $s");
        check("a: {{ until 100000 | uniq | len }}", "");
        check(
            "{{ $l := list }}{{ range until 3000 }}{{ $l = append $l (list .) }}{{ end }}{{ $x := uniq $l }}",
            "MAX_VALUE_NODES",
        );
    });
}

#[test]
fn values_that_hold_themselves_end() {
    bounded("values_that_hold_themselves_end", || {
        let own = "{{ $x := dict }}{{ $_ := set $x \"a\" $x }}{{ $_ := set $x \"b\" (list $x $x) }}";
        for call in ["toYaml $x", "toJson $x", "toToml $x", "deepCopy $x", "merge (deepCopy $x) $x", "toYamlPretty $x"]
        {
            let error = render(&format!("{own}{{{{ $y := {call} }}}}")).map(|_| ());
            eprintln!("{call}: {error:?}");
        }
        check(&format!("{own}{{{{ $y := deepCopy $x }}}}"), "limit MAX_VALUE");
        check(&format!("{own}{{{{ $y := print $x }}}}"), "limit");
    });
}

#[test]
fn deep_and_aliased_yaml_is_refused() {
    bounded("deep_and_aliased_yaml_is_refused", || {
        let bomb = bomb();
        for text in [
            "[".repeat(100_000),
            "- ".repeat(100_000),
            "{a: ".repeat(100_000),
            (0..2_000).fold(String::new(), |text, depth| text + &" ".repeat(depth) + "a:\n"),
            bomb.clone(),
        ] {
            let start: String = text.chars().take(40).collect();
            let read = values::read(text.as_bytes()).map(|_| ());
            eprintln!("{start}: {read:?}");
            assert!(read.is_err(), "{start}");
            let loaded = chart(vec![file("values.yaml", &text)]).map(|_| ());
            assert!(loaded.is_err_and(|error| error.starts_with("cannot load values.yaml")), "{start}");
            let shown = render_chart(
                chart(vec![
                    file("templates/t.yaml", "a: {{ .Files.Get \"x\" | fromYaml | toJson | quote }}"),
                    file("x", &text),
                ])
                .unwrap(),
                &Map::default(),
            );
            eprintln!("{:?}", shown.map(|shown| shown.manifests[0].content.clone()));
        }
        check("a: {{ repeat 100000 \"[\" | fromJsonArray | toJson }}", "");
        check("a: {{ repeat 100000 \"{\\\"a\\\":\" | fromJson | toJson }}", "");
        check("a: {{ repeat 100000 \"a.\" | printf \"%sa = 1\" | fromToml | toJson | quote }}", "");
        check("a: {{ repeat 100000 \"[\" | printf \"a = %s\" | fromToml | toJson | quote }}", "");
    });
}

/// Each line has the one before it nine times.
fn bomb() -> String {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let items = vec![format!("*a{}", i - 1); 9].join(", ");
        writeln!(text, "a{i}: &a{i} [{items}]").unwrap();
    }
    text
}

#[test]
fn a_manifest_that_is_a_bomb_is_refused() {
    bounded("a_manifest_that_is_a_bomb_is_refused", || {
        let shown = render_chart(
            chart(vec![file("templates/t.yaml", "{{ .Files.Get \"x\" }}"), file("x", bomb())]).unwrap(),
            &Map::default(),
        );
        eprintln!("{:?}", shown.map(|_| ()));
        let shown = render("{{ repeat 100000 \"[\" }}");
        eprintln!("{:?}", shown.map(|_| ()));
    });
}

#[test]
fn regular_expressions_take_linear_time_and_bounded_size() {
    bounded("regular_expressions_take_linear_time_and_bounded_size", || {
        check("a: {{ regexMatch \"(a+)+$\" (printf \"%s!\" (repeat 100000 \"a\")) }}", "");
        check("a: {{ regexFindAll \"(a|aa)+\" (repeat 100000 \"a\") -1 | len }}", "");
        check("a: {{ regexReplaceAll \"(.*)*x\" (repeat 10000 \"a\") \"b\" | len }}", "");
        check("{{ mustRegexMatch \"((a{1000}){1000}){1000}\" \"a\" }}", "rror");
        check("{{ mustRegexMatch \"a{1001}\" \"a\" }}", "invalid repeat count");
        check("{{ mustRegexMatch (repeat 100000 \"(\") \"a\" }}", "rror");
        check("{{ mustRegexMatch (printf \"%s%s\" (repeat 900 \"(\") (repeat 900 \")\")) \"a\" }}", "rror");
        check("{{ mustRegexMatch (repeat 1000000 \"a\") \"a\" }}", "rror");
        check(
            "{{ range until 100 }}{{ $x := mustRegexMatch (printf \"(\\\\pL{900}){%d}\" .) \"a\" }}{{ end }}",
            "rror",
        );
    });
}

#[test]
fn sizes_that_functions_take_are_bounded() {
    bounded("sizes_that_functions_take_are_bounded", || {
        check("{{ genPrivateKey \"rsa\" | len | print \"a: \" }}", "");
        check("{{ derivePassword 1 \"long\" (repeat 100000 \"x\") \"u\" \"s\" | len | print \"a: \" }}", "");
        check("{{ bcrypt (repeat 100000 \"x\") | len | print \"a: \" }}", "");
        check("a: {{ semverCompare (repeat 100000 \">1 \") \"1.2.3\" }}", "rror");
        check("a: {{ semver (repeat 100000 \"1\") }}", "rror");
        check("a: {{ .Files.Glob (repeat 100000 \"*\") | len }}", "");
        check("a: {{ .Files.Glob (repeat 1000 \"{a,\") | len }}", "");
        check("a: {{ date (repeat 1000000 \"2006\") 0 | len }}", "");
        check("a: {{ add (list) (repeat 1000000 \"9\") }}", "");
        check("a: {{ round 1.5 1000000000 }}", "");
        check("a: {{ shuffle (repeat 1000000 \"9\") | len }}", "");
        check("a: {{ untitle (title (swapcase (snakecase (repeat 1000000 \"aB\")))) | len }}", "");
    });
}

#[test]
fn settings_have_limits() {
    bounded("settings_have_limits", || {
        for text in [
            "a[1000000000]=1".to_owned(),
            format!("{}=1", vec!["a"; 100].join(".")),
            format!("a{}=1", "[0]".repeat(10_000)),
            "a={".repeat(10_000),
        ] {
            let result = strvals::parse_into(&text, &Map::default());
            eprintln!("{result:?}");
            assert!(result.is_err(), "{text:.40}");
        }
        let long = Map::default();
        strvals::parse_into(&format!("{}=1", "a".repeat(1_000_000)), &long).unwrap();
        let nested: String = format!("a{}=1", "[65000]".repeat(29));
        let result = strvals::parse_into(&nested, &Map::default());
        eprintln!("{result:?}");
    });
}

fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    for (name, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        archive.append(&header, *data).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

const HEAD: (&str, &[u8]) = ("c/Chart.yaml", b"apiVersion: v2\nname: c\nversion: 0.1.0\n");

#[track_caller]
fn check_archive(bytes: &[u8], expected: &str) {
    let error = Chart::load_archive(bytes).map(|_| ()).map_err(|error| error.to_string());
    eprintln!("{error:?}");
    assert!(error.as_ref().is_err_and(|error| error.contains(expected)), "{expected}: {error:?}");
}

#[test]
fn archives_that_unpack_to_too_much_are_refused() {
    bounded("archives_that_unpack_to_too_much_are_refused", || {
        let mut zeros = GzEncoder::new(Vec::new(), Compression::best());
        let block = vec![0; 1 << 20];
        (0..1024).for_each(|_| zeros.write_all(&block).unwrap());
        check_archive(&zeros.finish().unwrap(), "");
        let large = vec![b'a'; 60 << 20];
        check_archive(&packed(&[HEAD, ("c/a", &large), ("c/b", &large)]), "larger than the maximum size");
        let inner = packed(&[HEAD, ("c/a", &large)]);
        check_archive(
            &packed(&[HEAD, ("c/charts/a.tgz", &inner), ("c/charts/b.tgz", &inner), ("c/charts/d.tgz", &inner)]),
            "larger than the maximum size",
        );
        let many: Vec<String> = (0..30_000).map(|i| format!("c/f{i}")).collect();
        let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b""[..])).collect();
        check_archive(&packed(&many), "larger than the maximum size");
        let nested = (0..70).fold(packed(&[HEAD]), |inner, _| packed(&[HEAD, ("c/charts/c.tgz", &inner)]));
        check_archive(&nested, "limit MAX_DEPTH");
    });
}

#[test]
fn archives_stay_inside_their_folder() {
    bounded("archives_stay_inside_their_folder", || {
        check_archive(&packed(&[HEAD, ("c/../../etc/passwd", b"")]), "references parent directory");
        check_archive(&packed(&[HEAD, ("c//etc/passwd", b"")]), "absolute paths");
        check_archive(&packed(&[HEAD, ("c\\..\\..\\x", b"")]), "references parent directory");
        check_archive(&packed(&[HEAD, ("c/c:/x", b"")]), "illegally named files");
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
        let mut header = tar::Header::new_gnu();
        for (kind, name) in [(tar::EntryType::Symlink, "c/link"), (tar::EntryType::Link, "c/hard")] {
            header.set_entry_type(kind);
            header.set_size(0);
            archive.append_link(&mut header, name, "/etc/passwd").unwrap();
        }
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(HEAD.1.len() as u64);
        archive.append_data(&mut header, HEAD.0, HEAD.1).unwrap();
        let loaded = Chart::load_archive(&archive.into_inner().unwrap().finish().unwrap()).unwrap();
        assert!(loaded.files.is_empty());
    });
}

#[test]
#[cfg(unix)]
fn folders_with_links_in_circles_end() {
    use std::os::unix::fs::symlink;
    let load = |prepare: &dyn Fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Chart.yaml"), HEAD.1).unwrap();
        prepare(folder.path());
        Chart::load(folder.path()).map(|_| ()).map_err(|error| error.to_string())
    };
    bounded("folders_with_links_in_circles_end", || {
        let own = load(&|folder| symlink(".", folder.join("own")).unwrap());
        assert!(own.is_err(), "{own:?}");
        let circle = load(&|folder| {
            symlink("b", folder.join("a")).unwrap();
            symlink("a", folder.join("b")).unwrap();
        });
        assert!(circle.is_err(), "{circle:?}");
        let doubling = load(&|folder| {
            for level in 0..30 {
                let inner = folder.join(format!("charts/_{level}"));
                std::fs::create_dir_all(&inner).unwrap();
                for name in ["a", "b"] {
                    symlink(format!("../_{}", level + 1), inner.join(name)).unwrap();
                }
            }
            std::fs::create_dir_all(folder.join("charts/_30")).unwrap();
        });
        assert!(doubling.as_ref().is_err_and(|error| error.contains("MAX_CHART_FILES")), "{doubling:?}");
    });
}

#[test]
fn schemas_that_refer_to_themselves_end() {
    bounded("schemas_that_refer_to_themselves_end", || {
        let mut doubling = String::from("{\"$defs\":{");
        for i in 0..60 {
            write!(
                doubling,
                "\"d{i}\":{{\"allOf\":[{{\"$ref\":\"#/$defs/d{0}\"}},{{\"$ref\":\"#/$defs/d{0}\"}}]}},",
                i + 1
            )
            .unwrap();
        }
        doubling.push_str("\"d60\":{}},\"$ref\":\"#/$defs/d0\"}");
        let deep = format!("{}{}", "{\"properties\":{\"a\":".repeat(10_000), "}}".repeat(10_000));
        for (schema, fails) in [
            ("{\"$ref\":\"#\"}", true),
            ("{\"allOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#\"}]}", true),
            ("{\"properties\":{\"a\":{\"$ref\":\"#\"}}}", false),
            ("{\"$ref\":\"file:///etc/passwd\"}", true),
            ("{\"patternProperties\":{\"((a{1000}){1000}){1000}\":{}}}", true),
            ("{\"properties\":{\"a\":{\"pattern\":\"(a+)+$\"}}}", false),
            (doubling.as_str(), true),
            (deep.as_str(), true),
        ] {
            let files =
                vec![file("values.schema.json", schema), file("values.yaml", format!("a: {}", "a".repeat(10_000)))];
            let rendered = render_chart(chart(files).unwrap(), &Map::default()).map(|_| ());
            eprintln!("{:?}", rendered.as_ref().map_err(|error| &error[..error.len().min(300)]));
            assert_eq!(rendered.is_err(), fails, "{schema:.60}");
        }
    });
}

#[test]
fn other_renders_go_on_while_one_is_stopped() {
    bounded("other_renders_go_on_while_one_is_stopped", || {
        let wild = std::thread::spawn(|| render("{{ range 1000000000 }}{{ end }}").map(|_| ()));
        for _ in 0..100 {
            assert!(render("a: 1").is_ok());
        }
        assert!(wild.join().unwrap().is_err());
    });
}
