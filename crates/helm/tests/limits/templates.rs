//! Templates that run for ever, or print for ever.

use super::{Cases, render};

#[test]
fn templates_that_never_end_are_stopped() {
    let mut cases = Cases::of(module_path!(), "templates_that_never_end_are_stopped");
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
fn templates_nest_only_so_deep() {
    let mut cases = Cases::of(module_path!(), "templates_nest_only_so_deep");
    let nested = |open: &str, close: &str, times: usize| format!("{}{}", open.repeat(times), close.repeat(times));
    cases.fails(&format!("{{{{ {} }}}}", nested("(", ")", 1_000_000)), "max expression depth exceeded");
    cases.fails(&nested("{{ if . }}", "{{ end }}", 100_000), "max block depth exceeded");
    cases.fails(&nested("{{ range . }}{{ else }}", "{{ end }}", 100_000), "max block depth exceeded");
    cases.fails(&format!("{{{{ if . }}}}{}", "{{ else if . }}".repeat(100_000)), "max block depth exceeded");
    cases.run();
}

#[test]
fn texts_do_not_grow_without_end() {
    let mut cases = Cases::of(module_path!(), "texts_do_not_grow_without_end");
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
fn texts_that_grow_step_by_step_are_stopped() {
    let mut cases = Cases::of(module_path!(), "texts_that_grow_step_by_step_are_stopped");
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
fn other_renders_go_on_while_one_is_stopped() {
    let mut cases = Cases::of(module_path!(), "other_renders_go_on_while_one_is_stopped");
    cases.add("100 renders beside an endless one", || {
        let wild = std::thread::spawn(|| render("{{ range 1000000000 }}{{ end }}").map(|_| ()));
        for _ in 0..100 {
            assert!(render("a: 1").is_ok());
        }
        assert!(wild.join().unwrap().is_err());
    });
    cases.run();
}
