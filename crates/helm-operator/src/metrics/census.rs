//! `helm_operator_resources`: how many custom resources are ready or not, and why. Counted when it is asked for, so nothing has to be kept up to date.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// A condition's status and reason.
pub(crate) type Readiness = (Arc<str>, Arc<str>);

/// Counts a controller's resources by the status and the reason of `Ready`. Reasons are a fixed set.
pub(crate) trait Census: Send + Sync {
    fn count(&self) -> BTreeMap<Readiness, usize>;
}

/// All controllers that count. One that has ended is forgotten.
#[derive(Clone, Default)]
pub(super) struct Censuses(Arc<Mutex<Vec<Counted>>>);

/// A controller's name and what counts its resources.
type Counted = (Arc<str>, Weak<dyn Census>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    controller: Arc<str>,
    ready: Arc<str>,
    reason: Arc<str>,
}

impl Censuses {
    pub(super) fn add(&self, controller: &Arc<str>, census: Weak<dyn Census>) {
        self.lock().push((controller.clone(), census));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Censuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Censuses({})", self.lock().len())
    }
}

impl Collector for Censuses {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut all = self.lock();
        all.retain(|(_, census)| census.strong_count() > 0);
        let help = "Custom resources by controller, and by status and reason of Ready.";
        let mut family = encoder.encode_descriptor("helm_operator_resources", help, None, MetricType::Gauge)?;
        for (controller, census) in &*all {
            for ((ready, reason), count) in census.upgrade().map(|census| census.count()).unwrap_or_default() {
                let labels = Labels { controller: controller.clone(), ready, reason };
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
