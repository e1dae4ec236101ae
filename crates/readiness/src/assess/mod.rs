//! Judgement: pure functions from the index to the readiness report.

/// A finding of that code on that object. The rest is its message, as for `format!`.
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
pub mod drivers;
pub mod plugins;
pub mod report;
mod verdict;
pub mod versions;
mod volumes;

pub use assessment::{Assessment, Blocked, BlockedKey, BlockedKind};
pub use csi_proxy::CSI_PROXY_PIPES;
pub use verdict::only_fresh_data_opens;

use crate::index::Cluster;
use report::ReadinessReport;

/// Judges a whole cluster at once. What has not been read completely, or cannot be read as it is now, makes the verdict
/// `ReadinessUnknown`: no earlier one stands.
#[must_use]
pub fn assess(cluster: &mut Cluster) -> ReadinessReport {
    let mut assessment = Assessment::default();
    assessment.update(cluster);
    let mut report = assessment.report(cluster);
    report.verdict = only_fresh_data_opens(None, report.verdict, &cluster.stale());
    report
}

#[cfg(test)]
mod tests;
