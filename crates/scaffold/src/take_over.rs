//! `init --from-operator-sdk`: makes a project of operator-sdk's Helm plugin run with this operator.
//!
//! Everything that works stays: charts, watches.yaml, CRDs, samples, deployment, RBAC. What changes is where the program comes from, and each chart
//! gets a role of its own.

use crate::project_file::{self, ProjectFile};
use crate::{Error, Project, rbac, watches};

/// The image that upstream's Dockerfiles stand on.
const UPSTREAM_IMAGE: &str = "quay.io/operator-framework/helm-operator:";

/// The start of our Dockerfile.
const FROM: &str = "\
# The operator's base image; `make docker-build-base` in helm-operator's sources builds helm-operator:latest.
ARG HELM_OPERATOR_IMAGE=helm-operator:latest
FROM ${HELM_OPERATOR_IMAGE}
";

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

/// Copies the files of `from` that the project lacks, and changes what has to change. Returns what it did, for the user. A second call changes
/// nothing.
///
/// # Errors
/// `from` is not such a project, a chart does not load, or a file cannot be edited. `name` names it in errors.
pub fn take_over(project: &mut Project, from: &Project, name: &str) -> Result<Vec<String>, Error> {
    check(from, name)?;
    for (path, content) in from.files() {
        project.create(path, content);
    }
    let mut notes = Vec::new();
    notes.extend(dockerfile(project)?);
    notes.extend(makefile(project)?);
    notes.extend(rbac::generate(project, &[], false)?);
    notes.extend(advice(project)?);
    Ok(notes)
}

fn check(from: &Project, name: &str) -> Result<(), Error> {
    let file = from.text(project_file::PATH).map(ProjectFile::parse).transpose()?;
    let is_helm = file.is_some_and(|file| file.has_layout("helm.sdk.operatorframework.io/"));
    if is_helm && from.contains(watches::PATH) { Ok(()) } else { Err(Error::NotHelmProject(name.to_owned())) }
}

/// Changes the base image, and keeps everything else.
fn dockerfile(project: &mut Project) -> Result<Vec<String>, Error> {
    let Some(text) = project.text("Dockerfile") else { return Ok(Vec::new()) };
    let is_base = |line: &&str| line.starts_with("FROM ") && line.contains(UPSTREAM_IMAGE);
    let Some(line) = text.split_inclusive('\n').find(is_base).map(str::to_owned) else { return Ok(Vec::new()) };
    let has_commands = text.lines().any(|line| line.starts_with("RUN "));
    project.edit("Dockerfile", |text| Ok(text.replacen(&line, FROM, 1)))?;
    let mut notes = vec![format!("Dockerfile: the image stands on helm-operator:latest instead of {}", line.trim())];
    if has_commands {
        notes.push(
            "Dockerfile has RUN lines: build the base image with a shell, 'make docker-build-base BASE_IMAGE=…'"
                .to_owned(),
        );
    }
    Ok(notes)
}

/// Replaces the target that downloads upstream's program.
fn makefile(project: &mut Project) -> Result<Vec<String>, Error> {
    let Some(text) = project.text("Makefile") else { return Ok(Vec::new()) };
    let phony = ".PHONY: helm-operator\n";
    let Some(start) = text.find(phony).filter(|_| text.contains("operator-sdk/releases/download")) else {
        return Ok(Vec::new());
    };
    let after = start + phony.len();
    let end = text[after..].find(".PHONY:").map_or(text.len(), |found| after + found);
    if !text[start..end].contains("releases/download") {
        return Ok(Vec::new());
    }
    project.edit("Makefile", |text| Ok(format!("{}{PROGRAM}{}", &text[..start], &text[end..])))?;
    Ok(vec![
        "Makefile: 'run' uses helm-operator from bin or the path instead of downloading upstream's; 'manifests' is new"
            .to_owned(),
    ])
}

/// What only the user can decide.
fn advice(project: &Project) -> Result<Vec<String>, Error> {
    let mut notes = Vec::new();
    let watches = watches::read(project)?;
    let overridden = watches.iter().find(|watch| !watch.overrides.is_empty());
    if let Some(watch) = overridden {
        let kind = &watch.gvk.kind;
        notes.push(format!(
            "watches.yaml: override values of {kind} get types, as with --set; add 'overrideValuesType: string' if its chart needs text"
        ));
    }
    if project.contains("config/rbac/role.yaml") {
        notes.push(
            "config/rbac/role.yaml is kept; the *_role.yaml files now hold what each chart needs, so rules that upstream generated can go".to_owned(),
        );
    }
    notes.push(
        "config/crd is kept; 'helm-operator generate crds --force' describes the charts' values in it".to_owned(),
    );
    Ok(notes)
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
            ("config/rbac/role.yaml", "rules: []\n"),
            ("config/rbac/kustomization.yaml", "resources:\n- role.yaml # ours\n"),
        ])
    }

    #[test]
    fn a_project_moves_over_and_each_change_is_told() {
        let mut project = upstream();
        let notes = take_over(&mut project, &upstream(), ".").unwrap();
        let changed: Vec<&str> =
            project.changes().filter(|(_, change)| *change == Change::Changed).map(|(path, _)| path).collect();
        assert_eq!(changed, ["Dockerfile", "Makefile", "config/rbac/kustomization.yaml"]);
        let dockerfile = project.text("Dockerfile").unwrap();
        assert!(dockerfile.contains("FROM ${HELM_OPERATOR_IMAGE}\n\nENV HOME=/opt/helm\nRUN true\n"), "{dockerfile}");
        let makefile = project.text("Makefile").unwrap();
        assert!(!makefile.contains("curl") && makefile.contains(".PHONY: bundle\nbundle:\n\ttrue\n"), "{makefile}");
        assert!(project.text("config/rbac/web_role.yaml").unwrap().contains("- services # templates/a.yaml"));
        assert!(
            project.text("config/rbac/kustomization.yaml").unwrap().starts_with("resources:\n- role.yaml # ours\n")
        );
        for part in [
            "Dockerfile: ",
            "RUN lines",
            "Makefile: ",
            "override values of Web",
            "role.yaml is kept",
            "config/crd is kept",
        ] {
            assert_eq!(notes.iter().filter(|note| note.contains(part)).count(), 1, "{part}: {notes:?}");
        }
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
    fn other_folders_are_refused() {
        let hybrid = Project::from_files([("PROJECT", "layout: [go.kubebuilder.io/v4]\n"), ("watches.yaml", "")]);
        for from in [Project::default(), hybrid] {
            let error = take_over(&mut Project::default(), &from, "x").unwrap_err();
            assert!(matches!(error, Error::NotHelmProject(_)), "{error}");
        }
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
