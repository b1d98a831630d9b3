//! Determines why a revision is created: which inputs differ from those of the deployed one, for its event.
//!
//! Records contain a digest per input after the digest of all of them ([`super::compare`]), so that no cause is lost in
//! a restart.

use helm_release::action::Candidate;
use helm_release::kube::digest_json;
use serde_json::{Value, json};
use strum::IntoEnumIterator as _;

use crate::reconcile::decide::inputs::{self, NamedInput};
use crate::reconcile::step_context::StepContext;
use crate::view::primary::Primary;
use crate::view::release::{ReleaseRecords, Revision};

/// How many causes an event names.
const MAX_NAMED: usize = 5;

/// The charts of the deployed and the next revision, such as `shop-0.1.0`; empty if unknown.
#[derive(Clone, Copy)]
struct Charts<'a> {
    from: &'a str,
    to: &'a str,
}

impl StepContext<'_> {
    /// Returns the digest of all inputs in the form that records contain: with a short digest per input.
    pub(crate) fn recorded_inputs(&self, primary: &Primary) -> String {
        let mut parts = self.named_parts(NamedInput::iter());
        parts.extend(self.source_parts(primary));
        let parts: Vec<String> = parts.iter().map(short).collect();
        inputs::with_parts(&self.inputs_digest(primary), &parts.join(","))
    }

    /// Returns the inputs that all resources of the kind share, by name.
    pub(crate) fn shared_parts(&self) -> Vec<(String, Value)> {
        self.named_parts(NamedInput::shared())
    }

    fn named_parts(&self, inputs: impl Iterator<Item = NamedInput>) -> Vec<(String, Value)> {
        inputs.filter_map(|input| Some((input.name().to_owned(), self.input(input)?))).collect()
    }

    /// Returns what a digest contains of an input; `None` if the release has no such input.
    pub(crate) fn input(&self, input: NamedInput) -> Option<Value> {
        let renderer = &self.shared.renderer;
        match input {
            NamedInput::Chart => Some(json!(renderer.digest())),
            NamedInput::Overrides => renderer.overrides().map(|o| json!([o.texts(), format!("{:?}", o.kind())])),
            NamedInput::Code => self.post_renderers(),
            NamedInput::Labels => self.common_labels(),
            NamedInput::Annotations => self.common_annotations(),
            NamedInput::Patches => self.patches(),
            NamedInput::Capabilities => self.capabilities(),
            // It is digested with the sources.
            NamedInput::Mapped => None,
        }
    }

    /// Returns why the candidate becomes a revision: `spec changed (generation 4), chart shop-0.1.0 → shop-0.2.0`.
    /// Empty if that is unknown.
    pub(crate) fn why(&self, primary: &Primary, candidate: &Candidate) -> String {
        let release = self.release();
        let Some((version, deployed)) = release.as_deref().and_then(ReleaseRecords::deployed) else {
            return String::new();
        };
        let from = match release.as_deref().and_then(|release| release.record(version)) {
            Some(packed) => format!("{}-{}", packed.facts().chart().name, packed.facts().chart().version),
            None => known_chart(primary, version),
        };
        let to = format!("{}-{}", candidate.chart.name, candidate.chart.version);
        let recorded = deployed.marks.as_ref().map(|marks| marks.inputs.as_str()).unwrap_or_default();
        let charts = Charts { from: &from, to: &to };
        let mut causes = causes(recorded, &candidate.inputs, Some(primary.generation), charts);
        if causes.is_empty() && self.full_reconcile(primary).is_some() {
            causes.push("the annotation reconcile-now asks for it".to_owned());
        }
        if let more @ 1.. = causes.len().saturating_sub(MAX_NAMED) {
            causes.truncate(MAX_NAMED);
            causes.push(format!("and {more} more"));
        }
        causes.join(", ")
    }
}

