//! Finds the custom kinds and namespaces that charts use, and defines those that no chart creates. The CRDs accept any
//! object.
//!
//! Without them every installer would refuse a chart with, say, a ServiceMonitor, and nothing would be compared.

use std::collections::{BTreeMap, BTreeSet};

use go_encoding::{json, yaml};
use helm::{manifest, template};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::corpus::Chart;

/// Group of a kind that is deliberately not served.
const NEVER_SERVED: &str = "unserved.example.com";
/// Name of a namespace that deliberately does not exist.
const NEVER_THERE: &str = "nowhere";

type Kind = (String, String);

/// The kinds and namespaces that a chart's cases use, create and define.
#[derive(Debug, Default)]
struct Needs {
    used: BTreeMap<Kind, BTreeSet<String>>,
    defined: BTreeSet<Kind>,
    namespaces: BTreeSet<String>,
    created_namespaces: BTreeSet<String>,
}

/// Objects that must exist before charts are installed.
#[derive(Debug, Default)]
pub(crate) struct Prerequisites {
    /// Namespaces that objects use and no chart creates.
    pub(crate) namespaces: Vec<String>,
    /// CRDs for all charts.
    pub(crate) shared: Vec<Value>,
    /// CRDs for one chart, by index, because another chart defines them itself.
    pub(crate) of_chart: Vec<Vec<Value>>,
}

/// Returns what the charts need on a server that serves these groups.
pub(crate) fn prerequisites(charts: &[Chart], served: &BTreeSet<String>) -> Prerequisites {
    let needs: Vec<Needs> = charts.iter().map(needs).collect();
    let defined: BTreeSet<&Kind> = needs.iter().flat_map(|need| &need.defined).collect();
    let mut used: BTreeMap<&Kind, BTreeSet<&String>> = BTreeMap::new();
    for (kind, versions) in needs.iter().flat_map(|need| &need.used).filter(|(kind, _)| is_custom(kind, served)) {
        used.entry(kind).or_default().extend(versions);
    }
    let define = |kind: &Kind| used.get(kind).map(|versions| definition(kind, versions));
    let own = |need: &Needs| {
        let missing = need.used.keys().filter(|kind| defined.contains(kind) && !need.defined.contains(kind));
        missing.filter_map(define).collect()
    };
    let made: BTreeSet<&String> = needs.iter().flat_map(|need| &need.created_namespaces).collect();
    let named: BTreeSet<&String> = needs.iter().flat_map(|need| &need.namespaces).collect();
    Prerequisites {
        namespaces: named.difference(&made).filter(|name| **name != NEVER_THERE).map(|name| (*name).clone()).collect(),
        shared: used.keys().filter(|kind| !defined.contains(*kind)).filter_map(|kind| define(kind)).collect(),
        of_chart: needs.iter().map(own).collect(),
    }
}

/// Returns whether a kind is custom. Groups without a dot, and groups that the server serves in some version, belong to
/// Kubernetes.
fn is_custom((group, _): &Kind, served: &BTreeSet<String>) -> bool {
    group.contains('.') && !served.contains(group) && group != NEVER_SERVED
}

fn needs(chart: &Chart) -> Needs {
    let mut needs = Needs::default();
    for case in &chart.cases {
        let values = case.values.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        let options = template::Options {
            name_and_chart: vec!["rel".into(), chart.folder.to_string_lossy().into_owned()],
            namespace: "ns".into(),
            include_crds: true,
            values,
            ..template::Options::default()
        };
        // A chart that does not render uses no kinds.
        let text = options.run().map(|output| output.text).unwrap_or_default();
        for document in manifest::split(&String::from_utf8_lossy(&text)) {
            if let Ok(object) = yaml::parse(document.as_bytes()) {
                needs.add(&json::to_serde(&object));
            }
        }
    }
    needs
}

