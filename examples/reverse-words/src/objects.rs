//! The objects of a `ReverseWordsApp`.

use std::collections::BTreeMap;

use helm_operator::ResourceKey;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    Container, ContainerPort, HTTPGetAction, PodSpec, PodTemplateSpec, Probe, Service, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use kube::core::ObjectMeta;

use crate::api::ReverseWordsApp;

/// Selects the objects of every `ReverseWordsApp`.
pub(crate) const SELECTOR: &str = "app";

const IMAGE: &str = "quay.io/mavazque/reversewords";
const PORT: i32 = 8080;

/// Returns the Deployment that should exist.
pub(crate) fn deployment(app: &ReverseWordsApp) -> Deployment {
    Deployment {
        metadata: metadata(app, format!("dp-{}", app.name_any())),
        spec: DeploymentSpec {
            replicas: Some(replicas(app)),
            selector: LabelSelector { match_labels: Some(labels(app)), ..LabelSelector::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels(app)), ..ObjectMeta::default() }),
                spec: Some(PodSpec { containers: vec![container(app)], ..PodSpec::default() }),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}

/// Returns the Service that should exist.
pub(crate) fn service(app: &ReverseWordsApp) -> Service {
    let port = ServicePort { name: Some("http".into()), port: PORT, ..ServicePort::default() };
    Service {
        metadata: metadata(app, format!("service-{}", app.name_any())),
        spec: Some(ServiceSpec {
            type_: Some("LoadBalancer".into()),
            selector: Some(labels(app)),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Returns how many pods the application asks for.
pub(crate) fn replicas(app: &ReverseWordsApp) -> i32 {
    app.spec.replicas.filter(|replicas| *replicas > 0).unwrap_or(1)
}

fn metadata(app: &ReverseWordsApp, name: String) -> ObjectMeta {
    ObjectMeta { name: Some(name), labels: Some(labels(app)), ..ObjectMeta::default() }
}

fn labels(app: &ReverseWordsApp) -> BTreeMap<String, String> {
    [("app".to_owned(), app.name_any())].into()
}

fn container(app: &ReverseWordsApp) -> Container {
    let version = app.spec.app_version.as_deref().filter(|version| !version.is_empty()).unwrap_or("latest");
    Container {
        name: "reversewords".into(),
        image: Some(format!("{IMAGE}:{version}")),
        ports: Some(vec![ContainerPort {
            name: Some("reversewords".into()),
            container_port: PORT,
            ..ContainerPort::default()
        }]),
        liveness_probe: Some(probe()),
        readiness_probe: Some(probe()),
        ..Container::default()
    }
}

fn probe() -> Probe {
    let health =
        HTTPGetAction { path: Some("/health".into()), port: IntOrString::Int(PORT), ..HTTPGetAction::default() };
    Probe {
        http_get: Some(health),
        initial_delay_seconds: Some(5),
        timeout_seconds: Some(2),
        period_seconds: Some(15),
        ..Probe::default()
    }
}

/// Returns the resource that a labelled object belongs to.
pub(crate) fn app_of(object: &impl ResourceExt) -> Option<ResourceKey> {
    Some(ResourceKey::new(&object.namespace()?, object.labels().get("app")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ReverseWordsAppSpec;

    #[test]
    fn defaults_stand_for_what_is_absent_zero_or_empty() {
        for (replicas, version, expected) in
            [(None, None, (1, "latest")), (Some(0), Some(""), (1, "latest")), (Some(3), Some("v0.0.2"), (3, "v0.0.2"))]
        {
            let app_version = version.map(str::to_owned);
            let app = ReverseWordsApp::new("a", ReverseWordsAppSpec { replicas, app_version });
            let spec = deployment(&app).spec;
            let image = spec.template.spec.unwrap().containers[0].image.clone().unwrap();
            assert_eq!((spec.replicas, image), (Some(expected.0), format!("{IMAGE}:{}", expected.1)));
        }
    }
}
