//! Where webhooks are served, and under which names the API server knows them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

/// Where and how webhooks are served.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address: `:9443` or `127.0.0.1:0`.
    pub bind_address: String,
    /// The name of the Service and of the webhook configurations; with `-certificate` appended, that of the Secret.
    /// Empty means the lease's name, or else the program's, with `-webhook` appended.
    pub name: String,
    /// How the API server reaches this process without the Service: `https://host.docker.internal:9443`. Default: in a
    /// pod, the Service; elsewhere `https://127.0.0.1` with the port.
    pub url: Option<String>,
    /// A directory with `tls.crt` and `tls.key`, and perhaps with `ca.crt`, which are read again when they change.
    /// Default: the process makes a certificate, and keeps it in a Secret.
    pub certificate_dir: Option<PathBuf>,
    /// How long the API server may take to notice a changed configuration. Only then is a new certificate served.
    pub settle: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            bind_address: ":9443".into(),
            name: String::new(),
            url: None,
            certificate_dir: None,
            settle: Duration::from_secs(30),
        }
    }
}

/// Where the API server reaches the process.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// The name of the Service and of the configurations.
    pub(crate) name: String,
    /// The process's own namespace, if it has one.
    pub(crate) namespace: Option<String>,
    /// How the API server reaches the process, if not through the Service.
    pub(crate) url: Option<String>,
}

/// How many processes may answer at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replicas {
    One,
    /// Several processes, including those that wait for this one's lease.
    Several,
}

impl Endpoint {
    /// Returns the endpoint of a process that listens on this port.
    pub(crate) fn of(settings: &Settings, name: String, namespace: Option<String>, port: u16) -> Endpoint {
        let is_in_pod = namespace.is_some() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        let local = (!is_in_pod).then(|| format!("https://127.0.0.1:{port}"));
        let url = settings.url.clone().or(local).map(|url| url.trim_end_matches('/').to_owned());
        Endpoint { name, namespace, url }
    }

    /// Returns the name of the Secret with the certificate.
    pub(super) fn secret(&self) -> String {
        format!("{}-certificate", self.name)
    }

    /// Returns the host names that the certificate must have.
    pub(super) fn hosts(&self) -> Vec<String> {
        let service = |namespace: &String| {
            let short = format!("{}.{namespace}.svc", self.name);
            [format!("{short}.cluster.local"), short]
        };
        let mut hosts: Vec<String> = self.namespace.iter().flat_map(service).collect();
        hosts.extend(self.url_host());
        hosts.sort();
        hosts
    }

    fn url_host(&self) -> Option<String> {
        let url = self.url.as_deref()?.parse::<http::Uri>().ok()?;
        url.host().map(|host| host.trim_matches(['[', ']']).to_owned())
    }

    /// Returns whether the URL leads nowhere once this process stops. Other replicas may answer at one of another host.
    pub(super) fn ends_with_process(&self, replicas: Replicas) -> bool {
        self.url.is_some() && (replicas == Replicas::One || self.is_loopback())
    }

    fn is_loopback(&self) -> bool {
        let host = self.url_host().unwrap_or_default();
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Returns the client configuration for a path, in admission and conversion alike.
    pub(super) fn client_config(&self, path: &str, ca_bundle: Option<&str>) -> Value {
        let mut config = match (&self.url, &self.namespace) {
            (Some(url), _) => json!({"url": format!("{url}{path}")}),
            (None, namespace) => {
                json!({"service": {"name": self.name, "namespace": namespace, "path": path, "port": 443}})
            }
        };
        if let Some(ca_bundle) = ca_bundle {
            config["caBundle"] = json!(k8s_openapi::ByteString(ca_bundle.as_bytes().to_vec()));
        }
        config
    }
}
