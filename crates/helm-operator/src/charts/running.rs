//! The running chart controllers of the process, for views.

use std::sync::{Arc, Mutex, Weak};

use controller::context::Context;
use outside::sync::lock;

use crate::reconcile::controller_context::ControllerContext;

/// The controllers that serve their kinds now. Empty while another process leads.
#[derive(Default)]
pub(crate) struct Running(Mutex<Vec<Weak<ControllerContext>>>);

impl Running {
    /// Returns the process's running controllers.
    pub(crate) fn of(context: &Context) -> Arc<Running> {
        context.part(|_| Running::default())
    }

    pub(crate) fn add(&self, controller: &Arc<ControllerContext>) {
        let mut all = lock(&self.0);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(controller));
    }

    pub(crate) fn all(&self) -> Vec<Arc<ControllerContext>> {
        lock(&self.0).iter().filter_map(Weak::upgrade).collect()
    }
}
