//! `generate helm-chart`: a chart that installs the operator, from the project's `config`. Counterpart: kubebuilder's
//! Helm plugin.
//!
//! The chart holds the objects that `make deploy` applies, except the namespace. Their names start with the release's.
//! Image, replicas, resources and environment are values. Definitions are in `crds`, which Helm installs once and never
//! upgrades.

use serde_json::{Value as Json, json};

use crate::crd::{HEADER, is_generated, kept};
use crate::project_file::{self, ProjectFile};
use crate::{Error, Existing, Project, kustomize, yaml};

/// The folder of the chart.
pub const FOLDER: &str = "dist/chart";

/// The version of a new project, and of its chart.
const VERSION: &str = "0.0.1";

/// Folders of `config` that are deployed.
const DEPLOYED: [&str; 2] = ["config/rbac", "config/manager"];

/// Placeholders of values in the templates, and the actions that replace them.
const PLACES: [(&str, &str); 4] = [
    ("__image__", "\"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}\""),
    ("__replicas__", "{{ .Values.replicas }}"),
    ("__resources__", "{{ .Values.resources | toJson }}"),
    ("__env__", "{{ .Values.env | toJson }}"),
];

const VALUES: &str = "\
# The operator's image.
image:
  repository: __repository__
  # Defaults to the chart's appVersion.
  tag: \"\"
  pullPolicy: IfNotPresent
# One replica works, the others stand by.
replicas: 1
# CPU and memory of the operator.
resources: __resources__
# Environment variables, such as [{name: WATCH_NAMESPACE, value: team-a}].
env: []
";

/// Writes the chart, and removes generated files that are no longer part of it. Returns notes.
///
/// A file that does not start with [`HEADER`] belongs to the user and is left alone, unless `existing` says otherwise.
///
/// # Errors
/// Fails if the folder is not a project, or a file of `config` is not valid YAML.
pub fn generate(project: &mut Project, existing: Existing) -> Result<Vec<String>, Error> {
    let text = project.text(project_file::PATH).ok_or(Error::NoProject)?;
    let name = ProjectFile::parse(text)?.name().to_owned();
    let mut resources = json!({});
    let mut files = Vec::new();
    for folder in DEPLOYED {
        for path in kustomize::files(project, folder)? {
            let documents = documents(project, &path)?;
            let kept = documents.into_iter().filter(|document| document["kind"] != "Namespace");
            let texts: Vec<String> = kept.map(|document| template(document, &name, &mut resources)).collect();
            let file = path.rsplit('/').next().unwrap_or(&path);
            if !texts.is_empty() {
                add(&mut files, format!("{FOLDER}/templates/{file}"), texts.join("---\n"));
            }
        }
    }
    for path in kustomize::files(project, "config/crd")? {
        let file = path.rsplit('/').next().unwrap_or(&path);
        add(&mut files, format!("{FOLDER}/crds/{file}"), project.text(&path).unwrap_or_default().to_owned());
    }
    let about = format!(
        "apiVersion: v2\nname: {name}\ndescription: Installs the operator {name}\ntype: application\nversion: {VERSION}\nappVersion: {VERSION:?}\n"
    );
    files.push((format!("{FOLDER}/Chart.yaml"), about));
    files.push((format!("{FOLDER}/values.yaml"), values(&name, &resources)));
    let mut notes = write(project, files, existing);
    notes.push(format!(
        "install it with: helm install {name} {FOLDER} --namespace {name}-system --create-namespace --set image.repository=…"
    ));
    Ok(notes)
}

/// Adds a file. Files of one name from several folders become one; a file that several folders list is there once.
fn add(files: &mut Vec<(String, String)>, path: String, text: String) {
    match files.iter_mut().find(|(known, _)| *known == path) {
        Some((_, known)) if framed(known.as_str()).contains(&framed(&text)) => {}
        Some((_, known)) => *known = format!("{}\n---\n{text}", known.trim_end()),
        None => files.push((path, text)),
    }
}

/// Puts separators around documents, so that a search finds only whole documents, not the beginning of another.
fn framed(documents: &str) -> String {
    format!("\n---\n{}\n---\n", documents.trim_end())
}

/// Writes the files except the user's, and removes old ones. Returns notes.
fn write(project: &mut Project, files: Vec<(String, String)>, existing: Existing) -> Vec<String> {
    for path in outdated(project, &files) {
        project.remove(&path);
    }
    let mut notes = Vec::new();
    for (path, text) in files {
        match kept(project, &path, existing) {
            Some(note) => notes.push(note),
            None if is_generated(&text) => project.write(path, text),
            None => project.write(path, format!("{HEADER} helm-chart' from config; do not edit.\n{text}")),
        }
    }
    notes
}

