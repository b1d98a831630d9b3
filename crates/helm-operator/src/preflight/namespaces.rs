//! What `WATCH_NAMESPACE` leaves out by mistake: namespaces that do not exist, and resources that nothing serves. Asked only where the operator has the
//! rights to know.

use helm_release::kube::{Api, Call, Resource};
use serde::Deserialize;

use super::{NOWHERE, Need, Rights, missing};

/// How many resources are listed.
const LISTED: usize = 100;

/// How many of them a line names.
const NAMED: usize = 5;

impl Rights {
    /// Warns of watched namespaces that do not exist.
    pub(crate) async fn check_namespaces(&self) {
        if !self.may_everywhere(&Need::all("", "namespaces", &["get"])).await {
            return;
        }
        for namespace in self.namespaces.0.iter() {
            let answer = Api::send(&self.client, Call::metadata(format!("/api/v1/namespaces/{namespace}"))).await;
            if answer.is_err_and(|error| error.is_not_found()) {
                tracing::warn!(
                    namespace,
                    "WATCH_NAMESPACE names a namespace that does not exist: create it, or correct the name"
                );
            }
        }
    }

    /// Warns of resources of this kind in namespaces that are not watched.
    pub(crate) async fn check_outside(&self, kind: &Resource) {
        let list = Need::all(kind.group(), &kind.plural, &["list"]);
        if !kind.namespaced || !self.may_everywhere(&list).await {
            return;
        }
        let Ok(path) = kind.collection("") else { return };
        let Ok(answer) = Api::send(&self.client, Call::metadata_list(format!("{path}?limit={LISTED}"))).await else {
            return;
        };
        let Ok(list) = answer.parse::<List>() else { return };
        let outside = outside(list, &self.namespaces.0);
        if !outside.is_empty() {
            let resources = some_of(&outside);
            tracing::warn!(
                kind = &*kind.kind,
                resources,
                "Resources outside WATCH_NAMESPACE are not served by this process"
            );
        }
    }

    /// Whether the operator is restricted to namespaces, but has the right in all.
    async fn may_everywhere(&self, need: &Need<'_>) -> bool {
        if self.namespaces.is_all() {
            return false;
        }
        let everywhere = self.everywhere.get_or_init(|| self.ask_in(NOWHERE)).await;
        everywhere.as_ref().is_some_and(|granted| missing([need], &granted.rules).is_empty())
    }
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
}

/// The resources in other namespaces, as `namespace/name`.
fn outside(list: List, watched: &[String]) -> Vec<String> {
    let others = list.items.into_iter().map(|item| item.metadata).filter(|one| !watched.contains(&one.namespace));
    others.map(|one| format!("{}/{}", one.namespace, one.name)).collect()
}

fn some_of(names: &[String]) -> String {
    let named = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_in_other_namespaces_are_named() {
        let items: Vec<_> = (0..7)
            .map(|n| json!({"metadata": {"namespace": if n == 0 { "a" } else { "b" }, "name": format!("n{n}")}}))
            .collect();
        let list = || serde_json::from_value::<List>(json!({"items": items})).unwrap();
        let others = outside(list(), &["a".to_owned()]);
        assert_eq!(some_of(&others), "b/n1, b/n2, b/n3, b/n4, b/n5 and 1 more");
        assert!(outside(list(), &["a".to_owned(), "b".to_owned()]).is_empty());
    }
}
