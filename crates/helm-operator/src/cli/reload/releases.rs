//! Shows what a saved chart changes in the releases in the cluster: each release by name, the differences of the first
//! ones, and a summary.

use helm::chart::Chart;

use super::diff;
use super::preview::objects_in;
use crate::charts::previews::{Previews, ReleasePreview};
use crate::watches::Watch;

/// The maximum number of lines of differences. More would scroll away earlier output.
const MAX_LINES: usize = 200;

/// Describes what the watch's chart changes in the cluster; returns `None` if no release is deployed.
pub(super) fn changes(watch: &Watch, previews: &Previews) -> Option<String> {
    let chart = Chart::load_with(&watch.chart, &watch.schema.copies).ok()?;
    let releases = previews.preview(watch, chart);
    (!releases.is_empty()).then(|| describe(&watch.kind, &releases))
}

/// The effect of a chart on a release.
enum Fate {
    Changes { objects: usize, diff: String },
    Stays,
    Fails(String),
    Unknown,
}

fn fate(release: &ReleasePreview) -> Fate {
    match &release.after {
        None => Fate::Unknown,
        Some(Err(error)) => Fate::Fails(error.clone()),
        Some(Ok(after)) => {
            let (before, after) = (objects_in(release.before.iter()), objects_in(after.iter()));
            match diff::changed(&before, &after) {
                0 => Fate::Stays,
                objects => Fate::Changes { objects, diff: release.mask.hide(diff::of(&before, &after)) },
            }
        }
    }
}

fn describe(kind: &str, releases: &[ReleasePreview]) -> String {
    let (mut text, mut lines, mut counts) = (String::new(), 0, [0; 4]);
    for release in releases {
        let name = format!("{kind} {}", release.name);
        match fate(release) {
            Fate::Changes { objects, diff } => {
                counts[0] += 1;
                lines += diff.lines().count();
                text.push_str(&format!("{name}: {} change\n", counted(objects, "object")));
                if lines <= MAX_LINES {
                    text.push_str(&diff);
                }
            }
            Fate::Fails(error) => {
                counts[1] += 1;
                text.push_str(&format!("{name}: cannot be rendered: {error}\n"));
            }
            Fate::Stays => counts[2] += 1,
            Fate::Unknown => counts[3] += 1,
        }
    }
    if lines > MAX_LINES {
        text.push_str(&format!("(differences beyond {MAX_LINES} lines are left out)\n"));
    }
    text + &summary(counts, releases.len())
}

/// Summarises the counts: `2 of 5 releases in the cluster change, 1 cannot be rendered, 2 stay as they are`.
fn summary([change, fail, stay, unknown]: [usize; 4], all: usize) -> String {
    let parts = [
        (fail, "cannot be rendered"),
        (stay, "stay as they are"),
        (unknown, "were not looked at: rendering took too long"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}"));
    let verb = if change == 1 { "changes" } else { "change" };
    format!("{change} of {} in the cluster {verb}{}\n", counted(all, "release"), parts.collect::<String>())
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::Mask;

    fn map(x: &str) -> String {
        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: {x}\n")
    }

    fn release(name: &str, before: String, after: Option<Result<String, &str>>) -> ReleasePreview {
        let after = after.map(|after| after.map(|text| vec![text]).map_err(str::to_owned));
        ReleasePreview { name: name.into(), before: vec![before], after, mask: Mask::default() }
    }

    #[test]
    fn each_release_is_named_with_its_differences_and_then_counted() {
        let releases = [
            release("default/a", map("one"), Some(Ok(map("two")))),
            release("default/b", map("one"), Some(Ok(map("one")))),
            release("default/c", map("one"), Some(Err("shop/templates/a.yaml:2: no"))),
            release("default/d", map("one"), None),
        ];
        let expected = "\
Shop default/a: 1 object change
--- ConfigMap a
+++ ConfigMap a
@@ -1,6 +1,6 @@
 apiVersion: v1
 data:
-  x: one
+  x: two
 kind: ConfigMap
 metadata:
   name: a
Shop default/c: cannot be rendered: shop/templates/a.yaml:2: no
1 of 4 releases in the cluster changes, 1 cannot be rendered, 1 stay as they are, 1 were not looked at: rendering took too long
";
        assert_eq!(describe("Shop", &releases), expected);
        assert_eq!(describe("Shop", &releases[1..2]), "0 of 1 release in the cluster change, 1 stay as they are\n");
    }

    #[test]
    fn a_thousand_releases_do_not_fill_the_terminal_and_secrets_are_hidden() {
        let one = |n: usize| release(&format!("ns/r{n}"), map("one"), Some(Ok(map("a-password"))));
        let mut releases: Vec<_> = (0..100).map(one).collect();
        for release in &mut releases {
            release.mask.add_secret(&"a-password".into());
        }
        let text = describe("Shop", &releases);
        assert!(text.lines().count() < MAX_LINES + 110, "{}", text.lines().count());
        assert!(text.contains("+  x: ****") && !text.contains("a-password"), "{text}");
        assert!(text.ends_with("are left out)\n100 of 100 releases in the cluster change\n"), "{text}");
    }
}
