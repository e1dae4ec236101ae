//! Detects a CSI driver's node plugin in a pod's spec.

mod flags;
mod paths;

use std::collections::BTreeSet;

pub use self::flags::driver_flags;
use self::flags::{LONGEST_VALUE, is_open};
use crate::assess::drivers;
use crate::index::{Image, Name, NodeSide};
use crate::objects::placement::selection;
use crate::objects::pod_spec::{Container, PodSpec, SecurityContext};

/// The end of the name of the registrar's image. Some mirrors put a prefix before it.
const REGISTRAR_IMAGE: &str = "csi-node-driver-registrar";
/// The folder in which the kubelet looks for registrars.
const REGISTRY_FOLDER: &str = "plugins_registry";
const PLUGINS_FOLDER: &str = "plugins";
/// The kubelet's own folder among those of the drivers.
const KUBELETS_FOLDER: &str = "kubernetes.io";
const CSI_PROXY_PREFIX: &str = "csi-proxy-";
const CSI_PROXY_IMAGE: &str = "csi-proxy";
/// How many containers of a spec are looked at, and how many names of drivers are taken from it. No driver has as many, and
/// anyone who can create a pod can write thousands.
const MOST: usize = 32;

fn is_host_process(context: Option<&SecurityContext>) -> bool {
    let options = context.and_then(|context| context.windows_options.as_ref());
    options.is_some_and(|options| options.host_process == Some(true))
}

/// The hostPath volumes of a pod's spec.
#[derive(Default)]
struct Mounts<'a> {
    csi_proxy_pipes: BTreeSet<String>,
    /// All others.
    folders: Vec<&'a str>,
    /// The names of the drivers' folders among them.
    plugins: BTreeSet<Name>,
    has_registry: bool,
}

impl<'a> Mounts<'a> {
    fn of(spec: &'a PodSpec) -> Self {
        let mut mounts = Self::default();
        let volumes = spec.volumes.iter().flatten();
        let paths = volumes.filter_map(|volume| Some(&*volume.host_path.as_ref()?.path));
        for path in paths.filter(|path| path.len() <= LONGEST_VALUE) {
            if let Some(pipe) = csi_proxy_pipe(path) {
                mounts.csi_proxy_pipes.insert(pipe);
                continue;
            }
            mounts.folders.push(path);
            mounts.has_registry |= is_registry(path);
            let plugin = plugin_folder(path).filter(|folder| *folder != KUBELETS_FOLDER);
            mounts.plugins.extend(plugin.map(Name::from));
        }
        mounts
    }
}

/// What the containers of a pod's spec show.
#[derive(Default)]
struct Containers {
    /// What is told of them as it is.
    side: NodeSide,
    has_registrar: bool,
    /// The paths of the drivers' sockets that the registrars pass to the kubelet.
    sockets: BTreeSet<String>,
    /// The kubelet's folders of registrars, where the registrars name them.
    registries: BTreeSet<String>,
    /// The names that drivers have as their argument.
    said: BTreeSet<Name>,
    /// Whether a driver has a name as its argument that only the kubelet knows.
    has_open_name: bool,
    /// The images that are neither a known driver's nor a sidecar's.
    other_images: Vec<Image>,
    /// Whether a known driver may use csi-proxy's pipes from a HostProcess container.
    may_use_pipes: bool,
}

impl Containers {
    fn of(spec: &PodSpec) -> Self {
        let mut found = Self::default();
        found.side.is_host_process = is_host_process(spec.security_context.as_ref());
        let containers = spec.init_containers.iter().chain(&spec.containers);
        for container in containers.flatten().take(MOST) {
            found.add(container);
        }
        found
    }

