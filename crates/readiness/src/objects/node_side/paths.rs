//! Finds the paths of a pod's spec with which a driver cannot register on a Windows node.

use std::collections::BTreeSet;

use super::flags::is_open;
use super::{KUBELETS_FOLDER, PLUGINS_FOLDER, REGISTRY_FOLDER, parts};

/// The drive that Windows assumes where a path has none.
const DRIVE: &str = "C:";
/// How many wrong paths are kept.
const NAMED: usize = 5;

/// A Windows path with a drive.
#[derive(Clone)]
struct Path<'a>(Vec<&'a str>);

impl<'a> Path<'a> {
    /// `None` if a part of it is not known.
    fn of(path: &'a str) -> Option<Self> {
        let mut parts: Vec<&str> = parts(path).collect();
        if !parts.first().is_some_and(|first| first.ends_with(':')) {
            parts.insert(0, DRIVE);
        }
        (!is_open(path)).then_some(Self(parts))
    }

    fn is_within(&self, folder: &Self) -> bool {
        let mut pairs = self.0.iter().zip(&folder.0);
        self.0.len() >= folder.0.len() && pairs.all(|(one, other)| one.eq_ignore_ascii_case(other))
    }

    /// Returns the path of the kubelet's folder, and what comes after a folder in it.
    fn split(&self, folder: &str) -> Option<(&[&'a str], &[&'a str])> {
        let mut parts = self.0.iter();
        let place = parts.position(|part| part.eq_ignore_ascii_case(folder))?;
        Some((&self.0[..place], &self.0[place + 1..]))
    }

    /// Whether it is, or is in, the folder with those of the drivers, and not in the kubelet's own one.
    fn is_plugins(&self) -> bool {
        let inside = self.split(PLUGINS_FOLDER).map(|(_, inside)| inside);
        inside.is_some_and(|inside| inside.first() != Some(&KUBELETS_FOLDER))
    }
}

