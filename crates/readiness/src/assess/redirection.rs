//! Decides which in-tree plugins serve their own volumes, today and at a future version.

use crate::assess::plugins::{PLUGINS, Plugin};
use crate::assess::versions::{self, Distribution, Release, TargetError};
use crate::index::{AnyTable, Cluster, LeftOut, Node, ReadFrom};
use crate::objects::OS_ID_LABEL;

/// Returns the API server's version, or for files, the newest kubelet's version.
pub fn kubernetes_version(cluster: &Cluster) -> Option<&str> {
    match cluster.read_from {
        ReadFrom::Api => cluster.api_server_version.as_deref(),
        ReadFrom::Files => {
            let nodes = cluster
                .nodes
                .iter()
                .filter(|(_, node)| node.left_out != Some(LeftOut::Virtual));
            versions::highest(nodes.map(|(_, node)| node.kubelet_version.as_str()))
        }
    }
}

/// Returns the distribution whose versions the cluster uses, as its nodes show.
pub fn distribution(cluster: &Cluster) -> Distribution {
    let mut labels = cluster.nodes.iter().flat_map(|(_, node)| &*node.labels);
    if labels.any(|(key, _)| key == OS_ID_LABEL) {
        Distribution::OpenShift
    } else {
        Distribution::Kubernetes
    }
}

/// Returns the cluster's current version.
pub fn today(cluster: &Cluster) -> Option<Release> {
    let version = versions::parse(kubernetes_version(cluster)?)?;
    (version.major == 1).then(|| distribution(cluster).at(version.minor))
}

/// Rejects a version of another distribution than the cluster's. Accepts any if there are no nodes.
pub fn check_target(cluster: &Cluster, target: Release) -> Result<(), TargetError> {
    let of = distribution(cluster);
    if cluster.nodes.is_empty() || of == target.distribution {
        return Ok(());
    }
    Err(TargetError::OtherDistribution { of, target })
}

/// Returns whether kubelets on Windows nodes redirect the plugin's volumes today, from their CSINodes. One kubelet that
/// redirects them is enough for yes. For no, all must report otherwise and have the cluster's minor version: an older
/// kubelet does not show what one of today's version does. Where the redirection is locked on, they prove nothing.
pub fn noted(cluster: &Cluster, today: Option<Release>, plugin: &Plugin) -> Option<bool> {
    let today = today.map(|today| today.minor);
    if today >= Some(plugin.always_from) {
        return None;
    }
    let noted: Vec<(&Node, &[&Plugin])> = cluster
        .windows_nodes()
        .map(|(name, node)| {
            let csi_node = cluster.csi_node(name);
            (node, csi_node.map_or(&[][..], |it| &it.redirected))
        })
        .collect();
    if noted.iter().any(|(_, noted)| noted.contains(&plugin)) {
        return Some(true);
    }
    // A kubelet that redirects nothing has no annotation; but files may also lack an annotation.
    let denies = |(node, noted): &(&Node, &[&Plugin])| {
        let version = versions::parse(&node.kubelet_version);
        !noted.is_empty() && version.is_some_and(|version| Some(version.minor) == today)
    };
    let all_deny = !noted.is_empty() && noted.iter().all(denies);
    all_deny.then_some(false)
}

/// When volumes of a plugin stop working where their driver is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// They cannot be mounted today.
    Today,
    /// They can be mounted until the upgrade to this release.
    At(Release),
}

/// Returns when the plugin's volumes need their driver: today, or at the upgrade to the target, or without a target, to
/// the first release that does not serve them.
pub fn loss(cluster: &Cluster, today: Release, plugin: &Plugin, target: Option<Release>) -> Loss {
    let noted = noted(cluster, Some(today), plugin);
    if noted.unwrap_or_else(|| plugin.is_redirected_at(today)) {
        return Loss::Today;
    }
    let first = plugin.lost_at(today, noted);
    Loss::At(target.unwrap_or(first))
}

