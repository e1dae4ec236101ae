use super::*;
use crate::index::NodeAddress;

fn node(addresses: &[(&str, &str)]) -> Node {
    Node {
        operating_system: "windows".to_owned(),
        addresses: addresses
            .iter()
            .map(|(kind, address)| NodeAddress {
                type_: (*kind).to_owned(),
                address: (*address).to_owned(),
            })
            .collect(),
        ..Node::default()
    }
}

#[test]
fn a_node_is_reached_at_its_most_internal_address() {
    let win = [
        ("Hostname", "win-1"),
        ("ExternalIP", "1.2.3.4"),
        ("InternalIP", "10.0.0.1"),
    ];
    for (addresses, expected) in [
        (&win[..], Ok("10.0.0.1")),
        (&win[..2], Ok("1.2.3.4")),
        (&[], Err(Reason::NoAddress)),
    ] {
        let found = Planner::address(&node(addresses));
        let expected = expected.map(str::to_owned);
        assert_eq!(found.map_err(|error| error.reason), expected);
    }
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
