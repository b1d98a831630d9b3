//! Tests with whole watches files.

use go_encoding::json;
use helm::chart::Chart;
use helm::engine::spelled_out;
use helm_release::kube::{Adopt, CrdPolicy, DriftPolicy, ObjectKey, Pointer};

use super::*;

const MEMCACHED: &str = "
- group: cache.example.com
  version: v1alpha1
  kind: Memcached
  chart: helm-charts/memcached
";

fn env(name: &str) -> Option<String> {
    (name == "MY_VALUE").then(|| "value".to_owned())
}

fn one(extra: &str) -> Result<Watch, String> {
    let mut read = parse(&format!("{MEMCACHED}{extra}"), env).map_err(|e| controller::report::chain(&e))?;
    assert_eq!(read.watches.len(), 1);
    Ok(read.watches.remove(0))
}

#[test]
fn an_entry_has_upstreams_defaults() {
    let watch = one("").unwrap();
    assert_eq!(watch.gvk(), GroupVersionKind::gvk("cache.example.com", "v1alpha1", "Memcached"));
    assert_eq!(watch.chart, PathBuf::from("helm-charts/memcached"));
    assert_eq!(watch.controller_name(), "memcached-controller");
    assert_eq!(watch.overrides.kind(), None);
    assert_eq!((watch.reconcile_period, watch.max_concurrent_reconciles), (None, None));
    assert!(watch.watch_dependent_resources && watch.selector.selects_all() && watch.overrides.texts().is_empty());
}

#[test]
fn objects_are_written_as_apply_says() {
    assert_eq!(one("").unwrap().apply, Policy::Auto);
    for (text, policy) in [("auto", Policy::Auto), ("server", Policy::Server), ("client", Policy::Client)] {
        assert_eq!(one(&format!("  apply: {text}")).unwrap().apply, policy);
    }
    let error = one("  apply: both").unwrap_err();
    assert_eq!(error, "line 6: apply: must be \"auto\", \"server\" or \"client\", found \"both\"");
}

