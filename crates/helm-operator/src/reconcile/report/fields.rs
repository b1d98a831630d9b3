//! Computes the status fields that watches.yaml defines, from the release's objects. Pure.

use std::collections::BTreeMap;

use helm_release::kube::ObjectKey;
use serde_json::{Map, Value, json};

use crate::reconcile::step_context::StepContext;
use crate::status::Fields;
use crate::view::primary::Primary;
use crate::watches::{Expressions, names};

/// The maximum size of a field's value, in bytes of JSON, because each list of resources contains it.
const MAX_VALUE: usize = 4096;

/// Returns the fields, and the first error. A field that could not be computed keeps its old value.
pub(crate) fn fields(context: &StepContext<'_>, primary: &Primary, objects: &[ObjectKey]) -> (Fields, Option<String>) {
    let expressions = &context.shared.settings.expressions;
    if expressions.fields().is_empty() {
        return (Fields::default(), None);
    }
    let Ok(spec) = primary.spec.json() else { return (primary.status.fields.clone(), None) };
    let objects = by_kind(expressions, objects, |key| context.shared.cache.dependent(key)?.whole.clone());
    compute(expressions, &itself(primary, spec), &objects, &primary.status.fields)
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
    for kind in expressions.fields().iter().flat_map(|field| field.value.kinds()) {
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

fn compute(expressions: &Expressions, itself: &Value, objects: &Value, old: &Fields) -> (Fields, Option<String>) {
    let (mut fields, mut fault) = (Fields::default(), None);
    for field in expressions.fields() {
        let value = field.value.evaluate(&[("self", itself), ("objects", objects)]).map_err(|fault| fault.to_string());
        let value = value.and_then(|value| match value.to_string().len() {
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
        let (fields, fault) = compute(&expressions, &itself, &json!({"Pod": {}}), &old);
        assert_eq!(fields, Fields::from([("bad".into(), json!("kept")), ("good".into(), json!(2))]));
        assert_eq!(fault.unwrap(), "the expression of status.bad fails: no such key: missing");
        let (_, fault) = compute(&expressions, &itself, &json!({"Pod": {"missing": {"x": 1}}}), &old);
        assert!(fault.unwrap().contains("status.big fails: its value has 6007 bytes"));
    }
}
