//! What the spec of a driver's pods says: which driver it is, and whether it can register.

use super::cluster::{list, text};
use super::workloads::template_spec;
use serde_json::Value;
use std::collections::BTreeSet;

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

/// The end of an image's name where a mirror writes the whole path into it, and its driver.
const FLATTENED: &str = "
csi-vsphere-driver csi.vsphere.vmware.com
cloud-provider-vsphere-csi-release-driver csi.vsphere.vmware.com
csi-azuredisk-csi disk.csi.azure.com
csi-azurefile-csi file.csi.azure.com
ebs-csi-driver-aws-ebs-csi-driver ebs.csi.aws.com
sig-storage-smbplugin smb.csi.k8s.io
cloud-provider-gcp-gcp-compute-persistent-disk-csi-driver pd.csi.storage.gke.io
";

const REGISTRATION: &str = "--kubelet-registration-path";
const NAME: &str = "--drivername";
const PIPES: &str = r"\\.\pipe\";

/// Returns the folder of the driver's socket, where neither an argument nor the image says that the driver has this name or
/// another one.
pub fn own_folder(spec: &Value) -> Option<String> {
    let sockets = sockets(spec);
    if !said(spec).0.is_empty() || !has_registrar(spec) {
        return None;
    }
    let folders: BTreeSet<String> = if sockets.is_empty() {
        host_paths(spec).into_iter().filter_map(plugin).collect()
    } else {
        let folder = |socket: &String| {
            let parts = components(socket);
            plugin(socket).or_else(|| Some((*parts.get(parts.len().checked_sub(2)?)?).to_owned()))
        };
        sockets.iter().filter_map(folder).collect()
    };
    let [folder] = &folders.into_iter().collect::<Vec<_>>()[..] else {
        return None;
    };
    (!folder.contains("$(") && !has_image_of(spec, folder)).then(|| folder.clone())
}

/// Returns the folder after `plugins`.
fn plugin(path: &str) -> Option<String> {
    let parts = components(path);
    let place = parts.iter().position(|part| *part == "plugins")?;
    parts.get(place + 1).map(|part| (*part).to_owned())
}

pub fn can_register(spec: &Value, driver: &str) -> bool {
    let host_process = |of: &Value| of["securityContext"]["windowsOptions"]["hostProcess"] == true;
    let sees_the_host = host_process(spec) || containers(spec).any(host_process);
    let sockets = sockets(spec);
    let knows = IMAGES
        .lines()
        .filter_map(|line| line.split_once(' '))
        .any(|(_, of)| has_image_of(spec, of));
    let names_it = if are_all_said(spec) || sockets.is_empty() {
        names_driver(spec, driver)
    } else {
        said(spec).0.contains(driver)
            || sockets
                .iter()
                .any(|path| components(path).contains(&driver))
    };
    // The socket's folder is the driver's, and has its name unless the driver says it itself.
    let folders: Vec<String> = host_paths(spec).into_iter().filter_map(plugin).collect();
    let of_socket = |folder: &String| {
        sockets
            .iter()
            .any(|path| components(path).contains(&folder.as_str()))
    };
    let has_folder = folders
        .iter()
        .any(|folder| folder == driver || (are_all_said(spec) && of_socket(folder)));
    let has_registry = host_paths(spec)
        .into_iter()
        .any(|path| components(path).ends_with(&["plugins_registry"]));
    let says_registry = !has_registrar(spec)
        || containers(spec)
            .flat_map(|container| flag(container, "--plugin-registration-path"))
            .any(|path| path.contains("$(") || components(&path).ends_with(&["plugins_registry"]));
    names_it
        && (has_registrar(spec) || knows)
        && are_paths_right(spec, sees_the_host)
        && ((sees_the_host && (has_registry || says_registry)) || (has_registry && has_folder))
}

/// Whether the kubelet finds the socket and the registrar where the pods put them.
fn are_paths_right(spec: &Value, sees_the_host: bool) -> bool {
    let absolute = |path: &str| {
        let path = components(path).join("/");
        let has_drive = path
            .split('/')
            .next()
            .is_some_and(|first| first.ends_with(':'));
        format!("{}{path}/", if has_drive { "" } else { "C:/" })
    };
    let root = |path: &str, folder: &str| {
        let (before, _) = path.split_once(&format!("/{folder}/"))?;
        Some(before.to_owned())
    };
    let sockets = sockets(spec)
        .into_iter()
        .filter(|path| !path.contains("$("));
    let sockets: Vec<String> = sockets.collect();
    if sockets.iter().any(|path| path.starts_with(['/', '\\'])) {
        return false;
    }
    if sees_the_host {
        return true;
    }
    let mounts: Vec<String> = host_paths(spec)
        .into_iter()
        .filter(|path| !path.starts_with(PIPES))
        .map(absolute)
        .collect();
    let (plugins, others): (Vec<_>, Vec<_>) =
        mounts.iter().partition(|path| path.contains("/plugins/"));
    let folders = if plugins.is_empty() {
        &others
    } else {
        &plugins
    };
    let is_mounted = |socket: &String| {
        folders
            .iter()
            .any(|folder| absolute(socket).starts_with(folder.as_str()))
    };
    let mut roots = sockets
        .iter()
        .map(|path| absolute(path))
        .chain(plugins.iter().map(|path| (*path).clone()));
    let roots: Vec<String> = roots
        .by_ref()
        .filter_map(|path| root(&path, "plugins"))
        .collect();
    let registries = mounts
        .iter()
        .filter(|path| path.ends_with("/plugins_registry/"));
    let registries: Vec<String> = registries
        .filter_map(|path| root(path, "plugins_registry"))
        .collect();
    let is_beside = roots.is_empty()
        || registries.is_empty()
        || roots.iter().any(|root| registries.contains(root));
    sockets.iter().all(is_mounted) && is_beside
}

