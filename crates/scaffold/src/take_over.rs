//! `init --from-operator-sdk`: converts a project of operator-sdk's Helm plugin to this operator.
//!
//! Charts, watches.yaml, CRDs, samples, deployment and RBAC keep working as they are. Only the source of the program
//! changes, and each chart gets its own role. Parts that cannot be converted are named, with file and line.

use helm::engine::{Key, spelled_out};

use crate::deployment;
use crate::gvk::Gvk;
use crate::lines::Lines;
use crate::project_file::{self, Layout, ProjectFile, Served};
use crate::{Error, Project, chart, dockerfile, kustomize, lookups, rbac, watches};

/// The note about what [`decided`] wrote.
const DECIDED_NOTE: &str = "serviceAccountName and storageNamespace say what holds in operator-sdk: charts have the operator's rights, and release \
    records are beside the release; an account of each namespace and a namespace for records limit both";

/// Starts the second target of [`PROGRAM`].
const MANIFESTS: &str = ".PHONY: manifests\n";

/// The part of the Makefile that names the program.
const PROGRAM: &str = "\
# The program: the project's own copy in bin, or the one on the path.
HELM_OPERATOR ?= $(firstword $(wildcard bin/helm-operator) helm-operator)
.PHONY: helm-operator
helm-operator:

.PHONY: manifests
manifests: ## Write CRDs and roles again, from charts and watches.yaml.
\t$(HELM_OPERATOR) generate crds
\t$(HELM_OPERATOR) generate rbac

";

/// Copies the files of `from` that the project does not have, and converts them. Returns a note for each change. A
/// second call changes nothing.
///
/// # Errors
/// Fails if `from` is not such a project, or a file cannot be edited. `name` names it in errors.
pub fn take_over(project: &mut Project, from: &Project, name: &str) -> Result<Vec<String>, Error> {
    check(from, name)?;
    for (path, content) in from.files() {
        project.create(path, content);
    }
    let mut notes = project_file(project, name)?;
    notes.extend(dockerfiles(project)?);
    notes.extend(makefile(project)?);
    notes.extend(decided(project)?);
    notes.extend(roles(project)?);
    notes.extend(override_types(project)?);
    notes.extend(objects(project)?);
    notes.extend(closed_lookups(project)?);
    notes.extend(advice(project)?);
    Ok(notes)
}

/// Rejects folders without watches.yaml, and projects of other plugins.
fn check(from: &Project, name: &str) -> Result<(), Error> {
    let refused = |reason: String| Err(Error::NotHelmProject { folder: name.to_owned(), reason });
    if !from.contains(watches::PATH) {
        let below: Vec<&str> =
            from.files().filter_map(|(path, _)| path.strip_suffix("/watches.yaml")).take(3).collect();
        return match below[..] {
            [] => refused("it has no watches.yaml".to_owned()),
            _ => refused(format!("it has no watches.yaml, but {} has: pass that folder", below.join(" or "))),
        };
    }
    let Some(text) = from.text(project_file::PATH) else { return Ok(()) };
    let file = ProjectFile::parse(text)?;
    match ["helm.sdk.operatorframework.io/", "hybrid.helm."].iter().any(|layout| file.has_layout(layout)) {
        true => Ok(()),
        false => refused("PROJECT has another layout than helm.sdk.operatorframework.io".to_owned()),
    }
}

/// Writes PROJECT if operator-sdk's is missing, with the kinds that watches.yaml serves.
fn project_file(project: &mut Project, folder: &str) -> Result<Vec<String>, Error> {
    if project.contains(project_file::PATH) {
        return Ok(Vec::new());
    }
    let kinds: Vec<Gvk> = watches::read(project)?.into_iter().map(|watch| watch.gvk).collect();
    let domain = kinds.first().map(|gvk| domain(&gvk.group)).unwrap_or_default().to_owned();
    let name = project_name(project, folder)?;
    let mut file = ProjectFile::new(&name, &domain, None, Layout::Charts);
    kinds.iter().for_each(|gvk| file.add(gvk, Served::Chart));
    project.write(project_file::PATH, file.print());
    Ok(vec![format!("PROJECT was missing and names {name:?}, the domain {domain:?} and the kinds of watches.yaml")])
}

/// Returns the group without its first part, unless only a domain would be left.
fn domain(group: &str) -> &str {
    match group.split_once('.') {
        Some((_, domain)) if domain.contains('.') => domain,
        _ => group,
    }
}

