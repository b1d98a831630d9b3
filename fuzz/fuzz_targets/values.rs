//! Merges the values of a user, a chart and its subchart. Input: three YAML texts and extra `Chart.yaml` text, separated by NUL bytes.
#![no_main]

use helm::chart::Chart;
use helm::values;
use helm::view::{self, Nulls};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut texts = input.splitn(4, |byte| *byte == 0);
    let mut next = || texts.next().unwrap_or_default();
    let (user, defaults, subchart, about) = (next(), next(), next(), next());
    let Ok(user) = values::read(user) else { return };
    let head = |name: &str| format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n").into_bytes();
    let (chart_yaml, subchart_yaml) = ([&head("c"), about].concat(), head("s"));
    let files = [
        ("Chart.yaml", chart_yaml.as_slice()),
        ("values.yaml", defaults),
        ("charts/s/Chart.yaml", &subchart_yaml),
        ("charts/s/values.yaml", subchart),
    ];
    let Ok(chart) = Chart::from_files(files) else { return };
    let mut warnings = Vec::new();
    let Ok(view) = view::resolve(&chart, &user, &mut warnings) else { return };
    for nulls in [Nulls::Keep, Nulls::Remove] {
        let _ = view::coalesce(&view, &user, nulls, &mut warnings);
    }
    values::merge_maps(&user, &chart.values);
});
