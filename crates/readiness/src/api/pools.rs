//! What holds for the nodes of a pool: its settings over those for all nodes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::node_pool::{NodePool, PoolManagement};
use super::values::PrivateKeySecretRef;
use super::windows_storage::{Management, WindowsStorageSpec};
use crate::index::Name;

impl WindowsStorageSpec {
    /// The pools that fit a node with these labels. It belongs to the first.
    pub fn pools_of<'a>(
        &'a self,
        labels: &'a [(Name, Name)],
    ) -> impl Iterator<Item = &'a NodePool> {
        self.node_pools.iter().filter(|pool| pool.fits(labels))
    }

    /// What is wanted of the nodes of a pool, or of those of none.
    pub fn for_pool(&self, pool: Option<&NodePool>) -> Cow<'_, Self> {
        let Some(NodePool {
            name: _,
            node_selector: _,
            ssh,
            management,
            version,
            rollout,
        }) = pool
        else {
            return Cow::Borrowed(self);
        };
        let mut spec = self.clone();
        if let Some(user) = &ssh.user {
            spec.ssh.user.clone_from(user);
        }
        spec.ssh.port = ssh.port.unwrap_or(spec.ssh.port);
        spec.ssh.private_key_secret_ref = self.private_key(pool).clone();
        if spec.csi_proxy.management != Management::Removed {
            spec.csi_proxy.management = match management {
                None => spec.csi_proxy.management,
                Some(PoolManagement::Auto) => Management::Auto,
                Some(PoolManagement::Managed) => Management::Managed,
                Some(PoolManagement::External) => Management::External,
            };
        }
        if version.is_some() {
            spec.csi_proxy.version.clone_from(version);
        }
        if let Some(most) = &rollout.max_unavailable {
            spec.rollout.max_unavailable = most.clone();
        }
        spec.rollout.paused |= rollout.paused;
        Cow::Owned(spec)
    }

    /// Returns the private key for the nodes of a pool, or without a pool.
    pub fn private_key<'a>(&'a self, pool: Option<&'a NodePool>) -> &'a PrivateKeySecretRef {
        let of_pool = pool.and_then(|pool| pool.ssh.private_key_secret_ref.as_ref());
        of_pool.unwrap_or(&self.ssh.private_key_secret_ref)
    }

    /// Returns the names of the Secrets with private keys.
    pub fn secrets(&self) -> BTreeSet<&str> {
        let pools = self.node_pools.iter().map(Some).chain([None]);
        pools
            .map(|pool| self.private_key(pool).name.as_str())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> WindowsStorageSpec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_node_belongs_to_the_first_pool_of_which_it_has_all_labels() {
        let spec = spec(
            r#"{"nodePools":[
                {"name":"canary","nodeSelector":{"pool":"blue","canary":"yes"}},
                {"name":"blue","nodeSelector":{"pool":"blue"}},
                {"name":"none","nodeSelector":{}}]}"#,
        );
        let of = |labels: &[(&str, &str)]| {
            let labels: Vec<(Name, Name)> = labels
                .iter()
                .map(|(key, value)| (Name::from(*key), Name::from(*value)))
                .collect();
            let names: Vec<_> = spec.pools_of(&labels).map(|it| it.name.clone()).collect();
            names.join(" ")
        };
        assert_eq!(of(&[("canary", "yes"), ("pool", "blue")]), "canary blue");
        assert_eq!(of(&[("pool", "blue")]), "blue");
        assert_eq!(of(&[("pool", "green")]), "");
    }

    #[test]
    fn what_a_pool_does_not_say_is_as_for_all() {
        let spec = spec(
            r#"{"ssh":{"user":"ops"},"csiProxy":{"version":"v1.2.0"},"rollout":{"maxUnavailable":3},"nodePools":[
                {"name":"a","nodeSelector":{"a":"b"},"ssh":{"port":2222},"management":"External","rollout":{"maxUnavailable":"10%"}},
                {"name":"b","nodeSelector":{"a":"c"},"ssh":{"user":"admin"},"version":"v1.3.0","rollout":{"paused":true}}]}"#,
        );
        let a = spec.for_pool(spec.node_pools.first());
        assert_eq!((&*a.ssh.user, a.ssh.port), ("ops", 2222));
        assert_eq!(a.csi_proxy.management, Management::External);
        assert_eq!(a.rollout.max_unavailable_of(50), 5);
        let b = spec.for_pool(spec.node_pools.get(1));
        assert_eq!((&*b.ssh.user, b.ssh.port), ("admin", 22));
        let pins = [&a, &b].map(|spec| spec.csi_proxy.version.as_deref());
        assert_eq!(pins, [Some("v1.2.0"), Some("v1.3.0")]);
        assert!(b.rollout.paused && b.rollout.max_unavailable_of(50) == 3);
        let apart = spec.node_pools.iter().map(|pool| pool.rollout.is_apart());
        assert_eq!(apart.collect::<Vec<_>>(), [true, false]);
        assert_eq!(*spec.for_pool(None), spec);
    }

    #[test]
    fn what_is_to_be_removed_everywhere_is_removed_in_pools_as_well() {
        let spec = spec(
            r#"{"csiProxy":{"management":"Removed"},"nodePools":[
                {"name":"a","nodeSelector":{"a":"b"},"management":"Managed"}]}"#,
        );
        let pool = spec.for_pool(spec.node_pools.first());
        assert_eq!(pool.csi_proxy.management, Management::Removed);
    }
}
