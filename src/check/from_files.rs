//! A cluster out of files.

use std::fmt;

use crate::check::Progress;
use crate::files::{self, Origin, ReadErrors, Source};
use crate::index::Cluster;
use crate::objects::{FieldError, Gathered, Loader, is_used};

/// How many wrong objects are named before they are only counted.
const NAMED_ERRORS: usize = 20;
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
    /// Some cannot be read, or are no YAML or JSON.
    #[error(transparent)]
    Unreadable(#[from] ReadErrors),
    /// Some objects are not as Kubernetes has them.
    #[error(transparent)]
    Malformed(#[from] MalformedObjects),
    /// There is no object of a kind that is used.
    #[error(
        "nothing that a verdict could rest on: {0}; give a must-gather, or the output of kubectl get -A -o yaml for \
         nodes, csinodes, csidrivers, pods, persistentvolumeclaims, persistentvolumes, storageclasses and workloads"
    )]
    Nothing(String),
}

/// Objects with fields that are not as Kubernetes has them.
#[derive(Debug, Default, thiserror::Error)]
pub struct MalformedObjects {
    named: Vec<(Origin, String, FieldError)>,
    more: usize,
}

impl MalformedObjects {
    fn push(&mut self, origin: Origin, kind: String, error: FieldError) {
        if self.named.len() < NAMED_ERRORS {
            self.named.push((origin, kind, error));
        } else {
            self.more += 1;
        }
    }
}

impl fmt::Display for MalformedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (origin, kind, error)) in self.named.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{origin}, line {}: {kind}: {error}", origin.line())?;
        }
        if self.more > 0 {
            write!(f, "\nand {} more objects like these", self.more)?;
        }
        Ok(())
    }
}

/// Reads a cluster from files: all that they hold, or an error.
pub fn from_files(
    sources: &[Source],
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Input, InputError> {
    let mut loader = Loader::default();
    let mut malformed = MalformedObjects::default();
    let mut tell = |read: &files::Progress<'_>| {
        progress(Progress {
            what: read.source_name,
            done: read.files_done,
            of: read.files,
            objects: read.objects,
            bytes: Some(read.bytes),
        });
    };
    let is_wanted = |api_version: &str, kind: &str| {
        is_used(api_version, kind) || Gathered::is_one(api_version, kind)
    };
    let tally = files::read(sources, &is_wanted, &mut tell, &mut |object| {
        let put = if Gathered::is_one(&object.api_version, &object.kind) {
            loader.put_record(&object.value)
        } else {
            loader.put(&object.api_version, &object.kind, object.value)
        };
        if let Err(error) = put {
            malformed.push(object.origin, object.kind, error);
        }
    })?;
    if !malformed.named.is_empty() {
        return Err(malformed.into());
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
    if used == 0 && !knows_all {
        return Err(InputError::Nothing(summary));
    }
    let not_given = EXPECTED_KINDS
        .into_iter()
        .filter(|kind| !knows_all && !counts.contains_key(*kind))
        .collect();
    Ok(Input {
        summary,
        not_given,
        cluster: loader.finish(),
    })
}
