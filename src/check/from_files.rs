//! A cluster out of files.

use crate::files::{self, Progress, ReadErrors, Source};
use crate::index::Cluster;
use crate::objects::{Gathered, Loader, kind};

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
}

/// Why the files make no cluster.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Some cannot be read, are no YAML or JSON, or hold objects that are not as Kubernetes has them.
    #[error(transparent)]
    Unreadable(#[from] ReadErrors),
    /// There is no object of a kind that is used.
    #[error(
        "nothing that a verdict could rest on: {0}; give a must-gather, or the output of kubectl get -A -o yaml for \
         nodes, csinodes, csidrivers, pods, persistentvolumeclaims, persistentvolumes, storageclasses and workloads"
    )]
    Nothing(String),
}

/// Reads a cluster from files: all that they hold, or an error.
pub fn from_files(
    sources: &[Source],
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Input, InputError> {
    let mut loader = Loader::default();
    let is_wanted = |api_version: &str, name: &str| {
        kind(api_version, name).is_some() || Gathered::is_one(api_version, name)
    };
    let tally = files::read(sources, &is_wanted, progress, &mut |object| {
        let put = loader.put(&object.api_version, &object.kind, &object.value);
        put.map_err(|error| error.to_string())
    })?;
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
    if used == 0 && !knows_all {
        return Err(InputError::Nothing(summary));
    }
    let kinds = EXPECTED_KINDS.into_iter();
    let not_given = kinds.filter(|kind| !knows_all && !counts.contains_key(*kind));
    Ok(Input {
        summary,
        not_given: not_given.collect(),
        cluster: loader.finish(),
    })
}
