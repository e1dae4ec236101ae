//! What a watch does with the objects of its kind.

use kube::Resource;
use kube::runtime::watcher;

use crate::api::GROUP;
use crate::index::Cluster;
use crate::objects::{Object, Received, absorb};

/// A kind as its watch sees it. A value and no type parameter, so that all watches share their code.
pub(super) struct Kind {
    pub name: String,
    /// A custom resource of this operator.
    pub is_own: bool,
    /// What such objects hold is told nowhere, also not where the server repeats it.
    pub is_secret: bool,
    pub follows_nodes: bool,
    pub fail: fn(&mut Cluster, String) -> bool,
    pub finish: fn(&mut Cluster) -> bool,
    pub is_empty: fn(&mut Cluster) -> bool,
    pub take_wanted_anew: fn(&mut Cluster) -> bool,
    absorb: fn(&mut Cluster, &Received) -> bool,
    delete: fn(&mut Cluster, &Received) -> bool,
    begin: fn(&mut Cluster),
}

impl Kind {
    pub fn of<K: Object>() -> Self {
        Self {
            name: K::kind(&()).into_owned(),
            is_own: K::group(&()) == GROUP,
            is_secret: K::is_secret(),
            follows_nodes: K::follows_nodes(),
            fail: |cluster, problem| K::table(cluster).fail(problem),
            finish: |cluster| K::table(cluster).finish(),
            is_empty: |cluster| K::table(cluster).is_empty(),
            take_wanted_anew: |cluster| K::table(cluster).take_wanted_anew(),
            absorb: absorb::<K>,
            delete: |cluster, object| K::table(cluster).delete(&K::key(object.meta())),
            begin: |cluster| K::table(cluster).begin(),
        }
    }

    /// Takes in what the watch says. Whether that changes anything.
    pub fn take_in(&self, cluster: &mut Cluster, event: &watcher::Event<Received>) -> bool {
        match event {
            watcher::Event::Init => {
                (self.begin)(cluster);
                false
            }
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                (self.absorb)(cluster, object)
            }
            watcher::Event::Delete(object) => (self.delete)(cluster, object),
            watcher::Event::InitDone => (self.finish)(cluster),
        }
    }
}
