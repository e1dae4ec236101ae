use super::*;
use crate::index::NodeAddress;

fn node(addresses: &[(&str, &str)]) -> Node {
    Node {
        operating_system: "windows".to_owned(),
        addresses: addresses
            .iter()
            .map(|(kind, address)| NodeAddress {
                kind: (*kind).to_owned(),
                address: (*address).to_owned(),
            })
            .collect(),
        ..Node::default()
    }
}

fn instances(lines: &[(&str, &str)]) -> Instances {
    parse_instances(
        &lines
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
    )
}

#[test]
fn the_internal_address_and_the_default_user_are_taken() {
    let node = node(&[
        ("Hostname", "win-1"),
        ("ExternalIP", "1.2.3.4"),
        ("InternalIP", "10.0.0.1"),
    ]);
    let found = reach(&node, &WindowsStorageSpec::default(), &Instances::default()).unwrap();
    assert_eq!(found, ("10.0.0.1".to_owned(), "Administrator".to_owned()));
}

#[test]
fn a_line_for_any_of_its_addresses_decides() {
    let node = node(&[("InternalIP", "10.0.0.1"), ("Hostname", "win-1")]);
    let found = reach(
        &node,
        &WindowsStorageSpec::default(),
        &instances(&[("win-1", "username=capi")]),
    )
    .unwrap();
    assert_eq!(found, ("win-1".to_owned(), "capi".to_owned()));
    let error = reach(
        &node,
        &WindowsStorageSpec::default(),
        &instances(&[("10.0.0.1", "?")]),
    )
    .unwrap_err();
    assert_eq!(error.reason, Reason::InvalidInstance);
}

#[test]
fn a_node_without_address_is_told_apart() {
    let error = reach(
        &node(&[]),
        &WindowsStorageSpec::default(),
        &Instances::default(),
    )
    .unwrap_err();
    assert_eq!(error.reason, Reason::NoAddress);
}

#[test]
fn auto_leaves_wmco_nodes_alone() {
    let wmco = Node {
        managed_by_wmco: true,
        ..node(&[])
    };
    assert!(is_external(&wmco, Management::Auto));
    assert!(!is_external(&wmco, Management::Managed));
    assert!(!is_external(&node(&[]), Management::Auto));
    assert!(is_external(&node(&[]), Management::External));
}

#[test]
fn an_address_has_one_spelling() {
    let same = |one: &str, other: &str| one_spelling(one) == one_spelling(other);
    assert!(same("10.0.0.1", "::ffff:10.0.0.1"));
    assert!(same("::ffff:10.0.0.1", "::FFFF:a00:1"));
    assert!(same("fd00::1", "FD00:0:0:0:0:0:0:1"));
    assert!(same("win-1.example.com", "WIN-1.example.com."));
    assert!(!same("10.0.0.1", "10.0.0.2"));
    assert!(!same("win-1", "win-1.example.com"));
}
