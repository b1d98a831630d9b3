//! Single calls of functions that would take too much time or memory: they are stopped, or rejected before they start.

use super::{Cases, chart, file, is_error, render_chart};

/// Returns `x x x …`.
fn times(text: &str, count: usize) -> String {
    format!("{text} ").repeat(count)
}

#[test]
fn functions_do_not_print_one_text_many_times() {
    let mut cases = Cases::of(module_path!(), "functions_do_not_print_one_text_many_times");
    for function in ["print", "println", "html", "js", "urlquery"] {
        let args = times("$b", 100);
        cases.fails(&format!("{{{{ $b := repeat 16777216 \"x\" }}}}{{{{ $x := {function} {args}}}}}"), "limit");
    }
    for function in ["cat", "quote", "squote", "print"] {
        let (items, args) = (times("$b", 16), times("$l", 500));
        cases.fails(
            &format!("{{{{ $b := repeat 1000000 \"x\" }}}}{{{{ $l := list {items}}}}}{{{{ $x := {function} {args}}}}}"),
            "limit",
        );
    }
    let lists = format!(
        "{{{{ $b := repeat 1000000 \"x\" }}}}{{{{ $m := list (list {}) }}}}{{{{ range 12 }}}}{{{{ $m = concat $m $m }}}}{{{{ end }}}}",
        times("$b", 8)
    );
    for call in ["toStrings $m", "join \"\" $m", "sortAlpha $m"] {
        cases.fails(&format!("{lists}{{{{ $x := {call} }}}}"), "limit MAX_TEXTS exceeded");
    }
    for (function, text) in [("html", "\\\"&'"), ("js", "<"), ("urlquery", "ä")] {
        cases.fails(
            &format!("{{{{ $b := repeat 4000000 \"{text}\" }}}}{{{{ $x := {function} $b }}}}"),
            "limit text exceeded",
        );
    }
    cases.run();
}

#[test]
fn comparisons_of_large_texts_cost_steps() {
    let mut cases = Cases::of(module_path!(), "comparisons_of_large_texts_cost_steps");
    let lists = "{{ $l := list (repeat 16777216 \"a\") }}{{ $n := print (repeat 16777215 \"a\") \"b\" }}\
                 {{ range 14 }}{{ $l = concat $l $l }}{{ end }}";
    for call in ["uniq $l", "has $n $l", "without $l $n", "sortAlpha $l"] {
        cases.fails(&format!("{lists}{{{{ $x := {call} }}}}"), "limit steps exceeded");
    }
    let texts = "{{ $a := repeat 16777216 \"a\" }}{{ $b := print (repeat 16777215 \"a\") \"b\" }}";
    for call in ["eq $a $b", "ne $a $b", "lt $a $b", "deepEqual $a $b"] {
        cases.fails(&format!("{texts}{{{{ range 1000 }}}}{{{{ $x := {call} }}}}{{{{ end }}}}"), "limit steps exceeded");
    }
    cases.fails(
        "{{ $a := repeat 1000000 \"a\" }}{{ range 100 }}{{ $x := shuffle $a }}{{ end }}",
        "limit steps exceeded",
    );
    cases.run();
}

#[test]
fn large_arguments_take_linear_time() {
    let mut cases = Cases::of(module_path!(), "large_arguments_take_linear_time");
    cases.gives("trimAll (print (repeat 500000 \"b\") \"ca\") (repeat 5000000 \"a\") | len", "0");
    let keys = "{{ $m := dict }}{{ range until 30000 }}{{ $_ := set $m (printf \"%06d\" .) 1 }}{{ end }}{{ $k := \"abcdef\" }}";
    let all = times("$k", 30_000);
    for function in ["omit", "pick"] {
        let template = format!("{keys}a: {{{{ {function} $m {all} | len }}}}");
        let expected = if function == "omit" { "a: 30000" } else { "a: 0" };
        cases.add(format!("{function} with 30,000 keys"), move || {
            assert_eq!(super::render(&template).unwrap().manifests[0].content, expected);
        });
    }
    cases.gives(
        "tpl (printf \"{{define %q}}{{end}}\" (join \"\\\"}}{{end}}{{define \\\"\" (until 100000) | replace \"\\\\\" \"\")) . | len",
        "0",
    );
    cases.run();
}

#[test]
fn decimals_have_a_bounded_number_of_digits() {
    let mut cases = Cases::of(module_path!(), "decimals_have_a_bounded_number_of_digits");
    for (function, args) in [("divf 1", "1e-300"), ("mulf 1", "1.2345678901234567e300"), ("subf 1", "1.5e300 1.5e-300")]
    {
        let template = format!("{{{{ $x := {function} {} }}}}a: 1", times(args, 20_000));
        let expected = "limit MAX_BITS exceeded: an intermediate result has more than 65536 bits";
        let bounded = !function.starts_with("subf");
        cases.add(format!("20,000 times {function} {args}"), move || match bounded {
            true => is_error(super::render(&template).map(|_| ()), expected),
            false => assert!(super::render(&template).is_ok()),
        });
    }
    cases.gives("mulf 1e300 1e-300 1.5", "1.5");
    cases.run();
}

