//! The DaemonSet that installs a driver on Windows nodes.

use super::cluster::{Cluster, DAEMON_SET, list, name, namespace, text};
use super::placement::asks;
use super::workloads::template_spec;
use serde_json::Value;

/// The suffix of an image's repository, and its driver.
const IMAGES: &str = "
csi-vsphere/driver csi.vsphere.vmware.com
cloud-provider-vsphere/csi/release/driver csi.vsphere.vmware.com
azuredisk-csi disk.csi.azure.com
azurefile-csi file.csi.azure.com
aws-ebs-csi-driver ebs.csi.aws.com
smbplugin smb.csi.k8s.io
gcp-compute-persistent-disk-csi-driver pd.csi.storage.gke.io
";

const REGISTRATION: &str = "--kubelet-registration-path";
const PIPES: &str = r"\\.\pipe\";

pub fn daemon_set<'a>(cluster: Cluster<'a>, driver: &str) -> Option<&'a Value> {
    let mut sets = for_windows(cluster, driver);
    sets.sort_by_key(|set| (name(set), namespace(set)));
    sets.first().copied()
}

fn for_windows<'a>(cluster: Cluster<'a>, driver: &str) -> Vec<&'a Value> {
    let sets = cluster.of(DAEMON_SET).filter(|set| {
        template_spec(set).is_some_and(|spec| {
            asks(cluster, namespace(set), spec, true) == Some(true) && names_driver(spec, driver)
        })
    });
    sets.collect()
}

/// Returns the DaemonSets for Windows whose pods can register the driver, as `namespace/name`.
pub fn stand_ins(cluster: Cluster<'_>, driver: &str) -> Vec<String> {
    let mut sets: Vec<_> = for_windows(cluster, driver)
        .into_iter()
        .filter(|set| template_spec(set).is_some_and(|spec| can_register(spec, driver)))
        .map(|set| (name(set), namespace(set)))
        .collect();
    sets.sort_unstable();
    sets.into_iter()
        .map(|(name, namespace)| format!("{namespace}/{name}"))
        .collect()
}

fn can_register(spec: &Value, driver: &str) -> bool {
    let mounts = |is_wanted: &dyn Fn(&[&str]) -> bool| {
        host_paths(spec)
            .into_iter()
            .any(|path| is_wanted(&components(path)))
    };
    let host_process = |of: &Value| of["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let sees_the_host = host_process(spec) || containers(spec).any(host_process);
    let images = || containers(spec).filter_map(|container| text(container, &["image"]));
    let paths: Vec<_> = containers(spec).flat_map(registration_paths).collect();
    let is_registrar = |image| {
        let repository = repository(image);
        repository.ends_with("csi-node-driver-registrar")
    };
    let knows = |image| {
        IMAGES.lines().any(|line| {
            line.split_once(' ')
                .is_some_and(|(_, of)| is_image_of(image, of))
        })
    };
    let reaches = mounts(&|path| path.ends_with(&["plugins_registry"]))
        && mounts(&|path| path.windows(2).any(|pair| pair == ["plugins", driver]));
    (sees_the_host || reaches)
        && images().any(|image| is_registrar(image) || knows(image))
        && (paths.is_empty() || paths.iter().any(|path| components(path).contains(&driver)))
}

/// Returns the csi-proxy pipes that the DaemonSet's pods mount.
pub fn pipes(set: &Value) -> Vec<&str> {
    let mut names: Vec<_> = template_spec(set)
        .map(host_paths)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|path| path.strip_prefix(PIPES))
        .filter(|pipe| pipe.starts_with("csi-proxy-"))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn host_paths(spec: &Value) -> Vec<&str> {
    list(spec, &["volumes"])
        .iter()
        .filter_map(|volume| text(volume, &["hostPath", "path"]))
        .collect()
}

fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    list(spec, &["containers"])
        .iter()
        .chain(list(spec, &["initContainers"]))
}

fn names_driver(spec: &Value, driver: &str) -> bool {
    containers(spec).any(|container| {
        registration_paths(container)
            .iter()
            .any(|path| components(path).contains(&driver))
    }) || host_paths(spec).iter().any(|path| {
        components(path)
            .windows(2)
            .any(|pair| pair == ["plugins", driver])
    }) || containers(spec)
        .filter_map(|container| text(container, &["image"]))
        .any(|image| is_image_of(image, driver))
}

fn components(path: &str) -> Vec<&str> {
    path.split(['\\', '/'])
        .filter(|component| !component.is_empty())
        .collect()
}

fn registration_paths(container: &Value) -> Vec<String> {
    // The process gets the command, then the arguments.
    let words: Vec<_> = list(container, &["command"])
        .iter()
        .chain(list(container, &["args"]))
        .filter_map(Value::as_str)
        .collect();
    let mut paths = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if let Some(value) = word
            .strip_prefix(REGISTRATION)
            .and_then(|rest| rest.strip_prefix('='))
        {
            paths.push(expanded(container, value));
        } else if *word == REGISTRATION
            && let Some(value) = words.get(index + 1)
        {
            paths.push(expanded(container, value));
        }
    }
    paths
}

/// Replaces `$(NAME)` with the container's variables. Keeps unknown ones.
fn expanded(container: &Value, word: &str) -> String {
    let Some((before, rest)) = word.split_once("$(") else {
        return word.to_owned();
    };
    let Some((variable, after)) = rest.split_once(')') else {
        return word.to_owned();
    };
    let value = list(container, &["env"])
        .iter()
        .find(|entry| text(entry, &["name"]) == Some(variable))
        .and_then(|entry| text(entry, &["value"]));
    let value = value.map_or_else(|| format!("$({variable})"), str::to_owned);
    format!("{before}{value}{}", expanded(container, after))
}

fn is_image_of(image: &str, driver: &str) -> bool {
    let repository = repository(image);
    let mut images = IMAGES.lines().filter_map(|line| line.split_once(' '));
    images.any(|(end, of)| {
        of == driver && (repository == end || repository.ends_with(&format!("/{end}")))
    })
}

/// Returns the image without registry, tag and digest.
fn repository(image: &str) -> &str {
    let untagged = image.split('@').next().unwrap_or_default();
    let untagged = match untagged.rsplit_once(':') {
        Some((before, tag)) if !tag.contains('/') => before,
        _ => untagged,
    };
    match untagged.split_once('/') {
        Some((registry, path)) if registry.contains(['.', ':']) || registry == "localhost" => path,
        _ => untagged,
    }
}
