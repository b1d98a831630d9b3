//! Reads an object, to find who took over fields of ours.

use outside::{Call, Error};
use serde_json::Value;

use super::apply::{Applier, key_of};
use super::autoscaler::has_replicas;
use crate::kube::fields::handover::hand_over;
use crate::kube::fields::ownership_loss::{OwnershipLoss, ownership_loss};
use crate::kube::live_state::live::Live;
use crate::kube::objects::decorate::Decoration;
use crate::kube::objects::object::Object;
use crate::kube::objects::pointer::Pointer;

/// A live object as it was read, and the manager that took over fields of ours.
#[derive(Debug)]
pub struct Inspection {
    /// The object; `None` if it does not exist.
    pub live: Option<Live>,
    /// The manager and the fields, except those that are handed over.
    pub loss: OwnershipLoss,
}

impl Applier {
    /// Reads the object and finds the managers that took over fields of ours. Ignores fields at these pointers, and the
    /// replicas of an autoscaler's target.
    ///
    /// # Errors
    /// The object cannot be read, or the autoscalers cannot be listed.
    pub(crate) async fn inspect(
        &self,
        object: &Object,
        decoration: &Decoration,
        handed_over: &[Pointer],
    ) -> Result<Inspection, Error> {
        let resource = self.mapper.any_version(&object.api_version, &object.kind).await?;
        let key = key_of(object, decoration, &resource);
        let path = resource.path(&key.namespace, &object.name)?;
        let live: Value = match self.api().send(Call::get(path)).await {
            Err(error) if error.is_missing_object() => {
                return Ok(Inspection { live: None, loss: OwnershipLoss { gone: true, ..OwnershipLoss::default() } });
            }
            answer => answer?.parse()?,
        };
        let (body, managers) = (decoration.decorate(object, &resource), &live["metadata"]["managedFields"]);
        let mut pointers = handed_over.to_vec();
        if has_replicas(&body) && self.is_autoscaled(&key, managers, decoration).await? {
            pointers.push(Pointer::replicas());
        }
        let loss = ownership_loss(&live, &hand_over(&body, &live, managers, &pointers).body);
        Ok(Inspection { live: Some(serde_json::from_value(live).map_err(Error::Json)?), loss })
    }
}
