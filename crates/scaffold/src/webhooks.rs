//! What a program's webhooks need in `config`: a Service, configurations for the leader to fill, and rights.
//!
//! All objects are named `webhook`; the prefix of `config/default` makes that the name under which the operator looks for
//! them.

use serde_json::Value as Json;

use crate::crd::{HEADER, kept};
use crate::create_api::add_role;
use crate::deployment::{self, Deployment};
use crate::templates::{WEBHOOK_CONFIGURATIONS, WEBHOOK_KUSTOMIZATION, WEBHOOK_ROLE, WEBHOOK_SERVICE, fill};
use crate::{Error, Existing, Project, kustomize};

/// The webhooks of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Webhooks {
    /// Whether it validates or changes objects.
    pub has_admission: bool,
    /// The definitions whose objects it converts: `teams.example.com`.
    pub definitions: Vec<String>,
}

impl Webhooks {
    fn is_empty(&self) -> bool {
        !self.has_admission && self.definitions.is_empty()
    }
}

/// The Service at which the API server reaches the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name in the cluster.
    pub name: String,
    /// Its namespace in the cluster.
    pub namespace: String,
}

/// Returns the Service of the webhooks as `config/default` deploys it.
///
/// # Errors
/// Fails if a kustomization is not valid YAML.
pub fn service(project: &Project) -> Result<Service, Error> {
    let deployed = kustomize::content(project, "config/default")?;
    let namespace = match deployed["namespace"].as_str() {
        Some(namespace) => namespace.to_owned(),
        None => Deployment::of(project)?.namespace,
    };
    Ok(Service { name: deployed_name(&deployed), namespace })
}

/// Returns the name of all objects in the cluster, with the kustomization of `config/default`.
fn deployed_name(kustomization: &Json) -> String {
    format!("{}webhook", kustomization["namePrefix"].as_str().unwrap_or_default())
}

/// Writes `config/webhook` and the role, and lists them in the kustomizations. Returns notes. A program without webhooks
/// gets nothing.
///
/// A file that was not generated belongs to the user and is left alone, unless `existing` says otherwise.
///
/// # Errors
/// Fails if a kustomization is not valid YAML.
pub fn generate(project: &mut Project, webhooks: &Webhooks, existing: Existing) -> Result<Vec<String>, Error> {
    if webhooks.is_empty() {
        return Ok(Vec::new());
    }
    let Deployment { account, namespace, .. } = Deployment::of(project)?;
    let selector = deployment::selector(project)?.to_string();
    let name = deployed_name(&kustomize::content(project, "config/default")?);
    let rules = rules(webhooks, &name);
    let words = [
        ("account", &*account),
        ("namespace", &namespace),
        ("selector", &selector),
        ("name", &name),
        ("rules", &rules),
    ];
    let mut files =
        vec![("config/webhook/service.yaml", WEBHOOK_SERVICE), ("config/rbac/webhook_role.yaml", WEBHOOK_ROLE)];
    if webhooks.has_admission {
        files.push(("config/webhook/configurations.yaml", WEBHOOK_CONFIGURATIONS));
    }
    let mut notes = Vec::new();
    for (path, template) in files {
        let kept = kept(project, path, existing);
        if kept.is_none() {
            let header = format!("{HEADER} webhooks' from the program's webhooks; do not edit.\n");
            project.write(path.to_owned(), header + &fill(template, &words));
        }
        notes.extend(kept);
        if let Some(entry) = path.strip_prefix("config/webhook/") {
            kustomize::add(project, "config/webhook", ("kustomization.yaml", WEBHOOK_KUSTOMIZATION), entry)?;
        }
    }
    add_role(project, "webhook_role.yaml")?;
    if kustomize::path(project, "config/default").is_some() {
        kustomize::add(project, "config/default", ("", ""), "../webhook")?;
    }
    notes.extend(unknown_name(project, &name)?);
    Ok(notes)
}

/// Returns the rules of the ClusterRole.
fn rules(webhooks: &Webhooks, name: &str) -> String {
    let rule = |group: &str, resources: &str, names: &str| {
        format!(
            "- apiGroups: [{group}]\n  resources: [{resources}]\n  resourceNames: [{names}]\n  verbs: [get, list, watch, patch]\n"
        )
    };
    // An older version of the program may have filled the configurations.
    let resources = "validatingwebhookconfigurations, mutatingwebhookconfigurations";
    let mut rules = rule("admissionregistration.k8s.io", resources, name);
    if !webhooks.definitions.is_empty() {
        rules += &rule("apiextensions.k8s.io", "customresourcedefinitions", &webhooks.definitions.join(", "));
    }
    rules
}