/// Returns the prefix of the project's objects, or the folder's name.
fn project_name(project: &Project, folder: &str) -> Result<String, Error> {
    let prefix = kustomize::content(project, "config/default")?["namePrefix"].as_str().map(str::to_owned);
    let folder = folder.trim_end_matches('/').rsplit('/').next().unwrap_or(folder);
    let name = prefix.unwrap_or_else(|| folder.to_lowercase().replace(['_', '.', ' '], "-"));
    let name = name.trim_matches('-');
    Ok(if name.is_empty() { "operator".to_owned() } else { name.to_owned() })
}

/// Rebases the images on this program.
fn dockerfiles(project: &mut Project) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    let mut runs = false;
    for path in dockerfile::paths(project) {
        let text = project.text(&path).unwrap_or_default();
        runs |= text.contains("watches.yaml");
        let Some(moved) = dockerfile::rebase(text) else { continue };
        notes.extend(moved.notes.iter().map(|(line, note)| format!("{path}:{line}: {note}")));
        project.write(path, moved.text);
    }
    if !runs {
        notes.push("no Dockerfile here copies watches.yaml: build the image FROM helm-operator:latest, which 'make docker-build-base' in helm-operator's sources builds".to_owned());
    }
    Ok(notes)
}

/// Writes a role for each kind whose chart can be read.
fn roles(project: &mut Project) -> Result<Vec<String>, Error> {
    let lines = Lines::of(project.text(watches::PATH).unwrap_or_default(), 0);
    let has_roles = kustomize::path(project, "config/rbac").is_some();
    let (mut notes, mut done) = (Vec::new(), Vec::new());
    for (at, watch) in watches::read(project)?.into_iter().enumerate() {
        if let Err(error) = chart::of(project, &watch.place) {
            let line = lines.line(&[&at.to_string(), "chart"]).map(|line| format!(":{line}")).unwrap_or_default();
            notes.push(format!("{}{line}: {error}; it is checked and gets a role once it is here", watches::PATH));
        } else if has_roles && !done.contains(&watch.gvk.lower()) {
            done.push(watch.gvk.lower());
            notes.extend(rbac::generate_kind(project, &watch.gvk)?);
        }
    }
    Ok(notes)
}

/// Replaces the target that downloads upstream's program.
fn makefile(project: &mut Project) -> Result<Vec<String>, Error> {
    let Some(text) = project.text("Makefile") else { return Ok(Vec::new()) };
    let is_download = |part: &str| part.contains("operator-sdk/releases/download") && part.contains("helm-operator");
    let phony = ".PHONY: helm-operator\n";
    let target = text.find(phony).map(|start| {
        let after = start + phony.len();
        (start, text[after..].find(".PHONY:").map_or(text.len(), |found| after + found))
    });
    let Some((start, end)) = target.filter(|(start, end)| is_download(&text[*start..*end])) else {
        let line = text.lines().position(is_download).map(|at| at + 1);
        let todo = "this downloads upstream's helm-operator; set HELM_OPERATOR to this one instead";
        return Ok(line.map(|line| format!("Makefile:{line}: {todo}")).into_iter().collect());
    };
    let has_manifests = text.lines().any(|line| line.starts_with("manifests:"));
    let (program, manifests) = PROGRAM.split_once(MANIFESTS).unwrap_or((PROGRAM, ""));
    let new = if has_manifests { program.to_owned() } else { format!("{program}{MANIFESTS}{manifests}") };
    project.edit("Makefile", |text| Ok(format!("{}{new}{}", &text[..start], &text[end..])))?;
    let added = if has_manifests { "" } else { "; 'manifests' is new" };
    Ok(vec![format!(
        "Makefile: 'run' uses helm-operator from bin or the path instead of downloading upstream's{added}"
    )])
}

/// Names the key that each chart's lookups in other namespaces require; operator-sdk allows all of them.
fn closed_lookups(project: &Project) -> Result<Vec<String>, Error> {
    let lines = Lines::of(project.text(watches::PATH).unwrap_or_default(), 0);
    let note = |(at, watch): (usize, &watches::Watch)| {
        // A chart that does not load has been reported together with its role.
        let closed = lookups::closed(watch, &*chart::of(project, &watch.place).ok()?)?;
        let line = lines.line(&[&at.to_string(), "chart"]).map(|line| format!(":{line}")).unwrap_or_default();
        Some(format!("{}{line}: {closed}", watches::PATH))
    };
    Ok(watches::read(project)?.iter().enumerate().filter_map(note).collect())
}