#[test]
fn values_made_by_the_million_are_counted_before_they_are_made() {
    let mut cases = Cases::of(module_path!(), "values_made_by_the_million_are_counted_before_they_are_made");
    let keep = |before: &str, call: &str| {
        format!(
            "{{{{ $d := dict }}}}{before}{{{{ range $i, $_ := until 300 }}}}{{{{ $_ := set $d (print $i) ({call}) }}}}{{{{ end }}}}"
        )
    };
    let memory = "limit memory exceeded";
    cases.fails(&keep("{{ $u := until 1000000 }}", "chunk 1 $u"), memory);
    cases.fails(&keep("{{ $s := repeat 999999 \",\" }}", "split \",\" $s"), memory);
    cases.fails(&keep("{{ $s := repeat 999999 \",\" }}", "splitList \",\" $s"), memory);
    cases.fails(&keep("", &format!("list {}", times("(dict \"a\" 1)", 20_000))), memory);
    cases.run();
}

#[test]
fn splitting_at_every_character_takes_little_memory() {
    let mut cases = Cases::of(module_path!(), "splitting_at_every_character_takes_little_memory");
    for function in ["snakecase", "kebabcase"] {
        cases.fails(&format!("{{{{ $x := {function} (repeat 8388608 \"a1\") }}}}"), "limit MAX_LIST_ITEMS exceeded");
    }
    cases.gives("camelcase (repeat 4000000 \"a_\") | len", "4000001");
    cases.gives("replace \"\" \"\" (repeat 16777216 \"a\") | len", "16777216");
    cases.gives("replace \"a\" \"\" (repeat 16777216 \"a\") | len", "0");
    for old in ["", "a"] {
        cases.fails(
            &format!("{{{{ $x := replace \"{old}\" \"aaaaaaaa\" (repeat 16777216 \"a\") }}}}"),
            "limit MAX_STRING_BYTES exceeded",
        );
    }
    cases.run();
}

#[test]
fn source_text_is_bounded_by_the_memory_of_its_trees() {
    let mut cases = Cases::of(module_path!(), "source_text_is_bounded_by_the_memory_of_its_trees");
    cases.fails("{{ $_ := tpl (repeat 3000000 \"{{.}}\") \"\" }}", "limit MAX_TREE_BYTES exceeded");
    cases.fails("{{ $_ := tpl (print \"{{\" (repeat 3000000 \"1 \") \"}}\") \"\" }}", "limit MAX_TREE_BYTES exceeded");
    cases.add("a chart with three files of 150,000 actions", || {
        let files = (0..3).map(|i| file(&format!("templates/{i}.yaml"), "{{.}}".repeat(150_000))).collect();
        is_error(render_chart(chart(files).unwrap(), &go_template::Map::default()), "limit MAX_PROGRAM_BYTES exceeded");
    });
    cases.run();
}

#[test]
fn decoders_take_linear_time_or_cost_steps() {
    let mut cases = Cases::of(module_path!(), "decoders_take_linear_time_or_cost_steps");
    cases.gives("(fromYaml (printf \"%%TAG !a%s! x\\n---\\na: 1\" (join \"! x\\n%TAG !a\" (until 100000)))).a", "1");
    cases.gives(
        "(fromYaml (printf \"a: &s %s\\n%s\" (repeat 1000000 \"x\") (repeat 100000 \"~: *s\\n\"))).Error | quote",
        "\"error converting YAML to JSON: yaml: exceeded limit MAX_REPEATED of 67108864 bytes of aliased text\"",
    );
    for text in [
        "[%s]\\nk%s=1\\n\" (repeat 500000 \"a\") (join \"=1\\nk\"",
        "[%s]\\nk%s.x=1\\n\" (repeat 100000 \"a\") (join \".x=1\\nk\"",
    ] {
        cases.fails(&format!("{{{{ $_ := fromToml (printf \"{text} (until 100000))) }}}}"), "limit steps exceeded");
    }
    for (open, close) in [("{a: ", "}"), ("[", "]")] {
        cases.fails(
            &format!(
                "{{{{ $x := print (repeat 490 \"{open}\") \"1\" (repeat 490 \"{close}\") }}}}{{{{ range 10000 }}}}{{{{ $_ := fromYaml $x }}}}{{{{ end }}}}"
            ),
            "limit steps exceeded",
        );
    }
    cases.run();
}
