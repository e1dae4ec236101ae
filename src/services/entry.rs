//! The csi-proxy entry of the `windows-services` document.

use protocol::flags::check_flags;
use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_LOG_DIR, CSI_PROXY_SERVICE};
use serde::{Deserialize, Serialize};

use crate::services::ServicesError;

/// Size in megabytes at which csi-proxy's log starts over. Its logging library never rotates, and the library's default
/// of 1,800 MB is too much for a small node.
const LOG_MEGABYTES: u32 = 50;

/// An entry of the document, without the optional fields: one with a script, a variable or a dependency is another entry.
///
/// Source: the Windows Machine Config Operator, `pkg/servicescm`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The service's name.
    pub name: String,
    /// The whole command line, despite the field's name.
    pub path: String,
    /// Whether the node needs the service before joining the cluster.
    pub bootstrap: bool,
    /// Start order, lowest first.
    pub priority: u32,
}

impl Entry {
    /// Returns the entry for csi-proxy with these flags.
    pub fn of(flags: &[String]) -> Self {
        Self {
            name: CSI_PROXY_SERVICE.to_owned(),
            path: format!("{CSI_PROXY_EXE} {}", flags.join(" ")),
            bootstrap: false,
            priority: 2,
        }
    }
}

/// Returns csi-proxy's flags, with those of `spec.csiProxy.extraArgs`.
///
/// Source: WMCO's entry of the same name.
pub fn csi_proxy_flags(extra_args: &[String]) -> Result<Vec<String>, ServicesError> {
    let mut flags = vec![
        format!(r"-log_file={CSI_PROXY_LOG_DIR}\csi-proxy.log"),
        format!("-log_file_max_size={LOG_MEGABYTES}"),
        "-logtostderr=false".to_owned(),
        "-windows-service".to_owned(),
        "--v=2".to_owned(),
    ];
    flags.extend_from_slice(extra_args);
    check_flags(&flags).map_err(|why| {
        ServicesError(format!(
            "spec.csiProxy.extraArgs of WindowsStorage cannot be used: {why}; correct the field"
        ))
    })?;
    Ok(flags)
}