    fn add(&mut self, container: &Container) {
        let [socket, registry, said] = flags::values(container);
        self.registries.extend(registry);
        let side = &mut self.side;
        side.is_host_process |= is_host_process(container.security_context.as_ref());
        let (repository, tag) = split_image(container.image.as_deref().unwrap_or_default());
        let name = drivers::image_name(repository);
        // OpenShift names images by their digests alone.
        self.has_registrar |= name.ends_with(REGISTRAR_IMAGE) || socket.is_some();
        self.sockets.extend(socket);
        if name == CSI_PROXY_IMAGE {
            side.csi_proxy.get_or_insert_with(|| tag.to_owned());
        }
        if let Some(sidecar) = drivers::sidecar(name) {
            side.sidecars.extend(versioned(sidecar, tag));
            return;
        }
        match said {
            Some(name) if is_open(&name) => self.has_open_name = true,
            Some(name) => self.said.extend((!name.is_empty()).then(|| name.into())),
            None => {}
        }
        let Some((driver, name)) = drivers::of_image(repository) else {
            self.other_images.extend(versioned(name, tag));
            return;
        };
        let image = versioned(name, tag);
        let does_without = image
            .as_ref()
            .is_some_and(|it| driver.does_without_csi_proxy(it));
        self.may_use_pipes |= !does_without;
        side.images.extend(image);
        side.known.insert(driver.name.into());
    }

    /// Whether the arguments name all drivers.
    fn are_named(&self) -> bool {
        !self.said.is_empty() && self.said.len() >= self.sockets.len()
    }

    /// Returns the parts of the sockets' paths. One of them is the name of the driver, if its folder has that name.
    fn socket_parts(&self) -> impl Iterator<Item = Name> {
        self.sockets
            .iter()
            .flat_map(|path| parts(path))
            .map(Name::from)
    }

    /// Returns the candidate names: what the drivers' arguments say, or the registrars' paths and the folders. The standard
    /// name of an image counts only where neither an argument nor a path says anything.
    fn names(&self, plugins: &BTreeSet<Name>) -> BTreeSet<Name> {
        let mut names = self.said.clone();
        if !self.are_named() {
            names.extend(self.socket_parts().chain(plugins.iter().cloned()));
            let mut folders = self.sockets.iter().filter_map(|path| plugin_folder(path));
            let known = &self.side.known;
            if !self.has_open_name && folders.all(is_open) {
                names.extend(known.iter().cloned());
            }
            // A known driver says its own name where no argument does, even from the folder of another one.
            let is_others = |name: &Name| drivers::by_name(name).is_some() && !known.contains(name);
            let is_silent = self.said.is_empty() && !self.has_open_name;
            if is_silent && !known.is_empty() && names.iter().any(is_others) {
                names.retain(|name| !is_others(name));
                names.extend(known.iter().cloned());
            }
        }
        names.into_iter().take(MOST).collect()
    }

    /// Returns those of the names that the pods can register with the kubelet: a registrar says them, and reaches the folders.
    fn registers(&self, mounts: &Mounts<'_>, names: &BTreeSet<Name>) -> BTreeSet<Name> {
        if !self.has_registrar && self.side.known.is_empty() {
            return BTreeSet::new();
        }
        let in_sockets: BTreeSet<Name> = self.socket_parts().collect();
        let has_socket = |name: &Name| in_sockets.contains(name);
        let is_said =
            |name: &&Name| self.said.contains(*name) || self.sockets.is_empty() || has_socket(name);
        // A folder of another name is the driver's if that says its name itself. HostProcess containers see the host's folders
        // without a mount.
        let has_its_socket = self.are_named() && mounts.plugins.iter().any(has_socket);
        let is_registry = |path: &String| is_open(path) || is_registry(path);
        let has_registry =
            mounts.has_registry || !self.has_registrar || self.registries.iter().any(is_registry);
        let reaches = |name: &&Name| {
            let has_folder = has_its_socket || mounts.plugins.contains(*name);
            (self.side.is_host_process && has_registry) || (mounts.has_registry && has_folder)
        };
        let names = names.iter().filter(is_said).filter(reaches);
        names.cloned().collect()
    }

    /// Returns the plugin's folder, if the driver's name is not known to be another one, or the same.
    fn folder(&self, plugins: &BTreeSet<Name>) -> Option<Name> {
        if !self.said.is_empty() || !self.has_registrar {
            return None;
        }
        let of_sockets: BTreeSet<Name> = self
            .sockets
            .iter()
            .filter_map(|path| socket_folder(path))
            .map(Name::from)
            .collect();
        let folders = if self.sockets.is_empty() {
            plugins
        } else {
            &of_sockets
        };
        let folder = folders.first().filter(|_| folders.len() == 1)?;
        (!is_open(folder) && !self.side.known.contains(folder)).then(|| folder.clone())
    }
}

