//! Builds the csi-proxy entry of the `windows-services` document.

use protocol::document::Service;
use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_LOG_DIR, CSI_PROXY_SERVICE};

/// Size in megabytes at which csi-proxy's log starts over. Its logging library never rotates, and the library's default
/// of 1,800 MB is too much for a small node.
const LOG_MEGABYTES: u32 = 50;

/// Returns the service as it is written in the `windows-services` document.
///
/// Source of the flags: WMCO's entry of the same name.
#[must_use]
pub fn csi_proxy_service(extra_args: &[String]) -> Service {
    let mut command = format!(
        r"{CSI_PROXY_EXE} -log_file={CSI_PROXY_LOG_DIR}\csi-proxy.log -log_file_max_size={LOG_MEGABYTES} -logtostderr=false -windows-service --v=2"
    );
    for argument in extra_args {
        command.push(' ');
        command.push_str(argument);
    }
    Service {
        name: CSI_PROXY_SERVICE.to_owned(),
        path: command,
        node_variables_in_command: Vec::new(),
        powershell_pre_scripts: Vec::new(),
        dependencies: Vec::new(),
        bootstrap: false,
        priority: 2,
    }
}
