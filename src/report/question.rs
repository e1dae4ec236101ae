//! Parses the object that the user asks about, named as in kubectl: a node, claim, volume or workload.

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
    /// A pod, or an object that creates pods.
    Workload(WorkloadKind),
}

/// The kinds with kubectl's short names, in the order in which a name without a kind is looked up.
const KINDS: [(Kind, &str); 11] = [
    (Kind::Node, "no"),
    (Kind::Workload(WorkloadKind::Pod), "po"),
    (Kind::Claim, "pvc"),
    (Kind::Workload(WorkloadKind::Deployment), "deploy"),
    (Kind::Workload(WorkloadKind::StatefulSet), "sts"),
    (Kind::Workload(WorkloadKind::DaemonSet), "ds"),
    (Kind::Workload(WorkloadKind::ReplicaSet), "rs"),
    (Kind::Workload(WorkloadKind::ReplicationController), "rc"),
    (Kind::Workload(WorkloadKind::Job), "job"),
    (Kind::Workload(WorkloadKind::CronJob), "cj"),
    (Kind::Volume, "pv"),
];

impl Kind {
    /// The kind as written in objects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::Claim => "PersistentVolumeClaim",
            Self::Volume => "PersistentVolume",
            Self::Workload(kind) => kind.as_str(),
        }
    }

    /// The kind as the user writes it.
    pub(super) fn word(self) -> String {
        match self {
            Self::Claim => "pvc".to_owned(),
            Self::Volume => "pv".to_owned(),
            Self::Node | Self::Workload(_) => self.as_str().to_lowercase(),
        }
    }
}

/// The object that the user asks about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The kind; `None` means any kind.
    pub kind: Option<Kind>,
    /// The name.
    pub name: String,
}

/// Arguments that do not name an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// The kind is not supported.
    #[error("{0:?} is not a kind that why can explain: {list}", list = kinds())]
    UnknownKind(String),
    /// There is no name, or more than one.
    #[error("name an object as NAME, KIND/NAME or KIND NAME, such as pod/web-0")]
    NoName,
}

impl Question {
    /// Parses `NAME`, `KIND/NAME` or `KIND NAME`. The kind may include its group, as in `deployment.apps/web`.
    pub fn parse(words: &[String]) -> Result<Self, QuestionError> {
        let words = words.join("/");
        let (kind, name) = match words.split('/').collect::<Vec<_>>()[..] {
            [name] => (None, name),
            [kind, name] => (Some(kind), name),
            _ => return Err(QuestionError::NoName),
        };
        if name.is_empty() {
            return Err(QuestionError::NoName);
        }
        Ok(Self {
            kind: kind.map(parse_kind).transpose()?,
            name: name.to_owned(),
        })
    }

    /// Returns the kinds to look up, in order.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        let all = || KINDS.map(|(kind, _)| kind).to_vec();
        self.kind.map_or_else(all, |kind| vec![kind])
    }
}

fn parse_kind(text: &str) -> Result<Kind, QuestionError> {
    let lower = text.to_lowercase();
    let plain = lower.split('.').next().unwrap_or_default();
    let is_it = |(kind, short): &&(Kind, &str)| {
        let singular = kind.as_str().to_lowercase();
        plain == *short || plain.strip_suffix('s').unwrap_or(plain) == singular
    };
    let found = KINDS.iter().find(is_it).map(|(kind, _)| *kind);
    found.ok_or_else(|| QuestionError::UnknownKind(text.to_owned()))
}

fn kinds() -> String {
    KINDS.map(|(kind, _)| kind.word()).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a line of words.
    fn parse(line: &str) -> Result<Question, QuestionError> {
        Question::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn objects_are_named_as_kubectl_names_them() {
        let pod = Some(Kind::Workload(WorkloadKind::Pod));
        let deployment = Some(Kind::Workload(WorkloadKind::Deployment));
        for (line, kind, name) in [
            ("win-1", None, "win-1"),
            ("node/win-1", Some(Kind::Node), "win-1"),
            ("no win-1", Some(Kind::Node), "win-1"),
            ("pod/web-0", pod, "web-0"),
            ("Pods web-0", pod, "web-0"),
            ("pvc/data", Some(Kind::Claim), "data"),
            ("persistentvolumeclaim/data", Some(Kind::Claim), "data"),
            ("deployment.apps/web", deployment, "web"),
        ] {
            let name = name.to_owned();
            assert_eq!(parse(line), Ok(Question { kind, name }), "{line}");
        }
    }

    #[test]
    fn what_asks_about_nothing_says_how_to_ask() {
        assert_eq!(Question::parse(&[]), Err(QuestionError::NoName));
        for line in ["", "pod/", "pod a/b", "pod/a/b"] {
            assert_eq!(parse(line), Err(QuestionError::NoName), "{line}");
        }
        let error = parse("volume/x").unwrap_err().to_string();
        assert!(
            error.contains("\"volume\"") && error.contains("pvc"),
            "{error}"
        );
    }
}