impl StepContext<'_> {
    /// Returns the capabilities for the digest of the inputs; `None` if the watch does not render on them.
    pub(crate) fn capabilities(&self) -> Option<Value> {
        if !self.shared.settings.render_on.capabilities {
            return None;
        }
        Some(json!(["capabilities", self.shared.renderer.capabilities()?]))
    }

    /// Returns whether recorded inputs differ from the resource's only in kinds that this process has found by chance
    /// so far: the release that was rendered with the recorded kinds stays until they have settled. A rehearsal shows
    /// what follows then.
    pub(crate) fn differs_by_chance(&self, recorded: &str, primary: &Primary) -> bool {
        let settings = &self.shared.settings;
        settings.render_on.capabilities
            && !settings.rehearses
            && !self.shared.renderer.are_capabilities_settled()
            && inputs::is_by_kinds(recorded, &self.recorded_inputs(primary))
    }

    /// Returns whether a revision has the resource's present inputs, as far as is known.
    pub(crate) fn has_present_inputs(&self, revision: &Revision, primary: &Primary) -> bool {
        revision.marks.as_ref().is_some_and(|marks| {
            inputs::is_equal(&marks.inputs, &self.inputs_digest(primary))
                || self.differs_by_chance(&marks.inputs, primary)
        })
    }
}

/// Returns a short digest of an input, with its name.
pub(crate) fn short((name, value): &(String, Value)) -> String {
    format!("{name}={}", &digest_json(value)[..8])
}

/// Returns the chart that the status shows for a revision.
fn known_chart(primary: &Primary, version: u32) -> String {
    let known = primary.status.deployed_release.as_ref().filter(|known| known.revision == version);
    known.map(|known| known.chart.to_string()).unwrap_or_default()
}

/// Describes why a revision replaced an earlier one, from the digests of their inputs and from their charts.
pub(crate) fn between((recorded, from): (&str, &str), (current, to): (&str, &str)) -> Vec<String> {
    causes(recorded, current, None, Charts { from, to })
}

/// Describes the differences between two recorded digests.
fn causes(recorded: &str, current: &str, generation: Option<i64>, charts: Charts<'_>) -> Vec<String> {
    let changed = inputs::changed_parts(recorded, current);
    let described = |input: NamedInput| input.words().filter(|_| changed.has(input)).map(str::to_owned);
    let mut causes = Vec::new();
    if changed.own {
        let generation = generation.map(|generation| format!(" (generation {generation})")).unwrap_or_default();
        causes.push(format!("spec changed{generation}"));
    }
    match (charts.from, charts.to) {
        (from, to) if !from.is_empty() && from != to => causes.push(format!("chart {from} → {to}")),
        // The chart's digest also covers the override values.
        (_, to) if changed.has(NamedInput::Chart) && !changed.has(NamedInput::Overrides) => {
            causes.push(format!("the files of chart {to} changed"));
        }
        _ => {}
    }
    causes.extend(described(NamedInput::Overrides));
    causes.extend(changed.sources().map(|source| source_words(source)));
    let others = NamedInput::iter().filter(|input| !matches!(input, NamedInput::Overrides | NamedInput::Mapped));
    causes.extend(others.filter_map(described));
    if causes.is_empty() {
        // The values are mapped from all the others.
        causes.extend(described(NamedInput::Mapped));
    }
    causes
}

/// Returns whether two different digests may belong to the same chart and values, as after a restart with one more
/// optional source. They may if none of these changed: the resource, the author's code, the cluster's capabilities, and
/// the labels, annotations and patches in watches.yaml. Only the record itself can confirm that chart and values are
/// equal.
pub(crate) fn may_be_equal(recorded: &str, current: &str) -> bool {
    let changed = inputs::changed_parts(recorded, current);
    !changed.own && !NamedInput::iter().any(|input| input.is_decisive() && changed.has(input))
}

/// Returns the name of a source in records: `ConfigMap/defaults/values.yaml`.
pub(crate) fn source_part(kind: &str, name: &str, key: &str) -> String {
    format!("{kind}/{name}/{key}")
}

