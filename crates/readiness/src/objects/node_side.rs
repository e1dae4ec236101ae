//! Detects a CSI driver's node plugin in a pod's spec.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::MapAccess;
use serde::de::value::MapAccessDeserializer;
use serde_json::Value;

use crate::assess::drivers;
use crate::index::{Image, Name, NodeSide, intern};
use crate::objects::decode;
use crate::objects::lenient::{Lenient, Shown};
use crate::objects::placement::selection;
use crate::objects::pod::PodSpec;

/// The end of the name of the registrar's image. Some mirrors put a prefix before it.
const REGISTRAR_IMAGE: &str = "csi-node-driver-registrar";
/// The folder in which the kubelet looks for registrars.
const REGISTRY_FOLDER: &str = "plugins_registry";
const REGISTRATION_FLAG: &str = "kubelet-registration-path";
const PLUGINS_FOLDER: &str = "plugins";
/// The kubelet's own folder among those of the drivers.
const KUBELETS_FOLDER: &str = "kubernetes.io";
const CSI_PROXY_PREFIX: &str = "csi-proxy-";
const CSI_PROXY_IMAGE: &str = "csi-proxy";
/// The longest result of variable expansion. Anyone who can create a pod controls the variables.
const LONGEST_VALUE: usize = 4096;
const MOST_VARIABLES: usize = 64;

/// The fields of a container that can show a driver.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    image: Lenient<String>,
    command: Lenient<Vec<String>>,
    args: Lenient<Vec<String>>,
    env: Lenient<Vec<Variable>>,
    security_context: Lenient<SecurityContext>,
}

/// The Windows part of a pod's or container's security context.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecurityContext {
    windows_options: Lenient<WindowsOptions>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WindowsOptions {
    host_process: Lenient<Option<bool>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Variable {
    name: Lenient<String>,
    value: Lenient<Option<String>>,
}

impl<'de> Shown<'de> for Container {
    fn of_object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(object))
    }
}

impl<'de> Shown<'de> for SecurityContext {
    fn of_object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(object))
    }
}

impl<'de> Shown<'de> for WindowsOptions {
    fn of_object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(object))
    }
}

impl SecurityContext {
    fn is_host_process(&self) -> bool {
        self.windows_options.0.host_process.0 == Some(true)
    }
}

impl<'de> Shown<'de> for Variable {
    fn of_object<A: MapAccess<'de>>(object: A) -> Result<Self, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(object))
    }
}

/// Detects the node side in a pod's spec; `None` if nothing looks like a driver or uses csi-proxy's pipes.
pub fn node_side(spec: &PodSpec) -> Option<NodeSide> {
    let mut side = NodeSide::default();
    let mut folders = BTreeSet::new();
    let mut mounts_registry = false;
    for volume in spec.volumes.iter().flatten() {
        let Some(host_path) = &volume.host_path else {
            continue;
        };
        if let Some(pipe) = csi_proxy_pipe(&host_path.path) {
            side.csi_proxy_pipes.push(pipe);
            continue;
        }
        let last = parts(&host_path.path).last();
        mounts_registry |= last.is_some_and(|last| last.eq_ignore_ascii_case(REGISTRY_FOLDER));
        let mut parts = parts(&host_path.path);
        if parts.any(|part| part.eq_ignore_ascii_case(PLUGINS_FOLDER))
            && let Some(driver) = parts.next()
            && driver != KUBELETS_FOLDER
        {
            folders.insert(driver.into());
        }
    }
    let mut registered = BTreeSet::new();
    let mut has_registrar = false;
    let mut other_images = Vec::new();
    let mut is_known = false;
    let mut may_use_pipes = false;
    let mut is_host_process = spec.security_context.0.is_host_process();
    for container in spec.init_containers.0.iter().chain(&spec.containers.0) {
        if let Some(path) = registration_path(container) {
            registered.extend(parts(&path).map(Into::into));
        }
        is_host_process |= container.security_context.0.is_host_process();
        let (repository, tag) = split_image(&container.image.0);
        has_registrar |= drivers::image_name(repository).ends_with(REGISTRAR_IMAGE);
        if drivers::image_name(repository) == CSI_PROXY_IMAGE {
            side.csi_proxy.get_or_insert_with(|| tag.to_owned());
            continue;
        }
        let mut known = drivers::of_image(repository).peekable();
        if known.peek().is_some() {
            is_known = true;
            let image = versioned(repository, tag);
            let does_without = |driver| drivers::does_without_csi_proxy(driver, image.as_ref());
            may_use_pipes |= !known.clone().all(does_without);
            side.images.extend(image);
        } else {
            other_images.extend(versioned(repository, tag));
        }
        side.names.extend(known.map(Into::into));
    }
    // Next to a driver known by its image, other images have unrelated versions.
    if !is_known {
        side.images = other_images;
    }
    if has_registrar || is_known {
        // The registrar's path says which driver it is. HostProcess containers see the host's folders without a mount.
        side.registers = if registered.is_empty() {
            folders.union(&side.names).cloned().collect()
        } else {
            registered.clone()
        };
        let is_within_reach = |name: &Name| mounts_registry && folders.contains(name);
        side.registers
            .retain(|name| is_host_process || is_within_reach(name));
    }
    side.names.extend(registered);
    side.names.extend(folders);
    if side.names.is_empty() && side.csi_proxy_pipes.is_empty() && side.csi_proxy.is_none() {
        return None;
    }
    side.may_reach_csi_proxy =
        is_host_process && !side.names.is_empty() && (may_use_pipes || !is_known);
    side.tolerations = spec.tolerations.clone().unwrap_or_default();
    let selection = selection(spec);
    side.selector = (!selection.is_empty()).then(|| intern(&selection.to_text()));
    side.csi_proxy_pipes.sort();
    side.csi_proxy_pipes.dedup();
    Some(side)
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
fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split(['\\', '/']).filter(|part| !part.is_empty())
}

