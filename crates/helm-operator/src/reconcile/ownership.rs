//! Judges which resource a live object belongs to, and what marks the objects of a release.

use controller::runtime::key::ResourceKey;
use helm_release::kube::{Decoration, Live, ObjectKey, Ownership, Tie};

use super::controller_context::ControllerContext;
use crate::view::dependent::{Claim, Dependent};
use crate::view::primary::Primary;
use outside::group_of;

/// Returns the resource that a live object belongs to. An object that lost the metadata naming its owner still
/// wakes its previous owner, but proves nothing.
pub(crate) fn claim(shared: &ControllerContext, key: &ObjectKey, live: &Live) -> Claim {
    let same_object = |known: &Dependent| live.metadata.uid.as_deref() == Some(&*known.uid);
    let known = || shared.cache.dependent(key).filter(|known| same_object(known))?.owner.clone();
    let owner = owner_of(shared, live).or_else(known);
    let primary = owner.as_ref().and_then(|owner| shared.cache.primary(owner));
    let ours = primary.is_some_and(|primary| decoration(shared, &primary).ownership(live) == Ownership::Ours);
    Claim { owner, ours }
}

/// Returns what a resource's release adds to its objects.
pub(crate) fn decoration(shared: &ControllerContext, primary: &Primary) -> Decoration {
    Decoration {
        release: primary.name().to_owned(),
        namespace: primary.namespace().to_owned(),
        chart: shared.renderer.chart_name().to_owned(),
        owner: Some(primary.owner()),
        tie: Tie::default(),
        former: Vec::new(),
    }
}

/// Returns the custom resource of this kind that an object belongs to, by owner reference or by annotation.
pub(crate) fn owner_of(shared: &ControllerContext, live: &Live) -> Option<ResourceKey> {
    if let Some(owner) = &live.controller {
        let group = group_of(&owner.api_version);
        let ours = owner.kind == *shared.resource.kind && group == shared.resource.group();
        let namespace =
            if shared.resource.namespaced { live.metadata.namespace.as_deref().unwrap_or_default() } else { "" };
        return ours.then(|| shared.acceptance.key(namespace, &owner.name));
    }
    let wanted = format!("{}.{}", shared.resource.kind, shared.resource.group());
    let ours = live.primary_type.as_deref() == Some(wanted.trim_end_matches('.'));
    let primary = live.primary.as_deref().filter(|_| ours)?;
    let (namespace, name) = primary.split_once('/').unwrap_or(("", primary));
    Some(shared.acceptance.key(namespace, name))
}