/// Detects the node side in a pod's spec; `None` if nothing looks like a driver or uses csi-proxy's pipes.
pub fn node_side(spec: &PodSpec) -> Option<NodeSide> {
    let mounts = Mounts::of(spec);
    let mut found = Containers::of(spec);
    let has_known = !found.side.known.is_empty();
    if !found.has_registrar && mounts.plugins.is_empty() && !has_known {
        // Other programs have drivers, too.
        found.said.clear();
    }
    let names = found.names(&mounts.plugins);
    if names.is_empty() && mounts.csi_proxy_pipes.is_empty() && found.side.csi_proxy.is_none() {
        return None;
    }
    let folder = found.folder(&mounts.plugins);
    let registries = found.side.is_host_process.then_some(&found.registries);
    let wrong_paths = paths::wrong_paths(&found.sockets, &mounts.folders, registries);
    let registers = if wrong_paths.is_empty() {
        found.registers(&mounts, &names)
    } else {
        BTreeSet::new()
    };
    let mut side = found.side;
    // Next to a driver known by its image, other images have unrelated versions.
    if !has_known {
        side.images = found.other_images;
    }
    Some(NodeSide {
        folder,
        wrong_paths,
        registers,
        csi_proxy_pipes: mounts.csi_proxy_pipes.into_iter().collect(),
        selection: selection(spec),
        tolerations: spec.tolerations.clone().unwrap_or_default(),
        may_reach_csi_proxy: side.is_host_process
            && !names.is_empty()
            && (found.may_use_pipes || !has_known),
        names,
        ..side
    })
}

/// Whether a path is that of the folder in which the kubelet looks for registrars.
fn is_registry(path: &str) -> bool {
    let last = parts(path).last();
    last.is_some_and(|last| last.eq_ignore_ascii_case(REGISTRY_FOLDER))
}

/// Returns the name of the folder among those of the drivers that a path is in.
fn plugin_folder(path: &str) -> Option<&str> {
    let mut parts = parts(path);
    parts
        .any(|part| part.eq_ignore_ascii_case(PLUGINS_FOLDER))
        .then(|| parts.next())?
}

/// Returns the name of the folder that a driver has its socket in.
fn socket_folder(path: &str) -> Option<&str> {
    plugin_folder(path).or_else(|| parts(path).rev().nth(1))
}

/// Returns the csi-proxy pipe at this path, in lower case: pipe names on Windows are case-insensitive.
fn csi_proxy_pipe(path: &str) -> Option<String> {
    if !path.starts_with(r"\\") && !path.starts_with("//") {
        return None;
    }
    let mut parts = parts(path);
    let is_pipe = parts.next() == Some(".")
        && parts
            .next()
            .is_some_and(|part| part.eq_ignore_ascii_case("pipe"));
    let name = parts.next().filter(|_| is_pipe)?.to_ascii_lowercase();
    (name.starts_with(CSI_PROXY_PREFIX) && parts.next().is_none()).then_some(name)
}

/// Splits a path with either separator, single or doubled.
fn parts(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split(['\\', '/']).filter(|part| !part.is_empty())
}

/// Splits an image into repository and tag. Drops a digest.
fn split_image(image: &str) -> (&str, &str) {
    let image = image.split('@').next().unwrap_or(image);
    match image.rsplit_once(':') {
        // A colon before a slash introduces the registry's port.
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (image, ""),
    }
}

fn versioned(name: &str, tag: &str) -> Option<Image> {
    let (major, rest) = tag.trim_start_matches('v').split_once('.')?;
    let mut digits = rest.split(|letter: char| !letter.is_ascii_digit());
    let minor = digits.next().unwrap_or_default();
    Some(Image {
        name: name.to_owned(),
        version: (major.parse().ok()?, minor.parse().ok()?),
        tag: tag.to_owned(),
    })
}

#[cfg(test)]
mod tests;
