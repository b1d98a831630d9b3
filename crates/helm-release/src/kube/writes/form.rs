//! Finds out whether a live object already has the form that the chart gives it.

use serde_json::Value;

use super::apply::{Applier, ApplyError, describe};
use super::found::Found;
use crate::kube::objects::decorate::Decoration;
use crate::kube::objects::object::Object;

impl Applier {
    /// Returns whether a live object, which was read, has the `spec` that an apply of the chart's object would leave.
    /// Only a dry run tells: the server adds defaults, and an apply removes what another form had set.
    ///
    /// # Errors
    /// A request is not answered, or the object cannot be read.
    pub(crate) async fn has_form(
        &self,
        object: &Object,
        observed: &Found,
        decoration: &Decoration,
    ) -> Result<bool, ApplyError> {
        let failed = |source| ApplyError::Failed { verb: "read", object: describe(object), source };
        let Some((uid, _)) = observed.owned() else { return Ok(false) };
        let mut body = self.body(object, decoration).await?;
        // If another object has taken its place, the dry run conflicts.
        body.json["metadata"]["uid"] = uid.into();
        let Some(live) = self.read_whole(object, decoration).await.map_err(failed)? else { return Ok(false) };
        match self.send_dry_run(&body).await {
            Ok(answer) => Ok(answer.parse::<Value>().map_err(failed)?["spec"] == live["spec"]),
            Err(error) if error.is_outage() && !error.is_conflict() => Err(failed(error)),
            Err(_) => Ok(false),
        }
    }
}
