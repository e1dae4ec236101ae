//! Reads a cluster from files.

use crate::files::{self, Outcome, Progress, ReadErrors, Source};
use crate::index::Cluster;
use crate::objects::{Gathered, Loader, cluster_kinds, kind};
use crate::report::count;

/// The kinds that the verdict depends on and that most clusters with Windows workloads have.
const EXPECTED_KINDS: [&str; 10] = [
    "CSINode",
    "Pod",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "DaemonSet",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "Namespace",
];

/// A cluster read from files.
#[derive(Debug)]
pub struct Input {
    /// The cluster.
    pub cluster: Cluster,
    /// What was read, as a sentence.
    pub summary: String,
    /// Expected kinds of which the files have no object.
    pub not_given: Vec<&'static str>,
    /// Relevant input that could not be read. It makes the verdict `ReadinessUnknown`.
    pub unread: ReadErrors,
    /// Files that do not parse and contain nothing relevant.
    pub left_out: ReadErrors,
}

/// Why the files do not give a cluster.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Some files are missing or unreadable, or none of the readable content is relevant.
    #[error(transparent)]
    Unreadable(#[from] ReadErrors),
    /// No object has a kind that is used.
    #[error(
        "no objects to base a verdict on: {0}; give a must-gather, or the output of kubectl get -A -o yaml for \
         nodes, csinodes, csidrivers, pods, persistentvolumeclaims, persistentvolumes, storageclasses and workloads"
    )]
    Nothing(String),
}

/// Reads a cluster from files.
pub fn from_files(
    sources: &[Source],
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Input, InputError> {
    let mut loader = Loader::default();
    let is_wanted = |api_version: Option<&str>, name: &str| match api_version {
        Some(version) => kind(version, name).is_some() || Gathered::is_one(version, name),
        None => name == Gathered::KIND || cluster_kinds().any(|kind| kind.name() == name),
    };
    let mut wrong = false;
    let outcome = files::read(sources, &is_wanted, progress, &mut |object| {
        let put = loader.put(&object.api_version, &object.kind, &object.value);
        wrong |= put.is_err();
        put.map_err(|error| error.to_string())
    });
    let Outcome {
        tally,
        absent,
        unread,
        left_out,
    } = outcome;
    if !absent.is_empty() {
        return Err(absent.and(unread).into());
    }
    let counts = loader.counts();
    let used: u64 = counts.values().sum();
    let number = |number: u64, thing| count(usize::try_from(number).unwrap_or(usize::MAX), thing);
    let (files, objects) = (number(tally.files, "file"), number(used, "object"));
    let others = [
        (tally.unused.values().sum(), "of other kinds"),
        (tally.not_objects, "that are no Kubernetes objects"),
    ];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let parts = std::iter::once(format!("{files}: {objects} of kinds that matter here"))
        .chain(others.map(|(count, what)| format!("{count} {what}")));
    let summary = parts.collect::<Vec<_>>().join(", ");
    let knows_all = loader.has_record();
    if used == 0 && !knows_all && !wrong {
        let faults = unread.and(left_out);
        return Err(if faults.is_empty() {
            InputError::Nothing(summary)
        } else {
            faults.into()
        });
    }
    let kinds = EXPECTED_KINDS.into_iter();
    let not_given = kinds.filter(|kind| !knows_all && !counts.contains_key(*kind));
    let not_given = not_given.collect();
    let mut cluster = loader.finish();
    cluster.unread_input = unread.summary();
    Ok(Input {
        cluster,
        summary,
        not_given,
        unread,
        left_out,
    })
}
