//! The reconciler of `Team`, a cluster-scoped kind: one Workspace in each namespace of the team.

use std::sync::Arc;

use helm_operator::ResourceKey;
use helm_operator::reconciler::{Cache, Conditions, Next, Reconciler, Rights, Scope, Watching, WriteError};
use helm_operator::report::Reason as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use kube::core::PartialObjectMeta;

use crate::api::{NAME, TEAM, Team, TeamStatus, Workspace, WorkspaceSpec, is_ready};

/// Serves every `Team`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Controller;

/// What a reconcile reads.
pub(crate) struct Caches {
    namespaces: Cache<PartialObjectMeta<Namespace>>,
    workspaces: Cache<Workspace>,
}

impl Reconciler for Controller {
    type Resource = Team;
    type Error = WriteError;
    type Caches = Caches;

    /// Wakes the team that the label of a namespace names, before and after a change of the label.
    fn watch(&self, watching: &mut Watching<Team>) -> Caches {
        let team_of = |namespace: &PartialObjectMeta<Namespace>| {
            namespace.labels().get(TEAM).map(|team| ResourceKey::new("", team))
        };
        Caches { namespaces: watching.mapped(TEAM, team_of), workspaces: watching.owned("") }
    }

    fn rights(&self) -> Rights {
        Rights::none().status().reads::<Namespace>().applies::<Workspace>().deletes::<Workspace>()
    }

    async fn reconcile(&self, scope: &Scope<'_, Team>, caches: &Caches) -> Result<Next, WriteError> {
        let team = scope.resource();
        let is_here = |namespace: &Arc<PartialObjectMeta<Namespace>>| namespace.metadata.deletion_timestamp.is_none();
        let namespaces = caches.namespaces.of(team).into_iter().filter(is_here).map(|namespace| namespace.name_any());
        let namespaces: Vec<String> = namespaces.collect();
        let mut failures = Vec::new();
        for old in caches.workspaces.of(team) {
            if !old.namespace().is_some_and(|namespace| namespaces.contains(&namespace)) {
                let deleted = scope.delete(&caches.workspaces, &ResourceKey::of(&*old)).await;
                failures.extend(deleted.err().map(|error| (old.namespace().unwrap_or_default(), error)));
            }
        }
        let mut applied = Vec::new();
        for namespace in &namespaces {
            match scope.apply(&caches.workspaces, workspace(team, namespace)).await {
                Ok(done) => applied.push(done.object),
                Err(error) => failures.push((namespace.clone(), error)),
            }
        }
        scope.status(&status(team, &applied, namespaces.len(), failures.first())).await?;
        failures.into_iter().next().map_or(Ok(Next::Wait), |(_, error)| Err(error))
    }
}

/// Returns the Workspace that the team should have in the namespace.
fn workspace(team: &Team, namespace: &str) -> Workspace {
    let mut workspace = Workspace::new(NAME, WorkspaceSpec { team: team.name_any() });
    workspace.metadata.namespace = Some(namespace.to_owned());
    workspace
}

/// Returns the status of a team with these Workspaces, which should have `count` of them.
fn status(team: &Team, applied: &[Arc<Workspace>], count: usize, failure: Option<&(String, WriteError)>) -> TeamStatus {
    let last = team.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
    let conditions = Conditions::after(team, &last);
    let is_ready = |of: &&Arc<Workspace>| of.status.as_ref().is_some_and(|status| is_ready(&status.conditions));
    let ready = applied.iter().filter(is_ready).count();
    let message = format!("{ready} of {count} workspaces are ready");
    let conditions = match failure {
        Some((namespace, error)) => {
            conditions.set_false("Ready", error.reason(), format!("{message}; {namespace}: {error}"))
        }
        None if ready == count => conditions.set_true("Ready", "WorkspacesReady", message),
        None => conditions.set_false("Ready", "Progressing", message),
    };
    let namespaces = applied.iter().filter_map(|workspace| workspace.namespace()).collect();
    TeamStatus { namespaces, conditions: conditions.list() }
}

#[cfg(test)]
mod tests {
    use helm_operator::testing::Server;
    use kube::core::ObjectMeta;

    use super::*;
    use crate::api::TeamSpec;

    fn namespace(name: &str, team: &str) -> Namespace {
        let labels = Some([(TEAM.to_owned(), team.to_owned())].into());
        Namespace {
            metadata: ObjectMeta { name: Some(name.into()), labels, ..ObjectMeta::default() },
            ..Namespace::default()
        }
    }

    fn team(name: &str) -> Team {
        Team::new(name, TeamSpec { members: vec!["ada".into()], quota: Default::default() })
    }

    #[tokio::test]
    async fn each_labelled_namespace_gets_a_workspace_and_one_that_leaves_loses_it() {
        let server = Server::new();
        server.put(&team("red"));
        server.put(&namespace("red-1", "red"));
        server.put(&namespace("red-2", "red"));
        server.put(&namespace("blue-1", "blue"));
        server.reconcile(&Controller, "", "red").await.unwrap();
        let has_workspace = |namespace: &str| server.get::<Workspace>(namespace, NAME).is_some();
        assert!(has_workspace("red-1") && has_workspace("red-2") && !has_workspace("blue-1"));
        let status = server.get::<Team>("", "red").unwrap().status.unwrap();
        assert_eq!(status.namespaces, ["red-1", "red-2"]);
        assert_eq!(status.conditions[0].message, "0 of 2 workspaces are ready");
        server.put(&namespace("red-2", "blue"));
        server.reconcile(&Controller, "", "red").await.unwrap();
        assert!(has_workspace("red-1") && !has_workspace("red-2"));
    }

    #[tokio::test]
    async fn the_workspace_of_another_team_stays_and_keeps_no_other_namespace_from_its_own() {
        let server = Server::new();
        server.put(&team("red"));
        for name in ["a", "shared", "z"] {
            server.put(&namespace(name, "red"));
        }
        let mut foreign = workspace(&team("blue"), "shared");
        foreign.metadata.uid = Some("foreign".into());
        server.put(&foreign);
        let error = server.reconcile(&Controller, "", "red").await.unwrap_err();
        assert!(error.to_string().contains("belongs to something else"), "{error}");
        assert_eq!(server.get::<Workspace>("shared", NAME).unwrap().spec.team, "blue");
        assert!(server.get::<Workspace>("z", NAME).is_some());
        let status = server.get::<Team>("", "red").unwrap().status.unwrap();
        assert_eq!(status.namespaces, ["a", "z"]);
        let message = &status.conditions[0].message;
        assert!(message.starts_with("0 of 3 workspaces are ready; shared: "), "{message}");
    }
}
