//! Reads a must-gather's record: the kinds that it contains, and whether they are complete.

use std::collections::BTreeMap;

use kube::Resource;
use serde::{Deserialize, Serialize};

use crate::api::{GROUP, WindowsStorage};
use crate::index::{Cluster, ReadFrom};
use crate::objects::kinds::group;
use crate::objects::{Kind, cluster_kinds};

/// The record in a must-gather. With it, the files are judged like the API server that they came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gathered {
    api_version: String,
    kind: String,
    /// The API server's version.
    pub kubernetes_version: Option<String>,
    /// The kinds that the must-gather requested.
    pub kinds: Vec<GatheredKind>,
}

/// How a kind was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatheredKind {
    /// The kind's apiVersion.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// Whether the list was read to the end.
    pub complete: bool,
    /// The number of objects in the files.
    pub objects: u64,
    /// Why the kind, or one of its objects, could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Gathered {
    /// The record's kind.
    pub const KIND: &'static str = "MustGather";

    /// Creates a record.
    pub fn new(kubernetes_version: Option<String>, kinds: Vec<GatheredKind>) -> Self {
        Self {
            api_version: WindowsStorage::api_version(&()).into_owned(),
            kind: Self::KIND.to_owned(),
            kubernetes_version,
            kinds,
        }
    }

    /// Whether an object of this kind is a record.
    pub fn is_one(api_version: &str, kind: &str) -> bool {
        kind == Self::KIND && group(api_version) == GROUP
    }

    /// Returns whether it is complete in a kind of which so many objects were found, and what was or is wrong with that.
    fn problem(&self, wanted: &Kind, found: u64) -> (bool, Option<String>) {
        let kind = self.kinds.iter().find(|kind| {
            kind.kind == wanted.name() && group(&kind.api_version) == wanted.resource.group
        });
        let Some(kind) = kind else {
            let problem = "the must-gather does not have it".to_owned();
            return (false, Some(problem));
        };
        let lost = (found < kind.objects).then(|| {
            format!(
                "the must-gather had {} objects of this kind, and {found} are left of them; give all of its files",
                kind.objects
            )
        });
        let is_complete = kind.complete && lost.is_none();
        (is_complete, kind.problem.clone().or(lost))
    }
}

/// Marks the tables as complete if the records say so and all the objects that they count were found.
pub fn settle(records: &[Gathered], counts: &BTreeMap<&'static str, u64>, cluster: &mut Cluster) {
    cluster.read_from = ReadFrom::Api;
    let mut latest = records.iter().rev();
    cluster.api_server_version = latest.find_map(|record| record.kubernetes_version.clone());
    for kind in cluster_kinds() {
        let found = counts.get(kind.name()).copied().unwrap_or_default();
        let table = kind.table_mut(cluster);
        let mut said = records.iter().map(|record| record.problem(kind, found));
        if said.clone().all(|(is_complete, _)| is_complete) {
            table.finish();
        }
        if let Some(problem) = said.find_map(|(_, problem)| problem) {
            table.fail(problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::assess::assess_once;
    use crate::assess::report::{ReadinessReport, Upgradeable};
    use crate::objects::Loader;

    fn node() -> Value {
        json!({"metadata": {"name": "win-1", "labels": {"kubernetes.io/os": "windows"}}, "status": {"nodeInfo": {"kubeletVersion": "v1.29.0"}}})
    }

    /// Returns a record of complete kinds, empty except for one node, after applying `change`.
    fn record(change: impl Fn(&mut GatheredKind)) -> Gathered {
        let kinds = cluster_kinds().map(|kind| {
            let mut kind = GatheredKind {
                api_version: kind.resource.api_version.clone(),
                kind: kind.name().to_owned(),
                complete: true,
                objects: u64::from(kind.name() == "Node"),
                problem: None,
            };
            change(&mut kind);
            kind
        });
        Gathered::new(Some("v1.30.1".to_owned()), kinds.collect())
    }

    fn judged(records: &[Gathered]) -> ReadinessReport {
        let mut loader = Loader::default();
        loader.put("v1", "Node", &node()).unwrap();
        for record in records {
            let value = serde_json::to_value(record).unwrap();
            loader
                .put(&record.api_version, Gathered::KIND, &value)
                .unwrap();
        }
        assess_once(&loader.finish(), None)
    }

    #[test]
    fn a_whole_record_makes_files_as_good_as_the_api_server() {
        let report = judged(&[record(|_| ())]);
        assert_eq!(report.verdict.upgradeable, Upgradeable::True);
        let version = |report: ReadinessReport| report.cluster.kubernetes_version.unwrap();
        assert_eq!(version(report), "v1.30.1");
        assert_eq!(version(judged(&[])), "v1.29.0");
    }

    #[test]
    fn what_could_not_be_read_then_is_not_known_now() {
        let report = judged(&[record(|kind| {
            if kind.kind == "Pod" {
                kind.complete = false;
                kind.problem = Some("reading it is forbidden: no".to_owned());
            }
        })]);
        assert_eq!(report.verdict.upgradeable, Upgradeable::False);
        let message = &report.verdict.message;
        assert!(
            message.contains("Pod (reading it is forbidden: no)"),
            "{message}"
        );
    }

    #[test]
    fn files_that_were_taken_out_of_it_are_missed() {
        let taken_out = record(|kind| kind.objects += u64::from(kind.kind == "CSINode"));
        for records in [vec![taken_out.clone()], vec![record(|_| ()), taken_out]] {
            let report = judged(&records);
            assert_eq!(report.verdict.upgradeable, Upgradeable::False);
            let message = &report.verdict.message;
            assert!(
                message.contains("CSINode (the must-gather had 1"),
                "{message}"
            );
        }
        let mut short = record(|_| ());
        short.kinds.retain(|kind| kind.kind != "StatefulSet");
        let message = judged(&[short]).verdict.message;
        assert!(
            message.contains("StatefulSet (the must-gather does not have it)"),
            "{message}"
        );
    }
}
