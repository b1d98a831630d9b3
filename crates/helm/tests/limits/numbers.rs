//! Widths, sizes and other numeric arguments of functions.

use super::Cases;

#[test]
fn printf_widths_match_go() {
    let mut cases = Cases::of(module_path!(), "printf_widths_match_go");
    cases.gives("printf \"%9999999999d\" 1 | quote", "\"%!(NOVERB)%!(EXTRA int=1)\"");
    cases.gives("printf \"%1000000d\" 1 | len", "1000000");
    cases.gives("printf \"%.1000000f\" 1.5 | len", "1000002");
    cases.gives("printf \"%*d\" 1000000000 1 | quote", "\"%!(BADWIDTH)1\"");
    cases.fails(
        "{{ $x := list 1 }}{{ range 10 }}{{ $x = list $x $x $x $x $x $x $x $x }}{{ end }}{{ printf \"%v\" $x }}",
        "limit",
    );
    let many = "%1000000d".repeat(1000);
    let ones = " 1".repeat(1000);
    cases.fails(&format!("{{{{ printf \"{many}\"{ones} }}}}"), "limit");
    cases.run();
}

#[test]
fn size_arguments_are_bounded() {
    let mut cases = Cases::of(module_path!(), "size_arguments_are_bounded");
    for call in ["genPrivateKey \"rsa\"", "genPrivateKey \"dsa\"", "(genCA \"ca\" 1).Cert"] {
        cases.gives(&format!("{call} | empty"), "false");
    }
    cases.gives("derivePassword 1 \"long\" (repeat 100000 \"x\") \"u\" \"s\" | len", "14");
    cases.gives(
        "bcrypt (repeat 100000 \"x\") | quote",
        "\"failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes\"",
    );
    cases.fails("{{ semverCompare (repeat 100000 \">1 \") \"1.2.3\" }}", "error calling semverCompare");
    cases.fails("{{ semver (repeat 100000 \"1\") }}", "error calling semver");
    cases.fails("{{ .Files.Glob (repeat 100000 \"*\") | len }}", "limit MAX_PATTERN_LENGTH exceeded");
    cases.fails("{{ .Files.Glob (repeat 1000 \"{a,\") | len }}", "limit MAX_DEPTH exceeded");
    cases.gives("date (repeat 1000000 \"2006\") 0 | len", "4000000");
    cases.gives("add (list) (repeat 1000000 \"9\")", "0");
    cases.gives("round 1.5 1000000000", "NaN");
    cases.gives("shuffle (repeat 1000000 \"9\") | len", "1000000");
    cases.gives("untitle (title (swapcase (snakecase (repeat 400000 \"aB\")))) | len", "1200000");
    cases.run();
}
