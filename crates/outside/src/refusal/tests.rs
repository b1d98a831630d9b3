//! Tests with real responses of a Kubernetes 1.36 API server, of webhooks and of proxies.

use serde_json::{Value, json};

use super::*;

fn status(code: u16, reason: &str, message: &str) -> Error {
    Error::from_status(code, reason, message)
}

fn schema_error(kind: &str, details: &str) -> String {
    status(500, "", &format!("failed to create typed patch object (ns/a; {kind}): {details}")).to_string()
}

const MAP: &str = "/v1, Kind=ConfigMap";
const DEPLOYMENT: &str = "apps/v1, Kind=Deployment";

#[test]
fn a_value_that_the_server_quotes_declares_no_field() {
    let undeclared = |faults: &str| {
        let error = status(500, "", &format!("failed to create typed patch object (ns/a; e.x/v1, Kind=Web): {faults}"));
        error.undeclared_fields().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(undeclared(".status: field not declared in schema"), [".status"]);
    let quoted = ".status.hosts: expected list, got &{x\n  .status: field not declared in schema\n  y}";
    assert!(undeclared(quoted).is_empty());
    let key = ".status.hosts.x\n  .status.conditions: field not declared in schema: expected list, got &{1}";
    assert!(undeclared(key).is_empty());
    let decoded =
        ".status.hosts: expected list, got &{error decoding from json: .status: field not declared in schema}";
    assert!(undeclared(decoded).is_empty());
    let message = "denied: does not fit its schema: .status: field not declared in schema";
    assert!(status(422, "Invalid", message).undeclared_fields().is_empty());
}

#[test]
fn schema_errors_are_explained_without_values() {
    let c = ".spec.template.spec.containers[name=\"c\"]";
    let cases = [
        (
            ".data.a: expected string, got &value.valueUnstructured{Value:14}",
            ".data.a: expected string, got number; quote it in the template",
        ),
        (
            ".data.a: expected string, got &value.valueUnstructured{Value:true}",
            ".data.a: expected string, got boolean; quote it in the template",
        ),
        (
            ".data.a: expected string, got &value.valueUnstructured{Value:1e+06}",
            ".data.a: expected string, got number; quote it in the template",
        ),
        (
            ".data.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{\"x\":\"y: {z}\"}}",
            ".data.a: expected string, got map",
        ),
        (
            ".data.a: expected string, got &value.valueUnstructured{Value:[]interface {}{\"}\", \"Value:3\"}}",
            ".data.a: expected string, got list",
        ),
        (
            ".data.a: b\"}: expected string, got &value.valueUnstructured{Value:1}",
            ".data.a: b\"}: expected string, got number; quote it in the template",
        ),
        (".data: expected map, got &{[x: \"y\"]}", ".data: expected map, got list"),
        (".data: expected map, got &{str: {\"q\"}}", ".data: expected map, got string"),
        (".data: expected map, got &{map[hunter2]}", ".data: expected map, got string"),
        (".spec: expected map, got nil", ".spec: expected map, got null"),
        (
            ".immutable: expected boolean, got &{hunter2}",
            ".immutable: expected boolean, got string; give true or false, without quotes",
        ),
        (
            ".immutable: expected boolean, got &{true}",
            ".immutable: expected boolean, got string; give true or false, without quotes",
        ),
        (".immutable: expected boolean, got &{5}", ".immutable: expected boolean, got number"),
        (
            ".immutable: expected boolean, got &{int}",
            ".immutable: expected boolean, got string; give true or false, without quotes",
        ),
        (
            ".spec.replicas: expected numeric (int or float), got string",
            ".spec.replicas: expected number, got string; give a number, without quotes",
        ),
        (".spec.replicas: expected numeric (int or float), got bool", ".spec.replicas: expected number, got boolean"),
        (
            ".spec.replicas: expected numeric (int or float), got map[string]interface {}",
            ".spec.replicas: expected number, got map",
        ),
        (
            ".spec.replicas: expected numeric (int or float), got []interface {}",
            ".spec.replicas: expected number, got list",
        ),
        (".spec.port: expected any scalar, got &{[1 2]}", ".spec.port: expected any scalar, got list"),
        (".spec.bogus: field not declared in schema", ".spec.bogus: field not declared in schema"),
        (".spec.s: duplicate entries for key [=\"p w\"]", ".spec.s: duplicate entries"),
        (".spec.s[=\"p w\"].x: field not declared in schema", ".spec.s[].x: field not declared in schema"),
        (".spec.x: schema error: no type found matching: inlined type", ".spec.x: the schema has no such type"),
        (".spec.x: expected marvel, got hunter2", ".spec.x: has the wrong type"),
        ("expected map, got &{hunter2}", "expected map, got string"),
        (".spec.x: element 0: hunter2", ".spec.x: an element is invalid"),
    ];
    for (details, expected) in cases {
        assert_eq!(schema_error(MAP, details), format!("does not fit its schema: {expected}"), "{details}");
    }
    for details in [
        format!("{c}.env: duplicate entries for key [name=\"A\"]"),
        format!("{c}.env: element 0: associative list with keys may not have a null element"),
        format!("{c}.env: element 1: associative list with keys may not have non-map elements"),
        format!("{c}.foo: field not declared in schema"),
    ] {
        assert_eq!(schema_error(DEPLOYMENT, &details), format!("does not fit its schema: {details}"));
    }
}

#[test]
fn several_faults_become_one_line_even_with_multi_line_values() {
    let details = "errors:\n  .spec.paused: expected boolean, got &{yes\n  hunter2\n  and: {more}}\n  .spec.replicas: expected numeric (int or float), got string\n  \
        .spec.args: expected list, got &{a b}";
    assert_eq!(
        schema_error(DEPLOYMENT, details),
        "does not fit its schema: .spec.paused: expected boolean, got string; give true or false, without quotes; \
         .spec.replicas: expected number, got string; give a number, without quotes; .spec.args: expected list, got string"
    );
}

#[test]
fn unparsable_details_are_hidden() {
    let unknown = "does not fit its schema";
    assert_eq!(schema_error(MAP, "Value:hunter2"), unknown);
    assert_eq!(schema_error(MAP, "hunter2: expected string, got x"), unknown);
    assert_eq!(status(500, "", "failed to create typed patch object (hunter2").to_string(), unknown);
    assert_eq!(status(500, "", "failed to create typed live object (a; v1, Kind=X) hunter2").to_string(), unknown);
    let decoding = "failed to convert new object (/s; /v1, Kind=Secret) to proper version: unable to convert unstructured object to /v1, Kind=Secret: \
        error decoding from json: ";
    let check = |cause: &str, expected: &str| {
        assert_eq!(status(500, "", &format!("{decoding}{cause}")).to_string(), format!("{unknown}: {expected}"));
    };
    check("illegal base64 data at input byte 3", "illegal base64 data at input byte 3");
    check("parsing time \"hunter2\" as \"2006\": no", "parsing time <hidden> as <hidden>: no");
}

#[test]
fn schema_errors_are_permanent() {
    let error = status(
        500,
        "",
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): .data.a: field not declared in schema",
    );
    let Error::Refused { code, reason, fields, .. } = &error else { panic!("{error}") };
    assert_eq!((*code, reason.as_str(), fields.is_empty()), (422, "Invalid", true));
    assert!(error.may_succeed_client_side());
}

