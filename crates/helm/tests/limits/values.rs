//! Values that double, are nested, or contain themselves.

use std::time::Duration;

use go_template::{Limits, Map};

use super::{Cases, chart, file, render, render_within};

#[test]
fn nested_values_are_bounded() {
    let mut cases = Cases::of(module_path!(), "nested_values_are_bounded");
    let doubled = "{{ $x := list 1 }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}";
    for (call, expected) in [
        ("toYaml $x", "limit MAX_OUTPUT exceeded"),
        ("toJson $x", "limit MAX_OUTPUT exceeded"),
        ("toToml (dict \"x\" $x)", "limit MAX_VALUE_NODES exceeded"),
        ("deepCopy $x", "limit MAX_VALUE_NODES exceeded"),
        ("print $x", "limit"),
        ("join \",\" $x", "limit"),
    ] {
        cases.fails(&format!("{doubled}{{{{ $y := {call} }}}}"), expected);
    }
    let maps = "{{ $x := dict }}{{ range 60 }}{{ $x = dict \"a\" $x \"b\" $x }}{{ end }}";
    for call in ["toJson $x", "toToml $x", "deepCopy $x", "merge (deepCopy $x) $x"] {
        cases.fails(&format!("{maps}{{{{ $y := {call} }}}}"), "limit");
    }
    cases.run();
}

#[test]
fn value_depth_is_bounded() {
    let mut cases = Cases::of(module_path!(), "value_depth_is_bounded");
    let deep = "{{ $x := list 1 }}{{ range 100000 }}{{ $x = list $x }}{{ end }}";
    for (call, expected) in [
        ("toYaml $x", "limit MAX_DEPTH exceeded"),
        ("toJson $x", "limit MAX_DEPTH exceeded"),
        ("toYamlPretty $x", "limit MAX_DEPTH exceeded"),
        ("toToml (dict \"x\" $x)", "limit MAX_VALUE_DEPTH exceeded"),
        ("deepCopy $x", "limit MAX_VALUE_DEPTH exceeded"),
    ] {
        cases.fails(&format!("{deep}{{{{ $y := {call} }}}}"), expected);
    }
    cases.add(format!("{deep}{{{{ print $x }}}}"), move || {
        let shown = render(&format!("{deep}a: {{{{ print $x | quote }}}}")).unwrap().manifests.remove(0).content;
        assert_eq!(shown, format!("a: \"{}%!(DEPTH){}\"", "[".repeat(501), "]".repeat(501)));
    });
    cases.run();
}

#[test]
fn cyclic_values_terminate() {
    let mut cases = Cases::of(module_path!(), "cyclic_values_terminate");
    let own = "{{ $x := dict }}{{ $_ := set $x \"a\" $x }}{{ $_ := set $x \"b\" (list $x $x) }}";
    for call in [
        "toToml $x",
        "deepCopy $x",
        "merge (deepCopy $x) $x",
        "print $x",
        "printf \"%v\" $x",
        "printf \"%#v\" $x",
        "quote $x",
    ] {
        cases.fails(&format!("{own}{{{{ $y := {call} }}}}"), "limit");
    }
    cases.fails(&format!("{own}{{{{ $y := merge $x (dict \"a\" $x) }}}}"), "limit MAX_VALUE_DEPTH exceeded");
    cases.fails(&format!("{own}{{{{ $y := mustToJson $x }}}}"), "encountered a cycle");
    cases.fails(&format!("{own}{{{{ $y := eq $x $x }}}}"), "non-comparable type");
    // Helm's encoders return empty text for values that they cannot encode.
    for call in ["toYaml $x", "toJson $x", "toYamlPretty $x", "mergeOverwrite (dict) $x | toJson"] {
        cases.add(format!("{own}{call}"), move || {
            let template = format!("{own}a: {{{{ {call} | quote }}}}");
            assert_eq!(render(&template).unwrap().manifests[0].content, "a: \"\"");
        });
    }
    cases.add(format!("{own}deepEqual"), move || {
        let template = format!("{own}a: {{{{ deepEqual $x (dict \"a\" $x) }}}}");
        assert_eq!(render(&template).unwrap().manifests[0].content, "a: false");
    });
    cases.run();
}