/// Declares that override values are strings, as in operator-sdk.
fn override_types(project: &mut Project) -> Result<Vec<String>, Error> {
    let is_of_plugins = match project.text(project_file::PATH) {
        Some(text) => ProjectFile::parse(text)?.has_layout("hybrid.helm."),
        None => false,
    };
    let mut notes = Vec::new();
    let open = |watch: &watches::Watch| !(is_of_plugins || watch.overrides.is_empty() || watch.has_overrides_type);
    // In reverse order, so that earlier line numbers stay valid.
    for (at, watch) in watches::read(project)?.into_iter().enumerate().rev().filter(|(_, watch)| open(watch)) {
        let kind = &watch.gvk.kind;
        let lines = Lines::of(project.text(watches::PATH).unwrap_or_default(), 0);
        let line = lines.line(&[&at.to_string(), "overrideValues"]);
        notes.push(match line.map(|line| with_strings(project, line)).transpose()?.flatten() {
            Some(line) => format!(
                "{}:{line}: override values of {kind} stay strings, as in operator-sdk; 'typed' makes them what --set does",
                watches::PATH
            ),
            None => format!(
                "{}: override values of {kind} get types in new releases, as with --set; add 'overrideValuesType: string' if its chart needs text",
                watches::PATH
            ),
        });
    }
    notes.reverse();
    Ok(notes)
}

/// Allows the namespaces and kinds that charts compute: operator-sdk does not restrict them.
fn objects(project: &mut Project) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    for (at, watch) in watches::read(project)?.into_iter().enumerate().rev() {
        let Ok(chart) = chart::of(project, &watch.place) else { continue };
        let spelled = spelled_out(&chart);
        let Some(place) = spelled.computed.iter().find(|computed| watch.leaves_open(computed.what)) else { continue };
        let key = format!("objects: {}", spelled.grant(|what| watch.leaves_open(what)));
        let lines = Lines::of(project.text(watches::PATH).unwrap_or_default(), 0);
        let line = lines.line(&[&at.to_string(), "chart"]);
        let added = match watch.leaves_open(Key::Namespace) && watch.leaves_open(Key::Kind) {
            true => line.map(|line| insert(project, line, "chart", &key)).transpose()?.flatten(),
            // The entry already has the key, with other parts.
            false => None,
        };
        let path = watches::PATH;
        notes.push(match added {
            Some(line) => {
                format!("{path}:{line}: {key} keeps what operator-sdk allows, as {place}; a list of names is safer")
            }
            None => {
                format!("{path}: {place}; add '{key}' to the entry of {}, or its objects are refused", watch.gvk.kind)
            }
        });
    }
    notes.reverse();
    Ok(notes)
}

/// Writes operator-sdk's defaults about permissions and records into watches.yaml.
fn decided(project: &mut Project) -> Result<Vec<String>, Error> {
    let (mut notes, mut has_added, path) = (Vec::new(), false, watches::PATH);
    for (at, watch) in watches::read(project)?.into_iter().enumerate().rev() {
        for (key, value) in watches::DECIDED.into_iter().filter(|(key, _)| watch.undecided.contains(key)) {
            let lines = Lines::of(project.text(path).unwrap_or_default(), 0);
            let line = lines.line(&[&at.to_string(), "chart"]);
            let added = line.map(|line| insert(project, line, "chart", &format!("{key}: {value}")));
            match added.transpose()?.flatten() {
                Some(_) => has_added = true,
                None => notes.push(format!("{path}: add '{key}: {value}' to the entry of {}", watch.gvk.kind)),
            }
        }
    }
    if has_added {
        notes.push(format!("{path}: {}", DECIDED_NOTE));
    }
    notes.reverse();
    Ok(notes)
}

/// Inserts that override values are strings, before the line (from 1) at which they begin. Returns the line.
fn with_strings(project: &mut Project, line: usize) -> Result<Option<usize>, Error> {
    insert(project, line, "overrideValues", "overrideValuesType: string")
}