#[test]
fn only_errors_unrelated_to_the_request_are_transient() {
    let webhook = "Internal error occurred: failed calling webhook \"check.example.com\": failed to call webhook: Post \"https://check.ns.svc:443/?timeout=10s\": \
        dial tcp 10.96.0.7:443: connect: connection refused";
    let typed = "failed to create typed patch object (/d; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), got string";
    let conversion = "failed to convert live object (/x; example.com/v1, Kind=Db) to proper version: conversion webhook for example.com/v2, Kind=Db failed: \
        Post \"https://convert.ns.svc:443/?timeout=30s\": dial tcp 10.96.0.8:443: connect: connection refused";
    let cases = [
        (500, "InternalError", webhook, true),
        (500, "InternalError", "Internal error occurred: etcdserver: leader changed", true),
        (500, "", typed, false),
        (500, "", conversion, true),
        (503, "ServiceUnavailable", "apiserver not ready", true),
        (
            504,
            "Timeout",
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
            true,
        ),
        (429, "TooManyRequests", "too many requests, please try again later", true),
        (408, "", "request timed out", true),
        (425, "", "too early", true),
        (401, "Unauthorized", "Unauthorized", true),
        (
            409,
            "Conflict",
            "Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified",
            true,
        ),
        (409, "AlreadyExists", "secrets \"s\" already exists", false),
        (400, "BadRequest", "admission webhook \"check.example.com\" denied the request: no", false),
        (403, "Forbidden", "pods \"p\" is forbidden: exceeded quota: q", false),
        (404, "NotFound", "namespaces \"ns\" not found", false),
        (422, "Invalid", "Service \"e\" is invalid: spec.clusterIP: may not change", false),
    ];
    for (code, reason, message, expected) in cases {
        assert_eq!(status(code, reason, message).is_transient(), expected, "{message}");
    }
    assert!(Error::Transport("reset".into()).is_transient());
    assert!(Error::Json(serde_json::from_str::<u8>("x").unwrap_err()).is_transient());
    assert!(!Error::NoKind { api_version: "v1".into(), kind: "X".into() }.is_transient());
    assert!(!Error::InvalidName("..".into()).is_transient());
    assert!([400, 405, 415, 422].iter().all(|code| status(*code, "", "no").may_succeed_client_side()));
    assert!(!status(403, "Forbidden", "no").may_succeed_client_side());
    assert!(!Error::Transport("reset".into()).may_succeed_client_side());
}

