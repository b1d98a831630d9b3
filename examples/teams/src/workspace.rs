//! The reconciler of `Workspace`: a quota and a list of members, as the team asks for.

use helm_operator::ResourceKey;
use helm_operator::reconciler::{
    Cache, Conditions, Next, Reconciler, Rights, Scope, Watching, WriteError, generation_changed,
};
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
        let conditions = match caches.teams.get(&ResourceKey::new("", &workspace.spec.team)) {
            None => conditions.set_false("Ready", "NoTeam", format!("there is no Team {}", workspace.spec.team)),
            Some(team) => {
                scope.apply(&caches.quotas, quota(&team)).await?;
                scope.apply(&caches.members, members(&team)).await?;
                conditions.set_true("Ready", "Provided", "quota and members are as the team asks for")
            }
        };
        scope.status(&WorkspaceStatus { conditions: conditions.list() }).await?;
        Ok(Next::Wait)
    }
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
}