#[test]
fn copies_of_large_values_are_bounded() {
    let mut cases = Cases::of(module_path!(), "copies_of_large_values_are_bounded");
    let mut many = |before: &str, call: &str| {
        cases.fails(
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
    many(text, "printf \"%s\" $s");
    cases.gives("until 100000 | uniq | len", "100000");
    cases.fails(
        "{{ $l := list }}{{ range until 3000 }}{{ $l = append $l (list .) }}{{ end }}{{ $x := uniq $l }}",
        "limit MAX_VALUE_NODES exceeded",
    );
    cases.run();
}

#[test]
fn a_chart_that_exhausts_memory_does_not_harm_other_renders() {
    let mut cases = Cases::of(module_path!(), "a_chart_that_exhausts_memory_does_not_harm_other_renders");
    cases.add("lists that are kept", || {
        let all = "{{ $all := list }}{{ range 1000000 }}{{ $all = append $all (until 1000) }}{{ end }}";
        super::is_error(render(all).map(|_| ()), "limit");
        assert!(render("a: 1").is_ok());
    });
    cases.add("strings that are kept", || {
        let all = "{{ $all := dict }}{{ range $i, $_ := until 1000000 }}{{ $_ := set $all (print $i) (repeat 10000000 \"x\") }}{{ end }}";
        super::is_error(render(all).map(|_| ()), "limit");
        assert!(render("a: 1").is_ok());
    });
    cases.run();
}

#[test]
fn list_length_is_bounded() {
    let mut cases = Cases::of(module_path!(), "list_length_is_bounded");
    let list = "limit MAX_LIST_ITEMS exceeded";
    for call in ["splitList \"\" $s", "split \"\" $s", "splitn \"\" 9000000 $s", "splitList \"a\" $s"] {
        cases.fails(&format!("{{{{ $s := repeat 10000000 \"a\" }}}}{{{{ $x := {call} }}}}"), list);
    }
    let half = "{{ $h := print (repeat 5000000 \"a\") \"b\" }}{{ $s := repeat 10000000 \"a\" }}";
    for call in ["contains $h $s", "replace $h \"\" $s | len", "splitList $h $s | len", "trimAll $h $s | len"] {
        cases.add(format!("{half}{{{{ {call} }}}}"), move || {
            assert!(render(&format!("{half}a: {{{{ {call} }}}}")).is_ok());
        });
    }
    for grow in ["concat $l $l", "list $l $l | toJson | fromJsonArray", "list $l $l | deepCopy"] {
        cases.fails(
            &format!("{{{{ $l := until 1000 }}}}{{{{ range 200 }}}}{{{{ $l = {grow} }}}}{{{{ end }}}}"),
            "limit",
        );
    }
    for grow in ["append $l .", "prepend $l .", "concat $l (list .)"] {
        cases.fails(
            &format!("{{{{ $l := list }}}}{{{{ range until 1000000 }}}}{{{{ $l = {grow} }}}}{{{{ end }}}}"),
            "limit",
        );
    }
    cases.run();
}

#[test]
fn time_in_slow_functions_is_bounded() {
    let mut cases = Cases::of(module_path!(), "time_in_slow_functions_is_bounded");
    for (function, arguments) in [
        ("bcrypt", "\"a\""),
        ("htpasswd", "\"u\" \"a\""),
        // A different master password each time, because the key of the last one is cached.
        ("derivePassword", "1 \"long\" (toString $i) \"b\" \"c\""),
        ("genPrivateKey", "\"rsa\""),
        ("genPrivateKey", "\"dsa\""),
        ("genPrivateKey", "\"ecdsa\""),
        ("genCA", "\"a\" 1"),
        ("genSelfSignedCertWithKey", "\"a\" nil nil 1 $k"),
    ] {
        cases.add_slow(format!("{function} {arguments}, for ever"), move || {
            let key = "{{ $k := genPrivateKey \"ecdsa\" }}";
            let template = format!(
                "{key}{{{{ range $i, $_ := until 1000000 }}}}{{{{ $x := {function} {arguments} }}}}{{{{ end }}}}"
            );
            let limits = Limits { function_time: Duration::from_millis(300), ..Limits::default() };
            let chart = chart(vec![file("templates/t.yaml", template)]).unwrap();
            let expected = format!(
                "limit function time exceeded: 300ms of processor time in slow functions, most of it in {function};"
            );
            super::is_error(render_within(chart, &Map::default(), limits).map(|_| ()), &expected);
        });
    }
    cases.run();
}
