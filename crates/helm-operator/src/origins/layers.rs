//! The layers of a resource's values, each merged by the code that merges them for renders.

use helm::origins::Layer;

use super::{Error, Given, Inputs};
use crate::values::Spec;
use crate::values_from::{self, FoundSource};

/// Returns the layers, lowest precedence first, with what each of them is.
pub(super) fn of(inputs: &Inputs<'_>) -> Result<(Vec<Given>, Vec<Layer>), Error> {
    let nothing = Spec::new("null");
    let merge = |sources: &[FoundSource<'_>], spec: &Spec| -> Result<_, Error> {
        Ok(values_from::merge(sources, spec)?.0.values()?)
    };
    // First, because it limits what all sources together expand to.
    let (own, merged) = match inputs.sources {
        [] => (inputs.spec.values()?, inputs.spec.values()?),
        // With sources, a `spec` becomes text again, which writes numbers in one way.
        sources => (merge(&[], inputs.spec)?, merge(sources, inputs.spec)?),
    };
    let (mut given, mut layers) = (Vec::new(), Vec::new());
    for found in inputs.sources.iter().filter(|found| found.bytes.is_some()) {
        given.push(Given::Source(found.source.clone()));
        let own = merge(std::slice::from_ref(found), &nothing)?;
        // Nothing shows the values after each source, and a copy for each would cost memory.
        layers.push(Layer { own: Some(own), merged: None });
    }
    given.push(Given::Spec);
    let overrides = inputs.overrides.layers(inputs.overrides_type, &merged)?;
    layers.push(Layer { own: Some(own), merged: Some(merged) });
    for (key, layer) in overrides {
        let from_environment = inputs.overrides.is_from_environment(&key);
        given.push(Given::Override { key, from_environment });
        layers.push(layer);
    }
    Ok((given, layers))
}