impl Needs {
    fn add(&mut self, object: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        object["items"].as_array().into_iter().flatten().for_each(|item| self.add(item));
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        if kind == "CustomResourceDefinition" {
            self.defined.insert((text(&object["spec"]["group"]), text(&object["spec"]["names"]["kind"])));
        }
        match kind.as_str() {
            "Namespace" => drop(self.created_namespaces.insert(text(&object["metadata"]["name"]))),
            _ => self.namespaces.extend(object["metadata"]["namespace"].as_str().map(str::to_owned)),
        }
        if let Some((group, version)) = version.split_once('/') {
            self.used.entry((group.to_owned(), kind)).or_default().insert(version.to_owned());
        }
    }
}

/// Builds a CRD that accepts any object. It guesses whether the kind is namespaced; all installers get the same guess.
fn definition((group, kind): &Kind, versions: &BTreeSet<&String>) -> Value {
    let plural = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind)).plural;
    let wide = kind.starts_with("Cluster") || kind.ends_with("Class") || kind.ends_with("Constraints");
    let version = |(index, name): (usize, &&String)| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({"name": name, "served": true, "storage": index == 0, "schema": {"openAPIV3Schema": schema}})
    };
    json!({
        "metadata": {
            "name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for comparisons only"},
        },
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "scope": if wide { "Cluster" } else { "Namespaced" },
            "versions": versions.iter().enumerate().map(version).collect::<Vec<_>>(),
        },
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::corpus::Case;

    fn chart(folder: &std::path::Path, name: &str, template: &str) -> Chart {
        let folder = folder.join(name);
        fs::create_dir_all(folder.join("templates")).unwrap();
        fs::write(folder.join("Chart.yaml"), format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n")).unwrap();
        fs::write(folder.join("templates/all.yaml"), template).unwrap();
        Chart { name: name.into(), folder, cases: vec![Case { name: "default".into(), values: None }] }
    }

    fn names(definitions: &[Value]) -> Vec<&str> {
        definitions.iter().filter_map(|crd| crd["metadata"]["name"].as_str()).collect()
    }

    #[test]
    fn kinds_that_no_chart_defines_are_shared_and_others_go_to_charts_that_lack_them() {
        let folder = tempfile::tempdir().unwrap();
        let crd = "kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\nmetadata: {name: as.x.example}\n\
                   spec: {group: x.example, names: {kind: A}}\n";
        let object = |kind: &str| format!("---\napiVersion: {kind}\nmetadata: {{name: a}}\n");
        let defines = format!("{crd}{}{}", object("x.example/v1\nkind: A"), object("y.example/v1\nkind: ClusterB"));
        let lacks = [
            object("x.example/v2\nkind: A"),
            object("y.example/v2\nkind: ClusterB"),
            object("v1\nkind: ConfigMap"),
            object("apps/v1\nkind: Deployment"),
            object("policy.k8s.io/v1beta1\nkind: Old"),
            object("unserved.example.com/v1\nkind: Never"),
            "---\nkind: Secret\nmetadata: {name: a, namespace: monitoring}\n".into(),
            "---\nkind: Secret\nmetadata: {name: a, namespace: made}\n".into(),
            "---\nkind: Namespace\nmetadata: {name: made}\n".into(),
        ];
        let charts = [chart(folder.path(), "defines", &defines), chart(folder.path(), "lacks", &lacks.concat())];
        let served = ["policy.k8s.io", "apps", "apiextensions.k8s.io"].map(str::to_owned).into();
        let found = prerequisites(&charts, &served);
        assert_eq!(found.namespaces, ["monitoring"]);
        assert_eq!(names(&found.shared), ["clusterbs.y.example"]);
        assert_eq!(found.shared[0]["spec"]["scope"], "Cluster");
        let versions: Vec<&Value> =
            found.shared[0]["spec"]["versions"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
        assert_eq!(versions, ["v1", "v2"]);
        assert_eq!(found.of_chart.iter().map(|own| names(own)).collect::<Vec<_>>(), [vec![], vec!["as.x.example"]]);
    }
}
