//! A node that runs containers: files, bridge and images for containerd, kubelet and kube-proxy.
//!
//! It needs root, and its own namespaces for mounts, processes and network, with `/run` and `/var/lib` empty.
//! `hack/e2e-node` provides them; when they end, so do all containers, mounts, addresses and firewall rules.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Attempt, Error};

/// The bridge that connects all pods and carries the node's own address.
const BRIDGE: &str = "cni0";
/// The node's address, within the range of pods in `pods.conflist`.
pub(crate) const ADDRESS: &str = "10.244.0.1";
/// The API server's `--service-cluster-ip-range`.
const SERVICES: &str = "10.0.0.0/16";

/// The files and the control group that a real node needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealNode {
    /// The directory with the CNI plugins `bridge`, `host-local` and `loopback`.
    pub cni_plugins: PathBuf,
    /// The directory with archives (`*.tar`) of all images; images are never pulled.
    pub images: PathBuf,
    /// The existing control group for pods, as a path below each controller's root.
    pub control_group: String,
}

impl RealNode {
    /// Returns the node that `make e2e-node` prepared, from the variables `E2E_NODE_CNI`, `E2E_NODE_IMAGES` and
    /// `E2E_NODE_CGROUP`.
    #[must_use]
    pub fn prepared() -> Option<RealNode> {
        Some(RealNode {
            cni_plugins: env::var_os("E2E_NODE_CNI")?.into(),
            images: env::var_os("E2E_NODE_IMAGES")?.into(),
            control_group: env::var("E2E_NODE_CGROUP").ok()?,
        })
    }

    /// Writes the configuration of containerd, kubelet and kube-proxy.
    pub(crate) fn write_files(&self, folder: &Path) -> Result<(), Error> {
        let files = [
            ("containerd.toml", include_str!("../manifests/node/containerd.toml")),
            ("cni/pods.conflist", include_str!("../manifests/node/pods.conflist")),
            ("kubelet.yaml", include_str!("../manifests/node/kubelet.yaml")),
            ("kube-proxy.yaml", include_str!("../manifests/node/kube-proxy.yaml")),
            ("resolv.conf", ""),
        ];
        files.into_iter().try_for_each(|(name, text)| {
            let path = folder.join(name);
            let written = fs::create_dir_all(path.parent().unwrap_or(folder));
            written
                .and_then(|()| fs::write(&path, self.fill(folder, text)))
                .attempt(|| format!("write {}", path.display()))
        })
    }

    fn fill(&self, folder: &Path, text: &str) -> String {
        let text = text.replace("FOLDER", &folder.display().to_string()).replace("CONTROL_GROUP", &self.control_group);
        let text = text.replace("CNI_PLUGINS", &self.cni_plugins.display().to_string());
        text.replace("BRIDGE", BRIDGE).replace("ADDRESS", ADDRESS)
    }

    /// Returns the endpoint of the Service `kubernetes`, by which containers reach the API server on this port.
    pub(crate) fn api_server(port: u16) -> String {
        let text = include_str!("../manifests/node/api-server.yaml");
        text.replace("ADDRESS", ADDRESS).replace("PORT", &port.to_string())
    }

    /// Imports the images; containerd must run.
    pub(crate) fn import_images(&self) -> Result<(), Error> {
        let entries = fs::read_dir(&self.images).attempt(|| format!("read {}", self.images.display()))?;
        let archives =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.extension() == Some(OsStr::new("tar")));
        for archive in archives {
            let import = ["--namespace=k8s.io", "images", "import", "--snapshotter=native"].map(OsStr::new);
            run(ctr().args(import).arg(&archive))?;
        }
        Ok(())
    }
}

/// Creates the bridge, and routes the addresses of Services to it, where kube-proxy's rules apply.
pub(crate) fn bring_up_network() -> Result<(), Error> {
    let address = format!("{ADDRESS}/24");
    let steps: [&[&str]; 4] = [
        &["link", "add", BRIDGE, "type", "bridge"],
        &["address", "add", &address, "dev", BRIDGE],
        &["link", "set", BRIDGE, "up"],
        &["route", "add", SERVICES, "dev", BRIDGE],
    ];
    steps.into_iter().try_for_each(|step| run(Command::new("ip").args(step)))
}

pub(crate) fn containerd_answers() -> bool {
    run(ctr().arg("version")).is_ok()
}

fn ctr() -> Command {
    let mut command = Command::new("ctr");
    command.arg("--address=/run/test-node/containerd.sock");
    command
}

/// Runs a command to completion; fails with its error output.
fn run(command: &mut Command) -> Result<(), Error> {
    let output = command.output().attempt(|| format!("run {command:?}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Program { command: format!("{command:?}"), stderr })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_has_no_placeholder_left() {
        let node = RealNode { cni_plugins: "/cni".into(), images: "/images".into(), control_group: "/group".into() };
        let folder = crate::folder::create().unwrap();
        node.write_files(&folder).unwrap();
        let texts = ["containerd.toml", "cni/pods.conflist", "kubelet.yaml", "kube-proxy.yaml"];
        let texts: String = texts.map(|name| fs::read_to_string(folder.join(name)).unwrap()).concat();
        for (placeholder, value) in [
            ("FOLDER", folder.to_str().unwrap()),
            ("CNI_PLUGINS", "bin_dir = \"/cni\""),
            ("CONTROL_GROUP", "cgroupRoot: /group"),
            ("BRIDGE", "\"bridge\": \"cni0\""),
            ("ADDRESS", "\"gateway\": \"10.244.0.1\""),
        ] {
            assert!(!texts.contains(placeholder) && texts.contains(value), "{placeholder}: {texts}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn containers_find_the_api_server_at_the_nodes_address() {
        let text = RealNode::api_server(6443);
        assert!(text.contains("port: 6443}") && text.contains("[10.244.0.1]"), "{text}");
    }
}