/// Inserts a key before this line (from 1), if the key `before` begins there. Returns the line.
fn insert(project: &mut Project, line: usize, before: &str, key: &str) -> Result<Option<usize>, Error> {
    let text = project.text(watches::PATH).unwrap_or_default();
    let mut all: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    let begins = |found: &&String| found.trim_start().strip_prefix(before).is_some_and(|rest| rest.starts_with(':'));
    let Some(found) = all.get(line.saturating_sub(1)).filter(begins) else { return Ok(None) };
    let indent = &found[..found.len() - found.trim_start().len()];
    all.insert(line - 1, format!("{indent}{key}\n"));
    project.edit(watches::PATH, |_| Ok(all.concat()))?;
    Ok(Some(line))
}

/// Returns notes on decisions that only the user can make.
fn advice(project: &Project) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    if project.contains("config/rbac/role.yaml") {
        notes.push(
            "config/rbac/role.yaml is kept; the *_role.yaml files now hold what each chart needs, so rules that upstream generated can go".to_owned(),
        );
    }
    if project.below("config/crd").next().is_some() {
        notes.push(
            "config/crd is kept; 'helm-operator generate crds --force' describes the charts' values in it".to_owned(),
        );
    }
    notes.extend(missing(project)?);
    Ok(notes)
}