/// Returns the generated files of the chart that are not among these.
fn outdated(project: &Project, files: &[(String, String)]) -> Vec<String> {
    let generated = project.below(FOLDER).filter(|(_, content)| std::str::from_utf8(content).is_ok_and(is_generated));
    let paths = generated.map(|(path, _)| format!("{FOLDER}/{path}"));
    paths.filter(|path| files.iter().all(|(made, _)| made != path)).collect()
}

fn documents(project: &Project, path: &str) -> Result<Vec<Json>, Error> {
    let text = project.text(path).ok_or_else(|| Error::read(path, "the file does not exist or is not UTF-8"))?;
    let documents = text.split("\n---\n").map(yaml::parse).collect::<Result<Vec<_>, _>>();
    let documents = documents.map_err(|error| Error::read(path, error))?;
    Ok(documents.into_iter().filter(Json::is_object).collect())
}

/// Returns a document as a template: names start with the release's, and the Deployment takes values. `resources`
/// receives the Deployment's own.
fn template(mut document: Json, project: &str, resources: &mut Json) -> String {
    let rename = |name: &mut Json| {
        if let Some(text) = name.as_str() {
            *name = format!("{{{{ .Release.Name }}}}-{text}").into();
        }
    };
    rename(&mut document["metadata"]["name"]);
    document["metadata"]["labels"]["app.kubernetes.io/name"] = project.into();
    if let Some(metadata) = document["metadata"].as_object_mut().filter(|metadata| metadata.contains_key("namespace")) {
        metadata.insert("namespace".into(), "{{ .Release.Namespace }}".into());
    }
    if document.get("roleRef").is_some() {
        rename(&mut document["roleRef"]["name"]);
    }
    for subject in document.get_mut("subjects").and_then(Json::as_array_mut).into_iter().flatten() {
        rename(&mut subject["name"]);
        subject["namespace"] = "{{ .Release.Namespace }}".into();
    }
    if document["kind"] == "Role" || document["kind"] == "RoleBinding" {
        document["metadata"]["namespace"] = "{{ .Release.Namespace }}".into();
    }
    if document["kind"] == "Deployment" {
        deployment(&mut document["spec"], resources);
        rename(&mut document["spec"]["template"]["spec"]["serviceAccountName"]);
    }
    let printed = yaml::print(&document);
    PLACES.iter().fold(printed, |text, (place, value)| text.replace(place, value))
}

fn deployment(spec: &mut Json, resources: &mut Json) {
    spec["replicas"] = "__replicas__".into();
    let Some(container) = spec["template"]["spec"]["containers"].get_mut(0) else { return };
    *resources = std::mem::replace(&mut container["resources"], "__resources__".into());
    container["image"] = "__image__".into();
    container["imagePullPolicy"] = "{{ .Values.image.pullPolicy }}".into();
    container["env"] = "__env__".into();
}

fn values(project: &str, resources: &Json) -> String {
    let repository = format!("registry.example.com/{project}");
    VALUES.replace("__repository__", &repository).replace("__resources__", &resources.to_string())
}

#[cfg(test)]
mod tests {
    use helm::chart::{Chart, File};
    use helm::engine::{Capabilities, Engine, ReleaseOptions, Request};

    use super::*;
    use crate::{Change, CreateApi, Init, Source, create_api, disk, init};

    fn web_operator() -> Project {
        let mut project = Project::default();
        let options = Init { name: "web-operator".into(), domain: "my.domain".into(), repo: None, hybrid: None };
        init(&mut project, &options).unwrap();
        let api = |kind: &str| CreateApi {
            group: Some("web".into()),
            version: Some("v1".into()),
            kind: Some(kind.into()),
            source: Source::Starter,
        };
        create_api(&mut project, &api("Web")).unwrap();
        project
    }

