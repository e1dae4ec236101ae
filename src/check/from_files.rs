//! Reads a cluster from files.

use crate::files::{self, Outcome, Progress, ReadErrors, Source};
use crate::index::Cluster;
use crate::objects::{Gathered, Loader, cluster_kinds, kind};

/// The kinds that a verdict rests on and that most clusters with Windows workloads have.
const EXPECTED_KINDS: [&str; 9] = [
    "CSINode",
    "Pod",
    "PersistentVolumeClaim",
    "PersistentVolume",
    "StorageClass",
    "DaemonSet",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
];

/// What was read from files.
#[derive(Debug)]
pub struct Input {
    /// The cluster.
    pub cluster: Cluster,
    /// How much was read of what, in a sentence.
    pub summary: String,
    /// Kinds of which nothing was given: the verdict knows nothing of them.
    pub not_given: Vec<&'static str>,
    /// What could not be read and may be of use: the verdict is that nothing is known.
    pub unread: ReadErrors,
    /// Files that do not parse, and of which nothing would be of use.
    pub left_out: ReadErrors,
}

/// Why the files make no cluster.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Some are not there or cannot be read, or of none is there anything of use that can.
    #[error(transparent)]
    Unreadable(#[from] ReadErrors),
    /// There is no object of a kind that is used.
    #[error(
        "nothing that a verdict could rest on: {0}; give a must-gather, or the output of kubectl get -A -o yaml for \
         nodes, csinodes, csidrivers, pods, persistentvolumeclaims, persistentvolumes, storageclasses and workloads"
    )]
    Nothing(String),
}

/// Reads a cluster from files: all that they hold and that can be read.
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
    let unused: u64 = tally.unused.values().sum();
    let summary = format!(
        "{} file(s) with {} document(s): {used} object(s) of {} kind(s) that are used, {unused} of {} other kind(s), {} \
         that are no Kubernetes objects",
        tally.files,
        tally.documents,
        counts.len(),
        tally.unused.len(),
        tally.not_objects,
    );
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
