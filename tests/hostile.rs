//! Hostile charts on a real control plane: each affects only its own resource, even in the smallest container.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use test_cluster::{Namespace, TestCluster};

use crate::chart::condition;
use crate::operator::{Operator, eventually};
use crate::ownership::{HOLDER, install_kind};

/// Does what the resource requests: exhausts memory, computes for minutes, or renders a ConfigMap.
const TEMPLATE: &str = r#"
{{- if eq .Values.does "eat" }}
{{- $l := list }}{{ range $i, $e := until 200 }}{{ $l = append $l (repeat 1000000 (print (mod $i 10))) }}{{ end }}
{{- else if eq .Values.does "spin" }}
{{- range until 100000 }}{{ $_ := htpasswd "a" "b" }}{{ end }}
{{- end }}
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}-{{ .Values.does }}}
"#;

/// Starts the operator with that chart; in a control group if `group` is set.
fn start(
    cluster: &TestCluster,
    namespace: &Namespace<'_>,
    flags: &[&str],
    group: Option<&Path>,
) -> (tempfile::TempDir, Operator) {
    install_kind(cluster);
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("chart");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: hostile\nversion: 0.1.0\n").unwrap();
    fs::write(chart.join("templates/map.yaml"), TEMPLATE).unwrap();
    let watches = json!([{"group": "test.my.domain", "version": "v1", "kind": "Holder", "chart": chart}]).to_string();
    let operator = Operator::start_within(cluster, namespace, &watches, flags, group);
    (folder, operator)
}

fn set(namespace: &Namespace<'_>, name: &str, does: &str) {
    HOLDER.set(namespace, name, &json!({"does": does}));
}

/// Waits until the resource reports that this limit ended its render. On a busy machine, a first attempt may time out
/// before it reaches another limit.
fn limited(namespace: &Namespace<'_>, name: &str, limit: &str) {
    let resource = eventually(&format!("message with {limit:?}"), || {
        let resource = HOLDER.get(namespace, name);
        let failure = condition(&resource, "Irreconcilable");
        let is_told = failure["reason"] == "RenderLimit" && failure["message"].as_str().unwrap().contains(limit);
        if is_told { Ok(resource) } else { Err(resource["status"].clone()) }
    });
    assert_eq!(condition(&resource, "Ready")["reason"], "RenderLimit");
    assert_eq!(condition(&resource, "Ready")["status"], "False");
}

#[test]
fn a_hostile_chart_hurts_only_its_own_resource() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("hostile").unwrap();
    let flags = ["--render-workers=1", "--render-memory=96Mi", "--render-timeout=2s"];
    let (_folder, operator) = start(cluster, &namespace, &flags, None);
    // Alone, so that its render is not postponed.
    set(&namespace, "eater", "eat");
    limited(&namespace, "eater", "more than 96 MiB of memory (limit --render-memory)");
    set(&namespace, "spinner", "spin");
    set(&namespace, "good", "ok");
    HOLDER.wait_for(&namespace, "good", "Ready");
    limited(&namespace, "spinner", "longer than 2s (limit --render-timeout)");
    set(&namespace, "later", "ok");
    HOLDER.wait_for(&namespace, "later", "Ready");
    set(&namespace, "eater", "ok");
    HOLDER.wait_for(&namespace, "eater", "Ready");
    assert!(
        operator.get("Serving metrics server", "/metrics").contains("helm_operator_renders_total{outcome=\"limit\"}")
    );
    let (status, log) = operator.terminate();
    assert!(status.success(), "{log}");
    assert_eq!(log.matches("Starting Controller").count(), 2, "one of the chart, one of Rust: {log}");
}

#[test]
fn killing_workers_at_any_time_loses_nothing() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let namespace = cluster.namespace("killed-workers").unwrap();
    let (_folder, operator) = start(cluster, &namespace, &["--render-workers=2"], None);
    let names: Vec<String> = (0..20).map(|n| format!("web{n}")).collect();
    HOLDER.set_all(&namespace, names.iter().map(|name| (name.clone(), json!({"does": "ok"}))));
    let mut killed = 0;
    eventually("every release, in spite of the kills", || {
        // A few at a time, so that some renders are killed twice and some never. On a busy machine, kills without end
        // could meet every render.
        if killed < 20 {
            killed += operator.workers().into_iter().filter(|worker| crate::operator::kill(*worker)).count();
        }
        let all = namespace.kubectl(["get", "holder", "-o", "json"]).unwrap();
        let all: Value = serde_json::from_str(&all).unwrap();
        let is_ready = |resource: &&Value| condition(resource, "Ready")["status"] == "True";
        let ready = all["items"].as_array().unwrap().iter().filter(is_ready).count();
        if ready == names.len() { Ok(()) } else { Err(format!("{ready} are ready")) }
    });
    assert!(killed > 0, "no worker was met");
    for name in &names {
        assert_eq!(HOLDER.revision(&namespace, name), 1, "{name}");
    }
}

/// Numbers the control groups of this process.
static GROUPS: AtomicUsize = AtomicUsize::new(0);

/// A control group with operator-sdk's memory limit; removed when dropped. `None` if this process may not create one.
pub(crate) struct Group(pub(crate) PathBuf);

impl Group {
    pub(crate) fn create() -> Option<Group> {
        let (root, limit) = match Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists() {
            true => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            false => ("/sys/fs/cgroup", "memory.max"),
        };
        let group = Path::new(root).join(format!(
            "hybrid-helm-operator-{}-{}",
            std::process::id(),
            GROUPS.fetch_add(1, Ordering::Relaxed)
        ));
        fs::create_dir(&group).ok()?;
        let made = Group(group);
        fs::write(made.0.join(limit), (128 << 20).to_string()).ok()?;
        Some(made)
    }

    /// Returns the number of processes that the kernel killed for lack of memory.
    pub(crate) fn ended(&self) -> u64 {
        let file = ["memory.oom_control", "memory.events"].map(|name| fs::read_to_string(self.0.join(name)));
        let text: String = file.into_iter().flatten().collect();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.unwrap().trim().parse().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Processes leave the group a moment after they end; a remaining group is harmless.
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn a_container_of_128_mib_survives_a_chart_that_exhausts_memory() {
    let Some(cluster) = TestCluster::shared_or_skip() else { return };
    let Some(group) = Group::create() else {
        println!("skipped: cannot create a control group for memory");
        return;
    };
    let namespace = cluster.namespace("small-container").unwrap();
    let (_folder, operator) = start(cluster, &namespace, &[], Some(&group.0));
    set(&namespace, "eater", "eat");
    set(&namespace, "good", "ok");
    limited(&namespace, "eater", "more than 80 MiB of memory (limit --render-memory)");
    HOLDER.wait_for(&namespace, "good", "Ready");
    assert_eq!(group.ended(), 0);
    let (status, log) = operator.terminate();
    assert!(status.success(), "{log}");
}
