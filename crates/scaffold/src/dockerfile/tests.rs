//! Tests with Dockerfiles of each form.

use super::images::is_upstream;
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

const ABOUT: &str =
    "# The operator's base image; `make docker-build-base` in helm-operator's sources builds helm-operator:latest.\n";

/// Checks the moved text and the lines of the notes, and that a second move changes nothing.
fn moves(text: &str, expected: &str, lines: &[usize]) -> Vec<String> {
    let found = rebase(text).unwrap();
    assert_eq!(found.text, expected.replace("@ABOUT\n", ABOUT));
    assert_eq!(found.notes.iter().map(|(line, _)| *line).collect::<Vec<_>>(), lines, "{:?}", found.notes);
    let again = rebase(&found.text).map(|again| again.text);
    assert!(again.as_ref().is_none_or(|again| *again == found.text), "{again:?}");
    found.notes.into_iter().map(|(_, note)| note).collect()
}

#[test]
fn an_image_on_upstreams_stands_on_ours_with_its_platform_and_name() {
    moves(
        "# Build\nFROM quay.io/operator-framework/helm-operator:v1.42.3\n\nENV HOME=/opt/helm\nUSER helm\n",
        "# Build\n@ABOUT\nARG HELM_OPERATOR_IMAGE=helm-operator:latest\nFROM ${HELM_OPERATOR_IMAGE}\n\nENV HOME=/opt/helm\nUSER helm\n",
        &[2],
    );
    let notes = moves(
        "FROM golang AS build\nRUN make\nFROM --platform=linux/amd64 registry.redhat.io/openshift4/ose-helm-rhel9-operator:latest@sha256:b9 \\\n  as operator\nFROM operator\nRUN microdnf update\n",
        "@ABOUT\nARG HELM_OPERATOR_IMAGE=helm-operator:latest\nFROM golang AS build\nRUN make\nFROM --platform=linux/amd64 ${HELM_OPERATOR_IMAGE} \\\n  as operator\nFROM operator\nRUN microdnf update\n",
        &[3, 6],
    );
    assert!(notes[1].starts_with("RUN needs a shell"), "{notes:?}");
}

#[test]
fn an_argument_that_is_the_image_keeps_its_name_and_gets_our_default() {
    moves(
        "ARG BASE=quay.io/a/helm-operator:v1\nARG OTHER=x\nFROM ${BASE}\n",
        "@ABOUT\nARG BASE=helm-operator:latest\nARG OTHER=x\nFROM ${BASE}\n",
        &[3],
    );
    moves(
        "ARG VERSION=v1\nFROM quay.io/operator-framework/helm-operator:${VERSION}\n",
        "ARG VERSION=v1\n@ABOUT\nARG HELM_OPERATOR_IMAGE=helm-operator:latest\nFROM ${HELM_OPERATOR_IMAGE}\n",
        &[2],
    );
}

#[test]
fn a_copied_program_comes_from_our_image_and_a_downloaded_one_is_named() {
    let notes = moves(
        "FROM golang AS builder\nRUN make build/helm-operator\nFROM ubi\nCOPY --from=builder /workspace/build/helm-operator /usr/local/bin/helm-operator\nCOPY watches.yaml ${HOME}/watches.yaml\n",
        "FROM golang AS builder\nRUN make build/helm-operator\nFROM ubi\n@ABOUT\nCOPY --from=helm-operator:latest /usr/local/bin/helm-operator /usr/local/bin/helm-operator\nCOPY watches.yaml ${HOME}/watches.yaml\n",
        &[4],
    );
    assert!(notes[0].contains("the stage \"builder\""), "{notes:?}");
    moves(
        "FROM ubi\nCOPY --from=quay.io/operator-framework/helm-operator:v1 /usr/local/bin/helm-operator /x\nCOPY watches.yaml .\n",
        "FROM ubi\n@ABOUT\nCOPY --from=helm-operator:latest /usr/local/bin/helm-operator /x\nCOPY watches.yaml .\n",
        &[2],
    );
    let curl = "FROM ubi\nRUN mkdir a \\\n  && curl -L https://github.com/operator-framework/operator-sdk/releases/download/v1/helm-operator_linux_amd64 -o x\nCOPY watches.yaml .\n";
    let notes = moves(curl, curl, &[2]);
    let todo =
        "write instead: COPY --from=helm-operator:latest /usr/local/bin/helm-operator /usr/local/bin/helm-operator";
    assert!(notes[0].ends_with(todo), "{notes:?}");
}

#[test]
fn an_image_of_an_unknown_form_is_named_and_other_images_are_not() {
    let own = "FROM golang AS builder\nRUN go build -o manager main.go\nFROM ubi\nCOPY watches.yaml .\nCOPY --from=builder /workspace/manager .\nENTRYPOINT [\"/manager\"]\n";
    let notes = moves(own, own, &[6]);
    assert!(notes[0].contains("does not run helm-operator in a way that is known here"), "{notes:?}");
    for other in ["FROM scratch\nCOPY bundle/manifests /manifests/\n", "FROM golang\nRUN make\n", ""] {
        assert_eq!(rebase(other), None, "{other}");
    }
}
