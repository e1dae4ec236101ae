//! What a feed tells the owner of the index.

use std::collections::BTreeMap;

use kube::Resource;

use crate::index::{Cluster, Listed, Secret};
use crate::objects::{Kind, Received};

/// Something that was read, or could not be read.
pub enum News {
    /// What has happened to one kind.
    Object(&'static Kind, What),
    /// What was read of each Secret that the settings name.
    Secrets(BTreeMap<String, Secret>),
}

/// What has happened. Numbers are the resourceVersions that the kind has been read up to.
pub enum What {
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
    /// Nothing has failed for a while after a failure.
    Resumed,
}

impl News {
    /// Returns whether a list has ended.
    pub fn ends_list(&self) -> bool {
        matches!(self, Self::Object(_, What::Done(..)))
    }

    /// Puts it into the index. Returns whether a judgement may come out differently now.
    pub fn absorb(self, cluster: &mut Cluster) -> bool {
        let (kind, what) = match self {
            Self::Object(kind, what) => (kind, what),
            Self::Secrets(read) => return absorb_secrets(read, cluster),
        };
        let table = kind.table_mut(cluster);
        match what {
            What::Begun => {
                table.begin();
                false
            }
            // A part of a list ends no failure: what comes after it is unknown.
            What::Listed(object) => kind.absorb(cluster, &object),
            What::Applied(object, version) => {
                table.come_to(version);
                table.resume() | kind.absorb(cluster, &object)
            }
            What::Deleted(object, version) => {
                table.come_to(version);
                table.resume() | table.delete_object(object.meta())
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

fn absorb_secrets(mut read: BTreeMap<String, Secret>, cluster: &mut Cluster) -> bool {
    for (name, secret) in &mut read {
        // A right that is taken away, or a server that fails, takes no key away.
        if let (Secret::Forbidden(_) | Secret::Unread(_), Some(known @ Secret::Data(_))) =
            (&*secret, cluster.secrets.get(name))
        {
            *secret = known.clone();
        }
    }
    std::mem::replace(&mut cluster.secrets, read) != cluster.secrets
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::objects::kind;

    #[test]
    fn a_failure_lasts_until_a_whole_list_or_an_event_of_a_watch_has_come() {
        let pods = kind("v1", "Pod").unwrap();
        let pod: Received = serde_json::from_value(serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"},
        }))
        .unwrap();
        let mut cluster = Cluster::default();
        let mut fails_after = |what: What| {
            News::Object(pods, what).absorb(&mut cluster);
            pods.table(&cluster).problem().is_some()
        };
        let (begun, ended) = (Instant::now(), Instant::now());
        for end in [
            What::Done(Listed { begun, ended }, 1),
            What::Applied(pod.clone(), 2),
        ] {
            assert!(fails_after(What::Failed("why".to_owned())));
            assert!(fails_after(What::Begun));
            assert!(fails_after(What::Listed(pod.clone())));
            assert!(!fails_after(end));
        }
    }

    #[test]
    fn a_secret_that_cannot_be_read_any_more_stays_and_one_that_nobody_names_goes() {
        let mut cluster = Cluster::default();
        let mut read = |read: &[(&str, Secret)]| {
            let read = read
                .iter()
                .map(|(name, it)| ((*name).to_owned(), it.clone()));
            let is_new = News::Secrets(read.collect()).absorb(&mut cluster);
            (is_new, cluster.secrets.clone())
        };
        let key = || Secret::Data(BTreeMap::from([("key".to_owned(), b"1".to_vec().into())]));
        let one = BTreeMap::from([("a".to_owned(), key())]);
        let why = || Secret::Unread("why".to_owned());
        assert!(read(&[("a", key()), ("b", Secret::Missing)]).0);
        assert_eq!(read(&[("a", key())]), (true, one.clone()));
        assert_eq!(read(&[("a", why())]), (false, one.clone()));
        assert_eq!(read(&[("a", Secret::Forbidden(None))]), (false, one));
        assert!(read(&[("a", Secret::Missing)]).0, "it was deleted");
        for now in [Secret::Forbidden(None), why()] {
            let (is_new, known) = read(&[("a", now.clone())]);
            assert!(is_new && known["a"] == now, "{now:?}");
        }
    }
}
