//! What a feed tells the owner of the index.

use kube::Resource;

use crate::index::{Cluster, Listed};
use crate::objects::{Kind, Received};

/// Something that was read, or could not be read, of one kind.
pub struct News {
    /// The kind.
    pub(super) kind: &'static Kind,
    /// What has happened.
    pub(super) what: What,
}

/// What has happened. Numbers are the resourceVersions that the kind has been read up to.
pub(super) enum What {
    /// A list begins.
    Begun,
    /// An object of the list.
    Listed(Received),
    /// The list has ended.
    Done(Listed, u64),
    /// An object was added or changed.
    Applied(Received, u64),
    /// An object was deleted.
    Deleted(Received, u64),
    /// The definition of a custom resource of this operator is not there: why, and when it was asked for.
    NotInstalled(String, Listed, u64),
    /// Reading fails, for this reason.
    Failed(String),
    /// Reading goes on without a gap after a failure.
    Resumed,
}

impl News {
    /// Returns whether a list has ended.
    #[must_use]
    pub fn ends_list(&self) -> bool {
        matches!(self.what, What::Done(..))
    }

    /// Puts it into the index. Returns whether a judgement may come out differently now.
    pub fn absorb(self, cluster: &mut Cluster) -> bool {
        let kind = self.kind;
        let table = kind.table_mut(cluster);
        match self.what {
            What::Begun => {
                table.begin();
                false
            }
            What::Listed(object) => kind.absorb(cluster, &object),
            What::Applied(object, version) => {
                table.come_to(version);
                kind.absorb(cluster, &object)
            }
            What::Deleted(object, version) => {
                table.come_to(version);
                table.delete_object(object.meta())
            }
            // A custom resource whose definition was never installed has no objects, so the defaults apply. If it existed
            // before, the data stays: nothing follows from its absence.
            What::NotInstalled(problem, ..) if !table.is_empty() => table.fail(problem),
            // That is news also if no object differs: whoever wanted the list waits for it.
            What::Done(listed, version) | What::NotInstalled(_, listed, version) => {
                table.come_to(version);
                table.finish();
                table.note_listed(listed);
                true
            }
            What::Failed(problem) => table.fail(problem),
            What::Resumed => table.resume(),
        }
    }
}
