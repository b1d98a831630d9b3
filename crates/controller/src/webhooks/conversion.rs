//! Converts objects between the versions of a kind.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Display, Formatter};

use outside::Headed;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::abandoned::Abandoned;
use super::deep::Shallow;
use super::unknown::keep;
use super::weight::weigh;
use crate::reconciler::{Kind, KindScope as _, cause_of};

/// The maximum weight of one object.
pub(super) const MAX_WEIGHT: usize = 12 << 20;

/// The maximum number of objects in one question. The smallest that an API server stores fill a question that is as long as
/// one may be.
const MAX_OBJECTS: usize = 250_000;

/// The metadata that no conversion gets.
const MANAGED_FIELDS: &str = "managedFields";

/// A question about objects, as text.
#[derive(Deserialize)]
struct Review<'a> {
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Deserialize)]
struct Request<'a> {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    #[serde(borrow, deserialize_with = "limited")]
    objects: Vec<&'a RawValue>,
}

/// Reads the objects of a question, at most [`MAX_OBJECTS`]: an element of two bytes takes eight times as many in memory.
fn limited<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<&'de RawValue>, D::Error> {
    struct Objects;

    impl<'de> Visitor<'de> for Objects {
        type Value = Vec<&'de RawValue>;

        fn expecting(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
            write!(formatter, "at most {MAX_OBJECTS} objects")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
            let mut objects = Vec::new();
            while let Some(object) = elements.next_element()? {
                if objects.len() == MAX_OBJECTS {
                    return Err(de::Error::invalid_length(MAX_OBJECTS + 1, &self));
                }
                objects.push(object);
            }
            Ok(objects)
        }
    }

    deserializer.deserialize_seq(Objects)
}

/// Converts an object from one version to another, unless the conversion is abandoned.
type Convert = fn(&Value, &CancellationToken) -> Result<Value, String>;

/// The versions of one kind, and the conversions between them.
pub(crate) struct Versions {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) plural: String,
    pub(crate) is_namespaced: bool,
    /// From, to and the conversion.
    steps: Vec<(String, String, Convert)>,
}

impl Versions {
    pub(super) fn of<K: Kind>() -> Versions {
        Versions {
            group: K::group(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            is_namespaced: K::Scope::NAMESPACED,
            steps: Vec::new(),
        }
    }

    /// Adds both directions between two versions.
    pub(super) fn add<A, B>(&mut self)
    where
        A: Kind + TryFrom<B, Error: Display>,
        B: Kind + TryFrom<A, Error: Display>,
    {
        let (a, b) = (A::api_version(&()).into_owned(), B::api_version(&()).into_owned());
        self.steps.push((a.clone(), b.clone(), step::<A, B>));
        self.steps.push((b, a, step::<B, A>));
    }

    /// Returns the first version, which definitions store.
    pub(crate) fn stored(&self) -> &str {
        self.steps.first().map_or("", |(from, ..)| from)
    }

    /// Answers the body of a conversion review. Holds one parsed object at a time: a list may be large. Ends early once
    /// it is abandoned.
    pub(crate) fn review(&self, body: &[u8], abandoned: &CancellationToken) -> Result<String, String> {
        let review: Review<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let Request { uid, desired_api_version: to, objects } = review.request;
        let converted = objects.iter().map(|object| {
            Abandoned::check(abandoned).map_err(|error| error.to_string())?;
            let because = |why: &str| format!("cannot convert {} {} to {to}: {why}", self.kind, name_of(object));
            if weigh(object.get().as_bytes()) > MAX_WEIGHT {
                return Err(because(&format!("it has too many values; shorten it in {}", self.stored())));
            }
            let shallow = Shallow::of(object.get());
            let object: Value = serde_json::from_str(&shallow.text).map_err(|error| error.to_string())?;
            let converted = self.convert_unless(abandoned, &object, &to)?.to_string();
            shallow.restored(converted).ok_or_else(|| because("it nests too deeply"))
        });
        let (result, objects) = match converted.collect::<Result<Vec<String>, String>>() {
            Ok(objects) => (json!({"status": "Success"}), objects.join(",")),
            Err(why) => (json!({"status": "Failure", "reason": "ConversionFailed", "message": why}), String::new()),
        };
        let (uid, version) = (json!(uid), "apiextensions.k8s.io/v1");
        Ok(format!(
            r#"{{"apiVersion":"{version}","kind":"ConversionReview","response":{{"uid":{uid},"result":{result},"convertedObjects":[{objects}]}}}}"#
        ))
    }

    /// Converts one object. An error names it, and the field if one is wrong.
    pub(crate) fn convert(&self, object: &Value, to: &str) -> Result<Value, String> {
        self.convert_unless(&CancellationToken::new(), object, to)
    }

    /// Converts one object, unless the conversion is abandoned.
    fn convert_unless(&self, abandoned: &CancellationToken, object: &Value, to: &str) -> Result<Value, String> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (from, name) = (text("/apiVersion"), text("/metadata/name"));
        let name = place(text("/metadata/namespace"), name);
        let because = |why: String| format!("cannot convert {} {name} from {from} to {to}: {why}", self.kind);
        if text("/kind") != self.kind {
            return Err(because(format!("it is of kind {:?}", text("/kind"))));
        }
        let path = self.path(from, to).ok_or_else(|| because(self.known()))?;
        let mut converted = object.clone();
        // They may have a time that Rust's type does not, and one object that is not converted fails its whole list.
        let managed = metadata_of(&mut converted).and_then(|metadata| metadata.remove(MANAGED_FIELDS));
        for step in path {
            let next = step(&converted, abandoned).map_err(because)?;
            converted = self.finish(&converted, next);
        }
        if let (Some(managed), Some(metadata)) = (managed, metadata_of(&mut converted)) {
            metadata.insert(MANAGED_FIELDS.to_owned(), managed);
        }
        converted["apiVersion"] = to.into();
        Ok(converted)
    }

