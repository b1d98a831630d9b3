//! Computes the memory of a render's objects in the worker, whose message is more precise. The manager checks again.

use helm_release::kube::Weight;

use super::message::{Failure, Reason};
use super::output::Output;

/// Smaller texts are not parsed twice: their content takes at most a few megabytes.
const LIGHT: usize = 256 << 10;

/// Checks that the objects take at most `most` bytes. The manager reports text that is not a manifest.
pub(super) fn check(output: &Output, most: u64) -> Result<(), Failure> {
    let hooks = output.hooks.iter().map(|hook| &hook.manifest);
    let texts =
        || std::iter::once(&output.manifest).chain(hooks.clone()).chain(output.crds.iter().map(|(_, text)| text));
    let is_light = texts().map(String::len).sum::<usize>() <= LIGHT && !texts().any(|text| has_aliases(text));
    let mut weight = Weight::of(most);
    let mut is_too_heavy = |text: &str| weight.objects_of(text).is_err_and(|error| error.fault.is_weight());
    if is_light || !texts().any(|text| is_too_heavy(text)) {
        return Ok(());
    }
    Err(Failure { reason: Reason::RenderLimit, message: message(most) })
}

/// Returns the message for a resource's condition if its objects take more than this.
pub(crate) fn message(most: u64) -> String {
    format!(
        "the rendered objects take more than {} MiB in memory (limit: a quarter of --render-memory): render fewer or smaller objects, split the release, \
         or raise --render-memory",
        most >> 20
    )
}

/// Returns whether a text may have YAML aliases, which repeat whole values.
fn has_aliases(text: &str) -> bool {
    text.contains('&') && text.contains('*')
}

#[cfg(test)]
mod tests {
    use helm_release::kube::objects_of;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn checked(data: &str, most: u64) -> Result<(), Failure> {
        let manifest = format!("apiVersion: v1\nkind: X\nmetadata: {{name: a}}\ndata: {data}\n");
        check(&Output { manifest, ..Output::default() }, most)
    }

    #[test]
    fn many_small_values_are_too_heavy_and_one_long_text_is_not() {
        let list = format!("[{}1]", "1,".repeat(500_000));
        assert!(checked(&list, 20 * MIB).unwrap_err().message.contains("more than 20 MiB in memory"));
        assert!(checked(&list, 64 * MIB).is_ok());
        assert!(checked(&"x".repeat(1_000_000), 20 * MIB).is_ok());
        assert!(checked("1", 0).is_ok(), "small texts are not weighed");
    }

    #[test]
    fn values_that_aliases_repeat_count_each_time() {
        let lists: String = ('b'..='f')
            .zip('a'..)
            .map(|(to, from)| format!("{to}: &{to} [{}]\n", vec![format!("*{from}"); 10].join(",")))
            .collect();
        let bomb = format!("apiVersion: v1\nkind: X\nmetadata: {{name: a}}\na: &a [1,1,1,1,1,1,1,1,1,1]\n{lists}");
        let output = Output { manifest: bomb, ..Output::default() };
        let refused = objects_of(&output.manifest).is_err() || check(&output, 20 * MIB).is_err();
        assert!(refused);
    }
}