fn has_registrar(spec: &Value) -> bool {
    containers(spec).any(is_registrar) || !sockets(spec).is_empty()
}

fn is_registrar(container: &Value) -> bool {
    let image = text(container, &["image"]).unwrap_or_default();
    repository(image).ends_with("csi-node-driver-registrar")
}

pub fn has_image_of(spec: &Value, driver: &str) -> bool {
    let mut images = containers(spec).filter_map(|container| text(container, &["image"]));
    images.any(|image| is_image_of(image, driver))
}

/// Whether the driver has an image that is known.
pub fn is_known(driver: &str) -> bool {
    let mut images = IMAGES.lines().filter_map(|line| line.split_once(' '));
    images.any(|(_, of)| of == driver)
}

/// Returns the paths that registrars pass to the kubelet.
fn sockets(spec: &Value) -> BTreeSet<String> {
    containers(spec)
        .flat_map(|container| flag(container, REGISTRATION))
        .collect()
}

/// Returns the names that drivers give themselves, and whether one has a name that only the kubelet knows. Programs that
/// are no CSI drivers have drivers with names, too.
fn said(spec: &Value) -> (BTreeSet<String>, bool) {
    let mut known = IMAGES.lines().filter_map(|line| line.split_once(' '));
    let is_driver = has_registrar(spec)
        || host_paths(spec).into_iter().find_map(plugin).is_some()
        || known.any(|(_, driver)| has_image_of(spec, driver));
    if !is_driver {
        return (BTreeSet::new(), false);
    }
    let drivers = containers(spec).filter(|container| !is_registrar(container));
    let names: Vec<String> = drivers
        .flat_map(|container| flag(container, NAME))
        .collect();
    let is_open = names.iter().any(|name| name.contains("$("));
    let names = names.into_iter().filter(|name| !name.contains("$("));
    (names.collect(), is_open)
}

fn are_all_said(spec: &Value) -> bool {
    let said = said(spec).0.len();
    said > 0 && said >= sockets(spec).len()
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

pub fn names_driver(spec: &Value, driver: &str) -> bool {
    if are_all_said(spec) {
        return said(spec).0.contains(driver);
    }
    let sockets = sockets(spec);
    let by_socket = sockets
        .iter()
        .any(|path| components(path).contains(&driver));
    let by_folder = host_paths(spec)
        .into_iter()
        .filter_map(plugin)
        .any(|folder| folder == driver);
    let mut folders = sockets.iter().filter_map(|path| plugin(path));
    let (names, is_open) = said(spec);
    // A known driver names itself, also in the folder of another one.
    if names.is_empty() && !is_open && is_in_folder_of_another(spec) {
        let is_other = is_known(driver) && !has_image_of(spec, driver);
        return !is_other && (by_socket || by_folder || has_image_of(spec, driver));
    }
    let is_silent = folders.all(|folder| folder.contains("$(")) && !is_open;
    said(spec).0.contains(driver)
        || by_socket
        || by_folder
        || (is_silent && has_image_of(spec, driver))
}

fn is_in_folder_of_another(spec: &Value) -> bool {
    let drivers = || IMAGES.lines().filter_map(|line| line.split_once(' '));
    let is_there = |driver: &str| {
        let folders = host_paths(spec).into_iter().filter_map(plugin);
        sockets(spec)
            .iter()
            .any(|path| components(path).contains(&driver))
            || folders.into_iter().any(|folder| folder == driver)
    };
    drivers().any(|(_, driver)| has_image_of(spec, driver))
        && drivers().any(|(_, driver)| !has_image_of(spec, driver) && is_there(driver))
}

fn components(path: &str) -> Vec<&str> {
    path.split(['\\', '/'])
        .filter(|component| !component.is_empty())
        .collect()
}

/// Returns the values of a flag.
fn flag(container: &Value, flag: &str) -> Vec<String> {
    // The process gets the command, then the arguments.
    let words: Vec<_> = list(container, &["command"])
        .iter()
        .chain(list(container, &["args"]))
        .filter_map(Value::as_str)
        .collect();
    let mut paths = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if let Some(value) = word
            .strip_prefix(flag)
            .and_then(|rest| rest.strip_prefix('='))
        {
            paths.push(expanded(container, value));
        } else if *word == flag
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
    let pairs = |lines: &'static str| lines.lines().filter_map(|line| line.split_once(' '));
    let is_at_end = pairs(IMAGES).any(|(end, of)| {
        of == driver && (repository == end || repository.ends_with(&format!("/{end}")))
    });
    let name = repository
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .replace(['.', '_'], "-");
    is_at_end
        || pairs(FLATTENED).any(|(end, of)| of == driver && name.ends_with(&format!("-{end}")))
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
