//! Tests the assertions of operator-sdk's own end-to-end test of Helm projects (`test/e2e/helm`), step by step.

use http::StatusCode;
use test_cluster::Namespace;

use crate::process::{Process, eventually};
use crate::project::{ACCOUNT, NAMESPACE, Project, SAMPLE};

const METRICS: &str = "Serving metrics server";

/// The deployed project, its operator, and the namespace of its resource.
struct Running<'a> {
    project: &'a Project,
    namespace: Namespace<'a>,
    operator: Process,
    token: String,
}

#[test]
fn upstreams_project_passes_upstreams_end_to_end_test() {
    let Some(project) = Project::deployed() else { return };
    let namespace = project.cluster.namespace("e2e").unwrap();
    let (kubeconfig, token) = project.account(NAMESPACE, ACCOUNT);
    let operator = project.start(&project.args(), NAMESPACE, &kubeconfig);
    let running = Running { project: &project, namespace, operator, token };
    running.is_deployed();
    running.installs();
    running.reverts_a_scaled_set();
    running.upgrades();
    running.serves_metrics_to_its_account();
    running.publishes_events();
    running.waits_for_the_uninstall();
    running.installs_and_uninstalls_again();
    // Upstream's roles grant only events of the core API, and no list of autoscalers to find out who scaled an object.
    // The operator works without both.
    let refused = project.refused(NAMESPACE, ACCOUNT);
    assert_eq!(refused, ["create events", "list horizontalpodautoscalers"], "{}", running.operator.log());
    running.fits_its_memory_limit();
    running.operator.terminate();
}

