//! The controller of a HorizontalPodAutoscaler: writes the replicas that a test sets, through the scale subresource.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Controller, is_going, pick};
use crate::Server;

/// The autoscaler.
#[derive(Clone, Debug, Default)]
pub struct Autoscaler {
    /// The replicas that a target should have, by the autoscaler's path. Targets without an entry keep theirs, within
    /// the bounds.
    pub wanted: BTreeMap<String, i64>,
}

impl Controller for Autoscaler {
    fn step(&mut self, server: &mut Server, choice: u64) -> bool {
        let autoscalers = server.objects_of("autoscaling/v2", "horizontalpodautoscalers");
        let mut late = Vec::new();
        for (path, autoscaler) in autoscalers.iter().filter(|(_, autoscaler)| !is_going(autoscaler)) {
            late.extend(self.change(server, path, autoscaler));
        }
        let Some((target, replicas)) = pick(late, choice) else { return false };
        let body = json!({"spec": {"replicas": replicas}});
        server.merge(&format!("{target}/scale"), "kube-controller-manager", body)
    }
}

impl Autoscaler {
    /// Returns the target's path and its desired replicas if they differ from the current ones.
    fn change(&self, server: &Server, path: &str, autoscaler: &Value) -> Option<(String, i64)> {
        let spec = &autoscaler["spec"];
        let target = &spec["scaleTargetRef"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = server.kinds.find_kind(&text(&target["apiVersion"]), &text(&target["kind"]))?;
        let path_of_target = kind.path(&text(&autoscaler["metadata"]["namespace"]), &text(&target["name"]));
        let current = server.object(&path_of_target)?["spec"]["replicas"].as_i64().unwrap_or(1);
        // Zero replicas switch autoscaling off.
        if current == 0 {
            return None;
        }
        let (least, most) =
            (spec["minReplicas"].as_i64().unwrap_or(1), spec["maxReplicas"].as_i64().unwrap_or(i64::MAX));
        let wanted = self.wanted.get(path).copied().unwrap_or(current).clamp(least, most.max(least));
        (wanted != current).then_some((path_of_target, wanted))
    }
}
