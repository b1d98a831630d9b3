//! How other tools judge our resources: runs the files of `config/flux`, `config/karmada`, `config/sveltos` and
//! `config/open-cluster-management` in the languages of these tools, CEL and Lua 5.1. Argo CD's is in `argocd`.

use std::collections::HashMap;
use std::sync::Arc;

use cel::objects::{Key, Map};
use mlua::{Function, Lua, LuaSerdeExt as _, Table};
use serde_json::{Value, json};

fn read(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}

fn read_all(text: &str) -> Vec<Value> {
    text.split("---\n").map(read).collect()
}

/// Returns what kstatus would say of each resource, and whether an annotation suspends it.
fn resources() -> Vec<(Value, &'static str)> {
    let condition =
        |kind: &str, status: &str| json!({"type": kind, "status": status, "reason": "Why", "message": "text"});
    let resource = |generation: i64, conditions: &[(&str, &str)]| {
        let conditions: Vec<Value> = conditions.iter().map(|(kind, status)| condition(kind, status)).collect();
        json!({"metadata": {"generation": 2}, "status": {
            "observedGeneration": generation, "conditions": conditions,
            "deployedRelease": {"name": "a", "revision": 1}, "readyObjects": "1/1",
        }})
    };
    vec![
        (json!({"metadata": {"generation": 1}, "status": {"observedGeneration": -1}}), "InProgress"),
        (resource(1, &[("Ready", "True")]), "InProgress"),
        (resource(2, &[]), "InProgress"),
        (resource(2, &[("Ready", "True")]), "Current"),
        (resource(2, &[("Ready", "False")]), "InProgress"),
        (resource(2, &[("Ready", "Unknown")]), "InProgress"),
        (resource(2, &[("Reconciling", "True"), ("Ready", "False")]), "InProgress"),
        (resource(2, &[("Reconciling", "True"), ("Ready", "True")]), "InProgress"),
        (resource(2, &[("Stalled", "True"), ("Ready", "False")]), "Failed"),
        (resource(2, &[("Stalled", "False"), ("Ready", "True")]), "Current"),
        (resource(2, &[("Suspended", "True"), ("Ready", "False")]), "Current"),
        (resource(2, &[("Paused", "True"), ("Reconciling", "True"), ("Ready", "False")]), "Current"),
        (resource(2, &[("Planned", "True"), ("Ready", "False")]), "Current"),
    ]
}

fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(b) => cel::Value::Bool(*b),
        Value::Number(n) => cel::Value::Int(n.as_i64().unwrap()),
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(items) => cel::Value::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(key, field)| (Key::String(Arc::new(key.clone())), to_cel(field)));
            cel::Value::Map(Map { map: Arc::new(fields.collect::<HashMap<_, _>>()) })
        }
    }
}

/// Evaluates an expression with these variables; `None` if it fails, as for a field that is missing.
fn evaluate(expression: &Value, variables: &[(&str, &Value)]) -> Option<cel::Value> {
    let program = cel::Program::compile(expression.as_str().unwrap()).unwrap();
    let mut context = cel::Context::default();
    for (name, value) in variables {
        context.add_variable_from_value(*name, to_cel(value));
    }
    program.execute(&context).ok()
}

fn is_true(expression: &Value, variables: &[(&str, &Value)]) -> bool {
    matches!(evaluate(expression, variables), Some(cel::Value::Bool(true)))
}

#[test]
fn flux_sees_what_kstatus_sees_and_passes_over_suspended_resources() {
    let rule = &read(include_str!("../config/flux/health.yaml"))["healthCheckExprs"][0];
    for (resource, expected) in resources() {
        let fields: Vec<(&str, &Value)> =
            resource.as_object().unwrap().iter().map(|(name, value)| (name.as_str(), value)).collect();
        // Flux asks in this order, and waits if none is true.
        let order = [("inProgress", "InProgress"), ("failed", "Failed"), ("current", "Current")];
        let found =
            order.into_iter().find(|(key, _)| is_true(&rule[*key], &fields)).map_or("InProgress", |(_, found)| found);
        assert_eq!(found, expected, "{resource}");
        for (key, _) in order.iter().filter(|_| resource["status"]["conditions"].is_array()) {
            assert!(evaluate(&rule[*key], &fields).is_some(), "{key} fails: {resource}");
        }
    }
}

/// Loads a script as gopher-lua does, and returns one of its functions.
fn function(lua: &Lua, script: &Value, name: &str) -> Function {
    lua.load(script.as_str().unwrap()).exec().unwrap();
    lua.globals().get(name).unwrap()
}