impl Running<'_> {
    fn get(&self, what: [&str; 2], path: &str) -> String {
        self.namespace.kubectl(["get", what[0], what[1], "-o", &format!("jsonpath={path}")]).unwrap_or_default()
    }

    fn apply(&self, replicas: u32) {
        self.namespace.apply(&self.project.sample(replicas)).unwrap();
    }

    fn is_deployed(&self) {
        let phase = [
            "-n",
            NAMESPACE,
            "get",
            "pods",
            "-l",
            "control-plane=controller-manager",
            "-o",
            "jsonpath={.items[*].status.phase}",
        ];
        eventually("a running pod", || match self.project.kubectl(phase) {
            phase if phase == "Running" => Ok(()),
            phase => Err(phase),
        });
        let monitor = "servicemonitor/memcached-operator-controller-manager-metrics-monitor";
        let service = "service/memcached-operator-controller-manager-metrics-service";
        self.project.kubectl(["-n", NAMESPACE, "get", monitor, service]);
        assert_eq!(self.operator.get("Serving health probes", "/healthz", None).0, StatusCode::OK);
        eventually("readiness", || match self.operator.get("Serving health probes", "/readyz", None) {
            (StatusCode::OK, _) => Ok(()),
            other => Err(other),
        });
    }

    fn installs(&self) {
        self.apply(1);
        self.operator.logged("Installed release");
        let name =
            eventually("a release name", || match self.get(["memcached", SAMPLE], "{.status.deployedRelease.name}") {
                name if name.is_empty() => Err(self.operator.log()),
                name => Ok(name),
            });
        assert_eq!(name, SAMPLE);
        let rollout = self.namespace.kubectl(["rollout", "status", "statefulset", SAMPLE, "--timeout=60s"]).unwrap();
        assert!(rollout.contains("statefulset rolling update complete"), "{rollout}");
        let selector = format!("app.kubernetes.io/instance={SAMPLE}");
        let services = self.namespace.kubectl(["get", "service", "-l", &selector, "-o", "name"]).unwrap();
        assert_eq!(services.trim(), format!("service/{SAMPLE}"));
    }

    fn reverts_a_scaled_set(&self) {
        for _ in 0..2 {
            self.namespace.kubectl(["scale", "statefulset", SAMPLE, "--replicas=2"]).unwrap();
            self.has_replicas("1");
        }
    }

    fn upgrades(&self) {
        self.apply(2);
        self.operator.logged("Upgraded release");
        self.has_replicas("2");
    }

    fn has_replicas(&self, count: &str) {
        eventually("the replicas of the resource", || match self.get(["statefulset", SAMPLE], "{.spec.replicas}") {
            replicas if replicas == count => Ok(()),
            replicas => Err(replicas),
        });
    }

    fn serves_metrics_to_its_account(&self) {
        let status = |token: Option<&str>| self.operator.get(METRICS, "/metrics", token).0;
        assert_eq!(status(None), StatusCode::UNAUTHORIZED);
        assert_eq!(status(Some("no-token")), StatusCode::UNAUTHORIZED);
        assert_eq!(status(Some(&self.token)), StatusCode::FORBIDDEN);
        let account = format!("--serviceaccount={NAMESPACE}:{ACCOUNT}");
        let role = "--clusterrole=memcached-operator-metrics-reader";
        self.project.kubectl(["create", "clusterrolebinding", "memcached-operator-metrics-reader", role, &account]);
        let metrics = eventually("metrics", || match self.operator.get(METRICS, "/metrics", Some(&self.token)) {
            (StatusCode::OK, metrics) => Ok(metrics),
            refused => Err(refused),
        });
        let created = format!(
            r#"resource_created_at_seconds{{group="cache.example.com",kind="Memcached",name="{SAMPLE}",namespace="{}",version="v1alpha1"}}"#,
            self.namespace.name()
        );
        assert!(metrics.contains(&created), "no {created} in {metrics}");
    }

    /// Checks the events. They are of the core API and have a count, so the second repair creates no new event.
    fn publishes_events(&self) {
        let columns = "{range .items[*]}{.reason}={.count} {end}";
        eventually("events", || {
            let events = self.get(["events", "--field-selector=involvedObject.kind=Memcached"], columns);
            let expected = ["Installed=1", "DriftCorrected=2", "Upgraded=1"];
            let found = expected.iter().all(|event| events.split(' ').any(|found| found == *event));
            if found { Ok(()) } else { Err(events) }
        });
    }

    fn waits_for_the_uninstall(&self) {
        let wait = "helm.sdk.operatorframework.io/uninstall-wait=true";
        self.namespace.kubectl(["annotate", "memcached", SAMPLE, wait]).unwrap();
        let finalizers = |names: &str| {
            let patch = format!(r#"{{"metadata": {{"finalizers": [{names}]}}}}"#);
            self.namespace.kubectl(["patch", "statefulset", SAMPLE, "--type=merge", "-p", &patch]).unwrap();
        };
        finalizers("\"helm.sdk.operatorframework.io/fake-finalizer\"");
        self.namespace.kubectl(["delete", "memcached", SAMPLE, "--wait=false"]).unwrap();
        self.operator.logged("Uninstall wait");
        self.operator.logged("Waiting until all resources are deleted");
        assert_eq!(self.get(["memcached", SAMPLE], "{.metadata.name}"), SAMPLE);
        finalizers("");
        self.operator.logged("Removing finalizer");
        self.is_gone();
    }

    fn installs_and_uninstalls_again(&self) {
        self.apply(2);
        self.operator.logged_times("Installed release", 2);
        self.namespace.kubectl(["delete", "memcached", SAMPLE, "--timeout=60s"]).unwrap();
        self.operator.logged_times("Uninstalled release", 2);
        self.operator.logged_times("Removing finalizer", 2);
        self.is_gone();
    }

    fn fits_its_memory_limit(&self) {
        let path = "jsonpath={.spec.template.spec.containers[0].resources.limits.memory}";
        let limit = self.project.kubectl(["-n", NAMESPACE, "get", "deployment", ACCOUNT, "-o", path]);
        assert_eq!(limit, "128Mi");
        let peak = self.operator.peak_memory();
        assert!(peak.is_none_or(|kib| kib < 128 << 10), "{peak:?}");
    }

    fn is_gone(&self) {
        eventually("an uninstalled release", || {
            let kinds = "memcached,statefulset,service,secret";
            match self.namespace.kubectl(["get", kinds, "-o", "name"]).unwrap() {
                left if left.is_empty() => Ok(()),
                left => Err(left),
            }
        });
    }
}
