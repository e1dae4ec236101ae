//! The named pipes of csi-proxy.

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
