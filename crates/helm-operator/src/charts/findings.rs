//! Finds at startup what a watch's chart needs and watches.yaml does not grant. Otherwise, only the first change of a
//! resource would show it.

use helm::chart::Chart;
use helm::engine::{Key, LookupGrant, SpelledOut, lookups, spelled_out};

use crate::rendering::explain;
use crate::watches::{LookupRule, ObjectsRule, Watch};

/// How many places a warning lists.
const MAX_PLACES: usize = 3;

/// Logs what the chart may lack.
pub(crate) fn report(watch: &Watch, chart: &Chart) {
    for finding in of(watch, chart) {
        tracing::warn!(kind = watch.kind, chart = %watch.chart.display(), "{finding}");
    }
}

/// Returns what the chart may lack, one sentence each.
fn of(watch: &Watch, chart: &Chart) -> Vec<String> {
    let mut findings = Vec::new();
    if !watch.schema.skip {
        findings.extend(chart.unread_schemas().iter().map(explain));
    }
    findings.extend(closed_lookups(&watch.lookup, chart));
    findings.extend(closed_kinds(&watch.lookup, chart));
    findings.extend(closed_objects(&watch.objects, &spelled_out(chart)));
    findings.extend(untyped_overrides(watch));
    findings.extend(scaffold::lint::left_open(&watch.undecided));
    findings
}

/// Describes the lookups that the watch may not allow.
fn closed_lookups(rule: &LookupRule, chart: &Chart) -> Option<String> {
    let calls = lookups(chart);
    let (given, needed) = (granted(rule), LookupGrant::of(&calls));
    if given.covers(&needed) {
        return None;
    }
    let closed = calls.iter().filter(|call| !call.is_open() && !given.covers(&LookupGrant::of([*call])));
    let places = listed(closed.map(ToString::to_string).collect());
    Some(format!(
        "templates may look up more than their release may read: {places}; lookup: {needed} in watches.yaml opens it"
    ))
}

/// Describes the lookups whose kind only a render determines, and which may therefore not be allowed.
fn closed_kinds(rule: &LookupRule, chart: &Chart) -> Option<String> {
    let computed: Vec<String> = lookups(chart)
        .into_iter()
        .filter(|call| call.kind.is_none() && rule.kinds.is_default())
        .map(|call| format!("{}:{}", call.template, call.line))
        .collect();
    (!computed.is_empty()).then(|| {
        let places = listed(computed);
        format!(
            "templates compute the kind that they look up: {places}; objects without a namespace, and kinds that this operator serves, are read only \
             where the chart's own text names their kind; lookup: {{kinds: any}} in watches.yaml opens them"
        )
    })
}

/// Joins places, up to [`MAX_PLACES`].
fn listed(mut places: Vec<String>) -> String {
    if places.len() > MAX_PLACES {
        let rest = places.len() - MAX_PLACES;
        places.truncate(MAX_PLACES);
        places.push(format!("and {rest} more"));
    }
    places.join("; ")
}

/// Describes the objects that the watch may not allow, because only a render determines their namespace or kind.
fn closed_objects(rule: &ObjectsRule, spelled: &SpelledOut) -> Option<String> {
    let is_open = |what: Key| match what {
        Key::Namespace => !rule.namespaces.is_default(),
        Key::Kind => !rule.cluster_scoped.is_default(),
    };
    let closed: Vec<_> = spelled.computed.iter().filter(|computed| !is_open(computed.what)).collect();
    if closed.is_empty() {
        return None;
    }
    let grant = spelled.grant(|what| !is_open(what));
    let places = listed(closed.iter().map(ToString::to_string).collect());
    Some(format!(
        "values decide what the release's objects are: {places}; allowed are objects in the release's namespace and those that the chart's own text \
         names; objects: {grant} in watches.yaml allows any"
    ))
}

fn granted(rule: &LookupRule) -> LookupGrant {
    LookupGrant { namespaces: rule.namespaces.iter().cloned().collect(), all: rule.all }
}

