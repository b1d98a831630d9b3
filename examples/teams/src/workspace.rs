//! The reconciler of `Workspace`: a quota and a list of members, as the team asks for.

use helm_operator::ResourceKey;
use helm_operator::reconciler::{
    Cache, Conditions, Next, Reconciler, Rights, Scope, Watching, WriteError, generation_changed,
};
use helm_operator::report::{Reason as _, chain};
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota, ResourceQuotaSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::core::ObjectMeta;

use crate::api::{NAME, Team, Workspace, WorkspaceStatus};

/// Selects what a Workspace owns.
const SELECTOR: &str = "app.kubernetes.io/part-of=workspace";

/// Serves every `Workspace`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Controller;

/// What a reconcile reads.
pub(crate) struct Caches {
    teams: Cache<Team>,
    quotas: Cache<ResourceQuota>,
    members: Cache<ConfigMap>,
}

impl Reconciler for Controller {
    type Resource = Workspace;
    type Error = WriteError;
    type Caches = Caches;

    /// Wakes every Workspace if more than a team's status changed: a team may not know its Workspaces yet, and others are
    /// made by hand. A quota's status changes with each pod.
    fn watch(&self, watching: &mut Watching<Workspace>) -> Caches {
        Caches {
            teams: watching.objects("").when(generation_changed).shared(),
            quotas: watching.owned(SELECTOR),
            members: watching.owned(SELECTOR),
        }
    }

    fn rights(&self) -> Rights {
        Rights::none().status().reads::<Team>().applies::<ResourceQuota>().applies::<ConfigMap>()
    }

    async fn reconcile(&self, scope: &Scope<'_, Workspace>, caches: &Caches) -> Result<Next, WriteError> {
        let workspace = scope.resource();
        let last = workspace.status.as_ref().map(|status| status.conditions.clone()).unwrap_or_default();
        let conditions = Conditions::after(workspace, &last);
        let (conditions, failure) = match caches.teams.get(&ResourceKey::new("", &workspace.spec.team)) {
            None => {
                let message = format!("there is no Team {}", workspace.spec.team);
                (conditions.set_false("Ready", "NoTeam", message), None)
            }
            Some(team) => match provide(scope, caches, &team).await {
                Ok(()) => {
                    (conditions.set_true("Ready", "Provided", "quota and members are as the team asks for"), None)
                }
                Err(error) => (conditions.set_false("Ready", error.reason(), chain(&error)), Some(error)),
            },
        };
        scope.status(&WorkspaceStatus { conditions: conditions.list() }).await?;
        failure.map_or(Ok(Next::Wait), Err)
    }
}

/// Applies the quota and the members. If one cannot be applied, the other one still is.
async fn provide(scope: &Scope<'_, Workspace>, caches: &Caches, team: &Team) -> Result<(), WriteError> {
    let quota = scope.apply(&caches.quotas, quota(team)).await;
    let members = scope.apply(&caches.members, members(team)).await;
    quota.and(members).map(drop)
}

fn metadata() -> ObjectMeta {
    let labels = SELECTOR.split_once('=').map(|(key, value)| [(key.to_owned(), value.to_owned())].into());
    ObjectMeta { name: Some(NAME.to_owned()), labels, ..ObjectMeta::default() }
}

fn quota(team: &Team) -> ResourceQuota {
    let hard = team.spec.quota.iter().map(|(what, much)| (what.clone(), Quantity(much.clone()))).collect();
    let spec = ResourceQuotaSpec { hard: Some(hard), ..ResourceQuotaSpec::default() };
    ResourceQuota { metadata: metadata(), spec: Some(spec), ..ResourceQuota::default() }
}

fn members(team: &Team) -> ConfigMap {
    let data = Some([("members".to_owned(), team.spec.members.join("\n"))].into());
    ConfigMap { metadata: metadata(), data, ..ConfigMap::default() }
}

#[cfg(test)]
mod tests {
    use helm_operator::testing::Server;

    use super::*;
    use crate::api::{TeamSpec, WorkspaceSpec, is_ready};

    fn workspace(team: &str) -> Workspace {
        Workspace::new(NAME, WorkspaceSpec { team: team.into() })
    }

    fn ready(server: &Server) -> (bool, String) {
        let status = server.get::<Workspace>("default", NAME).unwrap().status.unwrap();
        (is_ready(&status.conditions), status.conditions[0].reason.clone())
    }

    #[tokio::test]
    async fn a_workspace_provides_what_its_team_asks_for_once_the_team_exists() {
        let server = Server::new();
        server.put(&workspace("red"));
        server.reconcile(&Controller, "default", NAME).await.unwrap();
        assert_eq!(ready(&server), (false, "NoTeam".into()));
        let quota = [("requests.cpu".to_owned(), "4".to_owned())].into();
        server.put(&Team::new("red", TeamSpec { members: vec!["ada".into(), "alan".into()], quota }));
        server.reconcile(&Controller, "default", NAME).await.unwrap();
        assert_eq!(ready(&server), (true, "Provided".into()));
        let quota = server.get::<ResourceQuota>("default", NAME).unwrap().spec.unwrap().hard.unwrap();
        assert_eq!(quota["requests.cpu"].0, "4");
        assert_eq!(server.get::<ConfigMap>("default", NAME).unwrap().data.unwrap()["members"], "ada\nalan");
        let writes = server.writes().len();
        server.reconcile(&Controller, "default", NAME).await.unwrap();
        assert_eq!(server.writes().len(), writes, "all is as wanted");
    }

    #[tokio::test]
    async fn a_quota_that_no_longer_belongs_to_the_workspace_stays_and_the_status_names_the_conflict() {
        let server = Server::new();
        server.put(&workspace("red"));
        let team =
            |member: &str| Team::new("red", TeamSpec { members: vec![member.into()], quota: Default::default() });
        server.put(&team("ada"));
        server.reconcile(&Controller, "default", NAME).await.unwrap();
        assert_eq!(ready(&server), (true, "Provided".into()));
        let mut theirs = server.get::<ResourceQuota>("default", NAME).unwrap();
        theirs.metadata.owner_references = None;
        server.put(&theirs);
        server.put(&team("alan"));
        server.reconcile(&Controller, "default", NAME).await.unwrap_err();
        assert_eq!(ready(&server), (false, "ObjectConflict".into()));
        assert!(server.get::<ResourceQuota>("default", NAME).unwrap().metadata.owner_references.is_none());
        assert_eq!(server.get::<ConfigMap>("default", NAME).unwrap().data.unwrap()["members"], "alan");
    }
}
