//! What nodes leave behind.

use super::*;

/// The nodes that are gone and have left something behind.
fn gone(rig: &mut Rig) -> Vec<String> {
    let left = rig.pass(&[]).left.into_iter();
    left.filter(|left| left.is_gone)
        .map(|left| left.node)
        .collect()
}

#[test]
fn only_the_pin_of_a_node_that_was_seen_to_leave_goes() {
    let mut rig = Rig::settled();
    let pins = |names: &[&str]| {
        let data = names
            .iter()
            .map(|name| ((*name).to_owned(), "ssh-ed25519 AAAA".to_owned()))
            .collect();
        ConfigMap {
            data,
            ..ConfigMap::default()
        }
    };
    let all = ["win-1", "win-2", "planned"];
    rig.cluster
        .config_maps
        .apply("windows-storage-host-keys".to_owned(), pins(&all));
    rig.add_node("win-2", "windows");
    assert!(gone(&mut rig).is_empty());
    let mut ignored = rig.cluster.nodes.get("win-2").unwrap().clone();
    ignored.ignored = true;
    rig.cluster.nodes.apply("win-2".into(), ignored);
    rig.cluster.nodes.delete(&"win-1".into());
    assert_eq!(gone(&mut rig), ["win-1"]);
    assert_eq!(gone(&mut rig), ["win-1"], "until it is done");
    rig.cluster
        .config_maps
        .apply("windows-storage-host-keys".to_owned(), pins(&all[1..]));
    assert_eq!(gone(&mut rig), ["win-1"], "its status is there");
    rig.cluster.node_statuses.delete(&"win-1".to_owned());
    assert!(gone(&mut rig).is_empty());
    rig.cluster.nodes.delete(&"win-2".into());
    assert_eq!(gone(&mut rig), ["win-2"], "it left after it was ignored");
}

#[test]
fn what_a_node_left_behind_while_no_operator_ran_goes_as_well() {
    let mut rig = Rig::new();
    rig.add_node("win-1", "windows");
    rig.read_verdict_kinds();
    let first_contact = |key: &str| crate::node::first_contact(&HostKey::parse(key));
    let data = [
        ("win-1".to_owned(), first_contact("ssh-ed25519 AAAA")),
        ("left".to_owned(), first_contact("ssh-ed25519 BBBB")),
        (
            "planned".to_owned(),
            "ssh-ed25519 CCCC put here by ops".to_owned(),
        ),
        (
            "known_hosts".to_owned(),
            "10.0.0.9 ssh-ed25519 DDDD".to_owned(),
        ),
    ];
    let map = ConfigMap {
        data: data.into(),
        ..ConfigMap::default()
    };
    rig.cluster
        .config_maps
        .apply("windows-storage-host-keys".to_owned(), map);
    rig.write("win-1", WindowsNodeStorageStatus::default());
    rig.write("orphan", WindowsNodeStorageStatus::default());
    rig.read_configuration();
    assert_eq!(gone(&mut rig), ["left", "orphan"]);
}