    fn rendered(values: &str) -> (Vec<Json>, usize) {
        let mut project = web_operator();
        generate(&mut project, Existing::Keep).unwrap();
        let files = project.below(FOLDER).map(|(path, text)| File::from((path, text.to_vec())));
        let engine = Engine::new(Chart::from_files(files).unwrap());
        let values = yaml::to_map(&yaml::parse(values).unwrap());
        let release = ReleaseOptions { name: "r".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
        let capabilities = Capabilities::default();
        let request = Request {
            values: &values,
            release: &release,
            capabilities: &capabilities,
            lookup: None,
            skip_schema: false,
        };
        let rendered = engine.render(&request).unwrap();
        let objects = rendered.manifests.iter().map(|manifest| yaml::parse(&manifest.content).unwrap()).collect();
        (objects, rendered.crds.len())
    }

    fn of<'a>(objects: &'a [Json], kind: &str, name: &str) -> &'a Json {
        let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    #[test]
    fn the_chart_installs_account_roles_deployment_and_definitions() {
        let (objects, crds) = rendered("{}");
        assert_eq!(crds, 1);
        assert!(objects.iter().all(|object| object["kind"] != "Namespace"));
        let binding = of(&objects, "ClusterRoleBinding", "r-web-rolebinding");
        assert_eq!(binding["roleRef"]["name"], "r-web-role");
        assert_eq!(
            binding["subjects"][0],
            json!({"kind": "ServiceAccount", "name": "r-controller-manager", "namespace": "ns"})
        );
        of(&objects, "ClusterRole", "r-web-role");
        assert_eq!(of(&objects, "Role", "r-leader-election-role")["metadata"]["namespace"], "ns");
        let spec = &of(&objects, "Deployment", "r-controller-manager")["spec"];
        assert_eq!(spec["replicas"], 1);
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], "r-controller-manager");
        assert_eq!(pod["containers"][0]["image"], "registry.example.com/web-operator:0.0.1");
        assert_eq!(pod["containers"][0]["resources"]["limits"]["memory"], "128Mi");
    }

    #[test]
    fn values_change_the_deployment() {
        let (objects, _) = rendered(
            "{replicas: 2, image: {repository: a/b, tag: c}, env: [{name: X, value: y}], resources: {limits: null}}",
        );
        let spec = &of(&objects, "Deployment", "r-controller-manager")["spec"];
        assert_eq!(spec["replicas"], 2);
        let container = &spec["template"]["spec"]["containers"][0];
        assert_eq!((&container["image"], &container["env"][0]["name"]), (&"a/b:c".into(), &"X".into()));
        assert_eq!(container["resources"], json!({"requests": {"cpu": "10m", "memory": "32Mi"}}));
    }

    #[test]
    fn files_of_one_name_in_two_folders_are_all_in_the_chart() {
        let mut project = web_operator();
        for (folder, entry) in [
            ("config/rbac", "twin.yaml"),
            ("config/manager", "twin.yaml"),
            ("config/manager", "../rbac/twin.yaml"),
            ("config/crd", "one/twin.yaml"),
            ("config/crd", "two/twin.yaml"),
        ] {
            let path = kustomize::joined(folder, entry);
            let name = path.replace('/', "-").replace(".yaml", "");
            project.create(path, format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"));
            kustomize::add(&mut project, folder, ("kustomization.yaml", ""), entry).unwrap();
        }
        generate(&mut project, Existing::Keep).unwrap();
        for (file, names) in [
            ("templates/twin.yaml", ["config-rbac-twin", "config-manager-twin"]),
            ("crds/twin.yaml", ["config-crd-one-twin", "config-crd-two-twin"]),
        ] {
            let text = project.text(&format!("{FOLDER}/{file}")).unwrap();
            assert!(names.iter().all(|name| text.matches(name).count() == 1), "{text}");
            assert_eq!(text.matches("\n---\n").count(), 1, "{text}");
        }
    }

    #[test]
    fn a_file_that_is_the_beginning_of_another_of_its_name_is_in_the_chart_too() {
        let map = |more: &str| format!("kind: ConfigMap\nmetadata:\n  name: shop{more}");
        for (texts, expected) in [
            ([map("-admin\n"), map("")], 2),
            ([map("\n  namespace: other\n"), map("\n")], 2),
            ([map("\n"), map("-admin\n")], 2),
            ([map("\n"), map("")], 1),
        ] {
            let mut files = Vec::new();
            for text in [&texts[0], &texts[1], &texts[0], &texts[1]] {
                add(&mut files, "crds/shop.yaml".to_owned(), text.clone());
            }
            assert_eq!(files.len(), 1);
            assert_eq!(files[0].1.matches("kind: ConfigMap").count(), expected, "{}", files[0].1);
        }
    }

    #[test]
    fn edited_files_are_kept_and_generated_ones_that_config_no_longer_has_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut project = web_operator();
        generate(&mut project, Existing::Keep).unwrap();
        let [values, mine, gone] =
            ["values.yaml", "templates/mine.yaml", "templates/gone_role.yaml"].map(|name| format!("{FOLDER}/{name}"));
        project.write(&*values, "replicas: 3\n");
        project.write(&*mine, "kind: ConfigMap\n");
        project.write(&*gone, format!("{HEADER} helm-chart' from config; do not edit.\nkind: ClusterRole\n"));
        disk::write(folder.path(), &project).unwrap();

        let mut project = disk::read(folder.path()).unwrap();
        disk::read_built(folder.path(), FOLDER, &mut project).unwrap();
        let notes = generate(&mut project, Existing::Keep).unwrap();
        assert_eq!(project.changes().collect::<Vec<_>>(), [(gone.as_str(), Change::Removed)]);
        assert_eq!(project.text(&values), Some("replicas: 3\n"));
        assert_eq!(notes[0], format!("{values} is kept: it was not generated; --force replaces it"));
        generate(&mut project, Existing::Replace).unwrap();
        assert!(project.text(&values).is_some_and(is_generated) && project.contains(&mine));
    }
}