    /// Returns the shortest chain of conversions; empty if the versions are equal.
    fn path(&self, from: &str, to: &str) -> Option<Vec<Convert>> {
        let mut paths = HashMap::from([(from, Vec::new())]);
        let mut waiting = VecDeque::from([from]);
        while let Some(version) = waiting.pop_front() {
            if version == to {
                return paths.remove(to);
            }
            for (_, next, step) in self.steps.iter().filter(|(from, ..)| from == version) {
                if !paths.contains_key(next.as_str()) {
                    let path = paths[version].iter().copied().chain([*step]).collect();
                    paths.insert(next, path);
                    waiting.push_back(next);
                }
            }
        }
        None
    }

    fn known(&self) -> String {
        let mut known: Vec<&str> = self.steps.iter().map(|(from, ..)| from.as_str()).collect();
        known.sort_unstable();
        known.dedup();
        format!("the operator knows the versions {}", known.join(", "))
    }

    /// Completes a converted object with the original's metadata. The API server demands that only labels and
    /// annotations change. Those of users are kept even if the author's conversion forgets them: it removes nothing but
    /// annotations in the kind's own group, in which conversions keep what the other version cannot express.
    fn finish(&self, original: &Value, mut converted: Value) -> Value {
        let mut metadata = original["metadata"].clone();
        let is_own = |key: &str| key.split_once('/').is_some_and(|(domain, _)| domain == self.group);
        let new = std::mem::take(&mut converted["metadata"]);
        if let Some(annotations) = metadata["annotations"].as_object_mut() {
            annotations.retain(|key, _| !is_own(key) || new["annotations"].get(key).is_some());
        }
        for field in ["labels", "annotations"] {
            for (key, value) in new[field].as_object().into_iter().flatten() {
                metadata[field][key] = value.clone();
            }
            if metadata[field].as_object().is_none_or(Map::is_empty)
                && let Some(metadata) = metadata.as_object_mut()
            {
                metadata.remove(field);
            }
        }
        converted["metadata"] = metadata;
        converted["kind"] = self.kind.as_str().into();
        converted
    }
}

fn metadata_of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.as_object_mut()
}

/// Returns namespace and name of an object, without the memory that its other values would take.
fn name_of(object: &RawValue) -> String {
    let Headed { metadata } = serde_json::from_str(object.get()).unwrap_or_default();
    place(metadata.namespace.as_deref().unwrap_or_default(), metadata.name.as_deref().unwrap_or_default())
}