impl NamedInput {
    /// Describes a change of this input. The chart's versions describe a change of the chart.
    fn words(self) -> Option<&'static str> {
        match self {
            NamedInput::Chart => None,
            NamedInput::Overrides => Some("the operator's override values changed"),
            NamedInput::Code => Some("the operator's post-renderers changed"),
            NamedInput::Labels => Some("commonLabels of watches.yaml changed"),
            NamedInput::Annotations => Some("commonAnnotations of watches.yaml changed"),
            NamedInput::Patches => Some("patches of watches.yaml changed"),
            NamedInput::Capabilities => Some("the cluster serves other kinds"),
            NamedInput::Mapped => Some("the operator's value mapper returned other values"),
        }
    }
}

fn source_words(part: &str) -> String {
    match part.splitn(3, '/').collect::<Vec<_>>()[..] {
        [kind, name, key] => format!("{kind} {name:?} changed (key {key:?})"),
        _ => format!("{part} changed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(all: &str, own: &str, parts: &str) -> String {
        inputs::with_parts(&inputs::with_scheme(all, own), parts)
    }

    #[test]
    fn each_changed_input_is_a_cause() {
        let recorded = digest("a", "o", "chart=1,overrides=2,ConfigMap/defaults/values.yaml=3,mapped=4");
        let check = |own: &str, parts: &str, to: &str, expected: &[&str]| {
            let charts = Charts { from: "shop-0.1.0", to };
            assert_eq!(causes(&recorded, &digest("b", own, parts), Some(4), charts), expected, "{own} {parts} {to}");
        };
        let same = "chart=1,overrides=2,ConfigMap/defaults/values.yaml=3,mapped=4";
        check("o", same, "shop-0.1.0", &[]);
        check("p", same, "shop-0.1.0", &["spec changed (generation 4)"]);
        check("o", &same.replace("=1", "=9"), "shop-0.2.0", &["chart shop-0.1.0 → shop-0.2.0"]);
        check("o", &same.replace("=1", "=9"), "shop-0.1.0", &["the files of chart shop-0.1.0 changed"]);
        let overridden = same.replace("=1", "=9").replace("=2", "=9");
        check("o", &overridden, "shop-0.1.0", &["the operator's override values changed"]);
        let source = "ConfigMap \"defaults\" changed (key \"values.yaml\")";
        check("o", &same.replace("=3", "=9").replace("=4", "=9"), "shop-0.1.0", &[source]);
        check("o", "chart=1,overrides=2,mapped=4", "shop-0.1.0", &[source]);
        check("o", &same.replace("=4", "=9"), "shop-0.1.0", &["the operator's value mapper returned other values"]);
        let annotated = ["commonAnnotations of watches.yaml changed"];
        check("o", &format!("{same},annotations=5"), "shop-0.1.0", &annotated);
        let all = ["spec changed (generation 4)", "chart shop-0.1.0 → shop-0.2.0", source];
        check("p", "chart=9,overrides=2,ConfigMap/defaults/values.yaml=9,mapped=9", "shop-0.2.0", &all);
    }

    #[test]
    fn other_sources_may_hold_the_same_values() {
        let check = |own: &str, parts: &str, expected: bool| {
            let recorded = digest("a", "o", "chart=1,code=2");
            assert_eq!(may_be_equal(&recorded, &digest("b", own, parts)), expected, "{own} {parts}");
        };
        check("o", "chart=1,code=2,Secret/shared/values.yaml=3", true);
        check("o", "chart=9,code=2", true);
        check("o", "chart=1,code=9", false);
        check("o", "chart=1,code=2,annotations=3", false);
        check("p", "chart=1,code=2", false);
    }

    #[test]
    fn a_record_without_parts_names_only_spec_and_chart() {
        let current = digest("b", "p", "chart=9,overrides=2");
        let charts = Charts { from: "shop-0.1.0", to: "shop-0.2.0" };
        let expected = ["spec changed (generation 4)", "chart shop-0.1.0 → shop-0.2.0"];
        assert_eq!(causes("2:a.o", &current, Some(4), charts), expected);
        assert_eq!(causes("2:a", &current, Some(4), Charts { from: "", ..charts }), [""; 0]);
        assert_eq!(causes("", &current, Some(4), Charts { from: "", ..charts }), [""; 0]);
    }
}
