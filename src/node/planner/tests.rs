use super::*;
use crate::index::{ConfigMap, NodeAddress};
use crate::node::known_hosts::KNOWN_HOSTS;

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

#[test]
fn the_address_of_another_node_matters_only_where_no_key_is_known() {
    let spec = WindowsStorageSpec::default();
    let kind = "ssh-ed25519";
    let bytes = [&[0, 0, 0, 11], kind.as_bytes(), b"own"].concat();
    let key = HostKey::new(kind, &bytes).to_string();
    let address_of = |listed: &str| {
        let mut cluster = Cluster::default();
        for name in ["win-1", "win-2"] {
            let node = node(&[("InternalIP", "10.0.0.1")]);
            cluster.nodes.apply(name.into(), node);
        }
        let data = [("win-2", key.clone()), (KNOWN_HOSTS, listed.to_owned())];
        let data = data.map(|(key, value)| (key.to_owned(), value)).into();
        let map = ConfigMap {
            data,
            ..ConfigMap::default()
        };
        cluster
            .config_maps
            .apply(HOST_KEYS_CONFIG_MAP.to_owned(), map);
        let planner = Planner::read_only(&cluster, &spec, Timestamp::now());
        let node = cluster.nodes.get("win-1").unwrap();
        planner.host_keys("win-1", node, "10.0.0.1").address_of
    };
    assert_eq!(address_of("").as_deref(), Some("win-2"));
    assert_eq!(address_of(&format!("10.0.0.1 {key}")), None);
}