/// Returns what to set if the operator would look for another name.
fn unknown_name(project: &Project, name: &str) -> Result<Option<String>, Error> {
    let arguments = deployment::arguments(project)?;
    let value = |flag: &str| arguments.iter().find_map(|argument| argument.strip_prefix(flag)?.strip_prefix('='));
    let known = match (value("--webhook-name"), value("--leader-election-id")) {
        (Some(own), _) => own.to_owned(),
        (None, Some(lease)) => format!("{lease}-webhook"),
        (None, None) => String::new(),
    };
    let is_known = arguments.is_empty() || known == name;
    Ok((!is_known)
        .then(|| format!("set --webhook-name={name} in config/manager: the objects of config/webhook have that name")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kustomize::files;

    fn project() -> Project {
        let list = |entries: &str| format!("namePrefix: shop-\nresources: [{entries}]\n");
        let manager = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: m, namespace: system}\nspec:\n  selector: {matchLabels: {app: shop}}\n  template: {spec: {serviceAccountName: own, containers: [{name: manager, args: [--leader-election-id=shop]}]}}\n";
        Project::from_files([
            ("config/default/kustomization.yaml", &*list("../rbac, ../manager")),
            ("config/rbac/kustomization.yaml", "resources: [account.yaml]\n"),
            ("config/manager/kustomization.yaml", "resources: [manager.yaml]\n"),
            ("config/manager/manager.yaml", manager),
        ])
    }

    fn both() -> Webhooks {
        Webhooks { has_admission: true, definitions: vec!["shops.example.com".into()] }
    }

    #[test]
    fn everything_that_webhooks_need_is_written_once() {
        let mut project = project();
        assert_eq!(generate(&mut project, &both(), Existing::Keep).unwrap(), Vec::<String>::new());
        let deployed = files(&project, "config/default").unwrap();
        for file in
            ["config/webhook/service.yaml", "config/webhook/configurations.yaml", "config/rbac/webhook_role.yaml"]
        {
            assert!(deployed.contains(&file.to_owned()), "{file} in {deployed:?}");
        }
        let role = project.text("config/rbac/webhook_role.yaml").unwrap();
        for part in [
            "resourceNames: [shop-webhook]",
            "resourceNames: [shops.example.com]",
            "[shop-webhook-certificate]",
            "name: own",
        ] {
            assert!(role.contains(part), "{part} in {role}");
        }
        assert!(project.text("config/webhook/service.yaml").unwrap().contains(r#"selector: {"app":"shop"}"#));
        let before: Vec<(String, Vec<u8>)> =
            project.files().map(|(path, text)| (path.to_owned(), text.to_vec())).collect();
        generate(&mut project, &both(), Existing::Keep).unwrap();
        let after: Vec<(String, Vec<u8>)> =
            project.files().map(|(path, text)| (path.to_owned(), text.to_vec())).collect();
        assert_eq!(before, after, "a second time changes nothing");
    }

    #[test]
    fn nothing_is_written_without_webhooks_and_only_what_is_needed_with_some() {
        let mut project = project();
        generate(&mut project, &Webhooks::default(), Existing::Keep).unwrap();
        assert_eq!(project.changes().count(), 0);
        generate(&mut project, &Webhooks { has_admission: false, ..both() }, Existing::Keep).unwrap();
        assert!(!project.contains("config/webhook/configurations.yaml"));
        let role = project.text("config/rbac/webhook_role.yaml").unwrap();
        assert!(role.contains("admissionregistration"), "it empties what an older version filled");
    }

    #[test]
    fn the_service_is_named_as_it_is_deployed() {
        let service = |kustomization: &str| {
            let mut project = project();
            project.write("config/default/kustomization.yaml".to_owned(), kustomization);
            let Service { name, namespace } = service(&project).unwrap();
            (name, namespace)
        };
        let expected = |name: &str, namespace: &str| (name.to_owned(), namespace.to_owned());
        assert_eq!(service("{namePrefix: shop-, namespace: shops}"), expected("shop-webhook", "shops"));
        assert_eq!(service("{}"), expected("webhook", "system"));
    }

    #[test]
    fn a_name_that_the_operator_would_not_find_is_noted() {
        let mut project = project();
        project
            .edit("config/manager/manager.yaml", |text| Ok::<_, Error>(text.replace("-id=shop", "-id=other")))
            .unwrap();
        let notes = generate(&mut project, &both(), Existing::Keep).unwrap();
        assert_eq!(
            notes,
            ["set --webhook-name=shop-webhook in config/manager: the objects of config/webhook have that name"]
        );
    }
}
