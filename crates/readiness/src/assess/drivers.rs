//! The CSI drivers known to support Windows nodes.
//!
//! Sources: the drivers' own manifests for Windows nodes.

/// The name and version of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The last part of the image's name.
    pub name: String,
    /// The tag's major and minor version.
    pub version: (u64, u64),
    /// The unparsed tag.
    pub tag: String,
}

/// A driver's node side for Windows.
#[derive(Debug, PartialEq, Eq)]
pub struct WindowsDriver {
    /// The driver's name.
    pub name: &'static str,
    /// The DaemonSet in the driver's own manifests, as `namespace/name`.
    pub daemon_set: &'static str,
    /// The repository with those manifests.
    pub home: &'static str,
    /// The ends of the paths of the driver's images: upstream's, and the names of OpenShift's.
    images: &'static [&'static str],
    /// The last part of upstream's image name, and the first version known to work without csi-proxy in HostProcess
    /// containers, if any. OpenShift's images have other versions and still use the pipes.
    without_csi_proxy: Option<(&'static str, (u64, u64))>,
}

macro_rules! drivers {
    ($($name:expr, $daemon_set:literal, $home:literal, $images:expr, $without_csi_proxy:expr;)+) => {
        [$(WindowsDriver {
            name: $name,
            daemon_set: $daemon_set,
            home: concat!("https://github.com/", $home),
            images: &$images,
            without_csi_proxy: $without_csi_proxy,
        }),+]
    };
}

/// All known drivers.
pub static WINDOWS_DRIVERS: [WindowsDriver; 6] = drivers! {
    VSPHERE, "vmware-system-csi/vsphere-csi-node-windows", "kubernetes-sigs/vsphere-csi-driver",
        ["csi-vsphere/driver", "cloud-provider-vsphere/csi/release/driver", "vmware-vsphere-csi-driver"], Some(("driver", (3, 5)));
    "smb.csi.k8s.io", "kube-system/csi-smb-node-win", "kubernetes-csi/csi-driver-smb",
        ["sig-storage/smbplugin", "smb-csi-driver"], Some(("smbplugin", (1, 17)));
    "disk.csi.azure.com", "kube-system/csi-azuredisk-node-win", "kubernetes-sigs/azuredisk-csi-driver",
        ["csi/azuredisk-csi", "azure-disk-csi-driver"], Some(("azuredisk-csi", (1, 14)));
    "file.csi.azure.com", "kube-system/csi-azurefile-node-win", "kubernetes-sigs/azurefile-csi-driver",
        ["csi/azurefile-csi", "azure-file-csi-driver"], Some(("azurefile-csi", (1, 28)));
    "pd.csi.storage.gke.io", "gce-pd-csi-driver/csi-gce-pd-node-win",
        "kubernetes-sigs/gcp-compute-persistent-disk-csi-driver",
        ["gke.gcr.io/gcp-compute-persistent-disk-csi-driver", "cloud-provider-gcp/gcp-compute-persistent-disk-csi-driver",
            "gcp-pd-csi-driver"], None;
    "ebs.csi.aws.com", "kube-system/ebs-csi-node-windows", "kubernetes-sigs/aws-ebs-csi-driver",
        ["ebs-csi-driver/aws-ebs-csi-driver", "provider-aws/aws-ebs-csi-driver", "eks/aws-ebs-csi-driver",
            "amazon/aws-ebs-csi-driver"], None;
};

/// The vSphere driver, which has a feature switch for Windows.
pub const VSPHERE: &str = "csi.vsphere.vmware.com";

impl WindowsDriver {
    /// Whether an image of this name is the driver's, in a DaemonSet that is known to be the driver's.
    pub(crate) fn is_image(&self, name: &str) -> bool {
        let mut images = self.images.iter().map(|image| last_part(image));
        images.any(|image| name == image || (image != COMMON_NAME && is_named(name, image)))
    }

    /// Whether an image of the driver is known to work without csi-proxy in HostProcess containers.
    pub(crate) fn does_without_csi_proxy(&self, image: &Image) -> bool {
        let known = self.without_csi_proxy;
        known.is_some_and(|(name, since)| image.name == name && image.version >= since)
    }

    /// Returns the name of the driver's image that has this repository.
    fn image_of(&self, repository: &str) -> Option<&'static str> {
        let mut images = self.images.iter();
        let image =
            images.find(|image| is_at(repository, image) || is_flattened(repository, image))?;
        Some(last_part(image))
    }
}

/// The last part of an image's path that alone says nothing.
const COMMON_NAME: &str = "driver";
/// Sidecars that many drivers share. Their versions say nothing about the driver.
const SIDECARS: [&str; 8] = [
    "csi-node-driver-registrar",
    "livenessprobe",
    "csi-proxy",
    "csi-provisioner",
    "csi-attacher",
    "csi-resizer",
    "csi-snapshotter",
    "kube-rbac-proxy",
];
/// The prefix and the suffix (followed by a number) of OpenShift's image names.
const OPENSHIFT_PREFIX: &str = "ose-";
const OPENSHIFT_SUFFIX: &str = "-rhel";

/// Returns the driver with this name.
pub fn by_name(name: &str) -> Option<&'static WindowsDriver> {
    WINDOWS_DRIVERS.iter().find(|driver| driver.name == name)
}

/// Returns the driver whose image has this repository, and the name of that image.
pub(crate) fn of_image(repository: &str) -> Option<(&'static WindowsDriver, &'static str)> {
    let repository = without_release(repository);
    let mut drivers = WINDOWS_DRIVERS.iter();
    drivers.find_map(|driver| Some((driver, driver.image_of(repository)?)))
}

