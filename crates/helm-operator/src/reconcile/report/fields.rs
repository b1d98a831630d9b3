//! Computes the status fields that watches.yaml defines, from the release's objects. Pure.

use std::collections::BTreeMap;

use helm_release::kube::ObjectKey;
use serde_json::{Map, Value, json};

use crate::reconcile::step_context::StepContext;
use crate::status::Fields;
use crate::view::primary::Primary;
use crate::watches::{Expressions, Field, names};

/// The maximum size of a field's value, in bytes of JSON, because each list of resources contains it.
const MAX_VALUE: usize = 4096;

/// Returns the fields, and the first error. A field that could not be computed keeps its old value.
pub(crate) fn fields(context: &StepContext<'_>, primary: &Primary, objects: &[ObjectKey]) -> (Fields, Option<String>) {
    let expressions = &context.shared.settings.expressions;
    if expressions.fields().is_empty() {
        return (Fields::default(), None);
    }
    let Ok(spec) = primary.spec.json() else { return (primary.status.fields.clone(), None) };
    // A record may list someone else's object, which the status does not mention.
    let known = |key: &ObjectKey| context.shared.cache.dependent(key).filter(|known| known.is_of(context.key));
    let is_unread = |key: &&ObjectKey| {
        let reads = expressions.reads(&key.group, &key.kind);
        reads && known(key).is_some_and(|known| known.whole.is_none())
    };
    let unread: Vec<&ObjectKey> = objects.iter().filter(is_unread).collect();
    let objects = by_kind(expressions, objects, |key| known(key)?.whole.clone());
    compute(expressions, &itself(primary, spec), (&objects, &unread), &primary.status.fields)
}

/// Returns the variable `self`: the custom resource as its user wrote it.
fn itself(primary: &Primary, spec: &str) -> Value {
    let spec: Value = serde_json::from_str(spec).unwrap_or_default();
    json!({
        "metadata": {"name": primary.name(), "namespace": primary.namespace(), "uid": primary.uid(), "generation": primary.generation},
        "spec": spec,
    })
}

/// Returns the variable `objects`: objects by kind, as expressions name it, and by name.
fn by_kind<T: AsRef<str>>(
    expressions: &Expressions,
    all: &[ObjectKey],
    read: impl Fn(&ObjectKey) -> Option<T>,
) -> Value {
    let mut kinds: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for kind in expressions.fields().iter().flat_map(|field| &field.value.kinds) {
        kinds.entry(kind).or_default();
    }
    for (kind, objects) in &mut kinds {
        for key in all.iter().filter(|key| names(kind, &key.group, &key.kind)) {
            if let Some(object) = read(key).and_then(|text| serde_json::from_str(text.as_ref()).ok()) {
                objects.insert(key.name.to_string(), object);
            }
        }
    }
    json!(kinds)
}

/// Computes the fields from the objects. `unread` exist, but their texts are not in memory: an expression that reads
/// their kinds fails.
fn compute(
    expressions: &Expressions,
    itself: &Value,
    (objects, unread): (&Value, &[&ObjectKey]),
    old: &Fields,
) -> (Fields, Option<String>) {
    let (mut fields, mut fault) = (Fields::default(), None);
    let evaluate = |field: &Field| {
        if let Some(key) = unread.iter().find(|key| field.reads(&key.group, &key.kind)) {
            return Err(format!("{} {:?} is not in memory: it is large, or was not read", key.kind, key.name));
        }
        field.value.evaluate(&[("self", itself), ("objects", objects)]).map_err(|fault| fault.to_string())
    };
    for field in expressions.fields() {
        let value = evaluate(field).and_then(|value| match value.to_string().len() {
            size if size > MAX_VALUE => Err(format!("its value has {size} bytes; at most {MAX_VALUE} are allowed")),
            _ => Ok(value),
        });
        match value {
            Ok(Value::Null) => {}
            Ok(value) => _ = fields.insert(field.name.clone(), value),
            Err(why) => {
                fault.get_or_insert_with(|| format!("the expression of status.{} fails: {why}", field.name));
                if let Some(kept) = old.get(&field.name) {
                    fields.insert(field.name.clone(), kept.clone());
                }
            }
        }
    }
    (fields, fault)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watches::parse;

    fn expressions(fields: &str) -> Expressions {
        let text = format!("- version: v1\n  kind: Web\n  status: {fields}");
        parse(&text, |_| None).unwrap().watches.remove(0).expressions
    }

    fn key(kind: &str, name: &str) -> ObjectKey {
        ObjectKey { group: "".into(), kind: kind.into(), namespace: "ns".into(), name: name.into() }
    }

    #[test]
    fn objects_are_found_by_kind_and_name_and_others_are_not_given() {
        let expressions = expressions("{a: size(objects.Pod), b: size(objects.Service)}");
        let all = [key("Pod", "p"), key("Pod", "unread"), key("ConfigMap", "c")];
        let read = |key: &ObjectKey| (&*key.name != "unread").then(|| format!("{{\"of\": {:?}}}", &*key.name));
        assert_eq!(by_kind(&expressions, &all, read), json!({"Pod": {"p": {"of": "p"}}, "Service": {}}));
    }

    #[test]
    fn a_failing_expression_keeps_the_old_value_and_is_reported_and_null_removes() {
        let expressions =
            expressions("{good: self.n + 1, bad: objects.Pod.missing.x, none: 'null', big: '[self.text, self.text]'}");
        let old =
            Fields::from([("bad".into(), json!("kept")), ("none".into(), json!("gone")), ("good".into(), json!(0))]);
        let itself = json!({"n": 1, "text": "x".repeat(3000)});
        let (fields, fault) = compute(&expressions, &itself, (&json!({"Pod": {}}), &[]), &old);
        assert_eq!(fields, Fields::from([("bad".into(), json!("kept")), ("good".into(), json!(2))]));
        assert_eq!(fault.unwrap(), "the expression of status.bad fails: no such key: missing");
        let (_, fault) = compute(&expressions, &itself, (&json!({"Pod": {"missing": {"x": 1}}}), &[]), &old);
        assert!(fault.unwrap().contains("status.big fails: its value has 6007 bytes"));
    }

    #[test]
    fn a_field_that_reads_a_kind_with_an_object_that_is_not_kept_is_unknown_rather_than_wrong() {
        let expressions = expressions("{url: 'objects.Service.?web.orValue(null)', pods: size(objects.Pod)}");
        let old = Fields::from([("url".into(), json!("kept")), ("pods".into(), json!(1))]);
        let (objects, web) = (json!({"Pod": {}, "Service": {}}), key("Service", "web"));
        let (fields, fault) = compute(&expressions, &Value::Null, (&objects, &[&web]), &old);
        assert_eq!(fields, Fields::from([("url".into(), json!("kept")), ("pods".into(), json!(0))]));
        assert!(fault.unwrap().starts_with("the expression of status.url fails: Service \"web\" is not in memory"));
    }
}
