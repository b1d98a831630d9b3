use go_encoding::yaml;
use serde_json::json;

use super::*;

fn secret(text: &str) -> Mask {
    let mut mask = Mask::default();
    mask.add_secret(&yaml::parse(text.as_bytes()).unwrap());
    mask
}

fn values(values: serde_json::Value) -> Mask {
    let mut mask = Mask::default();
    mask.add_values(&values);
    mask
}

fn check(mask: &Mask, text: &str, expected: &str) {
    assert_eq!(mask.hide(text.into()), expected, "{text}");
}

#[test]
fn strings_and_numbers_of_secrets_are_hidden_and_short_words_where_they_stand_alone() {
    let text = "a: {password: hunter2, port: 54321, on: true}\nl: [abc, hunter2-long, \"k1k1\\n  k2k2\", 7]";
    let mask = secret(text);
    check(&mask, "hunter2-long xhunter2x 54321 true abc abcd 7 17", "**** x****x **** true **** abcd **** 17");
    check(&mask, "k1k1\n    k2k2 and k2k2", "****\n    **** and ****");
    assert_eq!(format!("{mask:?}"), "****");
}

#[test]
fn values_that_users_configure_are_hidden_but_ordinary_words_inside_others_stay() {
    let mask =
        values(json!({"a": ["hunter2", {"b": "data"}], "size": 4711, "on": true, "c": "abc", "d": "longpassphrase"}));
    check(&mask, "range can't iterate over hunter2", "range can't iterate over ****");
    check(&mask, "userhunter2 xlongpassphrasey", "user**** x****y");
    check(&mask, "metadata.x: data is 4711, abc, true", "metadata.x: **** is 4711, abc, true");
}

#[test]
fn parts_that_parsers_quote_are_hidden() {
    let mask = values(json!({"url": "postgres://admin:hunter2@db/x", "text": "some words here"}));
    check(
        &mask,
        "function \"hunter2\" not defined: some words of postgres",
        "function \"****\" not defined: some words of postgres",
    );
    check(&secret("a: correct horse"), "function \"horse\" of horses", "function \"****\" of horses");
}

#[test]
fn names_of_the_release_stay() {
    let mut mask = values(json!({"fullnameOverride": "shop", "password": "hunter2"}));
    mask.keep(["shop-web", "", "ns"]);
    check(&mask, "Deployment \"shop-web\": hunter2", "Deployment \"shop-web\": ****");
}

#[test]
fn what_a_chart_publishes_and_everyday_words_stay() {
    let chart = helm::chart::Chart::from_files([
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
        ("values.yaml", "operator: {namespace: rhdh-system}\npassword: changeme\n"),
        ("templates/rhdh-operator.yaml", ""),
    ]);
    let published = std::sync::Arc::new(Published::by(&chart.unwrap()));
    let mut mask = values(json!({"a": "rhdh-operator", "b": "rhdh-system", "c": "true", "d": "hunter2-long"}));
    mask.keep_published(&published);
    check(
        &mask,
        "web/templates/rhdh-operator.yaml:1: namespaces: [rhdh-system], \"true\", hunter2-long",
        "web/templates/rhdh-operator.yaml:1: namespaces: [rhdh-system], \"true\", ****",
    );
    let mut mask = secret("a: changeme\nb: \"true\"");
    mask.keep_published(&published);
    check(&mask, "changeme true", "**** true");
}

#[test]
fn encoded_forms_are_hidden() {
    let word = "p\"a<s>s/w&ord?ÿ\u{1}";
    let mut mask = Mask::default();
    mask.add_secret(&word.into());
    let encoded = |text: &str| serde_json::to_value(ByteString(text.into())).unwrap().as_str().unwrap().to_owned();
    let mut forms = vec![
        word.to_owned(),
        json!(word).to_string(),
        quote_go(word),
        "p&#34;a&lt;s&gt;s/w&amp;ord?ÿ\u{1}".to_owned(),
        "p%22a%3Cs%3Es%2Fw%26ord%3F%C3%BF%01".to_owned(),
        word.bytes().map(|b| format!("{b:02x}")).collect(),
        word.bytes().map(|b| format!("{b:02X}")).collect(),
    ];
    for around in ["", "u", "us", "use", "user:"] {
        let code = encoded(&format!("{around}{word}{around}"));
        forms.extend([code.replace('+', "-").replace('/', "_"), code.trim_end_matches('=').to_owned(), code]);
    }
    for form in forms {
        let shown = mask.hide(format!("error: got {form}"));
        let kept = shown.trim_start_matches("error: got ");
        // Base64 characters that also depend on their neighbours may remain.
        assert!(shown.contains(STARS) && kept.len() <= STARS.len() + 18, "{form}: {shown}");
    }
}

fn quote_go(word: &str) -> String {
    golibs::strconv::quote(word.as_bytes())
}

#[test]
fn the_ends_of_a_word_at_a_cut_are_hidden() {
    let mask = secret("a: correct-horse-battery");
    check(&mask, "got correct-hor…battery, sorry", "got ****…****, sorry");
    check(&mask, "got cor…y, sorry", "got cor…y, sorry");
    check(&mask, "got …", "got …");
    let long: String = (0..6000).map(|n| char::from(b'a' + (n * n % 23) as u8)).collect();
    let mask = secret(&format!("a: {long}"));
    for text in [format!("got {long}, sorry"), format!("got {}, sorry", json!(format!("<{long}>")))] {
        let cut = golibs::shorten::shorten(&text, 4096);
        let shown = mask.hide(cut.into_owned());
        assert!(shown.starts_with("got ") && shown.ends_with(", sorry") && shown.len() < 60, "{shown}");
    }
}

