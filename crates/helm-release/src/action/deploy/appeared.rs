//! Finds objects that others have created since an unfinished attempt listed them, such as volume claims restored from a
//! backup. The release adopts them as if they had existed before, so that no clean-up deletes what no attempt created.

use super::{Attempt, Observations};
use crate::action::Current;
use crate::kube::{Adopted, Found, ObjectKey};

impl Attempt<'_> {
    /// Returns the release with a note of how it adopts each of these objects; `None` if there are none.
    pub(super) fn as_adopting(&self, observations: &Observations) -> Option<Current> {
        let current = self.current?;
        let mut noted = None;
        for key in &self.keys {
            let Some(adopted) = appeared(current, key, observations) else { continue };
            let noted: &mut Current = noted.get_or_insert_with(|| current.clone());
            let known = noted.inventory.objects.iter_mut().filter(|known| known.key == *key);
            known.for_each(|known| known.adopted = Some(adopted));
        }
        noted
    }
}

/// Returns how the release adopts a listed object that others have created; `None` if the object is the release's own, or
/// already noted as adopted.
fn appeared(current: &Current, key: &ObjectKey, observations: &Observations) -> Option<Adopted> {
    let Some(Found::Read(found)) = observations.get(key) else { return None };
    let adopted = found.made_by_others?;
    let is_unnoted = current.inventory.find(key).is_some_and(|known| known.adopted.is_none());
    (is_unnoted && !current.has_settled(key)).then_some(adopted)
}
