//! Templates that would execute or print forever.

use super::{Cases, render};

#[test]
fn endless_templates_are_stopped() {
    let mut cases = Cases::of(module_path!(), "endless_templates_are_stopped");
    cases.fails("{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}", "nested reference name: a");
    cases.fails(
        "{{ define \"a\" }}{{ include \"b\" . }}{{ end }}{{ define \"b\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}",
        "nested reference name: a",
    );
    cases.fails(
        "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
        "exceeded maximum template depth",
    );
    cases.fails(
        "{{ $_ := set .Values \"t\" \"{{ tpl .Values.t . }}\" }}{{ tpl .Values.t . }}",
        "limit executions exceeded",
    );
    cases.fails(
        "{{ define \"a\" }}{{ include \"b\" . }}{{ end }}{{ define \"b\" }}{{ tpl \"{{ include `a` . }}\" . }}{{ end }}{{ include \"a\" . }}",
        "nested reference name",
    );
    cases.fails(
        "{{ define \"a\" }}{{ range 2 }}{{ include \"a\" $ }}{{ end }}{{ end }}{{ include \"a\" . }}",
        "nested reference name: a",
    );
    cases.fails("{{ range until 1000000000 }}x{{ end }}", "limit MAX_LIST_ITEMS exceeded");
    cases.fails("{{ range 1000000000 }}{{ end }}", "limit steps exceeded");
    cases.fails("{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}", "limit steps exceeded");
    cases.fails("{{ range untilStep 0 1000000000 1 }}{{ end }}", "limit MAX_LIST_ITEMS exceeded");
    cases.fails("{{ seq 1 1000000000 }}", "limit MAX_LIST_ITEMS exceeded");
    cases.run();
}

#[test]
fn template_depth_is_bounded() {
    let mut cases = Cases::of(module_path!(), "template_depth_is_bounded");
    let nested = |open: &str, close: &str, times: usize| format!("{}{}", open.repeat(times), close.repeat(times));
    cases.fails(&format!("{{{{ {} }}}}", nested("(", ")", 1_000_000)), "max expression depth exceeded");
    cases.fails(&nested("{{ if . }}", "{{ end }}", 100_000), "max block depth exceeded");
    cases.fails(&nested("{{ range . }}{{ else }}", "{{ end }}", 100_000), "max block depth exceeded");
    cases.fails(&format!("{{{{ if . }}}}{}", "{{ else if . }}".repeat(100_000)), "max block depth exceeded");
    cases.run();
}

#[test]
fn string_length_is_bounded() {
    let mut cases = Cases::of(module_path!(), "string_length_is_bounded");
    let string = "limit MAX_STRING_BYTES exceeded";
    cases.fails("{{ repeat 10000000000 \"x\" }}", string);
    cases.fails("{{ repeat 1000000 (repeat 10000 \"x\") }}", string);
    cases.fails("{{ indent 10000000000 \"x\" }}", string);
    cases.fails("{{ $s := repeat 100000 \"\\n\" }}{{ indent 10000 $s }}", string);
    let long = "{{ $s := repeat 100000 \"x\" }}";
    for call in [
        "replace \"x\" $s $s",
        "join $s (until 100000)",
        "regexReplaceAll \"x\" $s $s",
        "regexReplaceAllLiteral \"x\" $s $s",
        "wrapWith 1 $s $s",
    ] {
        cases.fails(&format!("{long}{{{{ {call} }}}}"), string);
    }
    cases.fails("{{ randAlphaNum 10000000000 }}", string);
    cases.fails("{{ range until 100000 }}{{ repeat 100000 \"x\" }}{{ end }}", "limit output exceeded");
    cases.run();
}

#[test]
fn strings_that_grow_in_loops_are_bounded() {
    let mut cases = Cases::of(module_path!(), "strings_that_grow_in_loops_are_bounded");
    for (grow, expected) in [
        ("printf \"%s%s\" $x $x", "limit"),
        ("cat $x $x", "limit"),
        ("print $x $x", "limit"),
        ("list $x $x | join \"\"", "limit"),
        ("quote $x $x", "limit"),
        ("b64enc $x", "limit"),
        ("b32enc $x", "limit"),
        ("toJson $x", "limit"),
        ("toYaml (list $x $x)", "limit"),
    ] {
        cases.fails(
            &format!("{{{{ $x := \"0123456789\" }}}}{{{{ range 200 }}}}{{{{ $x = {grow} }}}}{{{{ end }}}}"),
            expected,
        );
    }
    cases.run();
}

#[test]
fn an_endless_render_does_not_block_others() {
    let mut cases = Cases::of(module_path!(), "an_endless_render_does_not_block_others");
    cases.add("100 renders beside an endless one", || {
        let wild = std::thread::spawn(|| render("{{ range 1000000000 }}{{ end }}").map(|_| ()));
        for _ in 0..100 {
            assert!(render("a: 1").is_ok());
        }
        assert!(wild.join().unwrap().is_err());
    });
    cases.run();
}
