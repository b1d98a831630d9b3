//! Measures parsing and rendering, with texts that resemble those of charts.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use go_template::{FuncMap, Function, Map, Options, Param, Scope, Str, Templates, Value, parse};

const HELPERS: &str = r#"
{{- define "name" -}}{{ default .chart.name .values.nameOverride | lower }}{{- end }}
{{- define "labels" }}
name: {{ include "name" . }}
{{- if .chart.version }}
version: {{ .chart.version | quote }}
{{- end }}
managed-by: {{ .release.service }}
{{- end }}"#;

const WORKLOAD: &str = r#"kind: Deployment
metadata:
  name: {{ include "name" . }}
  labels: {{- include "labels" . }}
spec:
  replicas: {{ .values.replicas }}
  containers:
  {{- range $i, $container := .values.containers }}
  - name: {{ $container.name }}-{{ $i }}
    image: "{{ $container.image.repository }}:{{ $container.image.tag | default $.chart.version }}"
    {{- with $container.env }}
    env:
      {{- range $key, $value := . }}
      {{ $key }}: {{ $value | quote }}
      {{- end }}
    {{- end }}
    {{- if and $container.port (ne $container.port 0.0) }}
    port: {{ printf "%v/TCP" $container.port }}
    {{- else }}
    port: none
    {{- end }}
  {{- end }}
"#;

fn functions() -> FuncMap {
    let mut funcs = FuncMap::default();
    funcs.add("default", |default: Value, value: Value| if value.is_true() { value } else { default });
    funcs.add("lower", |text: Str| text.to_text().to_lowercase());
    funcs.add("quote", |value: Value| {
        let mut out = vec![b'"'];
        go_template::fmt::append_value(&mut out, &value);
        out.push(b'"');
        out
    });
    let include = |scope: &mut Scope<'_>, args: &[Value]| {
        let name = args[0].as_str().cloned().unwrap_or_default();
        Ok(Value::String(scope.execute(name, &args[1])?.into()))
    };
    funcs.insert("include", Function::new(vec![Param::String, Param::Any], None, include));
    funcs
}

fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().collect::<Map>())
}

fn data() -> Value {
    let container = |name: &str| {
        map([
            ("name", name.into()),
            ("image", map([("repository", "example.com/image".into()), ("tag", "".into())])),
            ("env", map([("A", "1".into()), ("B", Value::Float(2.0)), ("C", true.into())])),
            ("port", Value::Float(8080.0)),
        ])
    };
    map([
        ("chart", map([("name", "Demo".into()), ("version", "1.2.3".into())])),
        ("release", map([("service", "Bench".into())])),
        (
            "values",
            map([("replicas", Value::Float(3.0)), ("containers", Value::list(["a", "b", "c"].map(container).into()))]),
        ),
    ])
}

fn benches(c: &mut Criterion) {
    let funcs = functions();
    c.bench_function("parse", |b| b.iter(|| parse("workload", black_box(WORKLOAD), &funcs)));

    let mut templates = Templates::new("bench");
    for (name, text) in [("helpers", HELPERS), ("workload", WORKLOAD)] {
        templates.add(&parse(name, text, &funcs).expect("the text is a template"));
    }
    let (templates, data) = (Arc::new(templates), data());
    let render = || Scope::new(Arc::clone(&templates), Options::default()).execute("workload", &data);
    assert!(render().is_ok());
    c.bench_function("render", |b| b.iter(render));
}

criterion_group!(all, benches);
criterion_main!(all);
