//! Dockerfiles of each shape.

use super::*;

#[test]
fn instructions_keep_their_lines_whatever_continues_them() {
    let text = "# syntax=docker/dockerfile:1\nARG A=1\n\nFROM --platform=x a \\\n  # why\n\n  AS b\nRUN <<EOF\nFROM no\nEOF\nCOPY a b\n";
    let found: Vec<_> = Dockerfile::parse(text)
        .instructions
        .iter()
        .map(|one| (one.line, one.stage, format!("{} {}", one.keyword, one.args)))
        .collect();
    let expected = [(2, 0, "ARG A=1"), (4, 1, "FROM --platform=x a AS b"), (8, 1, "RUN <<EOF"), (11, 1, "COPY a b")];
    assert_eq!(found, expected.map(|(line, stage, text)| (line, stage, text.to_owned())));
    let from = &Dockerfile::parse(text).instructions[1];
    assert_eq!((from.flag("--platform"), from.words().next()), (Some("x"), Some("a")));
    assert!(text[from.range.clone()].starts_with("FROM") && text[from.range.clone()].ends_with("AS b\n"));
}

#[test]
fn arguments_are_filled_into_images() {
    let text = "ARG REGISTRY=quay.io/operator-framework\nARG IMAGE=${REGISTRY}/helm-operator\nFROM $IMAGE:${TAG:-v1}\n";
    let parsed = Dockerfile::parse(text);
    let from = parsed.all("FROM").next().unwrap();
    assert_eq!(parsed.image(from), "quay.io/operator-framework/helm-operator:v1");
}

#[test]
fn upstreams_images_are_known_from_any_registry() {
    for image in [
        "quay.io/operator-framework/helm-operator:v1.42.3@sha256:80e0",
        "quay.io/operator-framework/helm-operator",
        "quay.io/orchestrator/helm-operator@sha256:ebc0",
        "localhost:5000/helm-operator",
        "registry.redhat.io/openshift4/ose-helm-rhel9-operator:latest@sha256:b93f",
        "registry.redhat.io/openshift4/ose-helm-operator:v4.7",
        "quay.io/openshift/origin-helm-operator:4.9",
    ] {
        assert!(is_upstream(image), "{image}");
    }
    for image in [
        "helm-operator:latest",
        "scratch",
        "golang:1.24",
        "a.b/my-helm-operator",
        "a.b/ose-helm-rhel-operator",
        "a.b/helm-operator-base:1",
    ] {
        assert!(!is_upstream(image), "{image}");
    }
}

#[test]
fn a_path_of_the_image_leads_to_the_file_that_is_copied_there() {
    let check = |dockerfile: &str, path: &str, expected: Option<&str>| {
        let files = ["charts/web/Chart.yaml", "helm-charts/web/Chart.yaml", "web/Chart.yaml", "watches.yaml"];
        let files = files.iter().map(|path| (*path, "")).chain([("build/Dockerfile", dockerfile)]);
        let project = Project::from_files(files);
        assert_eq!(source(&project, path).as_deref(), expected, "{dockerfile} {path}");
    };
    let absolute = "/opt/helm/helm-charts/web";
    check("FROM a\nCOPY helm-charts/ ${HOME}/helm-charts/\n", absolute, Some("helm-charts/web"));
    check("FROM a\nCOPY helm-charts/ ${HOME}/helm-charts/\n", "helm-charts/web", Some("helm-charts/web"));
    check("FROM a\nENV HOME=/opt/helm\nCOPY web ${HOME}/helm-charts/web\n", absolute, Some("web"));
    check("FROM a\nCOPY --chown=1:1 [\"./charts\", \"/opt/helm/helm-charts\"]\n", absolute, Some("charts/web"));
    check("FROM a\nWORKDIR /opt/helm\nCOPY charts helm-charts\n", absolute, Some("charts/web"));
    check("FROM a\nCOPY . .\n", absolute, Some("helm-charts/web"));
    check("FROM a\nCOPY watches.yaml web /opt/helm/helm-charts/\n", "/opt/helm/helm-charts/web", None);
    check("FROM a\nCOPY watches.yaml /opt/helm/\n", "watches.yaml", Some("watches.yaml"));
    check("FROM a\nCOPY --from=b charts /opt/helm/helm-charts\n", absolute, None);
}
