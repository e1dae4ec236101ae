//! The entry that keeps csi-proxy running.

use protocol::document::Service;
use protocol::paths::{CSI_PROXY_EXE, CSI_PROXY_LOG_DIR, CSI_PROXY_SERVICE};

/// Megabytes at which csi-proxy's log starts over. Its logging library never rotates, and its own default of 1,800 MB
/// is more than a small node can bear.
const LOG_MEGABYTES: u32 = 50;

/// The service as it stands in the `windows-services` document.
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

/// The named pipes that csi-proxy opens, all or none of them, without `\\.\pipe\`.
///
/// Source: csi-proxy v1.1.3 and v1.3.0, `cmd/csi-proxy/main.go` and the API groups' registrations.
pub const CSI_PROXY_PIPES: [&str; 23] = [
    "csi-proxy-disk-v1",
    "csi-proxy-disk-v1alpha1",
    "csi-proxy-disk-v1beta1",
    "csi-proxy-disk-v1beta2",
    "csi-proxy-disk-v1beta3",
    "csi-proxy-filesystem-v1",
    "csi-proxy-filesystem-v1alpha1",
    "csi-proxy-filesystem-v1beta1",
    "csi-proxy-filesystem-v1beta2",
    "csi-proxy-filesystem-v2alpha1",
    "csi-proxy-iscsi-v1alpha1",
    "csi-proxy-iscsi-v1alpha2",
    "csi-proxy-smb-v1",
    "csi-proxy-smb-v1alpha1",
    "csi-proxy-smb-v1beta1",
    "csi-proxy-smb-v1beta2",
    "csi-proxy-system-v1alpha1",
    "csi-proxy-volume-v1",
    "csi-proxy-volume-v1alpha1",
    "csi-proxy-volume-v1beta1",
    "csi-proxy-volume-v1beta2",
    "csi-proxy-volume-v1beta3",
    "csi-proxy-volume-v2alpha1",
];
