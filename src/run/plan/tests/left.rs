//! Tests of what nodes leave behind.

use super::*;
use crate::node::HOST_KEYS_CONFIG_MAP;

/// Returns the nodes that have left something behind.
fn gone(rig: &mut Rig) -> Vec<String> {
    let plan = rig.pass();
    (&plan.left_statuses | &plan.left_keys)
        .into_iter()
        .collect()
}

#[test]
fn only_the_pin_of_a_node_that_was_seen_to_leave_goes() {
    let mut rig = Rig::settled();
    let pins = |names: &[&str]| {
        let key = "ssh-ed25519 AAAA";
        let pins = names.iter().map(|&name| (name.to_owned(), key.to_owned()));
        pins.collect()
    };
    let all = ["win-1", "win-2", "planned"];
    rig.put_config_map(HOST_KEYS_CONFIG_MAP, pins(&all));
    rig.add_node("win-2", "windows");
    assert!(gone(&mut rig).is_empty());
    rig.change_node("win-2", |node| {
        node.left_out = Some(crate::index::LeftOut::Ignored);
    });
    rig.cluster.nodes.delete(&"win-1".into());
    assert_eq!(gone(&mut rig), ["win-1"]);
    assert_eq!(gone(&mut rig), ["win-1"], "until it is done");
    rig.put_config_map(HOST_KEYS_CONFIG_MAP, pins(&all[1..]));
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
    let first_contact = |key: &str| format!("{key} {}", crate::node::FIRST_CONTACT);
    let data = [
        ("win-1", first_contact("ssh-ed25519 AAAA")),
        ("left", first_contact("ssh-ed25519 BBBB")),
        ("planned", "ssh-ed25519 CCCC put here by ops".to_owned()),
        ("orphan", "ssh-ed25519 EEEE put here by ops".to_owned()),
        ("known_hosts", "10.0.0.9 ssh-ed25519 DDDD".to_owned()),
    ];
    let data = data.map(|(name, key)| (name.to_owned(), key));
    rig.put_config_map(HOST_KEYS_CONFIG_MAP, data.into());
    rig.write("win-1", WindowsNodeStorageStatus::default());
    rig.write("orphan", WindowsNodeStorageStatus::default());
    rig.read_configuration();
    assert_eq!(gone(&mut rig), ["left", "orphan"]);
    let keys = ["left", "orphan"].map(str::to_owned);
    assert_eq!(rig.last.left_keys, keys.into());
}

#[test]
fn what_is_not_to_be_done_any_more_is_not_planned() {
    let mut rig = Rig::settled();
    let has_status = |plan: &Plan| plan.statuses.by_name.contains_key("win-1");
    rig.cluster.nodes.delete(&"win-1".into());
    let plan = rig.pass();
    assert!(plan.left_statuses.len() == 1 && !has_status(&plan));
    rig.add_node("win-1", "windows");
    rig.cluster.csi_nodes.delete(&"win-1".into());
    let plan = rig.pass();
    assert!(plan.left_statuses.is_empty(), "it is back");
    assert!(has_status(&plan) && plan.settings.is_some() && plan.knows_configuration);
    // The settings can no longer be read: nothing is written.
    rig.cluster.settings.delete(&SETTINGS_NAME.to_owned());
    rig.reject_settings();
    let plan = rig.pass();
    assert!(!has_status(&plan) && !plan.knows_configuration);
}