#[test]
fn every_key_is_read_in_any_case() {
    let watch = one("
  WatchDependentResources: false
  overridevalues: {a.b: $MY_VALUE, flag: true, count: 3, half: 0.5, none: '${NONE}', empty: null}
  overrideValuesType: string
  selector: {matchLabels: {app: x}, matchExpressions: [{key: tier, operator: In, values: [a, b]}]}
  reconcilePeriod: 1m30s
  hookTimeout: 2h
  maxConcurrentReconciles: 4
  dryRunOption: server
  maxHistory: 0
  releaseNamespace: platform
  storageNamespace: records
  annotations: {pause: example.com/paused}
")
    .unwrap();
    let pairs = [("a.b", "value"), ("count", "3"), ("empty", ""), ("flag", "true"), ("half", "0.5"), ("none", "")];
    assert_eq!(*watch.overrides.texts(), pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    assert_eq!(watch.overrides.kind(), Some(OverrideValuesType::String));
    assert_eq!(watch.reconcile_period, Some(Duration::from_secs(90)));
    assert_eq!(watch.hook_timeout, Some(Duration::from_secs(7200)));
    assert_eq!(watch.max_concurrent_reconciles, Some(4));
    assert_eq!((watch.max_history, watch.release_namespace.as_deref()), (Some(0), Some("platform")));
    assert_eq!(watch.storage("own"), Some("records"));
    let mut names = AnnotationNames::default();
    names.add("pause", "example.com/paused").unwrap();
    assert_eq!(watch.annotations, names);
    assert!(!watch.watch_dependent_resources);
    assert_eq!(watch.selector.to_string(), "app=x,tier in (a,b)");
}

#[test]
fn null_is_as_if_the_key_were_absent() {
    let watch = one("  reconcilePeriod: null\n  selector:\n  overrideValues:\n").unwrap();
    assert!(watch.reconcile_period.is_none() && watch.selector.selects_all() && watch.overrides.texts().is_empty());
}

#[test]
fn a_period_of_zero_differs_from_no_period() {
    assert_eq!(one("  reconcilePeriod: 0s\n").unwrap().reconcile_period, Some(Duration::ZERO));
}

#[test]
fn an_invalid_value_is_rejected_with_its_line() {
    let check = |extra: &str, expected: &str| assert_eq!(one(extra).map(|_| ()), Err(expected.to_owned()), "{extra}");
    check("  reconcilePeriod: 60\n", "line 6: reconcilePeriod: expected a string, found a number");
    check("  reconcilePeriod: 1x\n", r#"line 6: reconcilePeriod: time: unknown unit "x" in duration "1x""#);
    check("  hookTimeout: soon\n", r#"line 6: hookTimeout: time: invalid duration "soon""#);
    check("  maxConcurrentReconciles: 0\n", "line 6: maxConcurrentReconciles: must be between 1 and 65535, found 0");
    check("  maxHistory: -1\n", "line 6: maxHistory: must be between 0 and 65535, found -1");
    check(
        "  annotations: {pause: a, install-description: a}\n",
        "line 6: annotations: annotation \"a\" already exists",
    );
    check("  watchDependentResources: 3\n", "line 6: watchDependentResources: expected true or false, found a number");
    check(
        "  overrideValues:\n    image: {tag: x}\n",
        "line 7: image: nested values are not supported here; write the path as the key, as in \"image.tag\"",
    );
    check("  overrideValues: [a]\n", "line 6: overrideValues: expected a mapping, found a list");
    check("  overrideValuesType: int\n", r#"line 6: overrideValuesType: must be "typed" or "string", found "int""#);
    check(
        "  selector: {matchExpressions: [{key: a, operator: Near}]}\n",
        "line 6: selector: failed to parse value as expression: Invalid expression operator",
    );
}

#[test]
fn what_resources_depend_on_is_read_and_a_misspelt_key_names_the_nearest() {
    let watch = one("
  dependsOn:
  - {group: db.example.com, kind: Database, name: $(name)-db}
  - {kind: Secret, selector: {matchLabels: {app: x}}, until: exists}
  dependsOnAnnotation: {kinds: [Secret], namespaces: [shared]}
")
    .unwrap();
    assert_eq!(watch.depends_on.len(), 2);
    let rule = AnnotationRule { kinds: ["Secret".to_owned()].into(), namespaces: ["shared".to_owned()].into() };
    assert_eq!(watch.depends_on_annotation, Some(rule));
    for (text, expected) in [
        ("  dependsOn: [{kid: A, name: a}]\n", "dependsOn: [0]: unknown key \"kid\"; the keys are group, kind, name,"),
        ("  dependsOn: {kind: A}\n", "dependsOn: expected a list"),
        ("  dependsOnAnnotation: true\n", "dependsOnAnnotation: expected false or {kinds: […]}, found a boolean"),
        ("  dependsOnAnnotation: {}\n", "dependsOnAnnotation: kinds must name at least one kind"),
        (
            "  dependsOnAnnotation: {kind: [A]}\n",
            "dependsOnAnnotation: unknown key \"kind\"; the keys are kinds, namespaces; did you mean \"kinds\"?",
        ),
    ] {
        let error = one(text).unwrap_err();
        assert!(error.starts_with(&format!("line 6: {expected}")), "{error}");
    }
    assert!(one("  dependsOn: [{kid: A, name: a}]\n").unwrap_err().ends_with("did you mean \"kind\"?"));
    let parsed = parse("- {version: v1, kind: Web, chart: c, dependson: [], dependOn: []}", env).unwrap();
    let warnings: Vec<String> = parsed.warnings.iter().map(|warning| warning.what.clone()).collect();
    assert_eq!(warnings, ["unknown key \"dependOn\" is ignored; did you mean \"dependsOn\"?"]);
}

#[test]
fn a_file_that_upstream_rejects_is_rejected_with_its_message() {
    let check = |text: &str, expected: &str| {
        assert_eq!(parse(text, env).map(|_| ()).map_err(|e| e.to_string()), Err(expected.to_owned()), "{text}");
    };
    check("foo: bar", "not a valid list of watches: expected a list of watches, found a mapping");
    check("- foo", "not a valid list of watches: watch 1 must be a mapping, found a string");
    check("- group: g\n  kind: K\n", "line 1: invalid GVK: g/, Kind=K: version must not be empty");
    check("- group: g\n  version: v1\n", "line 1: invalid GVK: g/v1, Kind=: kind must not be empty");
    let once = "- {group: g, version: v1, kind: K}\n";
    check(&once.repeat(2), "line 2: duplicate GVK: g/v1, Kind=K: line 1 has it already");
    assert!(parse("- {", env).is_err());
}

#[test]
fn a_misspelt_key_that_is_required_is_named_with_its_line() {
    let check = |text: &str, expected: &str| assert_eq!(parse(text, env).unwrap_err().to_string(), expected);
    check(
        "# ours\n- group: g\n  version: v1\n  knd: Shop\n  chart: c\n",
        "line 2: invalid GVK: g/v1, Kind=: kind must not be empty; line 4 has \"knd\": did you mean \"kind\"?",
    );
    check(
        "- {group: g, verison: v1, kind: Shop}\n",
        "line 1: invalid GVK: g/, Kind=Shop: version must not be empty; line 1 has \"verison\": did you mean \"version\"?",
    );
    check("- {group: g, version: v1, art: Shop}\n", "line 1: invalid GVK: g/v1, Kind=: kind must not be empty");
}

#[test]
fn versions_of_a_kind_that_record_in_different_places_are_named_with_both_lines() {
    let text = "- {version: v1, kind: K}\n- {version: v2, kind: K, storageNamespace: a}\n";
    let expected = "line 2: the entries of K must have the same storageNamespace as the one in line 1: \
                    a resource's records stay when its version changes";
    assert_eq!(parse(text, env).unwrap_err().to_string(), expected);
}

#[test]
fn a_hostile_file_is_an_error_soon_and_reaches_no_terminal() {
    let levels: String = ('b'..='k')
        .zip('a'..)
        .map(|(to, from)| format!("{to}: &{to} [{}]\n", vec![format!("*{from}"); 10].join(",")))
        .collect();
    let cases = [
        ("aliases that double", format!("- a: &a [1,1,1,1,1,1,1,1,1,1]\n  {}", levels.replace('\n', "\n  "))),
        ("deep values", format!("- {{group: g, version: v1, kind: K, x: {}1", "[".repeat(100_000))),
        ("very many watches of one kind", "- {group: g, version: v1, kind: K}\n".repeat(20_000)),
        (
            "a huge duration",
            format!("- {{group: g, version: v1, kind: K, reconcilePeriod: {}h}}\n", "9".repeat(100_000)),
        ),
        ("a value that moves a cursor", "- {group: g, version: v1, kind: K, reconcilePeriod: \"\\e[2J\"}\n".to_owned()),
        ("a key that does", "- {group: g, version: v1, kind: K, \"\\e[2J\": [}\n".to_owned()),
        ("no text", "\0\0\0".to_owned()),
    ];
    for (what, text) in cases {
        let began = std::time::Instant::now();
        let error = parse(&text, env).map(|_| ()).expect_err(what).to_string();
        assert!(began.elapsed().as_secs() < 60, "{what}: {:?}", began.elapsed());
        assert!(!error.contains('\x1b') && error.len() <= 200_000, "{what}: {} bytes: {error:.300}", error.len());
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = load(Path::new("no/watches.yaml")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not open watches file no/watches.yaml (run this in the project's folder, or set --watches-file)"
    );
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    std::fs::write(&file, "- {version: v1}\n").unwrap();
    let expected = format!("failed to load watches file {}: line 1: invalid GVK: ", file.display());
    let error = controller::report::chain(&load(&file).unwrap_err());
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn an_empty_group_an_empty_file_and_two_versions_of_a_kind_are_fine() {
    let count = |text: &str| parse(text, env).unwrap().watches.len();
    assert_eq!(count(""), 0);
    assert_eq!(count("[]"), 0);
    assert_eq!(
        count("# Use the 'create api' subcommand to add watches to this file.\n# +kubebuilder:scaffold:watch\n"),
        0
    );
    assert_eq!(count("- {version: v1, kind: K, chart: c}"), 1);
    assert_eq!(count("- {group: g, version: v1, kind: K}\n- {group: g, version: v2, kind: K}"), 2);
}

#[test]
fn unknown_keys_are_named_with_their_line_and_the_key_that_was_meant() {
    let check = |extra: &str, expected: &str| {
        let warnings = parse(&format!("{MEMCACHED}{extra}"), env).unwrap().warnings;
        assert_eq!(warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    };
    check("  overideValues: {}\n", r#"line 6: unknown key "overideValues" is ignored; did you mean "overrideValues"?"#);
    check(
        "  reconcileperiods: 1m\n",
        r#"line 6: unknown key "reconcileperiods" is ignored; did you mean "reconcilePeriod"?"#,
    );
    check("  playbook: x\n", r#"line 6: unknown key "playbook" is ignored"#);
}

#[test]
fn override_values_are_typed_unless_strings_are_asked_for() {
    let check = |kind: &str, expected: &[(&str, go_template::Value)]| {
        let watch =
            one(&format!("  overrideValuesType: {kind}\n  overrideValues: {{on: true, count: 3, a.b: x}}\n")).unwrap();
        let spec = watch.overrides.over(go_template::Map::default()).unwrap();
        for (key, value) in expected {
            assert_eq!(format!("{:?}", spec.get(key.as_bytes())), format!("{:?}", Some(value.clone())), "{kind} {key}");
        }
    };
    check("typed", &[("on", true.into()), ("count", go_template::Value::int64(3))]);
    check("string", &[("on", "true".into()), ("count", "3".into())]);
}

#[test]
fn an_invalid_override_value_stops_the_start_and_is_named_by_its_key() {
    let check = |values: &str, expected: &str| {
        let error = one(&format!("  overrideValues: {{{values}}}\n")).unwrap_err();
        assert!(error.starts_with(expected) && !error.contains("s3cret"), "{error}");
    };
    check("'r[x]': s3cret", "invalid override value \"r[x]\": error parsing index: ");
    check("a: '1,s3cret'", "invalid override value \"a\": its value is not valid for --set");
    check("a: '{{ nope }}'", "failed to expand override values: invalid template string of \"a\": template: a:1: ");
}

#[test]
fn variables_that_are_not_set_are_named_with_the_kind_and_the_keys() {
    let watch =
        one("  overrideValues: {a.b: x$TAG, c: '${HOST}:$PORT', d: $MY_VALUE, e: '{{ env \"E\" }}'}\n").unwrap();
    assert_eq!(watch.overrides.texts()["a.b"], "x");
    let expected = "line 2: override values of Memcached.cache.example.com name environment variables that are not set, and that count as empty: a.b ($TAG), c ($HOST, $PORT); set them in the operator's environment";
    assert_eq!(unset(&watch).unwrap().to_string(), expected);
    assert_eq!(unset(&one("  overrideValues: {d: $MY_VALUE}\n").unwrap()), None);
    // A password may contain a dollar sign, and what follows it is no variable.
    for text in ["s3cret$hunter", "s3cret$5", "s3cret$Hunter2"] {
        let told =
            unset(&one(&format!("  overrideValues: {{auth.password: '{text}'}}\n")).unwrap()).unwrap().to_string();
        assert!(told.contains(" count as empty: auth.password; set them"), "{told}");
    }
}

#[test]
fn sources_of_values_are_read_and_checked_where_the_file_is() {
    let watch = |rest: &str| parse(&format!("- {{version: v1, kind: K, chart: c{rest}}}"), |_| None);
    let text = ", valuesFromAnnotation: true, valuesFrom: [{kind: ConfigMap, name: base}, {kind: Secret, name: $(name)-auth, valuesKey: p, targetPath: a.b, optional: true}]";
    let watch_with = watch(text).unwrap().watches.remove(0);
    let [base, auth] = &watch_with.values_from[..] else { panic!("two entries") };
    assert_eq!((base.kind, &*base.values_key, base.optional), (SourceKind::ConfigMap, "values.yaml", false));
    assert_eq!((auth.target_path.as_deref(), &*auth.name, auth.optional), (Some("a.b"), "$(name)-auth", true));
    assert_eq!(watch_with.values_from_annotation, AnnotationSources::Own);
    let of = |text: &str| {
        watch(&format!(", valuesFromAnnotation: {text}")).map(|mut all| all.watches.remove(0).values_from_annotation)
    };
    assert_eq!(
        (of("false").unwrap(), watch("").unwrap().watches[0].values_from_annotation.clone()),
        (AnnotationSources::No, AnnotationSources::No)
    );
    assert_eq!(of("{namespaces: [a, b]}").unwrap(), AnnotationSources::In(["a".to_owned(), "b".to_owned()].into()));
    assert!(of("{namespace: [a]}").unwrap_err().to_string().contains("did you mean \"namespaces\"?"));
    assert!(
        of("always").unwrap_err().to_string().contains("expected true, false or {namespaces: […]}, found a string")
    );
    for (entry, expected) in [
        ("{kind: Pod, name: a}", "valuesFrom: unknown variant `Pod`"),
        ("{kind: Secret, name: a, key: b}", "valuesFrom: unknown field `key`"),
        ("{kind: Secret}", "valuesFrom: missing field `name`"),
        ("{kind: Secret, name: a_b}", "valuesFrom[0]: name \"a_b\" is not a valid name"),
    ] {
        let error = watch(&format!(", valuesFrom: [{entry}]")).unwrap_err().to_string();
        assert!(error.contains("line 1: ") && error.contains(expected), "{error}");
    }
}

#[test]
fn objects_are_granted_by_word_or_by_name_and_a_typo_names_the_nearest_key() {
    let objects = |text: &str| one(&format!("  objects: {text}")).map(|watch| watch.objects);
    assert_eq!(one("").unwrap().objects, ObjectsRule::default());
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let rule = objects("{namespaces: [far], clusterScoped: none, kinds: [Secret, Deployment.apps]}").unwrap();
    assert_eq!((&rule.namespaces, &rule.cluster_scoped), (&Granted::More(names(&["far"])), &Granted::Own));
    assert_eq!(rule.kinds, names(&["Deployment.apps", "Secret"]));
    for (text, granted) in [("own", Granted::Own), ("chart", Granted::Chart), ("any", Granted::Any)] {
        assert_eq!(objects(&format!("{{namespaces: {text}}}")).unwrap().namespaces, granted);
    }
    for (text, expected) in [
        ("own", "objects: expected a mapping, found a string"),
        ("{namespace: own}", "the keys are namespaces, clusterScoped, kinds; did you mean \"namespaces\"?"),
        ("{namespaces: all}", "namespaces must be \"own\", \"chart\", \"any\" or a list of names, found \"all\""),
        ("{clusterScoped: own}", "clusterScoped must be \"none\", \"chart\", \"any\" or a list"),
        ("{clusterScoped: true}", "clusterScoped: expected a word or a list of names, found"),
        ("{kinds: Secret}", "kinds: expected a list, found a string"),
    ] {
        let error = objects(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_chart_that_names_a_kind_of_one_group_grants_no_other() {
    let template = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n---\napiVersion: v1\nkind: Node\n\
        ---\napiVersion: {{ .Values.version }}\nkind: Open\n";
    let chart = Chart::from_files([
        ("Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n"),
        ("templates/a.yaml", template),
    ]);
    let reach = ObjectsRule::default().reach(&spelled_out(&chart.unwrap()));
    let admits = |group: &str, kind: &str| reach.admits(&ObjectKey::new(group, kind, "", "a"), "ns").is_ok();
    assert!(admits("rbac.authorization.k8s.io", "Role") && !admits("example.com", "Role"));
    assert!(admits("", "Node") && !admits("example.com", "Node"));
    assert!(admits("example.com", "Open") && admits("", "Open"), "its templates compute the group");
}

#[test]
fn drift_has_a_policy_and_fields_to_ignore() {
    assert_eq!(one("").unwrap().drift, Drift::default());
    for (text, policy) in [("repair", DriftPolicy::Repair), ("detect", DriftPolicy::Detect), ("off", DriftPolicy::Off)]
    {
        assert_eq!(one(&format!("  drift: {{policy: {text}}}")).unwrap().drift.policy, policy);
    }
    let watch = one("
  drift:
    ignore:
    - {group: apps, kind: Deployment, name: web, paths: [/spec/replicas]}
    - {group: '', paths: ['/metadata/annotations/a~1b', '/spec/containers/[name=web]/image']}
");
    let drift = watch.unwrap().drift;
    assert_eq!(drift.policy, DriftPolicy::Repair);
    let pointers = |texts: &[&str]| texts.iter().map(|text| Pointer::parse(text).unwrap()).collect::<Vec<_>>();
    let [web, core] = &*drift.ignore else { panic!("{drift:?}") };
    assert_eq!((web.objects.name.as_deref(), &web.paths), (Some("web"), &pointers(&["/spec/replicas"])));
    assert_eq!((core.objects.group.as_deref(), &core.objects.kind), (Some(""), &None));
    assert_eq!(core.paths, pointers(&["/metadata/annotations/a~1b", "/spec/containers/[name=web]/image"]));
}

#[test]
fn an_invalid_drift_rule_names_its_place() {
    let prefix = "line 6: drift: ";
    for (text, message) in [
        ("detect", "expected a mapping, found a string"),
        ("{policy: fix}", "policy must be \"repair\", \"detect\" or \"off\""),
        ("{paths: []}", "unknown key \"paths\"; the keys are policy, ignore"),
        ("{ignore: {}}", "ignore: expected a list, found a mapping"),
        ("{ignore: [{kind: X}]}", "ignore[0]: paths must name at least one field"),
        ("{ignore: [{kind: 1, paths: [/a]}]}", "ignore[0]: kind: expected a string, found a number"),
        (
            "{ignore: [{path: /a}]}",
            "ignore[0]: unknown key \"path\"; the keys are group, kind, name, paths; did you mean \"paths\"?",
        ),
        ("{ignore: [{paths: [/a, spec]}]}", "ignore[0]: paths[1]: path \"spec\": must look like /spec/replicas"),
    ] {
        assert_eq!(one(&format!("  drift: {text}")).unwrap_err(), format!("{prefix}{message}"));
    }
}

#[test]
fn a_watch_grants_what_its_resources_may_adopt() {
    assert_eq!(one("").unwrap().adopt, Adopt::Unowned);
    for (text, adopt) in [("never", Adopt::Never), ("released", Adopt::Released), ("any", Adopt::Any)] {
        assert_eq!(one(&format!("  adopt: {text}")).unwrap().adopt, adopt);
    }
    for (text, message) in [
        ("all", "must be \"never\", \"released\" or \"any\", found \"all\""),
        ("true", "expected a string, found a boolean"),
    ] {
        assert_eq!(one(&format!("  adopt: {text}")).unwrap_err(), format!("line 6: adopt: {message}"));
    }
}

#[test]
fn failures_have_a_policy_and_a_limit_of_retries() {
    let watch = one("").unwrap();
    assert_eq!((watch.on_failure, watch.retries), (OnFailure::Rollback, None));
    for (text, policy) in
        [("rollback", OnFailure::Rollback), ("uninstall", OnFailure::Uninstall), ("keep", OnFailure::Keep)]
    {
        let watch = one(&format!("  onFailure: {text}\n  retries: 5")).unwrap();
        assert_eq!((watch.on_failure, watch.retries), (policy, Some(5)));
    }
    assert_eq!(one("  retries: 0").unwrap().retries, Some(0));
    let prefix = "line 6: ";
    for (text, message) in [
        ("onFailure: ignore", "onFailure: must be \"rollback\", \"uninstall\" or \"keep\", found \"ignore\""),
        ("onFailure: 1", "onFailure: expected a string, found a number"),
        ("retries: -1", "retries: expected a whole number from 0"),
        ("retries: many", "retries: expected a whole number from 0"),
    ] {
        assert_eq!(one(&format!("  {text}")).unwrap_err(), format!("{prefix}{message}"));
    }
}

#[test]
fn tests_of_a_chart_run_only_by_choice() {
    assert_eq!(one("").unwrap().chart_tests, ChartTests::default());
    assert_eq!(one("  test: {}").unwrap().chart_tests.timeout, Duration::from_secs(300), "as in Helm");
    let on_failure = OnTestFailure::Rollback;
    let all = ChartTests { enable: true, on_failure, timeout: Duration::from_secs(60) };
    assert_eq!(one("  test: {enable: true, onFailure: rollback, timeout: 1m}").unwrap().chart_tests, all);
    for (text, message) in [
        ("{enable: 1}", "enable: expected true or false, found a number"),
        (
            "{enabled: true}",
            "unknown key \"enabled\"; the keys are enable, onFailure, timeout; did you mean \"enable\"?",
        ),
        ("{onFailure: keep}", "onFailure: must be \"report\" or \"rollback\", found \"keep\""),
        ("{timeout: 5}", "timeout: expected a string, found a number"),
        ("true", "expected a mapping, found a boolean"),
    ] {
        assert_eq!(one(&format!("  test: {text}")).unwrap_err(), format!("line 6: test: {message}"));
    }
}

#[test]
fn a_rollout_has_steps_and_a_gate_that_can_be_evaluated() {
    assert!(one("").unwrap().rollout.is_none());
    let text = "{canary: {matchLabels: {tier: canary}}, steps: [10%, 50%], bakeFor: 10m, gate: releases.failed < 2, onFailure: rollback}";
    let rollout = one(&format!("  rollout: {text}")).unwrap().rollout.unwrap();
    assert_eq!((&*rollout.steps, rollout.bake_for), (&[10, 50][..], Duration::from_secs(600)));
    assert_eq!((rollout.on_failure, rollout.gate()), (OnGateFailure::Rollback, "releases.failed < 2".to_owned()));
    assert_eq!(rollout.canary.as_ref().unwrap().to_string(), "tier=canary");
    let least = one("  rollout: {steps: [100%]}").unwrap().rollout.unwrap();
    assert_eq!((least.on_failure, &*least.gate()), (OnGateFailure::Halt, "releases.ready == releases.updated"));
    let keys = "the keys are canary, steps, bakeFor, gate, onFailure";
    for (text, message) in [
        ("{}", "expected canary or steps".to_owned()),
        ("{step: [10%]}", format!("unknown key \"step\"; {keys}; did you mean \"steps\"?")),
        ("{steps: [50%, 10%]}", "steps: 10% does not grow after 50%".into()),
        ("{steps: [10]}", "steps: expected shares from 1% to 100%, as in [10%, 50%], found 10".into()),
        ("{steps: [0%]}", "steps: expected shares from 1% to 100%, as in [10%, 50%], found \"0%\"".into()),
        ("{steps: 10%}", "steps: expected a list, found a string".into()),
        (
            "{canary: {}}",
            "canary: expected matchLabels or matchExpressions: without them, every release would be one".into(),
        ),
        ("{steps: [10%], gate: releases.good > 1}", "gate: no such key: good".into()),
        ("{steps: [10%], gate: release.ready > 1}", "gate: unknown variable \"release\"".into()),
        ("{steps: [10%], gate: releases.ready}", "gate: must be true or false, not a number".into()),
        ("{steps: [10%], onFailure: stop}", "onFailure: must be \"halt\" or \"rollback\", found \"stop\"".into()),
    ] {
        assert_eq!(one(&format!("  rollout: {text}")).unwrap_err(), format!("line 6: rollout: {message}"));
    }
}

#[test]
fn capabilities_let_a_chart_render_again_only_by_choice() {
    assert_eq!(one("").unwrap().render_on, RenderOn::default());
    assert!(one("  renderOn: [capabilities]").unwrap().render_on.capabilities);
    for (text, message) in [
        (
            "[capability]",
            "unknown trigger \"capability\"; the only one is capabilities; did you mean \"capabilities\"?",
        ),
        ("[1]", "expected a string, found a number"),
        ("capabilities", "expected a list, found a string"),
    ] {
        assert_eq!(one(&format!("  renderOn: {text}")).unwrap_err(), format!("line 6: renderOn: {message}"));
    }
    assert!(!one("  hookLogs: false").unwrap().hook_logs && one("  hookLogs: true").unwrap().hook_logs);
}

#[test]
fn a_chart_is_applied_at_once_or_in_its_own_order() {
    assert_eq!(one("").unwrap().sequencing, Sequencing::None);
    assert_eq!(one("  sequencing: none").unwrap().sequencing, Sequencing::None);
    assert_eq!(one("  sequencing: ordered").unwrap().sequencing, Sequencing::Ordered);
    for (text, message) in [
        ("orderd", "must be \"none\" or \"ordered\", found \"orderd\""),
        ("true", "expected a string, found a boolean"),
    ] {
        assert_eq!(one(&format!("  sequencing: {text}")).unwrap_err(), format!("line 6: sequencing: {message}"));
    }
    assert_eq!(super::decode::near("sequence"), Some("sequencing"));
}

#[test]
fn definitions_have_a_policy() {
    assert_eq!(one("").unwrap().crds, CrdPolicy::Create);
    for (text, policy) in
        [("skip", CrdPolicy::Skip), ("create", CrdPolicy::Create), ("createOrReplace", CrdPolicy::CreateOrReplace)]
    {
        assert_eq!(one(&format!("  crds: {text}")).unwrap().crds, policy);
    }
    let expected = "line 6: crds: must be \"skip\", \"create\" or \"createOrReplace\", found \"replace\"";
    assert_eq!(one("  crds: replace").unwrap_err(), expected);
}

#[test]
fn objects_to_recreate_are_selected_by_group_kind_and_name() {
    assert!(one("").unwrap().recreate.is_empty());
    let watch =
        one("  recreate:\n  - {group: apps, kind: Deployment, name: web}\n  - {kind: Service}\n  - {}\n").unwrap();
    let [web, services, all] = &*watch.recreate else { panic!("{:?}", watch.recreate) };
    assert_eq!(
        (web.group.as_deref(), web.kind.as_deref(), web.name.as_deref()),
        (Some("apps"), Some("Deployment"), Some("web"))
    );
    assert_eq!((&services.group, services.kind.as_deref()), (&None, Some("Service")));
    assert_eq!(*all, ObjectRule::default());
    let prefix = "line 6: recreate: ";
    for (text, message) in [
        ("true", "expected a list, found a boolean"),
        ("[Job]", "[0]: expected a mapping, found a string"),
        ("[{}, {kind: 1}]", "[1]: kind: expected a string, found a number"),
        ("[{paths: [/a]}]", "[0]: unknown key \"paths\"; the keys are group, kind, name"),
    ] {
        assert_eq!(one(&format!("  recreate: {text}")).unwrap_err(), format!("{prefix}{message}"));
    }
}

#[test]
fn records_are_in_a_named_namespace_in_the_operators_or_beside_their_release() {
    let check = |text: &str, expected: Option<&str>| {
        let watch = one(&format!("  storageNamespace: {text}")).unwrap();
        assert_eq!((watch.storage("own"), &*watch.undecided), (expected, &["serviceAccountName"][..]), "{text}");
    };
    check("records", Some("records"));
    check("$(operator)", Some("own"));
    check("$(release)", None);
    check("''", None);
    assert_eq!(
        one("  storageNamespace: $(other)").unwrap_err(),
        "line 6: storageNamespace: must be a namespace, $(operator) or $(release), found \"$(other)\""
    );
    assert_eq!(one("").unwrap().undecided, ["serviceAccountName", "storageNamespace"]);
    assert_eq!(one("  StorageNamespace: x\n  serviceAccountName: x").unwrap().undecided, [""; 0]);
}

#[test]
fn a_service_account_has_a_name_and_perhaps_a_namespace() {
    for operators in ["", "  serviceAccountName: $(operator)"] {
        assert_eq!(one(operators).unwrap().service_account, None);
    }
    let user = |text: &str| one(&format!("  serviceAccountName: {text}")).unwrap().service_account.unwrap().user("ns");
    assert_eq!(user("deployer"), "system:serviceaccount:ns:deployer");
    assert_eq!(user("far/deployer"), "system:serviceaccount:far:deployer");
    let prefix = "line 6: serviceAccountName: ";
    for (text, message) in [
        ("1", "name: expected a string, found a number"),
        ("''", "must be a name, namespace/name or $(operator), found \"\""),
        ("a/b/c", "must be a name, namespace/name or $(operator), found \"a/b/c\""),
        ("a:b", "must be a name, namespace/name or $(operator), found \"a:b\""),
    ] {
        assert_eq!(one(&format!("  serviceAccountName: {text}")).unwrap_err(), format!("{prefix}{message}"));
    }
}

#[test]
fn lookups_are_opened_by_namespace_or_altogether() {
    assert_eq!(one("").unwrap().lookup, LookupRule::default());
    let rule = one("  lookup: {namespaces: [a, b]}").unwrap().lookup;
    assert_eq!((&*rule.namespaces, rule.all), (&["a".to_owned(), "b".to_owned()][..], false));
    assert!(one("  lookup: {all: true}").unwrap().lookup.all);
    let prefix = "line 6: lookup: ";
    for (text, message) in [
        ("all", "expected a mapping, found a string"),
        ("{all: 1}", "all: expected true or false, found a number"),
        ("{namespaces: a}", "namespaces: expected a list, found a string"),
        ("{namespaces: [1]}", "namespaces[0]: name: expected a string, found a number"),
        (
            "{namespace: a}",
            "unknown key \"namespace\"; the keys are namespaces, all, kinds; did you mean \"namespaces\"?",
        ),
    ] {
        assert_eq!(one(&format!("  lookup: {text}")).unwrap_err(), format!("{prefix}{message}"));
    }
}

#[test]
fn every_key_is_on_the_page_of_keys() {
    let page = include_str!("../../../../docs/watches.md");
    for key in super::decode::keys() {
        assert!(page.contains(key), "docs/watches.md lacks {key}");
    }
}

/// Returns the entries of a file that the schema for editors rejects, with why.
fn rejected_by_schema(text: &str) -> Vec<String> {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../../../docs/watches.schema.json")).unwrap();
    let schema = helm::schema::Schema::compile(schema["items"].to_string().as_bytes()).unwrap();
    let entries: Vec<serde_json::Value> = serde_yaml::from_str(text).unwrap();
    let check = |entry: serde_json::Value| {
        let entry = json::into_map(json::decode(entry.to_string().as_bytes()).unwrap()).unwrap();
        schema.validate(&entry).err().map(|violations| violations.text)
    };
    entries.into_iter().filter_map(check).collect()
}

#[test]
fn the_schema_for_editors_has_every_key_and_accepts_the_examples() {
    let schema: serde_json::Value = serde_json::from_str(include_str!("../../../../docs/watches.schema.json")).unwrap();
    let mut described: Vec<&str> =
        schema["items"]["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    let mut keys: Vec<&str> = super::decode::keys().collect();
    described.sort_unstable();
    keys.sort_unstable();
    assert_eq!(described, keys);
    let page = include_str!("../../../../docs/watches.md");
    let examples = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    for example in examples {
        assert_eq!(rejected_by_schema(example), [""; 0], "{example}");
    }
    let entry = |more: &str| format!("- {{version: v1, kind: Web, chart: c, {more}}}");
    for bad in [
        "dependOn: []",
        "dependsOn: [{kind: A}]",
        "dependsOn: [{kid: A, name: a}]",
        "dependsOn: [{kind: A, name: a, until: exist}]",
        "dependsOnAnnotation: {}",
        "maxHistory: -1",
        "test: {onFailure: keep}",
        "test: {timeout: soon}",
        "rollout: {steps: [10]}",
        "rollout: {steps: [10%], onFailure: stop}",
        "rollout: {step: [10%]}",
        "patches: [{target: {kin: A}, patch: a}]",
        "patches: [{target: {kind: A}}]",
        "commonAnnotations: {a: 1}",
        "hookLogs: 1",
        "sequencing: sorted",
        "renderOn: [kinds]",
        "pull: {versoin: 1.0.0}",
        "pull: {digest: sha256:00}",
        "pull: {verify: {cosign: {}}}",
        "pull: {ca: {secret: a}}",
    ] {
        assert_eq!(rejected_by_schema(&entry(bad)).len(), 1, "{bad}");
    }
}

#[test]
fn every_example_of_the_page_about_watches_is_read_without_a_warning() {
    let page = include_str!("../../../../docs/watches.md");
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples: Vec<&str> = blocks.filter(|block| block.starts_with("- group")).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let read = parse(example, |_| Some("x".to_owned()));
        assert_eq!(read.unwrap_or_else(|error| panic!("{error}: {example}")).warnings, []);
    }
}

#[test]
fn the_example_of_the_page_about_charts_is_read_without_a_warning_and_fits_the_schema() {
    let page = include_str!("../../../../docs/charts.md");
    let example = page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let read = parse(example, |_| None).unwrap();
    assert_eq!((read.watches.len(), read.warnings), (2, Vec::new()));
    assert_eq!(rejected_by_schema(example), [""; 0]);
}

#[test]
fn patches_are_read_at_once_and_a_mistake_names_the_patch() {
    assert!(one("").unwrap().patches.0.is_empty());
    let both = "[{target: {kind: A}, patch: '[{\"op\": \"remove\", \"path\": \"/a\"}]'}, {patch: '{kind: A, metadata: {name: a}}'}]";
    assert_eq!(one(&format!("  patches: {both}")).unwrap().patches.0.len(), 2);
    let keys = "the keys are target, patch, path";
    let parts = "the keys are group, version, kind, name, namespace, labelSelector, annotationSelector";
    for (text, message) in [
        ("{}", "expected a list, found a mapping".to_owned()),
        ("[{pach: a}]", format!("patch 1: unknown key \"pach\"; {keys}; did you mean \"patch\"?")),
        ("[{target: {kin: A}, patch: a}]", format!("patch 1: target: unknown key \"kin\"; {parts}; did you mean \"kind\"?")),
        ("[{target: {labelSelector: a b}, patch: a}]", "patch 1: target: labelSelector: \"a b\" is no requirement: expected one such as a=b, a!=b, a in (b, c), a notin (b), a or !a".into()),
        ("[{}]", "patch 1: expected patch or path".into()),
        ("[{patch: a, path: b}]", "patch 1: has both patch and path".into()),
        ("[{patch: '[]'}]", "patch 1: a JSON patch needs a target".into()),
        ("[{patch: '{kind: A}'}]", "patch 1: is a strategic merge patch without kind or metadata.name".into()),
        ("[{patch: hello}]", "patch 1: is neither a JSON patch nor a strategic merge patch".into()),
    ] {
        assert_eq!(one(&format!("  patches: {text}")).unwrap_err(), format!("line 6: patches: {message}"));
    }
    let missing = one("  patches: [{path: no/such/file.yaml}]").unwrap_err();
    assert!(missing.contains("patch 1: cannot read no/such/file.yaml: "), "{missing}");
}

#[test]
fn common_annotations_are_what_the_server_accepts_and_neither_helms_nor_the_operators_own() {
    let watch = one("  commonAnnotations: {Example.com/owner: \"Team Red, #red\", note: \"\"}").unwrap();
    let expected = [("Example.com/owner".to_owned(), "Team Red, #red".to_owned()), ("note".to_owned(), String::new())];
    assert_eq!(*watch.common_annotations.0, expected.into());
    let prefix = one("  commonAnnotations: [a]").unwrap_err();
    let prefix = prefix.split("expected").next().unwrap();
    let refused = |key: &str| one(&format!("  commonAnnotations: {{{key}: a}}")).unwrap_err();
    for key in [
        "helm.sh/hook",
        "helm.sh/depends-on/resource-groups",
        "meta.helm.sh/release-name",
        "helm.sdk.operatorframework.io/drift",
        "operator-sdk/primary-resource",
        "operator-sdk/primary-resource-type",
        "kubectl.kubernetes.io/last-applied-configuration",
    ] {
        let expected = format!("{prefix}{key}: Helm, kubectl or the operator uses this annotation itself");
        assert_eq!(refused(key), expected);
    }
    let expected = format!(
        "{prefix}\"te am\" is no annotation: expected a name, or a prefix and a name, such as example.com/owner"
    );
    assert_eq!(refused("te am"), expected);
    let error = one("  commonAnnotations: {tier: 1}").unwrap_err();
    assert_eq!(error, format!("{prefix}tier: expected a string, found a number; write it in quotes"));
    let long = |length: usize| one(&format!("  commonAnnotations: {{a: {}}}", "x".repeat(length)));
    assert!(long(262_143).is_ok());
    let error = long(262_144).unwrap_err();
    assert!(error.contains("262145 bytes are too many"), "{error}");
}

#[test]
fn a_common_annotation_is_no_other_name_of_a_control_annotation() {
    let error = one("  annotations: {pause: example.com/paused}\n  commonAnnotations: {example.com/paused: \"true\"}")
        .unwrap_err();
    let expected = "reads this annotation as pause";
    assert!(
        error.contains("commonAnnotations: example.com/paused: the entry of ") && error.ends_with(expected),
        "{error}"
    );
}

#[test]
fn common_labels_are_what_the_server_accepts_and_not_the_operators_own() {
    let watch = one("  commonLabels: {example.com/team: red, tier: \"\"}").unwrap();
    let expected = [("example.com/team".to_owned(), "red".to_owned()), ("tier".to_owned(), String::new())];
    assert_eq!(*watch.common_labels.0, expected.into());
    let prefix = one("  commonLabels: [a]").unwrap_err();
    let prefix = prefix.split("expected").next().unwrap();
    for (text, message) in [
        ("[a]", "expected a mapping, found a list"),
        ("{tier: 1}", "tier: expected a string, found a number; write it in quotes"),
        ("{app.kubernetes.io/managed-by: me}", "app.kubernetes.io/managed-by: the operator sets this label itself"),
        ("{te am: red}", "\"te am\" is no label: expected a name, or a prefix and a name, such as example.com/team"),
    ] {
        assert_eq!(one(&format!("  commonLabels: {text}")).unwrap_err(), format!("{prefix}{message}"));
    }
    let error = one("  commonLabels: {team: red team}").unwrap_err();
    assert!(error.contains("team: \"red team\" is no value of a label: at most 63 letters"), "{error}");
}