/// Returns the registration path of an undecoded container; `None` if it does not decode or has no such path.
#[must_use]
pub fn registered_path(container: &Value) -> Option<String> {
    let Lenient(container) = decode(container).ok()?;
    registration_path(&container)
}

/// Returns the path that the registrar passes to the kubelet: the value of `--flag=value` or `--flag value`, as separate
/// words or inside a shell command line.
fn registration_path(container: &Container) -> Option<String> {
    let mut words = container.command.0.iter().chain(&container.args.0);
    while let Some(word) = words.next() {
        let Some((before, rest)) = word.split_once(REGISTRATION_FLAG) else {
            continue;
        };
        let is_all = before.bytes().all(|byte| byte == b'-');
        let value = match rest.strip_prefix(['=', ' ']) {
            Some(value) if is_all => value,
            Some(value) => value.split_whitespace().next().unwrap_or_default(),
            None if rest.is_empty() && is_all => words.next()?,
            None => continue,
        };
        let value = value.trim_matches(['"', '\'']);
        let mut expansion = Expansion::default();
        expansion.add(value, &container.env.0);
        return Some(expansion.text);
    }
    None
}

/// A text with `$(NAME)` replaced by the container's variables, as the kubelet does, up to a limit.
#[derive(Default)]
struct Expansion {
    text: String,
    replaced: usize,
}

impl Expansion {
    /// Appends expanded text. A variable's value can refer to the variables defined before it.
    fn add(&mut self, mut text: &str, variables: &[Variable]) {
        while let Some((before, rest)) = text.split_once("$(")
            && let Some((name, after)) = rest.split_once(')')
        {
            self.push(before);
            if self.replaced == MOST_VARIABLES || self.text.len() == LONGEST_VALUE {
                return;
            }
            self.replaced += 1;
            // The last variable with a name applies.
            let found = variables
                .iter()
                .rposition(|variable| variable.name.0 == name);
            let value = found.and_then(|place| Some((place, variables[place].value.0.as_ref()?)));
            match value {
                Some((place, value)) => self.add(value, &variables[..place]),
                None => self.push(&format!("$({name})")),
            }
            text = after;
        }
        self.push(text);
    }