/// Returns notes on the parts of an operator-sdk project that are missing.
fn missing(project: &Project) -> Result<Vec<String>, Error> {
    let parts = [
        ("Makefile", project.contains("Makefile")),
        ("config/default", kustomize::path(project, "config/default").is_some()),
        ("config/manager", deployment::exists(project)?),
        ("config/rbac", kustomize::path(project, "config/rbac").is_some() || project.below("deploy").next().is_some()),
    ];
    let missing: Vec<&str> = parts.iter().filter(|(_, there)| !there).map(|(part, _)| *part).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let file = ProjectFile::parse(project.text(project_file::PATH).unwrap_or_default())?;
    let init = format!("helm-operator init --domain {} --project-name {}", file.domain(), file.name());
    Ok(vec![format!("there is no {}; '{init}' adds what is missing", missing.join(", "))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Change;

    const MAKEFILE: &str = "run: helm-operator ## Run\n\t$(HELM_OPERATOR) run\n\n.PHONY: helm-operator\nHELM_OPERATOR = $(shell pwd)/bin/helm-operator\nhelm-operator:\nifeq (,x)\n\tcurl -L https://github.com/operator-framework/operator-sdk/releases/download/v1/x\nendif\n\n.PHONY: bundle\nbundle:\n\ttrue\n";

    fn upstream() -> Project {
        Project::from_files([
            ("PROJECT", "domain: a.b\nlayout:\n- helm.sdk.operatorframework.io/v1\nprojectName: x\nversion: \"3\"\n"),
            (
                "Dockerfile",
                "# Build\nFROM quay.io/operator-framework/helm-operator:v1.42.3\n\nENV HOME=/opt/helm\nRUN true\n",
            ),
            ("Makefile", MAKEFILE),
            (
                "watches.yaml",
                "- group: c.a.b\n  version: v1\n  kind: Web\n  chart: helm-charts/web\n  overrideValues: {x: '1'}\n",
            ),
            ("helm-charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
            ("helm-charts/web/templates/a.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"),
            ("config/crd/kustomization.yaml", "resources: []\n"),
            ("config/rbac/role.yaml", "rules: []\n"),
            ("config/rbac/kustomization.yaml", "resources:\n- role.yaml # ours\n"),
        ])
    }

    #[test]
    fn taking_over_names_the_key_that_lookups_need() {
        let mut from = upstream();
        from.write("helm-charts/web/templates/looks.yaml", "{{ $_ := lookup \"v1\" \"Secret\" .Values.at \"x\" }}");
        let mut project = from.clone();
        let notes = take_over(&mut project, &from, ".").unwrap();
        let named = |note: &&String| {
            note.starts_with("watches.yaml:") && note.ends_with("add 'lookup: {all: true}' to the entry of Web")
        };
        assert_eq!(notes.iter().filter(named).count(), 1, "{notes:?}");
    }

    #[test]
    fn a_project_moves_over_and_each_change_is_named() {
        let mut project = upstream();
        let notes = take_over(&mut project, &upstream(), ".").unwrap();
        let changed: Vec<&str> =
            project.changes().filter(|(_, change)| *change == Change::Changed).map(|(path, _)| path).collect();
        assert_eq!(changed, ["Dockerfile", "Makefile", "config/rbac/kustomization.yaml", "watches.yaml"]);
        let watches = project.text("watches.yaml").unwrap();
        assert!(watches.ends_with("web\n  overrideValuesType: string\n  overrideValues: {x: '1'}\n"), "{watches}");
        let dockerfile = project.text("Dockerfile").unwrap();
        assert!(dockerfile.contains("FROM ${HELM_OPERATOR_IMAGE}\n\nENV HOME=/opt/helm\nRUN true\n"), "{dockerfile}");
        let makefile = project.text("Makefile").unwrap();
        assert!(!makefile.contains("curl") && makefile.contains(".PHONY: bundle\nbundle:\n\ttrue\n"), "{makefile}");
        assert!(project.text("config/rbac/web_role.yaml").unwrap().contains("- services # templates/a.yaml"));
        assert!(
            project.text("config/rbac/kustomization.yaml").unwrap().starts_with("resources:\n- role.yaml # ours\n")
        );
        for part in [
            "Dockerfile:2: the image is built on helm-operator:latest instead of quay.io/operator-framework/helm-operator:v1.42.3",
            "Dockerfile:5: RUN needs a shell",
            "Makefile: ",
            "watches.yaml:7: override values of Web stay strings",
            "watches.yaml: serviceAccountName and storageNamespace say what holds in operator-sdk",
            "role.yaml is kept",
            "config/crd is kept",
        ] {
            assert_eq!(notes.iter().filter(|note| note.contains(part)).count(), 1, "{part}: {notes:?}");
        }
    }

    #[test]
    fn a_chart_that_computes_namespaces_keeps_what_operator_sdk_allows() {
        let template = "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  namespace: {{ .Values.where }}\n";
        let files = |watches: &'static str| {
            moved(&[
                ("watches.yaml", watches),
                ("helm-charts/web/Chart.yaml", CHART),
                ("helm-charts/web/templates/a.yaml", template),
            ])
        };
        let (project, notes) = files(WATCH);
        let watches = project.text("watches.yaml").unwrap();
        assert!(
            watches.contains(
                "\n  storageNamespace: $(release)\n  objects: {namespaces: any}\n  chart: /opt/helm/helm-charts/web\n"
            ),
            "{watches}"
        );
        assert!(notes.iter().any(|note| note.contains("web/templates/a.yaml:5 computes the namespace")), "{notes:?}");
        let mut twice = Project::from_files(project.files());
        take_over(&mut twice, &Project::from_files(project.files()), ".").unwrap();
        assert_eq!(twice.text("watches.yaml"), project.text("watches.yaml"));
        let (flow, notes) = files("- {group: c.a.b, version: v1, kind: Web, chart: helm-charts/web}\n");
        assert!(!flow.text("watches.yaml").unwrap().contains("objects"));
        assert!(notes.iter().any(|note| note.contains("add 'objects: {namespaces: any}'")), "{notes:?}");
    }

    #[test]
    fn an_entry_says_what_holds_in_operator_sdk_unless_it_says_something_else() {
        let watches = |text: &str| {
            let (project, notes) = moved(&[("watches.yaml", text), ("helm-charts/web/Chart.yaml", CHART)]);
            (project.text("watches.yaml").unwrap().to_owned(), notes)
        };
        let (both, _) = watches(WATCH);
        assert!(
            both.contains("\n  serviceAccountName: $(operator)\n  storageNamespace: $(release)\n  chart: "),
            "{both}"
        );
        let (one, _) = watches(&format!("{WATCH}  storageNamespace: records\n"));
        assert!(one.contains("serviceAccountName: $(operator)") && !one.contains("$(release)"), "{one}");
        let (flow, notes) = watches("- {group: c.a.b, version: v1, kind: Web, chart: helm-charts/web}\n");
        assert!(!flow.contains("$(operator)"), "{flow}");
        let named = "watches.yaml: add 'serviceAccountName: $(operator)' to the entry of Web";
        assert!(notes.iter().any(|note| note == named), "{notes:?}");
    }

    #[test]
    fn a_second_move_changes_nothing() {
        let mut once = Project::default();
        take_over(&mut once, &upstream(), ".").unwrap();
        let mut twice = Project::from_files(once.files());
        take_over(&mut twice, &upstream(), ".").unwrap();
        assert_eq!(twice.changes().collect::<Vec<_>>(), []);
    }

    #[test]
    fn override_values_keep_the_type_of_the_operator_that_made_them() {
        let project = |layout: &str, watches: &str| {
            let project = format!("layout: [{layout}]\nprojectName: x\ndomain: a.b\nversion: \"3\"\n");
            let entry = "- {group: c.a.b, version: v1, kind: Web, chart: web, overrideValues: {x: 1}}\n";
            let text = watches.replace("ENTRY", entry);
            moved(&[("PROJECT", &project), ("watches.yaml", &text), ("web/Chart.yaml", CHART)])
        };
        const SDK: &str = "helm.sdk.operatorframework.io/v1";
        let (flow, notes) = project(SDK, "ENTRY");
        assert!(!flow.text("watches.yaml").unwrap().contains("overrideValuesType"));
        assert!(notes.iter().any(|note| note.contains("add 'overrideValuesType: string'")), "{notes:?}");
        let two =
            format!("{WATCH}  overrideValues:\n    x: 1\n{}  overrideValues: {{y: 2}}\n", WATCH.replace("Web", "Wob"));
        let (both, _) = project(SDK, &two);
        assert_eq!(
            both.text("watches.yaml").unwrap().matches("\n  overrideValuesType: string\n  overrideValues:").count(),
            2
        );
        for (layout, watches) in [
            ("hybrid.helm.sdk.operatorframework.io/v1-alpha", two.clone()),
            (SDK, format!("{WATCH}  overrideValues: {{x: 1}}\n  overrideValuesType: typed\n")),
        ] {
            let (same, notes) = project(layout, &watches);
            let added = "  serviceAccountName: $(operator)\n  storageNamespace: $(release)\n";
            assert_eq!(same.text("watches.yaml").unwrap().replace(added, ""), watches);
            assert!(!notes.iter().any(|note| note.contains("override values")), "{notes:?}");
        }
    }

    #[test]
    fn other_folders_are_refused_with_the_reason() {
        let code = Project::from_files([("PROJECT", "layout: [go.kubebuilder.io/v4]\n"), ("watches.yaml", "")]);
        let deeper = Project::from_files([("build/operator/watches.yaml", "")]);
        for (from, expected) in [
            (Project::default(), "x is not a Helm project of operator-sdk: it has no watches.yaml"),
            (
                deeper,
                "x is not a Helm project of operator-sdk: it has no watches.yaml, but build/operator has: pass that folder",
            ),
            (
                code,
                "x is not a Helm project of operator-sdk: PROJECT has another layout than helm.sdk.operatorframework.io",
            ),
        ] {
            assert_eq!(take_over(&mut Project::default(), &from, "x").unwrap_err().to_string(), expected);
        }
    }

    /// Moves a project twice, and returns it with the notes of the first move.
    fn moved(files: &[(&str, &str)]) -> (Project, Vec<String>) {
        let from = Project::from_files(files.iter().map(|(path, text)| (*path, *text)));
        let mut project = from.clone();
        let notes = take_over(&mut project, &from, "folder/my_operator").unwrap();
        let mut again = Project::from_files(project.files());
        take_over(&mut again, &from, "folder/my_operator").unwrap();
        assert_eq!(again.changes().collect::<Vec<_>>(), []);
        (project, notes)
    }

    const WATCH: &str = "- group: c.a.b\n  version: v1\n  kind: Web\n  chart: /opt/helm/helm-charts/web\n";
    const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
    const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n";

    #[test]
    fn what_is_there_moves_without_a_project_file_and_what_is_missing_is_named() {
        let dockerfile = "FROM quay.io/operator-framework/helm-operator:v1.33\nUSER helm\nENV HOME=/opt/helm\nCOPY watches.yaml ${HOME}/watches.yaml\nCOPY web ${HOME}/helm-charts/web\n";
        let (project, notes) = moved(&[
            ("watches.yaml", WATCH),
            ("Dockerfile", dockerfile),
            ("web/Chart.yaml", CHART),
            ("web/templates/a.yaml", SERVICE),
        ]);
        let file = ProjectFile::parse(project.text("PROJECT").unwrap()).unwrap();
        assert_eq!((file.name(), file.domain()), ("my-operator", "a.b"));
        assert_eq!(file.resources(), [Gvk::new("c", "a.b", "v1", "Web").unwrap()]);
        assert!(!project.contains("config/rbac/web_role.yaml"));
        let said = |part: &str| notes.iter().any(|note| note.contains(part));
        assert!(said("PROJECT was missing"), "{notes:?}");
        let init = "there is no Makefile, config/default, config/manager, config/rbac; 'helm-operator init --domain a.b --project-name my-operator' adds what is missing";
        assert!(said(init) && notes.len() == 4, "{notes:?}");
    }

    #[test]
    fn roles_name_the_account_and_plurals_of_the_project() {
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {group: c.a.b, names: {kind: Web, plural: weben}}\n";
        let manager = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: m, namespace: mine}\nspec: {selector: {}, template: {spec: {containers: [{name: manager}]}}}\n";
        let (project, _) = moved(&[
            ("PROJECT", "domain: a.b\nlayout: helm.sdk.operatorframework.io/v1\nprojectName: x\nversion: 3-alpha\n"),
            ("watches.yaml", WATCH),
            ("helm-charts/web/Chart.yaml", CHART),
            ("helm-charts/web/templates/a.yaml", SERVICE),
            ("config/crd/kustomization.yaml", "resources: [bases/any.yaml]\n"),
            ("config/crd/bases/any.yaml", crd),
            ("config/manager/kustomization.yaml", "resources: [manager.yaml]\n"),
            ("config/manager/manager.yaml", manager),
            ("config/default/kustomization.yaml", "namePrefix: x-\nbases:\n- ../crd\n- ../rbac\n- ../manager\n"),
            ("config/rbac/kustomization.yaml", "resources: []\n"),
        ]);
        let role = project.text("config/rbac/web_role.yaml").unwrap();
        assert!(role.contains("resources: [weben/status]"), "{role}");
        assert!(role.ends_with("- kind: ServiceAccount\n  name: default\n  namespace: mine\n"), "{role}");
        assert!(project.text("config/rbac/web_editor_role.yaml").unwrap().contains("weben"));
        assert_eq!(
            project.text("config/default/kustomization.yaml"),
            Some("namePrefix: x-\nbases:\n- ../crd\n- ../rbac\n- ../manager\n")
        );
    }

    #[test]
    fn a_chart_that_is_elsewhere_stops_nothing() {
        let (_, notes) = moved(&[("watches.yaml", WATCH), ("config/rbac/kustomization.yaml", "resources: []\n")]);
        let expected = "watches.yaml:6: cannot use chart \"/opt/helm/helm-charts/web\": it is a path of the image, and the project has no chart that a COPY of a Dockerfile brings there";
        assert!(notes.iter().any(|note| note.starts_with(expected)), "{notes:?}");
        assert!(notes.iter().any(|note| note.starts_with("no Dockerfile here copies watches.yaml")), "{notes:?}");
    }

    #[test]
    fn a_makefile_of_another_form_is_named_with_its_line() {
        let makefile = "run: bin\n\trun\n\nbin:\n\tcurl -L https://github.com/operator-framework/operator-sdk/releases/download/v1/helm-operator_linux\n";
        let (project, notes) = moved(&[("watches.yaml", WATCH), ("Makefile", makefile)]);
        assert_eq!(project.text("Makefile"), Some(makefile));
        assert!(notes.iter().any(|note| note.starts_with("Makefile:5: this downloads")), "{notes:?}");
        let own = MAKEFILE.to_owned() + ".PHONY: manifests\nmanifests:\n\ttrue\n";
        let (project, _) = moved(&[("watches.yaml", WATCH), ("Makefile", &own)]);
        assert_eq!(project.text("Makefile").unwrap().matches("manifests:").count(), 1);
    }

    #[test]
    fn upstreams_own_sample_project_moves_over() {
        let Some(folder) = shared_cases::path("upstream-state/scaffold") else { return };
        let from = crate::disk::read(&folder).unwrap();
        let mut project = from.clone();
        let notes = take_over(&mut project, &from, ".").unwrap();
        assert!(notes.iter().any(|note| note.starts_with("Makefile: ")), "{notes:?}");
        let role = project.text("config/rbac/memcached_role.yaml").unwrap();
        assert!(role.contains("- statefulsets # templates/statefulset.yaml"), "{role}");
        assert!(project.text("Makefile").unwrap().contains("run: helm-operator ##"));
        let mut again = Project::from_files(project.files());
        take_over(&mut again, &from, ".").unwrap();
        assert_eq!(again.changes().collect::<Vec<_>>(), []);
    }
}