/// Returns the plugins that serve their own volumes at a version. What kubelets already redirect stays redirected; what
/// they do not redirect counts for today's version only.
pub fn served_at(
    cluster: &Cluster,
    today: Option<Release>,
    target: Release,
) -> Vec<&'static Plugin> {
    let minor = today.map(|today| today.minor);
    let is_redirected = |plugin: &Plugin| match noted(cluster, today, plugin) {
        Some(true) if minor <= Some(target.minor) => true,
        Some(false) if minor == Some(target.minor) => false,
        _ => plugin.is_redirected_at(target),
    };
    let plugins = PLUGINS.iter();
    plugins.filter(|plugin| !is_redirected(plugin)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assess::plugins;
    use crate::index::{CsiNode, Node};

    fn of_openshift() -> Node {
        Node {
            labels: [(OS_ID_LABEL.into(), "rhcos".into())].into(),
            ..Node::default()
        }
    }

    /// Returns a cluster whose Windows nodes have these kubelet versions and migrated plugins.
    fn cluster(nodes: &[(&str, Option<&str>)]) -> Cluster {
        let mut cluster = Cluster {
            read_from: ReadFrom::Files,
            ..Cluster::default()
        };
        for (nth, (version, noted)) in nodes.iter().enumerate() {
            let name = format!("win-{nth}");
            let node = Node {
                operating_system: "windows".to_owned(),
                kubelet_version: (*version).to_owned(),
                ..Node::default()
            };
            cluster.nodes.apply(name.as_str().into(), node);
            let noted = noted.iter().flat_map(|noted| noted.split(','));
            let csi_node = CsiNode {
                redirected: noted.filter_map(plugins::by_name).collect(),
                ..CsiNode::default()
            };
            cluster.csi_nodes.apply(name.into(), csi_node);
        }
        cluster
    }

    #[test]
    fn what_kubelets_note_wins_over_the_table_for_today_and_stays_redirected() {
        const DISK: &str = "kubernetes.io/azure-disk";
        const FILE: &str = "kubernetes.io/azure-file";
        let served = |nodes: &[(&str, Option<&str>)], plugin: &str, target: &str| {
            let cluster = cluster(nodes);
            let served = served_at(&cluster, today(&cluster), target.parse().unwrap());
            served.iter().any(|served| served.name == plugin)
        };
        let without = [("v1.24.1", None)];
        let disk = [("v1.24.1", Some(DISK))];
        let file = [("v1.24.1", Some(FILE))];
        let both = [("v1.24.1", Some(DISK)), ("v1.24.1", Some(FILE))];
        let half = [("v1.24.1", Some(FILE)), ("v1.24.1", None)];
        let early = [("v1.23.1", Some(FILE))];
        let mixed = [("v1.24.1", Some(FILE)), ("v1.23.9", Some(FILE))];
        let late = [("v1.27.1", Some(FILE))];
        let locked = [("v1.25.1", Some(FILE))];
        for (nodes, plugin, target, expected) in [
            (&without[..], DISK, "1.24", false),
            (&disk, DISK, "1.24", false),
            (&file, DISK, "1.24", true),
            (&both, DISK, "1.24", false),
            (&half, DISK, "1.24", false),
            // An older kubelet that does not redirect the plugin proves nothing about today's version.
            (&mixed, DISK, "1.24", false),
            (&mixed, FILE, "1.24", false),
            // A gate that is off today proves nothing about the next version.
            (&file, DISK, "1.25", false),
            (&without, FILE, "1.23", true),
            // A gate that is on stays on.
            (&early, FILE, "1.23", false),
            (&file, FILE, "1.24", false),
            (&early, DISK, "1.23", true),
            // For versions before today's, only the table counts.
            (&file, FILE, "1.23", true),
            // A removed plugin serves nothing, and where it is always redirected, what kubelets say proves nothing.
            (&late, DISK, "1.27", false),
            (&locked, DISK, "1.25", false),
        ] {
            assert_eq!(
                served(nodes, plugin, target),
                expected,
                "{nodes:?} {plugin} {target}"
            );
        }
    }

    /// Each line: version of the cluster, what kubelets of two nodes note, plugin, target, and when its volumes are lost.
    const LOSSES: &str = "
unknown - - azure-disk - unknown
1.23 - - azure-disk - today
1.23 - - azure-file - 1.24
1.23 - - azure-file 1.27 1.27
# One kubelet that redirects it is enough. If all redirect others, it is off until it is locked.
1.23 cinder azure-file azure-file - today
1.24 cinder azure-file azure-file - today
1.24 cinder azure-disk azure-file - 1.27
1.26 cinder cinder azure-file - 1.27
1.27 cinder cinder azure-file - today
1.24 cinder cinder azure-disk - 1.25
1.25 cinder cinder azure-disk - today
1.24 cinder - azure-file - today
1.30 azure-disk azure-disk portworx-volume - 1.31
1.31 - - portworx-volume - today
1.32 azure-disk azure-disk portworx-volume - 1.33
1.33 azure-disk azure-disk portworx-volume - today
4.11 - - azure-disk - 4.12
4.12 - - vsphere-volume - 4.13
4.13 - - vsphere-volume - today
4.13 cinder cinder vsphere-volume - 4.14
4.14 cinder cinder vsphere-volume - today
# Without a driver, what counts is that the plugin is gone.
1.30 - - rbd - 1.31
1.31 cinder cinder cephfs - today
1.25 cinder cinder glusterfs - 1.26
";

    #[test]
    fn volumes_are_lost_today_or_at_the_upgrade_that_takes_them_from_their_plugin() {
        let lines = LOSSES.lines().skip(1).filter(|line| !line.starts_with('#'));
        for line in lines {
            let mut words = line.split(' ');
            let [version, first, second, plugin, target, expected] =
                [(); 6].map(|()| words.next().unwrap());
            let name = |plugin: &str| format!("kubernetes.io/{plugin}");
            let version: Option<Release> = version.parse().ok();
            let kubelet = version.map_or_else(String::new, |it| format!("v1.{}.1", it.minor));
            let noted = [first, second].map(|noted| (noted != "-").then(|| name(noted)));
            let nodes = noted.each_ref().map(|noted| (&*kubelet, noted.as_deref()));
            let mut cluster = cluster(&nodes);
            if version.is_some_and(|it| it.distribution == Distribution::OpenShift) {
                cluster.nodes.apply("linux".into(), of_openshift());
            }
            let plugin = plugins::by_name(&name(plugin)).unwrap();
            let found =
                match today(&cluster).map(|it| loss(&cluster, it, plugin, target.parse().ok())) {
                    None => "unknown".to_owned(),
                    Some(Loss::Today) => "today".to_owned(),
                    Some(Loss::At(release)) => release.number(),
                };
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn kubelets_that_lag_behind_the_api_server_prove_only_what_they_redirect() {
        let disk = plugins::by_name("kubernetes.io/azure-disk").unwrap();
        let file = plugins::by_name("kubernetes.io/azure-file").unwrap();
        for (api_server, denied) in [("v1.24.0", Some(false)), ("v1.25.0", None), ("", None)] {
            let mut cluster = cluster(&[("v1.24.1", Some(file.name))]);
            cluster.read_from = ReadFrom::Api;
            cluster.api_server_version = Some(api_server.to_owned());
            assert_eq!(
                noted(&cluster, today(&cluster), disk),
                denied,
                "{api_server}"
            );
            assert_eq!(
                noted(&cluster, today(&cluster), file),
                Some(true),
                "{api_server}"
            );
        }
    }

    #[test]
    fn a_version_of_another_distribution_is_refused_where_a_node_shows_which_it_is() {
        let kubernetes: Release = "1.27".parse().unwrap();
        let openshift: Release = "4.14".parse().unwrap();
        let nobody = Cluster::default();
        assert_eq!(check_target(&nobody, kubernetes), Ok(()));
        assert_eq!(check_target(&nobody, openshift), Ok(()));
        let mut cluster = cluster(&[("v1.26.1", None)]);
        assert_eq!(check_target(&cluster, kubernetes), Ok(()));
        let error = check_target(&cluster, openshift).unwrap_err().to_string();
        assert!(
            error.contains("say 1.27 for OpenShift 4.14: known are Kubernetes 1.23 to"),
            "{error}"
        );
        cluster.nodes.apply("linux".into(), of_openshift());
        assert_eq!(check_target(&cluster, openshift), Ok(()));
        let error = check_target(&cluster, kubernetes).unwrap_err().to_string();
        assert!(
            error.contains("say 4.14 for Kubernetes 1.27: known are OpenShift 4.10 to"),
            "{error}"
        );
        for (target, said) in [
            (
                "1.36",
                "OpenShift, so say 4.23 or 5.0 for Kubernetes 1.36: ",
            ),
            // No OpenShift with it is known.
            (
                "1.37",
                "of OpenShift: known are OpenShift 4.10 to 4.23 and 5.0",
            ),
        ] {
            let error = check_target(&cluster, target.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
