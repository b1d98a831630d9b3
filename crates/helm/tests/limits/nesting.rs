//! Recursion that would take too much stack, and errors that would be as long as the recursion is deep.

use super::{Cases, is_error, render};

/// Maximum length of an error, including what the command adds to it.
const MAX_ERROR: usize = 5 << 10;

/// Returns a template that calls itself from inside this many blocks or parentheses.
fn inside(open: &str, close: &str, depth: usize, call: &str) -> String {
    let (open, close) = (open.repeat(depth), close.repeat(depth));
    format!("{{{{ define \"a\" }}}}{open}{call}{close}{{{{ end }}}}{{{{ template \"a\" . }}}}")
}

#[test]
fn recursion_through_blocks_has_a_stack_of_bounded_size() {
    let mut cases = Cases::of(module_path!(), "recursion_through_blocks_has_a_stack_of_bounded_size");
    let call = "{{ template \"a\" . }}";
    for depth in [95, 9000] {
        cases.fails(&inside("{{ if true }}", "{{ end }}", depth, call), "limit stack exceeded");
    }
    for open in ["{{ with 1 }}", "{{ range 1 }}", "{{ if false }}{{ else if true }}"] {
        cases.fails(&inside(open, "{{ end }}", 95, call), "limit stack exceeded");
    }
    cases.run();
}

#[test]
fn errors_of_deep_chains_keep_both_ends() {
    let mut cases = Cases::of(module_path!(), "errors_of_deep_chains_keep_both_ends");
    let include = "{{ include \"a\" . }}";
    let chains = [
        inside("{{ if true }}", "{{ end }}", 95, include),
        format!(
            "{{{{ define \"a\" }}}}{{{{ {}(include \"a\" .){} }}}}{{{{ end }}}}{include}",
            "(print ".repeat(20),
            ")".repeat(20)
        ),
        format!(
            "{{{{ define \"a\" }}}}{{{{ {}(tpl `{include}` .){} }}}}{{{{ end }}}}{include}",
            "(print ".repeat(20),
            ")".repeat(20)
        ),
        format!(
            "{{{{ define \"a\" }}}}{{{{ include \"a\" (dict \"x\" \"{}\") }}}}{{{{ end }}}}{include}",
            "A".repeat(200_000)
        ),
    ];
    for chain in chains {
        cases.add(chain.clone(), move || {
            let error = render(&chain).map(|_| ()).unwrap_err();
            assert!(error.len() <= MAX_ERROR, "{} bytes", error.len());
            assert!(error.starts_with("c/templates/t.yaml:1:") || error.starts_with("template: c/"), "{error}");
            is_error(Err::<(), _>(error), "nested reference name: a: unable to execute template");
        });
    }
    cases.add("a message of a megabyte", || {
        let error = render("{{ fail (print \"start\" (repeat 1000000 \"x\") \"end\") }}").map(|_| ()).unwrap_err();
        assert!(error.len() <= MAX_ERROR && error.contains("startxxx") && error.ends_with("xxxend"), "{error}");
    });
    cases.run();
}
