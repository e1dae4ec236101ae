//! Finds the paths of a pod's spec with which a driver cannot register on a Windows node.

use std::collections::BTreeSet;

use super::flags::is_open;
use super::parts;

/// The drive that Windows assumes where a path has none.
const DRIVE: &str = "C:";
const PLUGINS: &str = "/plugins/";
const KUBELETS: &str = "/plugins/kubernetes.io/";
const REGISTRY: &str = "/plugins_registry/";
/// How many wrong paths are kept.
const NAMED: usize = 5;

/// A path as it is written, and as it compares: with a drive, in lower case, with a slash after each part.
#[derive(Clone)]
struct Path<'a>(&'a str, String);

impl<'a> Path<'a> {
    /// `None` if a part of it is not known.
    fn of(path: &'a str) -> Option<Self> {
        let has_drive = parts(path).next().is_some_and(|first| first.ends_with(':'));
        let drive = (!has_drive).then_some(DRIVE);
        let parts = drive.into_iter().chain(parts(path));
        let folded = parts.map(|part| part.to_ascii_lowercase() + "/");
        (!is_open(path)).then(|| Self(path, folded.collect()))
    }

    /// Returns the path of the kubelet's folder, if this one is in a folder of it.
    fn root(&self, folder: &str) -> Option<&str> {
        Some(self.1.split_once(folder)?.0)
    }

    /// Whether it is, or is in, the folder with those of the drivers, and not in the kubelet's own one.
    fn is_plugins(&self) -> bool {
        self.1.contains(PLUGINS) && !self.1.contains(KUBELETS)
    }

    fn is_registry(&self) -> bool {
        self.1.ends_with(REGISTRY)
    }
}

/// Returns the paths of which all parts are known.
fn known<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<Path<'a>> {
    paths.filter_map(Path::of).collect()
}

