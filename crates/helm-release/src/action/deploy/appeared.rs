//! Finds objects that somebody has made since an unfinished attempt listed them, such as volume claims that a backup
//! restores. The release adopts them, as if they had been there before: no clean-up may delete what no attempt has made.

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

/// Returns how the release adopts an object that it has listed and somebody else has made; `None` if it is the release's
/// own, or if that is noted.
fn appeared(current: &Current, key: &ObjectKey, observations: &Observations) -> Option<Adopted> {
    let Some(Found::Read(found)) = observations.get(key) else { return None };
    let adopted = found.made_by_others()?;
    let is_unnoted = current.inventory.find(key).is_some_and(|known| known.adopted.is_none());
    (is_unnoted && !current.has_settled(key)).then_some(adopted)
}