/// Whether the repository has the image's own path, or as much of it as says which image it is.
fn is_at(repository: &str, image: &str) -> bool {
    let name = last_part(image);
    let end = if name == COMMON_NAME { image } else { name };
    let rest = repository.strip_suffix(end);
    rest.map(|rest| rest.strip_suffix(OPENSHIFT_PREFIX).unwrap_or(rest))
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

/// Whether a mirror has flattened the image's path into the name, as in `mirrored-sig-storage-smbplugin`.
fn is_flattened(repository: &str, image: &str) -> bool {
    // Most images are of no driver.
    repository.ends_with(last_part(image)) && {
        let path = if image.contains('/') {
            flat(image)
        } else {
            format!("{OPENSHIFT_PREFIX}{image}")
        };
        let name = flat(last_part(repository));
        name == path || is_named(&name, &path)
    }
}

fn flat(path: &str) -> String {
    let words = path.split(['/', '.', '_', '-']);
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// Whether a mirror's name for an image ends with this name.
fn is_named(name: &str, image: &str) -> bool {
    name.strip_suffix(image)
        .is_some_and(|rest| rest.ends_with('-'))
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the last part of an image's repository, without OpenShift's prefix and suffix.
pub(crate) fn image_name(repository: &str) -> &str {
    let repository = without_release(repository);
    let name = last_part(repository);
    name.strip_prefix(OPENSHIFT_PREFIX).unwrap_or(name)
}

fn without_release(repository: &str) -> &str {
    match repository.rsplit_once(OPENSHIFT_SUFFIX) {
        Some((name, release))
            if !release.is_empty() && release.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            name
        }
        _ => repository,
    }
}

/// Returns the common sidecar whose image has [this name](image_name), its own or a mirror's.
pub(crate) fn sidecar(name: &str) -> Option<&'static str> {
    let mut sidecars = SIDECARS.into_iter();
    sidecars.find(|sidecar| name == *sidecar || is_named(name, sidecar))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line: a repository, the driver that it belongs to, and the name of the image.
    const IMAGES: &str = "
registry.k8s.io/csi-vsphere/driver csi.vsphere.vmware.com driver
gcr.io/cloud-provider-vsphere/csi/release/driver csi.vsphere.vmware.com driver
rancher/mirrored-cloud-provider-vsphere-csi-release-driver csi.vsphere.vmware.com driver
harbor.example.com/proxy/registry.k8s.io-csi-vsphere-driver csi.vsphere.vmware.com driver
smbplugin smb.csi.k8s.io smbplugin
quay.io/x/k8s.gcr.io-sig-storage-smbplugin smb.csi.k8s.io smbplugin
x/registry.k8s.io__sig-storage__smbplugin smb.csi.k8s.io smbplugin
x/mcr-microsoft-com-oss-kubernetes-csi-azuredisk-csi disk.csi.azure.com azuredisk-csi
mcr.microsoft.com/k8s/csi/azurefile-csi file.csi.azure.com azurefile-csi
x/gke.gcr.io-gcp-compute-persistent-disk-csi-driver pd.csi.storage.gke.io gcp-compute-persistent-disk-csi-driver
x/public-ecr-aws-ebs-csi-driver-aws-ebs-csi-driver ebs.csi.aws.com aws-ebs-csi-driver
registry.redhat.io/openshift4/ose-azure-disk-csi-driver-rhel9 disk.csi.azure.com azure-disk-csi-driver
x/registry-redhat-io-openshift4-ose-azure-disk-csi-driver-rhel9 disk.csi.azure.com azure-disk-csi-driver
ose-vmware-vsphere-csi-driver csi.vsphere.vmware.com vmware-vsphere-csi-driver
";

    #[test]
    fn an_image_is_known_by_the_end_of_its_path_also_where_a_mirror_flattens_it() {
        for line in IMAGES.lines().skip(1) {
            let [repository, driver, name] = line.split(' ').collect::<Vec<_>>()[..] else {
                unreachable!("{line}");
            };
            let found = of_image(repository).map(|(driver, name)| (driver.name, name));
            assert_eq!(found, Some((driver, name)), "{repository}");
        }
        for repository in [
            "example.com/notsmbplugin",
            "example.com/not-smbplugin",
            "example.com/driver",
            "example.com/mirrored-secrets-store-driver",
            "example.com/sig-storage-smbplugin-tools",
            "openshift4/ose-azure-disk-csi-driver-operator-rhel9",
            "openshift4/ose-azure-disk-csi-driver-rhel",
            "quay.io/openshift-release-dev/ocp-v4.0-art-dev",
        ] {
            assert_eq!(of_image(repository), None, "{repository}");
        }
    }

    #[test]
    fn a_sidecar_is_one_whatever_mirror_it_comes_from() {
        for (name, expected) in [
            ("ose-csi-livenessprobe-rhel9", true),
            ("mirrored-sig-storage-csi-node-driver-registrar", true),
            ("k8s.gcr.io-sig-storage-livenessprobe", true),
            ("mylivenessprobe", false),
            ("livenessprobe-windows", false),
            ("azuredisk-csi", false),
        ] {
            assert_eq!(
                sidecar(image_name(&format!("x/{name}"))).is_some(),
                expected,
                "{name}"
            );
        }
    }

    #[test]
    fn in_its_own_daemon_set_an_image_is_the_drivers_by_its_name_alone() {
        let is_image = |driver, name| by_name(driver).unwrap().is_image(name);
        assert!(is_image("smb.csi.k8s.io", "smbplugin"));
        assert!(is_image("smb.csi.k8s.io", "mirrored-smbplugin"));
        assert!(!is_image("smb.csi.k8s.io", "log-shipper"));
        assert!(is_image(VSPHERE, "driver") && !is_image(VSPHERE, "log-driver"));
    }
}
