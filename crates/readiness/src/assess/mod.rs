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
pub mod advisories;
pub mod causes;
pub mod codes;
mod csi_proxy;
pub mod drivers;
mod judgement;
mod partial;
pub mod plugins;
mod preview;
mod redirection;
pub mod report;
mod verdict;
pub mod versions;
mod volumes;

pub use csi_proxy::CSI_PROXY_PIPES;
pub use judgement::{BlockingVolumes, CsiProxyUse, Departed, Memory, Report, assess};
pub use preview::{Preview, Stuck, Way, preview};
pub use redirection::{Loss, check_target, today};
pub use verdict::{only_fresh_data_opens, when_lost};

use crate::index::Cluster;
use report::ReadinessReport;
use versions::Release;

/// Judges a cluster that was read once, as [`Report::once`] does.
pub fn assess_once(cluster: &Cluster, target: Option<Release>) -> ReadinessReport {
    Report::once(cluster, target).to_json(cluster)
}

#[cfg(test)]
mod tests;