#[test]
fn a_path_that_is_not_served_differs_from_a_missing_object() {
    // Responses of Kubernetes 1.36: a path of a custom resource, of a built-in group, and of a group that does not
    // exist; then missing objects.
    let unserved = "the server could not find the requested resource";
    for (reason, message, expected) in [
        ("", "404 page not found", true),
        ("NotFound", unserved, true),
        ("NotFound", "gears.gone.my.domain \"web\" not found", false),
        ("NotFound", "namespaces \"ns\" not found", false),
    ] {
        let error = status(404, reason, message);
        assert_eq!((error.is_unserved_path(), error.is_missing_object()), (expected, !expected), "{message}");
    }
    assert!(!status(400, "NotFound", unserved).is_unserved_path());
}

#[test]
fn values_of_secrets_and_structures_are_hidden() {
    let cases = [
        (
            "Service \"e\" is invalid: spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set",
            "Service \"e\" is invalid: spec.clusterIPs[0]: Invalid value: <hidden>: may not change once set",
        ),
        (
            "Db.example.com \"x\" is invalid: spec.e: Unsupported value: \"three: }\": supported values: \"one\", \"two\"",
            "Db.example.com \"x\" is invalid: spec.e: Unsupported value: \"three: }\": supported values: \"one\", \"two\"",
        ),
        (
            "Job.batch \"h\" is invalid: spec.template: Invalid value: {\"Env\":[{\"Value\":\"hunter2: }\"}]}: field is immutable",
            "Job.batch \"h\" is invalid: spec.template: Invalid value: <hidden>: field is immutable",
        ),
        (
            "Job.batch \"h\" is invalid: spec.template: Invalid value: core.PodTemplateSpec{Name:\"hunter2, x\"}: field is immutable",
            "Job.batch \"h\" is invalid: spec.template: Invalid value: <hidden>: field is immutable",
        ),
        (
            " \"\" is invalid: patch: Invalid value: \"map[data:map[a:14]]\": cannot convert int64 to string",
            " \"\" is invalid: patch: Invalid value: <hidden>: cannot convert int64 to string",
        ),
        (
            "Secret \"s\" is invalid: data[a b]: Invalid value: \"hunter\\\"2: x\": a valid config key must consist of x",
            "Secret \"s\" is invalid: data[a b]: Invalid value: <hidden>: a valid config key must consist of x",
        ),
        (
            "Secret \"s\" is invalid: [type: Invalid value: 5: no, data: Duplicate value: \"hunter2\"]",
            "Secret \"s\" is invalid: [type: Invalid value: <hidden>: no, data: Duplicate value: <hidden>]",
        ),
        (
            "X \"x\" is invalid: [a: Invalid value: 5: no, b: Invalid value: \"y\"]",
            "X \"x\" is invalid: [a: Invalid value: 5: no, b: Invalid value: \"y\"]",
        ),
        (
            "X \"x\" is invalid: a: Invalid value: core.Env{Count:1, Value:\"hunter2\", Nested:core.Y{A:1, B:2}}: no",
            "X \"x\" is invalid: a: Invalid value: <hidden>: no",
        ),
        (
            "Secret \"s\" is invalid: [a: Invalid value: 12:30,45: no, b: Invalid value: C:\\\\: no]",
            "Secret \"s\" is invalid: [a: Invalid value: <hidden>: no, b: Invalid value: <hidden>: no]",
        ),
        ("X \"x\" is invalid: a: Invalid value: {\"unended", "X \"x\" is invalid: a: Invalid value: <hidden>"),
    ];
    for (message, expected) in cases {
        assert_eq!(status(422, "Invalid", message).to_string(), expected);
    }
    let body = json!({"message": "x: Invalid value: \"hunter2\": no", "details": {"kind": "secrets", "causes": [{"field": "x"}, {"field": ""}]}});
    let error = refusal(422, body.to_string().as_bytes());
    assert_eq!((error.to_string().as_str(), error.fields()), ("x: Invalid value: <hidden>: no", &["x".to_owned()][..]));
    assert_eq!(refusal(502, b" Bad Gateway\n").to_string(), "Bad Gateway");
    assert!(Error::InvalidName("..".into()).fields().is_empty());
}

