//! Bounds the integers in definitions as their Rust types do. The API server ignores the formats of unsigned types, and
//! would store what a type cannot decode: such an object fails every list that has to convert it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// The largest float that is an `int64`, as which the API server compares a `maximum`. It stores larger integers as
/// floats, which no integer type decodes.
const MOST: f64 = 9_223_372_036_854_774_784.0;

/// Bounds all integers of a definition. Keeps the bounds that its author set.
pub(super) fn bounded(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = definition.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()).for_each(bound);
    definition
}

fn bound(schema: &mut JSONSchemaProps) {
    let range = schema.format.as_deref().and_then(range);
    if let (Some("integer"), Some((least, most))) = (schema.type_.as_deref(), range) {
        schema.minimum = schema.minimum.or(Some(least));
        schema.maximum = schema.maximum.or(Some(most));
    }
    let properties = schema.properties.iter_mut().flat_map(|all| all.values_mut());
    let items: &mut [JSONSchemaProps] = match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(one)) => std::slice::from_mut(&mut **one),
        Some(JSONSchemaPropsOrArray::Schemas(all)) => all,
        None => &mut [],
    };
    let values = match &mut schema.additional_properties {
        Some(JSONSchemaPropsOrBool::Schema(one)) => Some(&mut **one),
        _ => None,
    };
    properties.chain(items).chain(values).for_each(bound);
}

/// Returns the least and the greatest integer of a format that schemars writes without both, unless the API server
/// checks it.
fn range(format: &str) -> Option<(f64, f64)> {
    match format {
        "uint32" => Some((0.0, f64::from(u32::MAX))),
        "uint" | "uint64" | "uint128" => Some((0.0, MOST)),
        "int" | "int128" => Some((-MOST, MOST)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::CustomResourceExt as _;

    use super::*;

    #[derive(Clone, Debug, kube::CustomResource, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Count")]
    struct CountSpec {
        plain: u32,
        optional: Option<u32>,
        list: Vec<u32>,
        map: BTreeMap<String, u32>,
        nested: Inner,
        #[schemars(range(min = 2, max = 7))]
        own: u32,
        long: u64,
        size: usize,
        signed: isize,
        small: u16,
        checked: i32,
    }

    #[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    struct Inner {
        inner: u32,
    }

    #[test]
    fn integers_have_the_bounds_of_their_types_in_every_version_and_those_of_the_author_stay() {
        let mut definition = Count::crd();
        definition.spec.versions.extend(Count::crd().spec.versions);
        let definition = serde_json::to_value(bounded(definition)).unwrap();
        let four = f64::from(u32::MAX);
        for version in 0..2 {
            let schema = format!("/spec/versions/{version}/schema/openAPIV3Schema/properties/spec/properties");
            for (field, minimum, maximum) in [
                ("plain", Some(0.0), Some(four)),
                ("optional", Some(0.0), Some(four)),
                ("list/items", Some(0.0), Some(four)),
                ("map/additionalProperties", Some(0.0), Some(four)),
                ("nested/properties/inner", Some(0.0), Some(four)),
                ("own", Some(2.0), Some(7.0)),
                ("long", Some(0.0), Some(MOST)),
                ("size", Some(0.0), Some(MOST)),
                ("signed", Some(-MOST), Some(MOST)),
                ("small", Some(0.0), Some(65_535.0)),
                ("checked", None, None),
            ] {
                let found = definition.pointer(&format!("{schema}/{field}")).unwrap();
                let bounds = (found["minimum"].as_f64(), found["maximum"].as_f64());
                assert_eq!(bounds, (minimum, maximum), "{field}: {found}");
            }
        }
    }
}
