//! What may be stored, and in which form.

use helm_operator::webhooks::{Admission, Mutate, Rejection, Request, Validate, Warnings, Webhooks};
use kube::Api;

use crate::api::{Team, Workspace};
use crate::v2;

/// Returns the operator's webhooks.
pub(crate) fn all() -> Webhooks {
    Webhooks::new().mutate(SortMembers).validate(CheckTeam).validate(CheckWorkspace).convert::<Team, v2::Team>()
}

/// Sorts the members of a team, each once.
struct SortMembers;

impl Mutate for SortMembers {
    type Resource = Team;

    async fn mutate(&self, team: &mut Team, _request: &Request<'_>) -> Result<Warnings, Rejection> {
        team.spec.members.sort();
        team.spec.members.dedup();
        Ok(Warnings::new())
    }
}

/// A team has members, whose names fit into a list.
struct CheckTeam;

impl Validate for CheckTeam {
    type Resource = Team;

    async fn validate(&self, admission: &Admission<'_, Team>) -> Result<Warnings, Rejection> {
        let spec = &admission.object.spec;
        if let Some(at) = spec.members.iter().position(|name| name.is_empty() || name.contains(',')) {
            return Err(Rejection::field(format!("spec.members[{at}]"), "must be a name without a comma"));
        }
        if spec.members.is_empty() {
            return Err(Rejection::field("spec.members", "a team has at least one member"));
        }
        let is_free = spec.quota.is_empty();
        Ok(is_free.then(|| "spec.quota is empty: the team may use all that there is".to_owned()).into_iter().collect())
    }
}

/// A Workspace belongs to a team that exists, and stays with it.
struct CheckWorkspace;

impl Validate for CheckWorkspace {
    type Resource = Workspace;

    async fn validate(&self, admission: &Admission<'_, Workspace>) -> Result<Warnings, Rejection> {
        let team = &admission.object.spec.team;
        match &admission.old {
            Some(old) if old.spec.team == *team => return Ok(Warnings::new()),
            Some(_) => return Err(Rejection::field("spec.team", "a workspace stays with its team")),
            None => {}
        }
        let teams: Api<Team> = Api::all(admission.request.client.clone());
        match teams.get_opt(team).await? {
            Some(_) => Ok(Warnings::new()),
            None => Err(Rejection::field("spec.team", format!("there is no Team {team}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use helm_operator::testing::Server;
    use kube::api::{Patch, PatchParams, PostParams};
    use serde_json::json;

    use super::*;
    use crate::api::{NAME, TeamSpec, WorkspaceSpec};
    use crate::v2::{Member, Role};

    fn team(members: &[&str]) -> Team {
        let members = members.iter().map(|name| (*name).to_owned()).collect();
        Team::new("red", TeamSpec { members, quota: Default::default() })
    }

    #[tokio::test]
    async fn a_team_has_sorted_members_and_at_least_one() {
        let server = Server::new().with_webhooks(all());
        let teams: Api<Team> = Api::all(server.client());
        let refused = teams.create(&PostParams::default(), &team(&[])).await.unwrap_err();
        assert!(refused.to_string().contains("spec.members: a team has at least one member"), "{refused}");
        let refused = teams.create(&PostParams::default(), &team(&["a", "b,c"])).await.unwrap_err();
        assert!(refused.to_string().contains("spec.members[1]: must be a name without a comma"), "{refused}");
        let created = teams.create(&PostParams::default(), &team(&["b", "a", "b"])).await.unwrap();
        assert_eq!(created.spec.members, ["a", "b"]);
    }

    #[tokio::test]
    async fn a_workspace_needs_its_team_and_stays_with_it() {
        let server = Server::new().with_webhooks(all());
        let workspaces: Api<Workspace> = Api::namespaced(server.client(), "default");
        let workspace = Workspace::new(NAME, WorkspaceSpec { team: "red".into() });
        let refused = workspaces.create(&PostParams::default(), &workspace).await.unwrap_err();
        assert!(refused.to_string().contains("there is no Team red"), "{refused}");
        server.put(&team(&["ada"]));
        workspaces.create(&PostParams::default(), &workspace).await.unwrap();
        let change = Patch::Merge(json!({"spec": {"team": "blue"}}));
        let refused = workspaces.patch(NAME, &PatchParams::default(), &change).await.unwrap_err();
        assert!(refused.to_string().contains("a workspace stays with its team"), "{refused}");
    }

    #[tokio::test]
    async fn roles_survive_the_version_without_roles() {
        let server = Server::new().with_webhooks(all());
        let member = |name: &str, role| Member { name: name.to_owned(), role };
        let members = vec![member("ada", Role::Owner), member("alan", Role::Member)];
        let spec = v2::TeamSpec { members: members.clone(), quota: Default::default() };
        let teams: Api<v2::Team> = Api::all(server.client());
        teams.create(&PostParams::default(), &v2::Team::new("red", spec)).await.unwrap();
        let stored: Team = server.get("", "red").unwrap();
        assert_eq!(stored.spec.members, ["ada", "alan"]);
        let read = teams.get("red").await.unwrap();
        assert_eq!(read.spec.members, members);
        assert!(read.metadata.annotations.is_none(), "v2 needs no annotation");
    }
}
