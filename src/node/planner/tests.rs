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
fn a_line_for_any_of_its_addresses_decides_else_the_internal_one_and_the_default_user() {
    let win = [
        ("Hostname", "win-1"),
        ("ExternalIP", "1.2.3.4"),
        ("InternalIP", "10.0.0.1"),
    ];
    for (addresses, lines, expected) in [
        (&win[..], &[][..], Ok(("10.0.0.1", "Administrator"))),
        (&win, &[("win-1", "username=capi")], Ok(("win-1", "capi"))),
        (&win, &[("10.0.0.1", "?")], Err(Reason::InvalidInstance)),
        (&[], &[], Err(Reason::NoAddress)),
    ] {
        let lines = lines.iter();
        let lines = lines.map(|(address, line)| (address.to_string(), line.to_string()));
        let (cluster, spec) = (Cluster::default(), WindowsStorageSpec::default());
        let mut planner = Planner::read_only(&cluster, &spec, Timestamp::UNIX_EPOCH);
        planner.instances = parse_instances(&lines.collect());
        let found = planner.reach(&node(addresses));
        let expected = expected.map(|(address, user)| (address.to_owned(), user.to_owned()));
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
