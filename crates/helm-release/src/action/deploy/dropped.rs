//! Lists the objects that a revision drops, and decides which of them only leave the release: definitions that its chart
//! still ships, outside of its manifest.

use std::collections::HashSet;

use super::Attempt;
use crate::kube::{Adopted, ObjectKey, objects_of};
use crate::release::CrdsFolder;
use crate::storage::MarkedObject;

impl Attempt<'_> {
    /// Returns the dropped objects, for the record that is written ahead.
    ///
    /// Notes definitions that the chart now ships outside of its manifest, because a continuation knows only the
    /// manifest. They leave the release as objects that Helm could import again, and no clean-up deletes them.
    pub(super) fn dropped(&self) -> Vec<MarkedObject> {
        let new: HashSet<&ObjectKey> = self.keys.iter().collect();
        let known = self.current.iter().flat_map(|current| &current.inventory.objects);
        // If a kind changed its scope, the object in the old scope is gone, and deleting its key would delete the
        // candidate's object.
        let stays = |key: &ObjectKey| new.contains(key) || self.keys.iter().any(|new| new.is_in_other_scope(key));
        let dropped: Vec<&MarkedObject> = known.filter(|known| !stays(&known.key)).collect();
        let folder = self.target_folder(&dropped);
        let noted = |dropped: &MarkedObject| {
            let left = || self.ships_apart(&dropped.key, folder.as_ref()).then_some(Adopted::Shipped);
            MarkedObject { mark: None, expires: false, adopted: dropped.adopted.or_else(left), ..dropped.clone() }
        };
        dropped.into_iter().map(noted).collect()
    }

    /// Returns the `crds` folder of the revision that a rollback returns to, if a definition is dropped.
    fn target_folder(&self, dropped: &[&MarkedObject]) -> Option<CrdsFolder> {
        let is_needed = self.is_rollback() && dropped.iter().any(|dropped| is_definition(&dropped.key));
        is_needed.then(|| self.candidate.chart.crds_folder())
    }

    fn ships_apart(&self, key: &ObjectKey, folder: Option<&CrdsFolder>) -> bool {
        let is_in_folder = |folder: &CrdsFolder| is_definition(key) && self.is_in_folder(key, folder);
        self.candidate.ships_apart(key, &self.env.decoration.namespace) || folder.is_some_and(is_in_folder)
    }

    /// Returns whether a recorded chart has a definition in its `crds` folder. If the record cannot tell, a deployed
    /// definition counts as being in it, because deleting the definition would delete every object of its kind.
    fn is_in_folder(&self, key: &ObjectKey, folder: &CrdsFolder) -> bool {
        let namespace = &self.env.decoration.namespace;
        let mut objects = folder.files.iter().filter_map(|text| objects_of(text).ok()).flatten();
        objects.any(|object| object.has_key(key, namespace)) || (folder.is_partial && self.may_be_deployed(key))
    }

    /// Returns whether the deployed revision may contain an object: its marks list the object, or it has no marks.
    fn may_be_deployed(&self, key: &ObjectKey) -> bool {
        let deployed = self.current.and_then(|current| current.marks.as_deref());
        deployed.is_none_or(|deployed| deployed.find(key).is_some())
    }
}

fn is_definition(key: &ObjectKey) -> bool {
    &*key.kind == "CustomResourceDefinition"
}
