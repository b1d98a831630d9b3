//! Draws the objects of a release as a tree: the resource, its release, and its objects by kind, what fails first.
//! Renders nested lists, which show a tree even without styles; the style sheet draws the lines.

use maud::{Markup, html};

use super::{LINE, TEXT, full_name, health_class, health_word, state_class, state_word, text};
use crate::inspect::model::{Health, Hook, Name, Node, ReleaseReport};

/// How many ready objects of a kind are open at first.
const OPEN: usize = 5;

/// The objects of a kind.
struct Kind<'r> {
    group: &'r str,
    kind: &'r str,
    nodes: Vec<&'r Node>,
}

pub(crate) fn tree(release: &ReleaseReport) -> Markup {
    let Name { name: resource, namespace: own, .. } = &release.resource;
    let deployed = release.release.as_ref();
    html! {
        ul.tree {
            li {
                span class={ "node " (state_class(release.state)) } {
                    (text(&full_name(&release.resource), LINE)) " " em { (state_word(release.state)) }
                }
                ul { li {
                    span.node {
                        "release " (text(deployed.map_or(resource, |deployed| &deployed.name), LINE))
                        @if let Some(deployed) = deployed { ", revision " (deployed.revision) }
                    }
                    @if !release.objects.is_empty() || !release.hooks.is_empty() {
                        ul {
                            @for kind in kinds(&release.objects) { (of_kind(&kind, own)) }
                            @for hook in &release.hooks { (of_hook(hook)) }
                        }
                    }
                } }
            }
        }
    }
}

/// Returns the objects by kind: those that need people first, then in the order of installation.
fn kinds(objects: &[Node]) -> Vec<Kind<'_>> {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    for node in objects {
        let Name { group, kind, .. } = &node.name;
        match kinds.iter_mut().find(|known| (known.group, known.kind) == (group, kind)) {
            Some(known) => known.nodes.push(node),
            None => kinds.push(Kind { group, kind, nodes: vec![node] }),
        }
    }
    for kind in &mut kinds {
        kind.nodes.sort_by_key(|node| rank(node.health));
    }
    kinds.sort_by_key(|kind| kind.nodes.first().map(|node| rank(node.health)));
    kinds
}

fn rank(health: Health) -> u8 {
    match health {
        Health::Failed => 0,
        Health::Missing => 1,
        Health::Progressing => 2,
        Health::Unknown | Health::Ready => 3,
    }
}

/// Writes the objects of a kind. Objects in the resource's own namespace need not name it.
fn of_kind(kind: &Kind<'_>, own: &str) -> Markup {
    let Kind { group, kind: name, nodes } = kind;
    if let [node] = nodes[..] {
        return html! { li { (one(node, own, true)) } };
    }
    let is_open = nodes.len() <= OPEN || nodes.first().is_some_and(|node| rank(node.health) < rank(Health::Ready));
    html! {
        li {
            details id={ "kind-" (text(name, LINE)) "." (text(group, LINE)) } open[is_open] {
                summary.node { (nodes.len()) " " (text(name, LINE)) @if !group.is_empty() { " " small { (text(group, LINE)) } } }
                ul { @for node in nodes { li { (one(node, own, false)) } } }
            }
        }
    }
}

fn one(node: &Node, own: &str, with_kind: bool) -> Markup {
    let Name { group, kind, namespace, name } = &node.name;
    html! {
        span class={ "node " (health_class(node.health)) } {
            @if with_kind { (text(kind, LINE)) " " @if !group.is_empty() { small { (text(group, LINE)) } " " } }
            @if !namespace.is_empty() && namespace != own { (text(namespace, LINE)) "/" wbr; }
            b { (text(name, LINE)) } " " em { (health_word(node.health)) }
        }
        @if !node.why.is_empty() { p.why { (text(&node.why, TEXT)) } }
        @if !node.owns.is_empty() { ul { @for owned in &node.owns { li { (one(owned, own, true)) } } } }
    }
}

fn of_hook(hook: &Hook) -> Markup {
    let class = match &*hook.phase {
        "Failed" => "failed",
        "Succeeded" => "ready",
        "Running" => "waiting",
        _ => "unknown",
    };
    html! {
        li.hook { span class={ "node " (class) } {
            "hook " b { (text(&hook.object, LINE)) } " " small { (text(&hook.events.join(", "), LINE)) } " "
            em { (text(&hook.phase, LINE)) }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(kind: &str, name: &str, health: Health) -> Node {
        let name = Name { group: String::new(), kind: kind.into(), namespace: "ns".into(), name: name.into() };
        Node { name, health, why: String::new(), owns: Vec::new() }
    }

    #[test]
    fn kinds_with_what_fails_come_first_and_the_others_keep_their_order() {
        let all = [
            node("Secret", "s", Health::Ready),
            node("ConfigMap", "a", Health::Ready),
            node("ConfigMap", "b", Health::Ready),
            node("Deployment", "slow", Health::Progressing),
            node("Deployment", "dead", Health::Failed),
        ];
        let order: Vec<String> = kinds(&all)
            .iter()
            .map(|kind| {
                let names: Vec<&str> = kind.nodes.iter().map(|node| node.name.name.as_str()).collect();
                format!("{} {}", kind.kind, names.join(","))
            })
            .collect();
        assert_eq!(order, ["Deployment dead,slow", "Secret s", "ConfigMap a,b"]);
    }

    #[test]
    fn many_ready_objects_of_a_kind_are_closed_and_any_other_kind_is_open() {
        let many: Vec<Node> = (0..6).map(|n| node("ConfigMap", &n.to_string(), Health::Ready)).collect();
        let text = |nodes: &[Node]| of_kind(&kinds(nodes)[0], "ns").into_string();
        assert!(!text(&many).contains(" open") && text(&many[..5]).contains(" open"));
        let failed = [&many[..], &[node("ConfigMap", "x", Health::Missing)]].concat();
        assert!(text(&failed).contains(" open"));
    }
}
