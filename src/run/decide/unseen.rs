//! What this process has written and its watches have not brought yet. An answer to a write never goes into the index: what
//! a watch has delivered since may be newer. It only keeps the same from being written again.

use std::collections::BTreeMap;

use crate::api::{WindowsNodeStorageStatus, WindowsStorageStatus};
use crate::index::Cluster;
use crate::status::Written;

/// Statuses as they were written, until the index has them.
#[derive(Default)]
pub struct Unseen {
    /// Of `WindowsStorage`.
    pub settings: Option<Written<WindowsStorageStatus>>,
    /// Of nodes, by their names.
    pub nodes: BTreeMap<String, Written<WindowsNodeStorageStatus>>,
}

impl Unseen {
    /// Forgets what the index has, or something newer.
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
        cluster.settings.come_to("6");
        cluster.node_statuses.come_to("6");
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
        // Of another object: what comes in between has been brought as well.
        cluster.node_statuses.come_to("7");
        unseen.compare(&cluster);
        assert_eq!(names(&unseen), ["win-2"]);
        cluster.settings.come_to("9");
        unseen.compare(&cluster);
        assert!(unseen.settings.is_none());
    }
}
