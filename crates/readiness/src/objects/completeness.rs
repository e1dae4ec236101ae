//! Which of the kinds that the verdict depends on were read, and when.

use crate::index::{AnyTable, Cluster, Listed, ReadFrom, Unread};
use crate::objects::KINDS;

impl Cluster {
    /// Returns the kinds and files that the verdict depends on and that have not been read completely.
    pub fn unread(&self) -> Vec<Unread> {
        let mut unread = self.unread_where(|table| !table.is_complete());
        // Workloads run on nodes: a list without any says nothing about a cluster.
        if self.nodes.is_complete() && self.nodes.is_empty() {
            let why = match self.read_from {
                ReadFrom::Api => {
                    "the cluster has none at all, and what runs on which system cannot be told"
                }
                ReadFrom::Files => {
                    "the input has none; add the output of kubectl get nodes -o yaml"
                }
            };
            unread.push(Unread::new("Node", self.nodes.problem().unwrap_or(why)));
        }
        let input = self.unread_input.as_ref();
        unread.extend(input.map(|problem| Unread::new("a part of the files", problem)));
        unread
    }

    /// Returns the kinds that the verdict depends on and that were read once but currently cannot be read.
    pub fn stale(&self) -> Vec<Unread> {
        self.unread_where(|table| table.is_complete() && table.problem().is_some())
    }

    /// Returns when each kind that the verdict depends on was last listed.
    pub fn lists(&self) -> Vec<(&'static str, Option<Listed>)> {
        let kinds = KINDS.iter().filter(|kind| kind.decides);
        kinds
            .map(|kind| (kind.name(), kind.table(self).listed()))
            .collect()
    }

    /// Returns when all kinds that the verdict depends on were last listed; nothing if one never was.
    pub fn listed(&self) -> Option<Listed> {
        let lists: Option<Vec<Listed>> = self.lists().into_iter().map(|(_, list)| list).collect();
        let lists = lists?;
        Some(Listed {
            begun: lists.iter().map(|list| list.begun).min()?,
            ended: lists.iter().map(|list| list.ended).max()?,
        })
    }

    fn unread_where(&self, is_unread: impl Fn(&dyn AnyTable) -> bool) -> Vec<Unread> {
        let kinds = KINDS.iter().filter(|kind| kind.decides);
        kinds
            .map(|kind| (kind.name(), kind.table(self)))
            .filter(|(_, table)| is_unread(*table))
            .map(|(kind, table)| Unread {
                kind,
                problem: table.problem().map(str::to_owned),
            })
            .collect()
    }
}
