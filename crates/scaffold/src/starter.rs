//! The chart that a kind starts with if the user provides none. Counterpart: `helm create`.

use crate::templates::{STARTER_CHART, fill};
use crate::{ChartFiles, Error};

pub(crate) fn chart(name: &str) -> Result<ChartFiles, Error> {
    let file = |(path, text): &(&str, &str)| ((*path).to_owned(), fill(text, &[("name", name)]).into_bytes());
    ChartFiles::new(name, STARTER_CHART.iter().map(file).collect())
}

#[cfg(test)]
mod tests {
    use helm::chart::{Chart, File};
    use helm::engine::{Capabilities, Engine, ReleaseOptions, Request};

    use super::*;

    #[test]
    fn the_starter_chart_renders_what_helm_creates() {
        let files = STARTER_CHART.iter().map(|(path, text)| File::from((*path, fill(text, &[("name", "web")]))));
        let engine = Engine::new(Chart::from_files(files).unwrap());
        let kinds = |values: &str| {
            let values = crate::yaml::to_map(&crate::yaml::parse(values).unwrap());
            let release =
                ReleaseOptions { name: "demo".into(), namespace: "ns".into(), revision: 1, is_upgrade: false };
            let capabilities = Capabilities::default();
            let request = Request {
                values: &values,
                release: &release,
                capabilities: &capabilities,
                lookup: None,
                skip_schema: false,
            };
            let rendered = engine.render(&request).unwrap();
            assert!(rendered.notes.starts_with("web is being deployed"), "{}", rendered.notes);
            assert_eq!(rendered.hooks.len(), 1);
            rendered.manifests.into_iter().map(|manifest| manifest.head.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds("{}"), ["ServiceAccount", "Service", "Deployment"]);
        assert_eq!(
            kinds(
                "ingress: {enabled: true}\nautoscaling: {enabled: true}\nservice: {type: NodePort}\nenv: [{name: a, value: b}]"
            ),
            ["ServiceAccount", "Service", "Deployment", "HorizontalPodAutoscaler", "Ingress"]
        );
    }
}