#[test]
fn terminating_namespaces_differ_from_missing_permissions() {
    let answer = |code, causes: &str| {
        let body = format!(r#"{{"reason": "Forbidden", "message": "no", "details": {{"causes": [{causes}]}}}}"#);
        refusal(code, body.as_bytes())
    };
    let terminating = r#"{"reason": "NamespaceTerminating", "message": "no", "field": "metadata.namespace"}"#;
    let error = answer(403, terminating);
    assert!(error.is_terminating() && !error.is_transient());
    assert_eq!(error.fields(), ["metadata.namespace"]);
    assert!(!answer(403, "").is_terminating());
    assert!(!answer(403, r#"{"field": "NamespaceTerminating"}"#).is_terminating());
    assert!(!answer(404, terminating).is_terminating());
    assert!(!Error::Transport("no".into()).is_terminating());
}

#[test]
fn rejections_of_immutable_fields_and_nothing_else_are_recognised() {
    let status =
        |causes: Value| json!({"reason": "Invalid", "message": "x", "details": {"causes": causes}}).to_string();
    let cause = |reason: &str, message: &str| json!({"reason": reason, "field": "spec", "message": message});
    let is_immutable = |code: u16, causes: Value| refusal(code, status(causes).as_bytes()).is_immutable();
    let (invalid, forbidden) = ("FieldValueInvalid", "FieldValueForbidden");
    let template = cause(invalid, "Invalid value: {\"metadata\":{}}: field is immutable");
    for (reason, message) in [
        (invalid, "Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable"),
        (invalid, "Invalid value: [\"None\"]: may not change once set"),
        (invalid, "Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\"}: cannot change roleRef"),
        (invalid, "Invalid value: \"string\": Value is immutable"),
        (invalid, "Invalid value: \"a\": field cannot be modified once set"),
        (forbidden, "Forbidden: field is immutable when `immutable` is set"),
        (
            forbidden,
            "Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals' are forbidden",
        ),
        (forbidden, "Forbidden: updates to parameters are forbidden."),
        (forbidden, "Forbidden: may not be changed in an update."),
        (forbidden, "Forbidden: spec is immutable after creation except resources.requests"),
        (forbidden, "Forbidden: pod updates may not change fields other than `spec.containers[*].image`"),
    ] {
        assert!(is_immutable(422, json!([cause(reason, message), template])), "{message}");
    }
    let wrong = cause(invalid, "Invalid value: -1: must be greater than or equal to 0");
    assert!(!is_immutable(422, json!([template, wrong])), "the new object would be rejected, too");
    assert!(!is_immutable(422, json!([])));
    assert!(!is_immutable(409, json!([template])) && !is_immutable(403, json!([template])));
    assert!(!is_immutable(422, json!([cause("FieldValueRequired", "immutable is required")])));
    assert!(!status_of_a_webhook().is_immutable(), "it names no field");
}

#[test]
fn an_object_that_was_replaced_meanwhile_is_a_lost_race() {
    let cause = json!({
        "reason": "FieldValueInvalid", "field": "metadata.uid", "message": "Invalid value: \"a\": field is immutable",
    });
    let message = "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"a\": field is immutable";
    // The server repeats the cause.
    let status = json!({"reason": "Invalid", "message": message, "details": {"causes": [cause, cause]}});
    let error = refusal(422, status.to_string().as_bytes());
    assert!(error.is_conflict() && error.is_transient() && !error.is_immutable(), "{error:?}");
    assert!(error.is_replaced() && !Error::from_status(409, "Conflict", message).is_replaced());
}

fn status_of_a_webhook() -> Error {
    status(422, "Invalid", "admission webhook \"a.example.com\" denied the request: the template is immutable")
}

#[test]
fn what_was_not_answered_or_only_asked_to_read_judges_nothing() {
    let refused = |code, purpose| Error::from_status(code, "Conflict", "no").of_request(purpose);
    for code in [400, 403, 404, 405, 413, 415, 422] {
        assert!(
            refused(code, Purpose::Read).is_unanswered() && !refused(code, Purpose::Write).is_unanswered(),
            "{code}"
        );
    }
    for code in [401, 408, 409, 425, 429, 500, 502, 503, 504] {
        assert!(refused(code, Purpose::Write).is_unanswered(), "{code}");
    }
    assert!(!refused(403, Purpose::Read).is_outage() && Error::Outdated.is_outage() && Error::Moved.is_outage());
    assert!(Error::Transport("reset".into()).is_unanswered() && Error::TimedOut { seconds: 90 }.is_unanswered());
    let gone = || Error::NoKind { api_version: "v1".into(), kind: "X".into() };
    assert!(!gone().is_unanswered() && !Error::NoName.is_unanswered(), "the server answered, or was never asked");
}

#[test]
fn only_an_internal_error_that_names_a_conversion_webhook_is_of_one() {
    let failed = "conversion webhook for example.com/v2, Kind=Db failed: no endpoints available for service \"a\"";
    for (code, message, expected) in [(500, failed, true), (500, "no", false), (503, failed, false)] {
        assert_eq!(Error::from_status(code, "InternalError", message).is_of_conversion(), expected, "{code} {message}");
    }
}

#[test]
fn roles_that_the_server_has_not_read_yet_are_no_judgement() {
    let forbidden = |why: &str| {
        let begin = "configmaps \"b\" is forbidden: User \"op\" cannot patch resource \"configmaps\" in API group \"\" in the namespace \"ns\"";
        Error::from_status(403, "Forbidden", &format!("{begin}{why}")).is_unanswered()
    };
    assert!(forbidden(": RBAC: clusterrole.rbac.authorization.k8s.io \"op\" not found"));
    assert!(forbidden(
        ": RBAC: [role.rbac.authorization.k8s.io \"a\" not found, clusterrole.rbac.authorization.k8s.io \"b\" not found]"
    ));
    assert!(!forbidden("") && !forbidden(": RBAC: allowed by nobody"));
}

#[test]
fn a_failure_is_named_without_what_the_server_quotes() {
    let transport = || Error::Transport("connect to https://x/?q=secret".into());
    let cases = [
        (status(500, "InternalError", "webhook denied secret"), "HTTP 500 InternalError"),
        (status(400, "it is secret", "denied"), "HTTP 400"),
        (status(502, "", "<html>secret"), "HTTP 502"),
        (Error::InvalidName("secret/name".into()), "invalid name"),
        (transport(), "cannot reach the API server"),
        (Error::TimedOut { seconds: 90 }, "the API server did not complete its response within 90 s"),
    ];
    for (error, expected) in cases {
        assert_eq!(error.named(), expected);
    }
    assert_eq!(
        named(&crate::Error::Json(serde_json::from_str::<u8>("x").unwrap_err())).as_deref(),
        Some("cannot parse the API server's response")
    );
    assert_eq!(named(&std::fmt::Error), None);
}