/// Returns what is wrong with the sockets that the kubelet is told of, and with the folder in which it looks for registrars.
/// HostProcess containers see all folders of the host, and say by a flag where that folder is: in `registries`.
pub(super) fn wrong_paths(
    sockets: &BTreeSet<String>,
    mounts: &[&str],
    registries: Option<&BTreeSet<String>>,
) -> Vec<String> {
    let sockets = known(sockets.iter().map(String::as_str));
    let mounted = known(mounts.iter().copied());
    let (plugins, others): (Vec<_>, Vec<_>) = mounted.iter().cloned().partition(Path::is_plugins);
    let folders = if plugins.is_empty() {
        &others
    } else {
        &plugins
    };
    let mut wrong = Vec::new();
    for Path(text, socket) in &sockets {
        if text.starts_with(['\\', '/']) {
            wrong.push(format!(
                "--kubelet-registration-path {text} has no drive letter, so that the kubelet cannot reach the driver"
            ));
        }
        let is_within = |folder: &Path<'_>| socket.starts_with(&folder.1);
        if registries.is_none() && !folders.iter().any(is_within) {
            wrong.push(format!(
                "--kubelet-registration-path {text} is in no folder that the pods mount for the driver"
            ));
        }
    }
    let of_plugins = plugins.iter().filter(|_| registries.is_none());
    let inside = sockets.iter().chain(of_plugins);
    let roots: BTreeSet<&str> = inside.filter_map(|path| path.root(PLUGINS)).collect();
    let said = known(registries.into_iter().flatten().map(String::as_str));
    let all = if registries.is_some() {
        &said
    } else {
        &mounted
    };
    let registry: Vec<_> = all.iter().filter(|path| path.is_registry()).collect();
    let is_beside = |path: &&Path<'_>| path.root(REGISTRY).is_some_and(|it| roots.contains(it));
    let elsewhere = if registry.is_empty() {
        said.first()
            .filter(|_| !mounted.iter().any(Path::is_registry))
    } else {
        registry
            .first()
            .copied()
            .filter(|_| !registry.iter().any(is_beside))
    };
    if let Some(Path(text, _)) = elsewhere.filter(|_| !roots.is_empty()) {
        wrong.push(format!(
            "{text} is not beside the driver's folder, and both must be in the kubelet's --root-dir"
        ));
    }
    wrong.truncate(NAMED);
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line: sockets, mounts, the registries of HostProcess containers or `-`, and what is wrong.
    const PATHS: &str = r"
C:\k\plugins\a.b\csi.sock | C:\k\plugins\a.b C:\k\plugins_registry | - |
C:\\k\\plugins\\a.b\\csi.sock | C:\k\plugins\a.b\ C:\k\plugins_registry\ | - |
c:/K/Plugins/A.b/csi.sock | C:\k\plugins\a.b C:\k\plugins_registry | - |
C:\k\plugins\a.b\csi.sock | \k\plugins\a.b \k\plugins_registry \k\plugins\kubernetes.io\csi | - |
C:\k\plugins\a.b\csi.sock | C:\k\plugins C:\k\plugins_registry | - |
C:\k\plugins\a.b\csi.sock | C:\k | - |
$(SOCKET) | C:\k\plugins\a.b C:\k\plugins_registry | - |
C:\k\$(X)\csi.sock | C:\k\plugins\a.b | - |
| C:\k\plugins\a.b D:\k\plugins_registry | - | OtherRoot
C:\k\plugins\a.b\csi.sock | | C:\k\plugins_registry\ |
C:\k\plugins\a.b\csi.sock | C:\x\plugins\y | |
\k\plugins\a.b\csi.sock | C:\k\plugins\a.b | - | NoDrive
\\k\\plugins\\a.b\\csi.sock | | C:\k\plugins_registry | NoDrive
/k/plugins/a.b/csi.sock | C:\k\plugins\a.b | - | NoDrive
C:\k\plugins\a.b\csi.sock | C:\k C:\k\plugins\a.c | - | NotMounted
C:\k\plugins\a.b\csi.sock | C:\k C:\k\plugins\a | - | NotMounted
C:\csi\csi.sock | C:\k C:\k\plugins\a.b\ | - | NotMounted
C:\k\plugins\a.b\csi.sock | C:\logs | - | NotMounted
C:\k\plugins\a.b\csi.sock | D:\k\plugins\a.b | - | NotMounted
C:\k\plugins\a.b\csi.sock | C:\k\plugins\a.b D:\k\plugins_registry | - | OtherRoot
D:\k\plugins\a.b\csi.sock | D:\k\plugins\a.b \k\plugins_registry | - | OtherRoot
D:\k\plugins\a.b\csi.sock | | C:\k\plugins_registry | OtherRoot
C:\k\plugins\a.b\csi.sock | | C:\registration | OtherRoot
C:\k\plugins\a.b\csi.sock | C:\k\plugins_registry | C:\registration |
";

    #[test]
    fn a_path_is_wrong_with_which_the_kubelet_cannot_reach_the_driver() {
        for line in PATHS.lines().skip(1) {
            let [sockets, mounts, registries, expected] =
                line.split('|').map(str::trim).collect::<Vec<_>>()[..]
            else {
                unreachable!("{line}");
            };
            let words = |text: &str| -> BTreeSet<String> {
                text.split_whitespace().map(str::to_owned).collect()
            };
            let registries = (registries != "-").then(|| words(registries));
            let mounts: Vec<&str> = mounts.split_whitespace().collect();
            let wrong = wrong_paths(&words(sockets), &mounts, registries.as_ref());
            assert_eq!(wrong.is_empty(), expected.is_empty(), "{line}: {wrong:?}");
            let words = match expected {
                "" => continue,
                "NoDrive" => "has no drive letter",
                "NotMounted" => "is in no folder that the pods mount",
                _ => "is not beside the driver's folder",
            };
            let [wrong] = &wrong[..] else {
                panic!("{line}: {wrong:?}");
            };
            assert!(wrong.contains(words), "{line}: {wrong}");
        }
    }
}