#[test]
fn data_of_objects_is_hidden_as_it_is_and_decoded() {
    let mut mask = Mask::default();
    mask.add_data(&json!({"data": {"a": "aHVudGVyMg=="}, "stringData": {"b": "opensesame"}, "spec": {"c": "seen"}}));
    check(&mask, "hunter2 aHVudGVyMg== opensesame seen", "**** **** **** seen");
}

#[test]
fn rendered_secrets_and_those_of_hooks_are_hidden() {
    let text = |kind: &str, data: &str| {
        format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: opensesame-x}}\nstringData: {{a: {data}}}")
    };
    let mut mask = Mask::default();
    mask.add_objects(&objects_of(&text("ConfigMap", "not-secret")).unwrap());
    mask.add_hooks(&[Hook { manifest: text("Secret", "hunter2"), ..Hook::default() }]);
    check(&mask, "Secret \"opensesame-x\": hunter2 not-secret", "Secret \"opensesame-x\": **** not-secret");
}

#[test]
fn everyday_functions_of_a_secret_do_not_disguise_it() {
    for word in ["hUnter2x", "Pass-wOrd_x1", "ab3", "Größe-mit-Ü", "x".repeat(300).as_str()] {
        let mask = secret(&format!("password: {word:?}"));
        let title = |change: fn(char) -> String| -> String {
            let mut chars = word.chars();
            chars.next().map(change).unwrap_or_default() + chars.as_str()
        };
        for form in [
            word.to_uppercase(),
            word.to_lowercase(),
            title(|c| c.to_uppercase().collect()),
            title(|c| c.to_lowercase().collect()),
            format!("\"{word}\""),
            format!("'{word}'"),
            format!("\n    {word}"),
            format!("  {word}\t"),
        ] {
            let shown = mask.hide(format!("fail: {form}."));
            assert!(!shown.contains(form.trim()) && shown.contains("****"), "{form}: {shown}");
        }
    }
    let swapped = secret("p: hUnter2x").hide("HuNTER2X".to_owned());
    assert_eq!(swapped, "****");
    check(&values(json!({"kind": "deployment"})), "Deployment is not deployment", "Deployment is not ****");
}

#[test]
fn what_values_do_not_share_with_shown_ones_counts_as_secret() {
    let mut mask = Mask::default();
    let shown = json!({"a": {"port": 80, "name": "abc"}, "l": [1, "xyz"]});
    let values = json!({"a": {"port": 80.0, "name": "abc", "pin": 907}, "l": [1, "uvw", 5], "b": "abc-d", "on": true});
    mask.add_secrets_beside(&values, &shown);
    check(&mask, "80 abc 907 1 uvw xyz 5 Abc-D true null", "80 abc **** 1 **** xyz **** **** true null");
}

fn of_words(count: usize) -> Mask {
    let mut mask = Mask::default();
    (0..count).for_each(|n| mask.add_secret_text(&format!("s3cret{n:06}")));
    mask
}

#[test]
fn a_search_of_many_words_is_made_in_a_shorter_text() {
    let text = format!("start s3cret000001 {} s3cret000002 end", "x".repeat(100_000));
    let hidden = of_words(1000).hide(text.clone());
    assert!(hidden.starts_with("start **** xx") && hidden.ends_with("xx **** end"), "{}", hidden.len());
    assert!(hidden.len() <= MAX_SEARCH / 1000 && hidden.contains("bytes left out"));
    assert_eq!(of_words(100).hide(text).len(), "start ****  **** end".len() + 100_000, "a few words cost little");
}

#[test]
fn a_mask_of_too_many_words_shows_the_place_only() {
    let mut mask = of_words(MAX_WORDS + 1);
    assert_eq!(mask.words.capacity(), 0, "words that are not searched for cost neither memory nor sorting");
    mask.keep_published(&Arc::new(Published::paths(&["demo/templates/a.yaml"])));
    let shown = mask.hide("template: demo/templates/a.yaml:3:5: executing at <fail>: s3cret000001".into());
    assert_eq!(shown, format!("template: demo/templates/a.yaml:3:5: {TOO_MANY}"));
    let mut repeated = Mask::default();
    (0..3 * MAX_WORDS).for_each(|n| repeated.add_secret_text(&format!("s3cret{:03}", n % 100)));
    assert_eq!(repeated.hide("s3cret042".into()), STARS, "words that repeat count once");
}

#[tokio::test]
async fn many_words_are_searched_on_a_thread_of_their_own() {
    let mask = of_words(10_000);
    let text = format!("s3cret000007 {}", "x".repeat(10_000));
    let (hidden, mut turns) = (mask.hide_apart(text), 0);
    let mut hidden = std::pin::pin!(hidden);
    let hidden = loop {
        tokio::select! {
            biased;
            hidden = &mut hidden => break hidden,
            () = tokio::task::yield_now() => turns += 1,
        }
    };
    assert!(turns > 0 && hidden.starts_with("**** x"), "{turns}");
}