#[test]
fn karmada_judges_health_and_reflects_conditions_and_release() {
    let rules = &read(include_str!("../config/karmada/interpreter.yaml"))["spec"]["customizations"];
    let lua = Lua::new();
    let health = function(&lua, &rules["healthInterpretation"]["luaScript"], "InterpretHealth");
    let reflect = function(&lua, &rules["statusReflection"]["luaScript"], "ReflectStatus");
    for (resource, expected) in resources() {
        let object = lua.to_value(&resource).unwrap();
        assert_eq!(health.call::<bool>(object.clone()).unwrap(), expected == "Current", "{resource}");
        let reflected: Value = lua.from_value(reflect.call(object).unwrap()).unwrap();
        for field in ["observedGeneration", "deployedRelease"] {
            assert_eq!(reflected[field], resource["status"][field], "{resource}");
        }
        assert!(reflected.get("readyObjects").is_none());
    }
    let unseen = lua.to_value(&json!({"metadata": {"generation": 1}})).unwrap();
    assert!(!health.call::<bool>(unseen).unwrap());
}

#[test]
fn sveltos_waits_for_a_resource_in_old_and_new_versions() {
    let rule = &read(include_str!("../config/sveltos/fleet.yaml"))["spec"]["validateHealths"][0];
    for (resource, expected) in resources() {
        let lua = Lua::new();
        let evaluate = function(&lua, &rule["script"], "evaluate");
        let object = lua.to_value(&resource).unwrap();
        let given: Table = evaluate.call(object.clone()).unwrap();
        lua.globals().set("obj", object).unwrap();
        let global: Table = evaluate.call(()).unwrap();
        for health in [given, global] {
            assert_eq!(health.get::<bool>("healthy").unwrap(), expected == "Current", "{resource}");
            assert!(!health.get::<String>("message").unwrap().is_empty());
        }
    }
}

#[test]
fn open_cluster_management_has_a_condition_and_single_values_as_feedback() {
    let work = read_all(include_str!("../config/open-cluster-management/fleet.yaml")).pop().unwrap();
    let config = &work["spec"]["manifestWorkTemplate"]["manifestConfigs"][0];
    let rule = &config["conditionRules"][0];
    for (resource, expected) in resources() {
        let object = [("object", &resource)];
        let all = rule["celExpressions"].as_array().unwrap();
        let healthy = all.iter().all(|one| is_true(one, &object));
        assert_eq!(healthy, expected == "Current", "{resource}");
        let message = evaluate(&rule["messageExpression"], &[("object", &resource), ("result", &healthy.into())]);
        assert!(matches!(message, Some(cel::Value::String(_))));
    }
    // Each path is below the status, and leads to one value of a resource.
    let resource = json!({"deployedRelease": {"name": "a", "revision": 1}, "conditions": [{"type": "Ready", "status": "True", "reason": "a", "message": "b"}]});
    for one in config["feedbackRules"][0]["jsonPaths"].as_array().unwrap() {
        let path = one["path"].as_str().unwrap();
        let found = match path.strip_prefix(".conditions[?(@.type==\"Ready\")].") {
            Some(field) => &resource["conditions"][0][field],
            None => resource.pointer(&path.replace('.', "/")).unwrap(),
        };
        assert!(found.is_string() || found.is_number(), "{path}");
    }
}

/// Fleets that look for another kind than the one in `config/crd` find nothing, and say nothing.
#[test]
fn files_for_fleets_name_the_kind_of_the_definition() {
    let definition = read(include_str!("../config/crd/bases/cache.my.domain_memcacheds.yaml"));
    let definition = &definition["spec"];
    let (group, kind) = (&definition["group"], &definition["names"]["kind"]);
    let version = format!("{}/v1", group.as_str().unwrap());

    let work = read_all(include_str!("../config/open-cluster-management/fleet.yaml")).pop().unwrap();
    let template = &work["spec"]["manifestWorkTemplate"];
    let (resource, identifier) =
        (&template["workload"]["manifests"][0], &template["manifestConfigs"][0]["resourceIdentifier"]);
    assert_eq!((&resource["apiVersion"], &resource["kind"]), (&version.clone().into(), kind));
    assert_eq!((&identifier["group"], &identifier["resource"]), (group, &definition["names"]["plural"]));
    assert_eq!(identifier["name"], resource["metadata"]["name"]);
    assert_eq!(identifier["namespace"], resource["metadata"]["namespace"]);

    let rule = &read(include_str!("../config/sveltos/fleet.yaml"))["spec"]["validateHealths"][0];
    assert_eq!((&rule["group"], &rule["kind"]), (group, kind));

    let policy = read(include_str!("../config/karmada/fleet.yaml"));
    let interpreter = read(include_str!("../config/karmada/interpreter.yaml"));
    for target in [&policy["spec"]["resourceSelectors"][0], &interpreter["spec"]["target"]] {
        assert_eq!((&target["apiVersion"], &target["kind"]), (&version.clone().into(), kind));
    }
}