/// Returns what is wrong with the sockets that the kubelet is told of, and with the folder in which it looks for registrars.
/// HostProcess containers see all folders of the host, and say by a flag where that folder is: in `registries`.
pub(super) fn wrong_paths(
    sockets: &BTreeSet<String>,
    mounts: &[&str],
    registries: Option<&BTreeSet<String>>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let other_root = |path: &str, root: &[&str]| {
        let right = [root, &[REGISTRY_FOLDER]].concat().join(r"\");
        format!(
            "{path} is not beside the driver's folder, and both must be in the kubelet's --root-dir; it must be {right}, or the \
             driver's folder must be moved"
        )
    };
    let read = |path| Some((path, Path::of(path)?));
    let sockets: Vec<_> = sockets
        .iter()
        .filter_map(|path| read(path.as_str()))
        .collect();
    let mounted: Vec<_> = mounts.iter().filter_map(|path| read(path)).collect();
    let (plugins, others): (Vec<_>, Vec<_>) =
        mounted.iter().partition(|(_, path)| path.is_plugins());
    for (text, socket) in &sockets {
        if text.starts_with(['\\', '/']) {
            let right = socket.0.join(r"\");
            wrong.push(format!(
                "--kubelet-registration-path {text} has no drive letter, so that the kubelet cannot reach the driver; it must be {right}"
            ));
        }
        let mut folders = if plugins.is_empty() {
            others.iter()
        } else {
            plugins.iter()
        };
        if registries.is_none() && !folders.any(|(_, folder)| socket.is_within(folder)) {
            let folder = plugins
                .first()
                .map_or(&socket.0[..socket.0.len() - 1], |(_, folder)| &folder.0);
            let right = [folder, &socket.0[socket.0.len() - 1..]]
                .concat()
                .join(r"\");
            wrong.push(format!(
                "--kubelet-registration-path {text} is in no folder that the pods mount for the driver; it must be {right}, or that \
                 folder must be mounted"
            ));
        }
    }
    let folders = plugins.iter().filter(|_| registries.is_none()).copied();
    let mut roots = sockets
        .iter()
        .chain(folders)
        .filter_map(|(_, path)| Some(path.split(PLUGINS_FOLDER)?.0));
    let is_registry = |path: &Path<'_>| {
        path.split(REGISTRY_FOLDER)
            .is_some_and(|(_, inside)| inside.is_empty())
    };
    let said: Vec<_> = registries
        .into_iter()
        .flatten()
        .filter_map(|path| read(path.as_str()))
        .collect();
    let all = if registries.is_some() {
        &said
    } else {
        &mounted
    };
    let registry: Vec<_> = all.iter().filter(|(_, path)| is_registry(path)).collect();
    let root = roots.next();
    let is_elsewhere = registry.is_empty() && !mounted.iter().any(|(_, path)| is_registry(path));
    if let (Some(root), Some((text, _))) = (root, said.first().filter(|_| is_elsewhere)) {
        wrong.push(other_root(text, root));
    }
    if let (Some(root), Some((text, _))) = (root, registry.first()) {
        let folded = |parts: &[&str]| parts.join(r"\").to_ascii_lowercase();
        let beside = registry
            .iter()
            .map(|(_, path)| folded(&path.0[..path.0.len() - 1]));
        let beside: BTreeSet<String> = beside.collect();
        let is_in = |root: &[&str]| beside.contains(&folded(root));
        if !is_in(root) && !roots.any(is_in) {
            wrong.push(other_root(text, root));
        }
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
| C:\k\plugins\a.b D:\k\plugins_registry | - | OtherRoot C:\k\plugins_registry
C:\k\plugins\a.b\csi.sock | | C:\k\plugins_registry\ |
C:\k\plugins\a.b\csi.sock | C:\x\plugins\y | |
\k\plugins\a.b\csi.sock | C:\k\plugins\a.b | - | NoDrive C:\k\plugins\a.b\csi.sock
\\k\\plugins\\a.b\\csi.sock | | C:\k\plugins_registry | NoDrive C:\k\plugins\a.b\csi.sock
/k/plugins/a.b/csi.sock | C:\k\plugins\a.b | - | NoDrive C:\k\plugins\a.b\csi.sock
C:\k\plugins\a.b\csi.sock | C:\k C:\k\plugins\a.c | - | NotMounted C:\k\plugins\a.c\csi.sock
C:\k\plugins\a.b\csi.sock | C:\k C:\k\plugins\a | - | NotMounted C:\k\plugins\a\csi.sock
C:\csi\csi.sock | C:\k C:\k\plugins\a.b\ | - | NotMounted C:\k\plugins\a.b\csi.sock
C:\k\plugins\a.b\csi.sock | C:\logs | - | NotMounted C:\k\plugins\a.b\csi.sock
C:\k\plugins\a.b\csi.sock | D:\k\plugins\a.b | - | NotMounted D:\k\plugins\a.b\csi.sock
C:\k\plugins\a.b\csi.sock | C:\k\plugins\a.b D:\k\plugins_registry | - | OtherRoot C:\k\plugins_registry
D:\k\plugins\a.b\csi.sock | D:\k\plugins\a.b \k\plugins_registry | - | OtherRoot D:\k\plugins_registry
D:\k\plugins\a.b\csi.sock | | C:\k\plugins_registry | OtherRoot D:\k\plugins_registry
C:\k\plugins\a.b\csi.sock | | C:\registration | OtherRoot C:\k\plugins_registry
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
            if let Some((fault, right)) = expected.split_once(' ') {
                let words = match fault {
                    "NoDrive" => "has no drive letter",
                    "NotMounted" => "is in no folder that the pods mount",
                    _ => "is not beside the driver's folder",
                };
                let [wrong] = &wrong[..] else {
                    panic!("{line}: {wrong:?}");
                };
                assert!(wrong.contains(words), "{line}: {wrong}");
                assert!(
                    wrong.contains(&format!("it must be {right}, or "))
                        || wrong.ends_with(&format!("it must be {right}")),
                    "{line}: {wrong}"
                );
            }
        }
    }
}
