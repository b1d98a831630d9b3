//! The control plane's processes and their command lines.

use std::fmt;
use std::path::Path;

use crate::ports::Ports;
use crate::{Options, Processes, real_node};

/// One process of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers of Deployments, garbage collection, namespaces and so on.
    ControllerManager,
    /// Schedules pods to the node.
    Scheduler,
    /// Simulates the kubelet of the single node.
    Kwok,
    /// Runs the containers of a real node.
    Containerd,
    /// The real node itself.
    Kubelet,
    /// Routes the addresses of Services to pods.
    KubeProxy,
}

impl Component {
    /// Every process, in starting order. The node is either kwok, or the three processes after it.
    pub const ALL: [Component; 8] = [
        Component::Etcd,
        Component::ApiServer,
        Component::ControllerManager,
        Component::Scheduler,
        Component::Kwok,
        Component::Containerd,
        Component::Kubelet,
        Component::KubeProxy,
    ];

    /// Returns the name of the binary and of its log (`NAME.log`).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Component::Etcd => "etcd",
            Component::ApiServer => "kube-apiserver",
            Component::ControllerManager => "kube-controller-manager",
            Component::Scheduler => "kube-scheduler",
            Component::Kwok => "kwok",
            Component::Containerd => "containerd",
            Component::Kubelet => "kubelet",
            Component::KubeProxy => "kube-proxy",
        }
    }

    /// Returns the user that it calls the API server as, if it is a client.
    pub(crate) fn user(self) -> Option<&'static str> {
        match self {
            Component::Etcd | Component::ApiServer | Component::Containerd => None,
            Component::ControllerManager => Some("system:kube-controller-manager"),
            Component::Scheduler => Some("system:kube-scheduler"),
            Component::Kwok => Some("kwok"),
            Component::Kubelet => Some("kubelet"),
            Component::KubeProxy => Some("kube-proxy"),
        }
    }

    /// Returns its command-line arguments, for files in `folder`.
    pub(crate) fn arguments(self, folder: &Path, ports: &Ports, options: &Options) -> Vec<String> {
        let folder = folder.display();
        match self {
            Component::Etcd => etcd(&folder, ports),
            Component::ApiServer => api_server(&folder, ports, options),
            Component::ControllerManager => controller_manager(&folder),
            Component::Scheduler => scheduler(&folder),
            Component::Kwok => kwok(&folder),
            Component::Containerd => vec![format!("--config={folder}/containerd.toml")],
            Component::Kubelet => kubelet(&folder),
            Component::KubeProxy => vec![format!("--config={folder}/kube-proxy.yaml")],
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn etcd(folder: &impl fmt::Display, ports: &Ports) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    vec![
        format!("--data-dir={folder}/etcd"),
        // The data is temporary, so don't wait for the disk.
        "--unsafe-no-fsync".into(),
        "--quota-backend-bytes=8589934592".into(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--log-level=warn".into(),
    ]
}

fn api_server(folder: &impl fmt::Display, ports: &Ports, options: &Options) -> Vec<String> {
    // Containers of a real node are in other network namespaces; the node's own has no way out.
    let address = if options.node.is_some() { "0.0.0.0" } else { "127.0.0.1" };
    let mut arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        format!("--secure-port={}", ports.api_server),
        format!("--bind-address={address}"),
        "--advertise-address=127.0.0.1".into(),
        // The endpoint of its Service must not be a loopback address; only a real node uses that Service, and has its own.
        "--endpoint-reconciler-type=none".into(),
        format!("--cert-dir={folder}/certs"),
        // The server generates its key pair before it reads these files.
        format!("--service-account-key-file={folder}/certs/apiserver.key"),
        format!("--service-account-signing-key-file={folder}/certs/apiserver.key"),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--token-auth-file={folder}/tokens.csv"),
        "--authorization-mode=RBAC".into(),
        "--service-cluster-ip-range=10.0.0.0/16".into(),
        "--allow-privileged=true".into(),
        "--profiling=false".into(),
    ];
    if options.processes == Processes::ApiServer {
        let webhooks = "MutatingAdmissionWebhook,ValidatingAdmissionWebhook";
        arguments.push(format!("--disable-admission-plugins={webhooks}"));
    }
    let gates = options.feature_gates.iter();
    arguments.extend(gates.map(|gate| format!("--feature-gates={gate}=true")));
    if options.audit {
        arguments.push(format!("--audit-policy-file={folder}/audit-policy.yaml"));
        arguments.push(format!("--audit-log-path={folder}/audit.log"));
        arguments.push("--audit-log-maxsize=2000".into());
    }
    arguments
}

fn controller_manager(folder: &impl fmt::Display) -> Vec<String> {
    let mut arguments = client(folder, Component::ControllerManager);
    arguments.extend([
        format!("--service-account-private-key-file={folder}/certs/apiserver.key"),
        format!("--root-ca-file={folder}/certs/apiserver.crt"),
        "--use-service-account-credentials=true".into(),
        "--concurrent-deployment-syncs=20".into(),
        "--concurrent-gc-syncs=40".into(),
    ]);
    arguments
}

fn scheduler(folder: &impl fmt::Display) -> Vec<String> {
    client(folder, Component::Scheduler)
}

/// Returns the arguments that both Kubernetes clients share: no leader election, no port, no throttling.
fn client(folder: &impl fmt::Display, component: Component) -> Vec<String> {
    vec![
        format!("--kubeconfig={folder}/{component}.kubeconfig"),
        "--leader-elect=false".into(),
        "--secure-port=0".into(),
        "--authentication-skip-lookup=true".into(),
        "--kube-api-qps=500".into(),
        "--kube-api-burst=1000".into(),
    ]
}

fn kwok(folder: &impl fmt::Display) -> Vec<String> {
    vec![
        format!("--kubeconfig={folder}/{}.kubeconfig", Component::Kwok),
        format!("--config={folder}/stages.yaml"),
        "--manage-all-nodes=true".into(),
        "--node-lease-duration-seconds=40".into(),
        "--node-ip=192.0.2.1".into(),
        "--cidr=10.244.0.0/16".into(),
        // No port, because several clusters run side by side.
        "--node-port=0".into(),
    ]
}

fn kubelet(folder: &impl fmt::Display) -> Vec<String> {
    vec![
        format!("--config={folder}/kubelet.yaml"),
        format!("--kubeconfig={folder}/{}.kubeconfig", Component::Kubelet),
        format!("--root-dir={folder}/kubelet"),
        format!("--cert-dir={folder}/kubelet/pki"),
        "--hostname-override=node-0".into(),
        format!("--node-ip={}", real_node::ADDRESS),
    ]
}