/// Describes override values whose type depends on a key that is not set.
fn untyped_overrides(watch: &Watch) -> Option<String> {
    let keys = watch.overrides.typed_keys();
    if keys.is_empty() || watch.overrides.kind().is_some() {
        return None;
    }
    Some(format!(
        "override values {} are numbers, booleans or null here, and strings in operator-sdk: set overrideValuesType in watches.yaml, to string or typed; \
         until then each release that operator-sdk made keeps strings, and users who may write a resource's status can make it look like one: the string \
         \"false\" is true for a template",
        keys.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watches;

    fn findings(keys: &str, template: &str, schema: &str) -> Vec<String> {
        let decided = "serviceAccountName: $(operator), storageNamespace: $(release)";
        let watches = format!("- {{version: v1, kind: Web, chart: web, {decided}{keys}}}");
        let watch = watches::parse(&watches, |_| None).unwrap().watches.remove(0);
        let chart = Chart::from_files([
            ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
            ("values.yaml", "operator: {namespace: far}\n"),
            ("values.schema.json", schema),
            ("templates/a.yaml", template),
        ]);
        of(&watch, &chart.unwrap())
    }

    #[test]
    fn lookups_that_are_not_open_are_named_with_the_key_that_opens_them() {
        let template = "{{ lookup \"v1\" \"Secret\" .Values.operator.namespace \"a\" }}\n{{ lookup .a .b .c .d }}";
        let found = findings("", template, "{}");
        assert!(
            found[1].contains("compute the kind that they look up: web/templates/a.yaml:2; objects without"),
            "{found:?}"
        );
        assert_eq!(
            found[..1],
            [
                "templates may look up more than their release may read: web/templates/a.yaml:1 looks up Secret in the namespace that the value \
              operator.namespace names (\"far\" by default); web/templates/a.yaml:2 looks up an object in a namespace that its templates compute; \
              lookup: {all: true} in watches.yaml opens it"
            ]
        );
        assert!(findings(", lookup: {namespaces: [far]}", template, "{}")[0].contains("read: web/templates/a.yaml:2"));
        assert_eq!(findings(", lookup: {all: true, kinds: any}", template, "{}"), [""; 0]);
        assert_eq!(findings("", "{{ lookup \"v1\" \"Secret\" .Release.Namespace \"a\" }}", "{}"), [""; 0]);
        let many = findings("", &"{{ lookup .a .b .c .d }}\n".repeat(5), "{}").remove(0);
        assert!(many.contains("; and 2 more; lookup: {all: true}"), "{many}");
    }

    #[test]
    fn objects_that_only_values_place_are_named_with_the_key_that_allows_them() {
        let template = "kind: A\nmetadata:\n  namespace: {{ .Values.where }}\n";
        assert_eq!(
            findings("", template, "{}"),
            [
                "values decide what the release's objects are: web/templates/a.yaml:3 computes the namespace of an object; allowed are objects in the \
              release's namespace and those that the chart's own text names; objects: {namespaces: any} in watches.yaml allows any"
            ]
        );
        assert!(findings("", "kind: {{ .Values.kind }}\n", "{}")[0].contains("objects: {clusterScoped: any} in"));
        for rule in ["own", "any", "[far]"] {
            assert_eq!(findings(&format!(", objects: {{namespaces: {rule}}}"), template, "{}"), [""; 0], "{rule}");
        }
        assert_eq!(findings("", "kind: A\nmetadata:\n  namespace: far\n", "{}"), [""; 0]);
    }

    #[test]
    fn a_schema_elsewhere_is_named_with_the_keys_that_help() {
        let schema = r#"{"$ref":"https://e.x/a.json"}"#;
        assert_eq!(
            findings("", "", schema),
            [
                "values.schema.json of chart \"web\" refers to \"https://e.x/a.json\", which is not a file of the chart: copy the document into the image \
              and name it in watches.yaml with schema: {copies: {\"https://e.x/a.json\": PATH}}, or set schema: {skip: true}"
            ]
        );
        assert_eq!(findings(", schema: {skip: true}", "", schema), [""; 0]);
    }

    #[test]
    fn a_watch_that_leaves_open_whose_rights_count_is_named() {
        let watch = watches::parse("- {version: v1, kind: Web, chart: web, serviceAccountName: x}", |_| None);
        let watch = watch.unwrap().watches.remove(0);
        let chart = Chart::from_files([("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")]).unwrap();
        let found = of(&watch, &chart);
        assert!(matches!(&found[..], [one] if one.starts_with("storageNamespace is not set: ")), "{found:?}");
    }

    #[test]
    fn override_values_whose_type_is_open_are_named() {
        let keys = ", overrideValues: {a: '1', b: text, c.d: 'false'}";
        let found = findings(keys, "", "{}");
        assert!(found[0].starts_with("override values a, c.d are numbers, booleans or null here"), "{found:?}");
        assert!(found[0].contains("users who may write a resource's status can make it look like one"), "{found:?}");
        assert_eq!(findings(&format!("{keys}, overrideValuesType: typed"), "", "{}"), [""; 0]);
    }
}
