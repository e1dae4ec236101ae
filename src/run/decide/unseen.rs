//! Keeps what this process has written until its watches deliver it. The answer to a write never goes into the index,
//! because a watch may have delivered something newer since. It only prevents writing the same again.

use std::collections::BTreeMap;

use crate::api::{WindowsNodeStorageStatus, WindowsStorageStatus};
use crate::index::Cluster;
use crate::status::Written;

/// Written statuses that are not in the index yet.
#[derive(Default)]
pub struct Unseen {
    /// The status of `WindowsStorage`.
    pub settings: Option<Written<WindowsStorageStatus>>,
    /// Statuses of nodes, by name.
    pub nodes: BTreeMap<String, Written<WindowsNodeStorageStatus>>,
}

impl Unseen {
    /// Forgets statuses that the index has, in this or a newer version.
    pub fn compare(&mut self, cluster: &Cluster) {
        let settings = self.settings.take();
        self.settings = settings.filter(|written| written.version > cluster.settings.version());
        let version = cluster.node_statuses.version();
        self.nodes.retain(|_, written| written.version > version);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::AnyTable;

    #[test]
    fn what_was_written_is_remembered_until_the_watch_has_come_to_it() {
        let mut cluster = Cluster::default();
        cluster.settings.come_to(6);
        cluster.node_statuses.come_to(6);
        let mut unseen = Unseen {
            settings: Some(Written::new(Some("7"), WindowsStorageStatus::default())),
            nodes: [("win-1", Some("7")), ("win-2", Some("8")), ("win-3", None)]
                .map(|(name, version)| {
                    let status = WindowsNodeStorageStatus::default();
                    (name.to_owned(), Written::new(version, status))
                })
                .into(),
        };
        unseen.compare(&cluster);
        assert!(unseen.settings.is_some());
        let names = |unseen: &Unseen| unseen.nodes.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&unseen), ["win-1", "win-2"], "a version is needed");
        // A version of another object: the watch has delivered everything before it.
        cluster.node_statuses.come_to(7);
        unseen.compare(&cluster);
        assert_eq!(names(&unseen), ["win-2"]);
        cluster.settings.come_to(9);
        unseen.compare(&cluster);
        assert!(unseen.settings.is_none());
    }
}
