//! The claims that a StatefulSet has left, of which no pod may tell.

use super::{AZURE_FILE, Builder};
use crate::assess::Assessment;
use crate::assess::report::Upgradeable;
use crate::index::{Claim, ClaimTemplate, Cluster, ObjectKey, Owner, WindowsRequest, WorkloadKind};

/// A StatefulSet `shop/web` for Windows without pods, whose claims are made by a class of a driver that is there; and a claim
/// of that name whose volume's driver is missing.
fn left(namespace: &str, name: &str) -> Cluster {
    let mut cluster = Builder::default()
        .node("win-1", Some(&[AZURE_FILE]))
        .class("files", AZURE_FILE, None)
        .volume("pv-1", "azureDisk")
        .read();
    let claim = |volume: Option<&str>, class: Option<&str>| Claim {
        volume_name: volume.map(Into::into),
        storage_class: class.map(Into::into),
        provisioner: None,
    };
    let set = Owner {
        request: WindowsRequest {
            by_itself: true,
            runtime_class: None,
        },
        claim_templates: Box::new([ClaimTemplate {
            name: "data".into(),
            claim: claim(None, Some("files")),
        }]),
        ..Owner::default()
    };
    let sets = &mut cluster.owners[WorkloadKind::StatefulSet];
    sets.apply(ObjectKey::new("shop", "web"), set);
    let key = ObjectKey::new(namespace, name);
    cluster.claims.apply(key, claim(Some("pv-1"), None));
    cluster
}

#[test]
fn a_claim_of_its_own_counts_and_one_of_the_next_namespace_does_not() {
    for (namespace, name, upgradeable) in [
        ("shop", "data-web-0", Upgradeable::False),
        ("shop", "data-web-x", Upgradeable::True),
        ("shop", "data-webs-0", Upgradeable::True),
        ("shop2", "data-web-0", Upgradeable::True),
    ] {
        let mut cluster = left(namespace, name);
        let mut assessment = Assessment::default();
        assessment.update(&mut cluster);
        let verdict = assessment.verdict(&cluster);
        assert_eq!(verdict.upgradeable, upgradeable, "{namespace}/{name}");
    }
}
