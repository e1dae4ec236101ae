//! What somebody asks about: a node, a claim, a volume or a workload, as kubectl names them.

use crate::index::WorkloadKind;

/// The kinds that can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Node.
    Node,
    /// A `PersistentVolumeClaim`.
    Claim,
    /// A `PersistentVolume`.
    Volume,
    /// A pod, or what makes pods.
    Workload(WorkloadKind),
}

/// The kinds with their names, in the order in which a name alone is looked for.
const KINDS: [(Kind, &[&str]); 11] = [
    (Kind::Node, &["node", "nodes", "no"]),
    (Kind::Workload(WorkloadKind::Pod), &["pod", "pods", "po"]),
    (
        Kind::Claim,
        &["pvc", "persistentvolumeclaim", "persistentvolumeclaims"],
    ),
    (
        Kind::Workload(WorkloadKind::Deployment),
        &["deployment", "deployments", "deploy"],
    ),
    (
        Kind::Workload(WorkloadKind::StatefulSet),
        &["statefulset", "statefulsets", "sts"],
    ),
    (
        Kind::Workload(WorkloadKind::DaemonSet),
        &["daemonset", "daemonsets", "ds"],
    ),
    (
        Kind::Workload(WorkloadKind::ReplicaSet),
        &["replicaset", "replicasets", "rs"],
    ),
    (
        Kind::Workload(WorkloadKind::ReplicationController),
        &["replicationcontroller", "replicationcontrollers", "rc"],
    ),
    (Kind::Workload(WorkloadKind::Job), &["job", "jobs"]),
    (
        Kind::Workload(WorkloadKind::CronJob),
        &["cronjob", "cronjobs", "cj"],
    ),
    (
        Kind::Volume,
        &["pv", "persistentvolume", "persistentvolumes"],
    ),
];

impl Kind {
    /// As objects write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Claim => "PersistentVolumeClaim",
            Self::Volume => "PersistentVolume",
            Self::Workload(kind) => kind.as_str(),
        }
    }

    /// As it is asked about.
    pub(super) fn word(self) -> &'static str {
        let mut kinds = KINDS.iter();
        let found = kinds.find(|(kind, _)| *kind == self);
        found
            .and_then(|(_, names)| names.first().copied())
            .unwrap_or_else(|| self.as_str())
    }
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Its kind; without one every kind may be meant.
    pub kind: Option<Kind>,
    /// Its name.
    pub name: String,
}

/// Words that ask about nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// Another kind.
    #[error("{0:?} is none of the kinds that can be asked about: {list}", list = kinds())]
    UnknownKind(String),
    /// No name, or more than one.
    #[error("write what is asked about as NAME, KIND/NAME or KIND NAME, such as pod/web-0")]
    NoName,
}

impl Question {
    /// Reads `NAME`, `KIND/NAME` or `KIND NAME`. The kind may have its group, as in `deployment.apps/web`.
    pub fn parse(words: &[String]) -> Result<Self, QuestionError> {
        let (kind, name) = match words {
            [word] => match word.split_once('/') {
                Some((kind, name)) => (Some(kind), name),
                None => (None, word.as_str()),
            },
            [kind, name] => (Some(kind.as_str()), name.as_str()),
            _ => return Err(QuestionError::NoName),
        };
        if name.is_empty() || name.contains('/') {
            return Err(QuestionError::NoName);
        }
        Ok(Self {
            kind: kind.map(parse_kind).transpose()?,
            name: name.to_owned(),
        })
    }

    /// The kinds that may be meant, in order.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        match self.kind {
            Some(kind) => vec![kind],
            None => KINDS.iter().map(|(kind, _)| *kind).collect(),
        }
    }
}

fn parse_kind(text: &str) -> Result<Kind, QuestionError> {
    let lower = text.to_lowercase();
    let plain = lower.split('.').next().unwrap_or_default();
    KINDS
        .iter()
        .find(|(_, names)| names.contains(&plain))
        .map(|(kind, _)| *kind)
        .ok_or_else(|| QuestionError::UnknownKind(text.to_owned()))
}

fn kinds() -> String {
    let names = KINDS.iter().filter_map(|(_, names)| names.first().copied());
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Question, QuestionError> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        Question::parse(&words)
    }

    #[test]
    fn objects_are_named_as_kubectl_names_them() {
        let pod = Some(Kind::Workload(WorkloadKind::Pod));
        for (words, kind, name) in [
            (vec!["win-1"], None, "win-1"),
            (vec!["node/win-1"], Some(Kind::Node), "win-1"),
            (vec!["no", "win-1"], Some(Kind::Node), "win-1"),
            (vec!["pod/web-0"], pod, "web-0"),
            (vec!["Pods", "web-0"], pod, "web-0"),
            (vec!["pvc/data"], Some(Kind::Claim), "data"),
            (
                vec!["persistentvolumeclaim/data"],
                Some(Kind::Claim),
                "data",
            ),
            (
                vec!["deployment.apps/web"],
                Some(Kind::Workload(WorkloadKind::Deployment)),
                "web",
            ),
        ] {
            let name = name.to_owned();
            assert_eq!(parse(&words), Ok(Question { kind, name }), "{words:?}");
        }
    }

    #[test]
    fn what_asks_about_nothing_says_how_to_ask() {
        for words in [
            vec![],
            vec![""],
            vec!["pod/"],
            vec!["pod", "a/b"],
            vec!["pod/a/b"],
        ] {
            assert_eq!(parse(&words), Err(QuestionError::NoName), "{words:?}");
        }
        let error = parse(&["volume/x"]).unwrap_err();
        assert!(
            error.to_string().contains("\"volume\"") && error.to_string().contains("pvc"),
            "{error}"
        );
    }
}