fn place(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn step<A: Kind, B: Kind + TryFrom<A, Error: Display>>(
    object: &Value,
    abandoned: &CancellationToken,
) -> Result<Value, String> {
    // Every request that reads the kind fails with this cause, and logs quote it.
    let decoded: A = serde_path_to_error::deserialize(object).map_err(|error| cause_of(&error))?;
    let known = serde_json::to_value(&decoded).map_err(|error| error.to_string())?;
    let converted = B::try_from(decoded).map_err(|error| error.to_string())?;
    let mut converted = serde_json::to_value(converted).map_err(|error| error.to_string())?;
    keep::<B>(object, &known, &mut converted, abandoned).map_err(|error| error.to_string())?;
    Ok(converted)
}

#[cfg(test)]
mod tests {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;
    use crate::webhooks::Webhooks;

    mod v1 {
        use super::*;

        #[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
        #[kube(group = "example.com", version = "v1", kind = "Shop", namespaced)]
        pub(super) struct ShopSpec {
            pub(super) owner: String,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub(super) doors: Vec<Door>,
        }

        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) struct Door {
            pub(super) name: String,
            pub(super) width: u8,
        }
    }

    mod v2 {
        use super::*;

        #[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
        #[kube(group = "example.com", version = "v2", kind = "Shop", namespaced)]
        pub(super) struct ShopSpec {
            pub(super) owners: Vec<String>,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            pub(super) doors: Vec<Door>,
        }

        #[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
        pub(super) struct Door {
            pub(super) name: String,
            pub(super) wide: u8,
        }
    }

    mod v3 {
        use super::*;

        #[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
        #[kube(group = "example.com", version = "v3", kind = "Shop", namespaced)]
        pub(super) struct ShopSpec {
            pub(super) people: Vec<String>,
        }
    }

    /// Keeps what v1 has no field for.
    const OTHERS: &str = "example.com/owners";

    impl From<v1::Shop> for v2::Shop {
        fn from(old: v1::Shop) -> v2::Shop {
            let mut doors: Vec<_> =
                old.spec.doors.into_iter().map(|door| v2::Door { name: door.name, wide: door.width }).collect();
            doors.sort_by(|a, b| a.name.cmp(&b.name));
            let mut shop = v2::Shop::new("", v2::ShopSpec { owners: vec![old.spec.owner], doors });
            shop.metadata = old.metadata;
            let kept = shop.metadata.annotations.as_mut().and_then(|kept| kept.remove(OTHERS));
            shop.spec.owners.extend(kept.iter().flat_map(|kept| kept.split(',')).map(str::to_owned));
            shop
        }
    }

    impl TryFrom<v2::Shop> for v1::Shop {
        type Error = &'static str;

        fn try_from(new: v2::Shop) -> Result<v1::Shop, &'static str> {
            let (first, others) = new.spec.owners.split_first().ok_or("spec.owners is empty")?;
            let doors = new.spec.doors.into_iter().map(|door| v1::Door { name: door.name, width: door.wide });
            let mut shop = v1::Shop::new("", v1::ShopSpec { owner: first.clone(), doors: doors.collect() });
            shop.metadata = new.metadata;
            if !others.is_empty() {
                shop.metadata.annotations.get_or_insert_default().insert(OTHERS.into(), others.join(","));
            }
            Ok(shop)
        }
    }

    impl From<v2::Shop> for v3::Shop {
        fn from(old: v2::Shop) -> v3::Shop {
            v3::Shop::new("forgotten", v3::ShopSpec { people: old.spec.owners })
        }
    }

    impl From<v3::Shop> for v2::Shop {
        fn from(new: v3::Shop) -> v2::Shop {
            v2::Shop::new("forgotten", v2::ShopSpec { owners: new.spec.people, doors: Vec::new() })
        }
    }

    fn versions() -> Webhooks {
        Webhooks::new().convert::<v1::Shop, v2::Shop>().convert::<v2::Shop, v3::Shop>()
    }

    fn shop(version: &str, metadata: &Value, spec: &Value) -> Value {
        let mut shop = json!({"apiVersion": format!("example.com/{version}"), "kind": "Shop", "spec": spec});
        shop["metadata"] = metadata.clone();
        shop
    }

    fn metadata(annotations: Value) -> Value {
        let fields = json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]);
        json!({"name": "a", "namespace": "ns", "uid": "1", "managedFields": fields, "annotations": annotations, "labels": {"l": "1"}})
    }

    fn convert(object: &Value, to: &str) -> Result<Value, String> {
        versions().conversions[0].convert(object, &format!("example.com/{to}"))
    }

    fn respond(body: &[u8]) -> Result<String, String> {
        versions().conversions[0].review(body, &CancellationToken::new())
    }

    #[test]
    fn a_round_trip_loses_nothing_and_leaves_metadata_alone() {
        let spec = json!({"owners": ["ada", "alan", "grace"]});
        let two = shop("v2", &metadata(json!({"theirs": "1"})), &spec);
        let one = convert(&two, "v1").unwrap();
        let with_others = metadata(json!({"theirs": "1", OTHERS: "alan,grace"}));
        assert_eq!(one, shop("v1", &with_others, &json!({"owner": "ada"})));
        assert_eq!(convert(&one, "v2").unwrap(), two);
        let single = shop("v2", &json!({"name": "b"}), &json!({"owners": ["ada"]}));
        assert_eq!(convert(&convert(&single, "v1").unwrap(), "v2").unwrap(), single);
    }

    #[test]
    fn fields_that_no_version_knows_stay_unless_the_other_one_means_something_else() {
        let spec = json!({"owner": "ada", "theirs": {"deep": [1, null]}, "owners": 7, "people": "x"});
        let one = shop("v1", &json!({"name": "a"}), &spec);
        let two = convert(&one, "v2").unwrap();
        assert_eq!(two["spec"], json!({"owners": ["ada"], "theirs": {"deep": [1, null]}, "people": "x"}));
        assert_eq!(
            convert(&two, "v1").unwrap()["spec"],
            json!({"owner": "ada", "theirs": {"deep": [1, null]}, "people": "x"})
        );
        let doors =
            json!([{"name": "b", "width": 1, "theirs": {"x": 1}, "wide": 9}, {"name": "a", "width": 2, "of": 2}]);
        let one = shop("v1", &json!({"name": "a"}), &json!({"owner": "ada", "doors": doors}));
        let two = convert(&one, "v2").unwrap();
        let doors = json!([{"name": "a", "wide": 2, "of": 2}, {"name": "b", "wide": 1, "theirs": {"x": 1}}]);
        assert_eq!(two["spec"]["doors"], doors, "in items that move");
        let doors = json!([{"name": "a", "width": 2, "of": 2}, {"name": "b", "width": 1, "theirs": {"x": 1}}]);
        assert_eq!(convert(&two, "v1").unwrap()["spec"]["doors"], doors);
    }

    /// Types that convert a chart's kind may have no status, which the operator writes.
    #[test]
    fn fields_beside_the_spec_that_no_version_knows_stay() {
        let mut one = shop("v1", &metadata(json!({"theirs": "1"})), &json!({"owner": "ada"}));
        one["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        one["theirs"] = json!({"deep": [1, null]});
        let three = convert(&one, "v3").unwrap();
        assert_eq!((&three["status"], &three["theirs"]), (&one["status"], &one["theirs"]));
        assert_eq!(convert(&three, "v1").unwrap(), one);
    }

    #[test]
    fn versions_are_converted_over_others_and_a_forgotten_label_stays() {
        let one = shop("v1", &metadata(json!({OTHERS: "alan", "theirs": "1"})), &json!({"owner": "ada"}));
        let three = convert(&one, "v3").unwrap();
        assert_eq!(three, shop("v3", &metadata(json!({"theirs": "1"})), &json!({"people": ["ada", "alan"]})));
        assert_eq!(convert(&three, "v1").unwrap(), one);
        assert_eq!(convert(&three, "v3").unwrap(), three);
    }

    #[test]
    fn a_failure_names_the_object_the_field_and_the_cause() {
        let object = |spec| shop("v2", &metadata(json!({})), &spec);
        let error = |object: &Value, to: &str| convert(object, to).unwrap_err();
        let about = "cannot convert Shop ns/a from example.com/v2 to example.com/";
        let wrong = object(json!({"owners": ["a", 7]}));
        assert_eq!(error(&wrong, "v1"), format!("{about}v1: spec.owners[1]: invalid type: integer, expected a string"));
        assert_eq!(error(&object(json!({"owners": []})), "v1"), format!("{about}v1: spec.owners is empty"));
        let known = "the operator knows the versions example.com/v1, example.com/v2, example.com/v3";
        assert_eq!(error(&wrong, "v9"), format!("{about}v9: {known}"));
        let mut other = wrong.clone();
        other["kind"] = "Other".into();
        assert_eq!(error(&other, "v1"), format!("{about}v1: it is of kind \"Other\""));
        assert!(convert(&json!(7), "v1").is_err() && convert(&json!({"kind": "Shop"}), "v1").is_err());
    }

    #[test]
    fn a_review_has_all_objects_or_says_why_not() {
        let good = shop("v1", &json!({"name": "a"}), &json!({"owner": "ada"}));
        let bad = shop("v1", &json!({"name": "b"}), &json!({}));
        let review = |objects: Value| {
            let request = json!({"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": objects});
            let review =
                json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
            let answer = respond(review.to_string().as_bytes()).unwrap();
            serde_json::from_str::<Value>(&answer).unwrap()["response"].clone()
        };
        let response = review(json!([good, good]));
        assert_eq!((&response["uid"], &response["result"]["status"]), (&json!("u"), &json!("Success")));
        assert_eq!(response["convertedObjects"][1]["spec"]["owners"], json!(["ada"]));
        let response = review(json!([good, bad]));
        assert_eq!((&response["result"]["status"], &response["convertedObjects"]), (&json!("Failure"), &json!([])));
        assert!(response["result"]["message"].as_str().unwrap().contains("Shop b"));
        assert!(respond(b"{}").is_err());
        let response = review(json!([vec![json!({"": 0}); 30_000]]));
        assert!(response["result"]["message"].as_str().unwrap().contains("too many values"), "a hostile object");
    }

    #[test]
    fn a_review_has_no_more_elements_than_objects_can_be_stored() {
        let of = |elements: usize| {
            let objects = vec!["0"; elements].join(",");
            respond(
                format!(r#"{{"request":{{"uid":"u","desiredAPIVersion":"a/v1","objects":[{objects}]}}}}"#).as_bytes(),
            )
        };
        assert!(of(MAX_OBJECTS).unwrap().contains("ConversionFailed"));
        let why = of(MAX_OBJECTS + 1).unwrap_err();
        assert!(why.starts_with("invalid length 250001, expected at most 250000 objects"), "{why}");
    }

    /// The limit counts structure, so a valid object far below the API server's size limit may exceed it.
    #[test]
    fn an_object_with_too_many_values_is_named_because_it_fails_its_whole_list() {
        let doors = vec![json!({"name": "a", "width": 1}); 17_000];
        let heavy = shop("v1", &metadata(json!({})), &json!({"owner": "ada", "doors": doors}));
        let request = json!({"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": [heavy]});
        let answer = respond(json!({"request": request}).to_string().as_bytes()).unwrap();
        let why = "it has too many values; shorten it in example.com/v1";
        assert!(answer.contains(&format!("cannot convert Shop ns/a to example.com/v2: {why}")), "{answer}");
    }

    /// Go has times that Rust's type does not.
    #[test]
    fn an_object_is_converted_whatever_times_its_managed_fields_have() {
        let entry = json!({"manager": "x", "time": "9999-12-31T23:59:59Z", "fieldsV1": {"f:spec": {}}});
        let metadata = json!({"name": "a", "managedFields": [entry]});
        let one = shop("v1", &metadata, &json!({"owner": "ada"}));
        let three = convert(&one, "v3").unwrap();
        assert_eq!(three, shop("v3", &metadata, &json!({"people": ["ada"]})));
        assert_eq!(convert(&three, "v1").unwrap(), one);
    }

    #[test]
    fn a_deeply_nested_object_is_converted_whole_and_fails_no_list() {
        let deep = format!("{}1{}", "{\"a\":".repeat(600), "}".repeat(600));
        let metadata = format!(r#"{{"name":"b","uid":"2","managedFields":[{{"manager":"x","fieldsV1":{deep}}}]}}"#);
        let object = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Shop","metadata":{metadata},"spec":{{"owner":"alan","theirs":{deep}}}}}"#
        );
        let plain = shop("v1", &json!({"name": "a", "uid": "1"}), &json!({"owner": "ada"}));
        let review =
            format!(r#"{{"request":{{"uid":"u","desiredAPIVersion":"example.com/v2","objects":[{plain},{object}]}}}}"#);
        let answer = respond(review.as_bytes()).unwrap();
        assert!(answer.contains(r#""result":{"status":"Success"}"#), "{answer}");
        for owners in [r#""owners":["ada"]"#, r#""owners":["alan"]"#] {
            assert_eq!(answer.matches(owners).count(), 1, "{owners}");
        }
        assert_eq!((answer.matches(&deep).count(), answer.contains("deep-")), (2, false));
    }
}
