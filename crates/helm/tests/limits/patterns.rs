//! Regular expressions and globs.

use go_template::Map;

use super::{Cases, chart, file, is_error, render_chart};

#[test]
fn regular_expressions_take_linear_time() {
    let mut cases = Cases::of(module_path!(), "regular_expressions_take_linear_time");
    cases.gives("regexMatch \"(a+)+$\" (printf \"%s!\" (repeat 100000 \"a\"))", "false");
    cases.gives("regexFindAll \"(a|aa)+\" (repeat 100000 \"a\") -1 | len", "1");
    cases.gives("regexReplaceAll \"(.*)*x\" (repeat 10000 \"a\") \"b\" | len", "10000");
    cases.gives("regexFindAll \"a*?$\" (repeat 10000 \"a\") -1 | len", "1");
    cases.gives("regexSplit \"(x+x+)+y\" (repeat 20000 \"x\") -1 | len", "1");
    cases.gives("regexFindAll \".*?,.*?z\" (repeat 10000 \"a,\") -1 | len", "0");
    let slow = "limit MAX_SEARCH_TIME exceeded";
    cases.fails("{{ regexFindAll \".*[^a]|a\" (repeat 1000000 \"a\") -1 }}", slow);
    cases.fails("{{ regexSplit \".*[^a]|a\" (repeat 1000000 \"a\") -1 }}", slow);
    cases.fails("{{ regexReplaceAll \".*[^a]|a\" (repeat 1000000 \"a\") \"$0\" }}", slow);
    cases.fails(
        "{{ $s := repeat 50000 \"a\" }}{{ range until 1000 }}{{ $x := regexFindAll \".*[^a]|a\" $s -1 }}{{ end }}",
        "limit",
    );
    // Unoptimised builds run out of time first.
    let all = if cfg!(debug_assertions) { "limit" } else { "limit MAX_LIST_ITEMS exceeded" };
    cases.fails("{{ regexFindAll \"\" (repeat 3000000 \"a\") -1 }}", all);
    cases.fails("{{ regexSplit \"\" (repeat 3000000 \"a\") -1 }}", all);
    cases.run();
}

#[test]
fn regular_expression_size_is_bounded() {
    let mut cases = Cases::of(module_path!(), "regular_expression_size_is_bounded");
    cases.fails("{{ mustRegexMatch \"((a{1000}){1000}){1000}\" \"a\" }}", "invalid repeat count");
    cases.fails("{{ mustRegexMatch \"a{1001}\" \"a\" }}", "invalid repeat count");
    cases.fails("{{ mustRegexMatch (repeat 100000 \"(\") \"a\" }}", "rror");
    cases.fails(
        "{{ mustRegexMatch (printf \"%s%s\" (repeat 900 \"(\") (repeat 900 \")\")) \"a\" }}",
        "expression nests too deeply",
    );
    cases.fails("{{ mustRegexMatch (repeat 1000000 \"a\") \"a\" }}", "expression too large");
    cases.fails("{{ mustRegexMatch (repeat 60 \"\\\\pL{900}\") \"a\" }}", "expression too large");
    cases.fails(
        "{{ range until 100 }}{{ $x := mustRegexMatch (printf \"(\\\\pL{900}){%d}\" .) \"a\" }}{{ end }}",
        "rror",
    );
    cases.fails(
        "{{ range until 100000 }}{{ $x := mustRegexMatch (printf \"\\\\pL{20}%d\" .) \"a\" }}{{ end }}",
        "limit",
    );
    cases.fails("{{ regexMatch \"(\\\\pL{50}){3}b\" (repeat 1000000 \"a\") }}", "limit MAX_SEARCH_WORK exceeded");
    cases.fails(
        "{{ $s := repeat 250000 \"ab\" }}{{ range until 100000 }}{{ $x := regexMatch \"[ab]*a[ab]{90}c\" $s }}{{ end }}",
        "limit",
    );
    cases.fails(
        "{{ $s := repeat 2000 \"a\" }}{{ range until 100000 }}{{ $x := regexMatch \"(\\\\pL{50}){3}b\" $s }}{{ end }}",
        "limit",
    );
    cases.run();
}

#[test]
fn file_pattern_work_is_bounded() {
    let mut cases = Cases::of(module_path!(), "file_pattern_work_is_bounded");
    for (template, expected) in [
        ("{{ .Files.Glob \"x*a*a*a*a*a*a\" }}", "limit MAX_WORK exceeded: pattern takes too much work"),
        ("{{ range until 100000 }}{{ $x := $.Files.Glob \"x*a*a\" }}{{ end }}", "limit steps exceeded"),
        ("{{ range until 100000 }}{{ $x := $.Files.Glob (repeat 4096 \"?\") }}{{ end }}", "limit"),
        (
            "{{ range until 100000 }}{{ $x := $.Files.Glob (printf \"%s%d\" (repeat 800 \"{a*,b}\") .) }}{{ end }}",
            "limit",
        ),
    ] {
        cases.add(template, move || {
            let files = vec![file(&"a".repeat(200), "x"), file("templates/t.yaml", template)];
            is_error(render_chart(chart(files).unwrap(), &Map::default()).map(|_| ()), expected);
        });
    }
    cases.run();
}
