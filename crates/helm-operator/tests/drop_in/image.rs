//! Tests of our images: the reference operator's, the base image with upstream's contract, and the project's own
//! Dockerfile on top of that.

use std::fs;
use std::path::{Path, PathBuf};

use crate::dockerfile::Image;
use crate::process::{FREE_PORTS, Process};
use crate::project::{ACCOUNT, NAMESPACE, Project, SAMPLE};

/// The name of a stage in our Dockerfile.
const STAGE: &str = "helm-operator";

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn dockerfile() -> String {
    fs::read_to_string(Path::new(REPOSITORY).join("Dockerfile")).unwrap()
}

fn base(root: &Path) -> Image {
    let mut image = Image::scratch(root);
    image.add(&dockerfile(), Some(STAGE), |stage, path| {
        assert_eq!((stage, path), (Some("build-helm-operator"), "/out/helm-operator"));
        PathBuf::from(env!("CARGO_BIN_EXE_helm-operator"))
    });
    image
}

#[test]
fn the_base_image_keeps_upstreams_contract() {
    let root = tempfile::tempdir().unwrap();
    let image = base(root.path());
    assert_eq!(image.workdir, "/opt/helm");
    assert_eq!(image.user, "1001");
    assert_eq!(image.entrypoint, ["/usr/local/bin/helm-operator", "run", "--watches-file=./watches.yaml"]);
    let env: Vec<_> =
        image.command().get_envs().map(|(name, value)| (name.to_owned(), value.unwrap().to_owned())).collect();
    let expected = [("HOME", "/opt/helm"), ("USER_NAME", "helm"), ("USER_UID", "1001")];
    assert_eq!(env, expected.map(|(name, value)| (name.into(), value.into())));
}

#[test]
fn the_reference_operators_image_has_its_watches_file_and_charts() {
    let root = tempfile::tempdir().unwrap();
    let mut image = Image::scratch(root.path());
    image.add(&dockerfile(), None, |stage, path| match stage {
        None => Path::new(REPOSITORY).join(path),
        // Replaces the operator, which this package does not build.
        Some(_) => PathBuf::from(env!("CARGO_BIN_EXE_helm-operator")),
    });
    assert_eq!((&*image.workdir, &*image.user), ("/opt/helm", "65532:65532"));
    let output = image.command().env("KUBECONFIG", "/nonexistent").output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(
        log.contains("cannot read the kubeconfig /nonexistent"),
        "watches.yaml is read before a cluster is looked for: {log}"
    );
    assert!(root.path().join("opt/helm/helm-charts/memcached/Chart.yaml").exists());
}

#[test]
fn an_image_without_a_watches_file_says_so() {
    let root = tempfile::tempdir().unwrap();
    let output = base(root.path()).command().output().unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && log.contains("./watches.yaml"), "{log}");
}

#[test]
fn the_projects_dockerfile_works_on_the_base_image() {
    let Some(project) = Project::deployed() else { return };
    let namespace = project.cluster.namespace("image").unwrap();
    let root = tempfile::tempdir().unwrap();
    let mut image = base(root.path());
    let dockerfile = fs::read_to_string(project.path().join("Dockerfile")).unwrap();
    image.add(&dockerfile, None, |stage, path| {
        assert_eq!(stage, None);
        project.path().join(path)
    });
    let (kubeconfig, _) = project.account(NAMESPACE, ACCOUNT);
    let lease = format!("--leader-election-namespace={NAMESPACE}");
    let mut command = image.command();
    let operator =
        Process::start(command.args(project.args()).args(FREE_PORTS).arg(lease).env("KUBECONFIG", kubeconfig));
    namespace.apply(&project.sample(1)).unwrap();
    operator.logged("Installed release");
    namespace.kubectl(["delete", "memcached", SAMPLE, "--timeout=60s"]).unwrap();
    operator.logged("Uninstalled release");
    operator.terminate();
}
