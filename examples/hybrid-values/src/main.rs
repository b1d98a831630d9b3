//! A chart with code around it: a value mapper that reads a ConfigMap, a hook before and one after each action, and events.

mod nginx;

use std::process::ExitCode;

use helm_operator::{Operator, Wakes};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;

use crate::nginx::{SETTINGS, announce, publish, with_settings};

fn main() -> ExitCode {
    Operator::new()
        .chart("Nginx", |chart| {
            chart
                .map_values(with_settings)
                .watch(SETTINGS, |map: &ConfigMap| Wakes::Namespace(map.namespace().unwrap_or_default()))
                .before(announce)
                .after(publish)
        })
        .main()
}
