//! `Team` in `platform.example.com/v2`, where members have roles, and the conversion from and to v1.

use std::collections::BTreeMap;

use kube::{CustomResource, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{self, TeamStatus};

/// The annotation that keeps the owners while a team is in v1, which has no roles.
const OWNERS: &str = "platform.example.com/owners";

/// A team, which gets a Workspace in each namespace that is labelled with its name.
#[derive(Clone, Debug, CustomResource, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "platform.example.com",
    version = "v2",
    kind = "Team",
    status = "TeamStatus",
    doc = "A team, which gets a Workspace in each namespace with the label platform.example.com/team.",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name": "Namespaces", "type": "string", "jsonPath": ".status.namespaces"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub(crate) struct TeamSpec {
    /// Who is in the team.
    pub(crate) members: Vec<Member>,
    /// What the team may use in each namespace, such as `requests.cpu: "4"`.
    #[serde(default)]
    pub(crate) quota: BTreeMap<String, String>,
}

/// A member of a team.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Member {
    /// The user's name.
    pub(crate) name: String,
    /// What the member may do.
    #[serde(default)]
    pub(crate) role: Role,
}

/// What a member may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) enum Role {
    /// Use the team's namespaces.
    #[default]
    Member,
    /// Change the team, too.
    Owner,
}

impl From<api::Team> for Team {
    fn from(mut team: api::Team) -> Team {
        let owners = team.annotations_mut().remove(OWNERS).unwrap_or_default();
        let role = |name: &str| if owners.split(',').any(|owner| owner == name) { Role::Owner } else { Role::Member };
        let members = team.spec.members.into_iter().map(|name| Member { role: role(&name), name });
        let spec = TeamSpec { members: members.collect(), quota: team.spec.quota };
        Team { metadata: team.metadata, spec, status: team.status }
    }
}

impl From<Team> for api::Team {
    fn from(mut team: Team) -> api::Team {
        let owners = team.spec.members.iter().filter(|member| member.role == Role::Owner);
        let owners: Vec<String> = owners.map(|owner| owner.name.clone()).collect();
        if !owners.is_empty() {
            team.annotations_mut().insert(OWNERS.to_owned(), owners.join(","));
        }
        let members = team.spec.members.into_iter().map(|member| member.name).collect();
        let spec = api::TeamSpec { members, quota: team.spec.quota };
        api::Team { metadata: team.metadata, spec, status: team.status }
    }
}
