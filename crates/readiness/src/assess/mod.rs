//! The assessment: pure functions from the index to the readiness report.

/// Creates a finding with this code on this object. The rest is the message, as for `format!`.
macro_rules! finding {
    ($code:ident, $object:expr, $($message:tt)+) => {
        crate::assess::report::Finding::new(
            crate::assess::codes::$code,
            $object,
            format!($($message)+),
        )
    };
}

mod advice;
mod assessment;
pub mod causes;
pub mod codes;
mod csi_proxy;
pub mod driver_versions;
pub mod drivers;
pub mod plugins;
mod redirection;
pub mod report;
mod selection;
mod verdict;
pub mod versions;
mod volumes;

pub use assessment::{
    Assessment, Blocked, BlockedKey, BlockedKind, BlockingVolumes, CsiProxyUse, Departed,
    daemon_sets_that_use_it,
};
pub use csi_proxy::CSI_PROXY_PIPES;
pub use redirection::{check_target, today};
pub use selection::NodeSelection;
pub use verdict::only_fresh_data_opens;

use crate::index::Cluster;
use report::ReadinessReport;
use versions::Release;

/// Assesses a whole cluster at once. Incomplete or stale inputs make the verdict `ReadinessUnknown`, because there is no
/// earlier verdict to keep.
#[must_use]
pub fn assess(cluster: &mut Cluster) -> ReadinessReport {
    assess_for(cluster, None)
}

/// Assesses a whole cluster for a future version, if one is given. Volumes that in-tree plugins still serve there do not
/// hold upgrades.
#[must_use]
pub fn assess_for(cluster: &mut Cluster, target: Option<Release>) -> ReadinessReport {
    let mut assessment = Assessment::default();
    assessment.update(cluster);
    let mut report = assessment.report_for(cluster, target);
    report.verdict = only_fresh_data_opens(None, report.verdict, &cluster.stale());
    report
}

#[cfg(test)]
mod tests;
