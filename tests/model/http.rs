//! Requests as an administrator from synchronous tests.

use std::fs;
use std::path::Path;

use http::Request;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use test_cluster::TestCluster;
use tokio::runtime::Runtime;

use crate::operator::eventually;

const MERGE: &str = "application/merge-patch+json";

/// A client with its own runtime.
pub(crate) struct Http {
    pub(crate) runtime: Runtime,
    pub(crate) client: Client,
}

impl Http {
    pub(crate) fn new(cluster: &TestCluster) -> Http {
        let runtime = Runtime::new().unwrap();
        let client = client(&runtime, &cluster.kubeconfig().unwrap());
        Http { runtime, client }
    }

    /// Returns a client with another user's kubeconfig.
    pub(crate) fn client_of(&self, kubeconfig: &Path) -> Client {
        client(&self.runtime, &fs::read_to_string(kubeconfig).unwrap())
    }

    /// Returns the response, or `null` if there is no such object. Waits for an API server that is down.
    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        eventually("answer", || {
            match self.runtime.block_on(self.client.request::<Value>(request(method, path, body))) {
                Ok(answer) => Ok(answer),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Value::Null),
                Err(kube::Error::Api(status)) if status.code == 409 && method == "POST" => Ok(Value::Null),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.send("GET", path, &Value::Null)
    }

    /// Returns the items of a list.
    pub(crate) fn list(&self, path: &str) -> Vec<Value> {
        self.get(path)["items"].as_array().cloned().unwrap_or_default()
    }
}

pub(crate) fn request(method: &str, path: &str, body: &Value) -> Request<Vec<u8>> {
    let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let kind = if method == "PATCH" { MERGE } else { "application/json" };
    Request::builder().method(method).uri(path).header("content-type", kind).body(text).unwrap()
}

pub(crate) fn client(runtime: &Runtime, kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    runtime.block_on(async {
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    })
}
