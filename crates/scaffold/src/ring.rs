//! `generate ring`: writes what spreads the operator's resources over several processes, its ControllerRing and the
//! rights that the sharder of kubernetes-controller-sharding needs for them.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use crate::crd::{HEADER, kept};
use crate::definitions::Definitions;
use crate::project_file::{self, ProjectFile};
use crate::rbac::Native;
use crate::{Error, Existing, Project, kustomize, watches, yaml};

/// The folder. `config/default` does not list it, because the sharder's definitions must exist.
const FOLDER: &str = "config/sharding";

/// The start of the folder's kustomization.
const LIST: &str = "# kubectl apply -k config/sharding\nresources:\n- __entry__\n";

/// The name of the ring in a folder without a project's file.
const UNNAMED: &str = "helm-operator";

/// The account of the sharder, where its own manifests put it.
const SHARDER: (&str, &str) = ("sharding-system", "sharder");

/// Writes the ring of all kinds in watches.yaml and of the program's own kinds. Returns notes.
///
/// # Errors
/// Fails if watches.yaml or the project's file cannot be read, or a list of `config` cannot be edited.
pub fn generate(project: &mut Project, natives: &[Native], existing: Existing) -> Result<Vec<String>, Error> {
    let definitions = Definitions::of(project)?;
    let own = natives.iter().map(|native| (native.group.clone(), native.plural.clone()));
    let mut resources: BTreeSet<(String, String)> = own.collect();
    for watch in watches::read(project)? {
        resources.insert((watch.gvk.group.clone(), definitions.plural(&watch.gvk.group, &watch.gvk.kind)));
    }
    let file = project.text(project_file::PATH).map(ProjectFile::parse).transpose()?;
    let name = file.as_ref().map_or(UNNAMED, ProjectFile::name);
    let (ring, rights) = (ring(name, &resources), rights(name, &resources));
    let mut notes = write(project, "ring.yaml", &[ring], existing)?;
    notes.extend(write(project, "sharder_role.yaml", &rights, existing)?);
    Ok(notes)
}

fn ring(name: &str, resources: &BTreeSet<(String, String)>) -> Json {
    let resources: Vec<Json> =
        resources.iter().map(|(group, resource)| json!({"group": group, "resource": resource})).collect();
    json!({
        "apiVersion": "sharding.timebertt.dev/v1alpha1", "kind": "ControllerRing",
        "metadata": {"name": name}, "spec": {"resources": resources},
    })
}

/// Returns the sharder's role: it lists the resources and sets their labels.
fn rights(name: &str, resources: &BTreeSet<(String, String)>) -> [Json; 2] {
    let rules: Vec<Json> = resources
        .iter()
        .map(|(group, resource)| json!({"apiGroups": [group], "resources": [resource], "verbs": ["list", "patch"]}))
        .collect();
    let (api, metadata) = ("rbac.authorization.k8s.io/v1", json!({"name": format!("{name}-sharder")}));
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": metadata["name"]});
    let account = json!({"kind": "ServiceAccount", "namespace": SHARDER.0, "name": SHARDER.1});
    let binding = json!({
        "apiVersion": api, "kind": "ClusterRoleBinding", "metadata": metadata, "roleRef": role, "subjects": [account],
    });
    [json!({"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules}), binding]
}

/// Writes and lists a file, unless it belongs to the user.
fn write(project: &mut Project, file: &str, documents: &[Json], existing: Existing) -> Result<Vec<String>, Error> {
    let path = format!("{FOLDER}/{file}");
    if let Some(kept) = kept(project, &path, existing) {
        return Ok(vec![kept]);
    }
    let texts: Vec<String> = documents.iter().map(yaml::print).collect();
    project.write(path, format!("{HEADER} ring' from watches.yaml; do not edit.\n{}", texts.join("---\n")));
    kustomize::add(project, FOLDER, ("kustomization.yaml", LIST), file)?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_each_kind_once_and_the_sharder_may_list_and_label_them() {
        let mut project = Project::from_files([
            (
                "watches.yaml",
                "- {group: c.a.b, version: v1, kind: Web, chart: web}\n- {group: c.a.b, version: v2, kind: Web, chart: web}\n",
            ),
            ("PROJECT", "domain: a.b\nlayout: [helm.sdk.operatorframework.io/v1]\nprojectName: shop\nversion: \"3\"\n"),
        ]);
        let note = Native {
            group: "d.a.b".into(),
            kind: "Note".into(),
            plural: "notes".into(),
            owns_objects: true,
            rules: Vec::new(),
        };
        assert_eq!(generate(&mut project, &[note], Existing::Keep).unwrap(), [""; 0]);
        let ring = project.text("config/sharding/ring.yaml").unwrap();
        assert!(ring.starts_with(HEADER), "{ring}");
        let ring: Json = serde_yaml::from_str(ring).unwrap();
        assert_eq!((&ring["kind"], &ring["metadata"]["name"]), (&json!("ControllerRing"), &json!("shop")));
        let resources = json!([{"group": "c.a.b", "resource": "webs"}, {"group": "d.a.b", "resource": "notes"}]);
        assert_eq!(ring["spec"]["resources"], resources);
        let role = project.text("config/sharding/sharder_role.yaml").unwrap();
        for part in ["shop-sharder", "webs", "notes", "patch", "sharding-system"] {
            assert!(role.contains(part), "{part}: {role}");
        }
        let list = project.text("config/sharding/kustomization.yaml").unwrap();
        assert!(list.contains("- ring.yaml") && list.contains("- sharder_role.yaml"), "{list}");
        project.write("config/sharding/ring.yaml", "kind: ControllerRing\n");
        let kept = generate(&mut project, &[], Existing::Keep).unwrap();
        assert_eq!(kept, ["config/sharding/ring.yaml is kept: it was not generated; --force replaces it"]);
    }
}