    fn push(&mut self, text: &str) {
        let mut end = text.len().min(LONGEST_VALUE - self.text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.text.push_str(&text[..end]);
    }
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

fn versioned(repository: &str, tag: &str) -> Option<Image> {
    let name = drivers::image_name(repository);
    if drivers::is_sidecar(name) {
        return None;
    }
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
mod tests {
    use serde_json::json;

    use super::*;

    fn side(spec: serde_json::Value) -> Option<NodeSide> {
        node_side(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn variables_are_replaced_as_the_kubelet_does_and_within_bounds() {
        let expand = |text: &str, variables: &[(&str, &str)]| {
            let env: Vec<_> = variables
                .iter()
                .map(|(name, value)| json!({"name": name, "value": value}))
                .collect();
            let flag = format!("--kubelet-registration-path={text}");
            let container = json!({"args": [flag], "env": env});
            registration_path(&serde_json::from_value(container).unwrap()).unwrap()
        };
        assert_eq!(expand("$(A)/$(B)", &[("A", "a"), ("B", "$(A)b")]), "a/ab");
        assert_eq!(expand("$(A)", &[("A", "$(B)"), ("B", "b")]), "$(B)");
        assert_eq!(expand("$(A)", &[("A", "1"), ("A", "2")]), "2");
        assert_eq!(expand("$(A)$(", &[]), "$(A)$(");
        let long = "\u{e9}".repeat(1 << 20);
        let many = "$(A)".repeat(1 << 18);
        assert_eq!(expand(&many, &[("A", &long)]).len(), LONGEST_VALUE);
        assert!(expand(&many, &[("A", "")]).len() <= LONGEST_VALUE);
        let twice: Vec<(String, String)> = (1..80)
            .map(|n| (format!("V{n}"), format!("$(V{})$(V{})", n - 1, n - 1)))
            .collect();
        let mut chain = vec![("V0", "x")];
        chain.extend(twice.iter().map(|(name, value)| (&**name, &**value)));
        assert!(expand("$(V79)", &chain).len() <= LONGEST_VALUE);
    }

    #[test]
    fn a_known_driver_is_compared_and_not_what_stands_beside_it() {
        let names = |images: &[&str]| {
            let containers: Vec<_> = images.iter().map(|image| json!({"image": image})).collect();
            let volume = json!({"name": "v", "hostPath": {"path": "/var/lib/kubelet/plugins/a.b"}});
            let found = side(json!({"containers": containers, "volumes": [volume]})).unwrap();
            let images = found.images.into_iter();
            images.map(|image| image.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["x/log:v1.0", "x/smbplugin:v1.2"]), ["smbplugin"]);
        assert!(names(&["x/log:v1.0", "x/smbplugin@sha256:0"]).is_empty());
        assert_eq!(
            names(&["x/log:v1.0", "x/livenessprobe:v2.0", "x/own:1.2"]),
            ["log", "own"]
        );
        let kubelets = json!({"name": "v", "hostPath": {"path": "/var/lib/kubelet/plugins/kubernetes.io/csi"}});
        assert_eq!(side(json!({"volumes": [kubelets]})), None);
    }

    #[test]
    fn only_pipes_of_csi_proxy_count_and_a_plain_pod_is_no_driver() {
        let volume = |path: &str| json!({"name": "v", "hostPath": {"path": path}});
        let found = side(json!({"volumes": [
            volume(r"\\.\pipe\csi-proxy-disk-v1"), volume(r"\\.\pipe\containerd"),
            volume("//./pipe/csi-proxy-filesystem-v1"), volume(r"\\.\pipe\csi-proxy-disk-v1"),
            volume(r"\\\\.\\pipe\\csi-proxy-smb-v1"), volume(r"C:\pipe\csi-proxy-a"), volume(r".\pipe\csi-proxy-b"),
        ]}));
        assert_eq!(
            found.unwrap().csi_proxy_pipes,
            [
                "csi-proxy-disk-v1",
                "csi-proxy-filesystem-v1",
                "csi-proxy-smb-v1"
            ]
        );
        assert_eq!(
            side(json!({"volumes": [volume(r"C:\data")], "containers": [{"image": "web:1.2"}]})),
            None
        );
    }

    #[test]
    fn a_driver_in_host_process_containers_may_use_the_pipes_unless_it_is_known_not_to() {
        let host = json!({"windowsOptions": {"hostProcess": true}});
        let volume = json!({"name": "v", "hostPath": {"path": r"C:\var\lib\kubelet\plugins\a.b"}});
        for line in [
            "mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi:v1.13.9 true",
            "mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi:v1.14.0 false",
            "mcr.microsoft.com/oss/kubernetes-csi/azuredisk-csi@sha256:00 true",
            "registry.k8s.io/csi-vsphere/driver:v3.5.0 false",
            "registry.k8s.io/csi-vsphere/driver:v3.4.0 true",
            "registry.redhat.io/openshift4/ose-azure-disk-csi-driver-rhel9:v4.20 true",
            "example.org/own:v9.0.0 true",
        ] {
            let (image, may_use) = line.split_once(' ').unwrap();
            let may_use = may_use == "true";
            let spec = |of_pod: &serde_json::Value, of_container: &serde_json::Value| {
                json!({
                    "securityContext": of_pod, "volumes": [volume],
                    "containers": [{"image": image, "securityContext": of_container}],
                })
            };
            let none = json!({});
            for (spec, expected) in [
                (spec(&host, &none), may_use),
                (spec(&none, &host), may_use),
                (
                    spec(&none, &json!({"windowsOptions": {"hostProcess": "no"}})),
                    false,
                ),
                (spec(&json!(7), &none), false),
            ] {
                let side = side(spec.clone()).unwrap();
                assert_eq!(side.may_reach_csi_proxy, expected, "{spec}");
            }
        }
        // A container that is not a driver is ignored.
        let logs = json!({"securityContext": host, "containers": [{"image": "logs:v1.0"}]});
        assert_eq!(side(logs), None);
    }

    #[test]
    fn sidecars_and_images_without_a_version_are_not_compared() {
        for (image, version) in [
            (
                "registry.k8s.io/sig-storage/csi-node-driver-registrar:v2.8.0",
                None,
            ),
            ("gcr.io/x/driver:v3.0.1", Some((3, 0))),
            ("gcr.io/x/driver:latest", None),
            ("gcr.io:443/x/driver", None),
            ("gcr.io/x/driver:v3.0.1@sha256:00", Some((3, 0))),
        ] {
            let (repository, tag) = split_image(image);
            let found = versioned(repository, tag).map(|image| image.version);
            assert_eq!(found, version, "{image}");
        }
    }
}
