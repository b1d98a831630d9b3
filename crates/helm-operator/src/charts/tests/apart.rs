//! Tests of reconciles whose charts are rendered in real worker processes.

use tempfile::TempDir;

use crate::charts::tests::*;
use crate::rendering::Workers;
use crate::rendering::discovered::Discovered;
use crate::rendering::renderer::EngineRenderer;
use crate::rendering::tests::{HUNGRY, SLOW, chart, patient_workers, workers};

/// Returns a chart's template that renders a ConfigMap, or exhausts its memory or time if the resource asks for that.
fn template() -> String {
    format!(
        "{{{{ if .Values.hungry }}}}{HUNGRY}{{{{ end }}}}{{{{ if .Values.slow }}}}{SLOW}{{{{ end }}}}\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {{{{ .Release.Name }}}}}}\n"
    )
}

async fn world(spec: Value) -> (TempDir, Arc<Workers>, World) {
    world_with(spec, workers(SECOND * 30)).await
}

async fn world_with(spec: Value, workers: Arc<Workers>) -> (TempDir, Arc<Workers>, World) {
    let server = World::new(spec).server;
    server.serve("v1", "ConfigMap", "configmaps");
    let (folder, _) = chart(&template());
    workers.admit(folder.path());
    let engine = Arc::new(helm::engine::Engine::new(helm::chart::Chart::load(folder.path()).unwrap()));
    let discovered = Arc::new(Discovered::read(&Applier::new(server.clone())).await.unwrap());
    let renderer = EngineRenderer::new(engine, Overrides::default(), discovered).unwrap();
    let renderer = renderer.in_workers(workers.clone(), folder.path().to_owned());
    (folder, workers, World::rendering(server, Arc::new(renderer)))
}

#[tokio::test]
async fn a_render_that_hits_a_limit_is_its_own_resources_condition_only() {
    let (_folder, workers, world) = world(json!({"hungry": true})).await;
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    let expected = "RenderLimit/rendering needs more than 96 MiB of memory (limit --render-memory)";
    assert_eq!(world.condition("Irreconcilable").unwrap(), format!("True/{expected}"));
    assert!(world.condition("Ready").unwrap().starts_with("False/RenderLimit/"), "{:?}", world.condition("Ready"));
    let advice = "True/RenderLimit/make the chart render less, or raise the limit that the message of Ready names";
    assert_eq!(world.condition("Stalled").unwrap(), advice);
    let good = world.add("ns", "good", json!({}));
    assert_ne!(world.reconcile_one(&good).await, ReconcileResult::Error);
    assert!(world.server.object(&format!("{MAPS}/good")).is_some());
    assert_eq!(workers.started().len(), 2);
}

#[tokio::test]
async fn a_chart_that_keeps_ending_workers_backs_off_until_its_resource_changes() {
    let (_folder, workers, world) = world(json!({"hungry": true})).await;
    world.reconcile().await;
    for _ in 0..5 {
        world.reconcile().await;
    }
    assert!(workers.started().len() <= 2, "{} workers were lost in no time", workers.started().len());
    let retry = world.shared.memory.of(&key()).failure.as_ref().unwrap().retry.at;
    assert!(retry > Instant::now());
    world.edit(|primary| primary["spec"] = json!({"hungry": false}));
    assert_ne!(world.reconcile().await, ReconcileResult::Error);
    assert_eq!(world.condition("Irreconcilable"), None);
    assert!(world.server.object(&format!("{MAPS}/web")).is_some());
}

#[tokio::test]
async fn a_release_stays_as_it_is_while_its_next_render_hits_a_limit() {
    let (_folder, _, world) = world(json!({})).await;
    world.reconcile().await;
    let before = world.server.object(&format!("{MAPS}/web")).unwrap();
    world.edit(|primary| primary["spec"] = json!({"hungry": true}));
    assert_eq!(world.reconcile().await, ReconcileResult::Error);
    assert_eq!(world.server.object(&format!("{MAPS}/web")).unwrap(), before);
    assert!(world.condition("Deployed").unwrap().starts_with("True/"));
}

#[tokio::test]
async fn a_render_that_keeps_others_waiting_goes_on_as_a_retry_and_nobody_is_told_of_a_failure() {
    let (_folder, _, world) = world_with(json!({"slow": true}), patient_workers(1, SECOND * 5, SECOND / 10)).await;
    let (slow, good) = (key(), world.add("ns", "good", json!({})));
    world.feed();
    world.open();
    let _running = (world.shared.queue.next().await, world.shared.queue.next().await);
    let reconcile = async |key: &ResourceKey, priority| reconcile::reconcile(&world.shared, key, &(), priority).await;
    let (postponed, installed) = tokio::join!(reconcile(&slow, Priority::Normal), reconcile(&good, Priority::Normal));
    assert!(postponed != ReconcileResult::Error && installed != ReconcileResult::Error);
    assert!(world.server.object(&format!("{MAPS}/good")).is_some());
    assert_eq!(world.condition("Irreconcilable"), None);
    world.shared.queue.done(&slow);
    assert_eq!(world.shared.queue.take_retry(), Some(slow.clone()));
    assert_eq!(reconcile(&slow, Priority::Retry).await, ReconcileResult::Error);
    assert!(world.condition("Irreconcilable").unwrap().contains("limit --render-timeout"));
}
