//! The code around the chart of `Nginx`.

use helm_operator::hooks::{After, Before, Error, Mapping};
use helm_operator::report::Outcome;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

/// Selects the ConfigMaps with a namespace's settings.
pub(crate) const SETTINGS: &str = "hybrid-values/settings=true";

/// Merges the settings of the resource's namespace under its own values: `tier` becomes a label of the pods, `replicas`
/// the default of `replicaCount`.
///
/// # Errors
/// The ConfigMaps cannot be read, or `replicas` is not a number.
pub(crate) async fn with_settings(mapping: Mapping) -> Result<Value, Error> {
    let namespace = mapping.resource.namespace().unwrap_or_default();
    let maps: Api<ConfigMap> = Api::namespaced(mapping.client.clone(), &namespace);
    let mut values = mapping.values.clone();
    for map in maps.list(&ListParams::default().labels(SETTINGS)).await? {
        lay_below(&mut values, &map)?;
    }
    Ok(values)
}

fn lay_below(values: &mut Value, map: &ConfigMap) -> Result<(), Error> {
    let setting = |key: &str| map.data.as_ref()?.get(key);
    if let Some(tier) = setting("tier") {
        values["podLabels"]["tier"] = json!(tier);
    }
    if let Some(replicas) = setting("replicas").filter(|_| values["replicaCount"].is_null()) {
        let name = map.name_any();
        let number: u32 = replicas
            .parse()
            .map_err(|_| format!("ConfigMap {name:?}, key \"replicas\": {replicas:?} is not a number"))?;
        values["replicaCount"] = json!(number);
    }
    Ok(())
}

/// Announces what is about to happen.
///
/// # Errors
/// None.
pub(crate) async fn announce(before: Before) -> Result<(), Error> {
    let replicas = before.values["replicaCount"].as_u64().unwrap_or(1);
    let (reason, action) = if before.deployed.is_none() { ("Installing", "Install") } else { ("Upgrading", "Upgrade") };
    before.publish(Outcome::normal(reason, action, format!("{reason} with {replicas} replicas")));
    Ok(())
}

/// Publishes the address of the new revision's Service.
///
/// # Errors
/// The chart rendered no Service of the release's name.
pub(crate) async fn publish(after: After) -> Result<(), Error> {
    let release = &after.release;
    let service: Service = release.object(&release.name).ok_or("the chart has no Service of the release's name")?;
    let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
    let port = ports.first().map_or(0, |port| port.port);
    let address = format!("{}.{}.svc:{port}", release.name, release.namespace);
    after.publish(Outcome::normal(
        "Published",
        "Publish",
        format!("revision {} answers at {address}", release.revision),
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(data: Value) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": "settings"}, "data": data})).unwrap()
    }

    #[test]
    fn a_resources_own_values_win_over_settings() {
        let mut values = json!({"podLabels": {"a": "b"}});
        lay_below(&mut values, &settings(json!({"tier": "gold", "replicas": "3"}))).unwrap();
        assert_eq!(values, json!({"podLabels": {"a": "b", "tier": "gold"}, "replicaCount": 3}));
        let mut values = json!({"replicaCount": 1});
        lay_below(&mut values, &settings(json!({"replicas": "3"}))).unwrap();
        assert_eq!(values, json!({"replicaCount": 1}));
    }

    #[test]
    fn a_wrong_setting_is_named() {
        let error = lay_below(&mut json!({}), &settings(json!({"replicas": "many"}))).unwrap_err();
        assert_eq!(error.to_string(), "ConfigMap \"settings\", key \"replicas\": \"many\" is not a number");
    }
}
