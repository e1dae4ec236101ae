use super::*;
use crate::assess::drivers::{self, VSPHERE};
use crate::assess::{codes, plugins};
use crate::index::Platform;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

#[test]
fn a_version_is_read_only_from_a_text() {
    for (range, refused) in [
        (r#"{from: "1.2", before: "1.2.1"}"#, ""),
        ("{}", ""),
        (r#"{before: "x"}"#, "version \"x\""),
        // As a number, 1.10 would be 1.1.
        ("{before: 1.10}", "expected a string"),
        ("{to: \"1.2\"}", "unknown field"),
    ] {
        let range = serde_yaml::from_str::<serde_json::Value>(range).unwrap();
        let error = serde_json::from_value::<Range>(range.clone()).err();
        assert_eq!(error.is_some(), !refused.is_empty(), "{range}: {error:?}");
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(refused), "{range}: {error}");
    }
}

#[test]
fn every_advisory_has_a_known_code_product_and_platform_and_says_where_it_comes_from() {
    let images = [
        "csi-node-driver-registrar",
        "livenessprobe",
        CSI_PROXY,
        KUBELET,
        WINDOWS,
    ];
    for product in products() {
        let name = product.name.as_str();
        let is_driver = plugins::is_known_driver(name) && drivers::by_name(name).is_some();
        assert!(is_driver || images.contains(&name), "{name}");
        assert!(is_driver || product.supports.is_empty(), "{name}");
        for advisory in &product.advisories {
            let code = &advisory.code;
            let is_empty = |it: &Range| {
                it.before
                    .as_ref()
                    .is_some_and(|end| it.from.as_ref() >= Some(end))
            };
            assert!(!advisory.versions.is_empty() && !advisory.versions.iter().any(is_empty));
            assert!(
                codes::CODES.iter().any(|(known, _)| known == code),
                "{code}"
            );
            assert!(advisory.source.starts_with("https://"), "{code}");
            let platform = advisory.platform.as_deref();
            assert!(
                platform.is_none_or(|it| Platform::by_name(it).is_some()),
                "{code}"
            );
            assert!(
                !advisory.happens.ends_with('.') && !advisory.remedy.ends_with('.'),
                "{code}"
            );
        }
    }
}

#[test]
fn versions_that_a_vendor_lists_are_minor_versions_and_do_not_overlap() {
    let is_minor = |range: &Range| {
        let ends = [&range.from, &range.before];
        ends.into_iter().flatten().all(|end| end.patch == 0)
    };
    for product in products() {
        for (nth, support) in product.supports.iter().enumerate() {
            assert!(is_minor(&support.versions) && is_minor(&support.kubernetes));
            let later = &product.supports[nth + 1..];
            let from = |range: &Range| range.from.clone().unwrap();
            let is_in = |other: &Support| support.versions.contains(&from(&other.versions));
            assert!(!later.iter().any(is_in), "{} {nth}", product.name);
        }
    }
}

#[test]
fn a_version_supports_what_nothing_speaks_against() {
    let allows = |driver, version, minor| {
        let range = supported(driver, version)?;
        Some(range.contains(&Version::new(1, minor, 0)))
    };
    for (driver, version, minor, expected) in [
        (VSPHERE, (3, 3), 26, Some(false)),
        (VSPHERE, (3, 3), 27, Some(true)),
        (VSPHERE, (3, 3), 30, Some(true)),
        (VSPHERE, (3, 3), 31, Some(false)),
        (VSPHERE, (3, 2), 24, Some(true)),
        (VSPHERE, (3, 2), 30, Some(false)),
        (VSPHERE, (3, 9), 24, None),
        ("smb.csi.k8s.io", (1, 19), 20, Some(false)),
        ("smb.csi.k8s.io", (1, 19), 99, Some(true)),
        ("pd.csi.storage.gke.io", (1, 26), 24, None),
    ] {
        assert_eq!(
            allows(driver, version, minor),
            expected,
            "{driver} {version:?} 1.{minor}"
        );
    }
}

#[test]
fn the_versions_for_a_kubernetes_are_those_that_are_known_to_be() {
    let made_for = |minor| made_for(VSPHERE, minor).collect::<Vec<_>>();
    assert_eq!(made_for(33), ["3.5", "3.6", "3.7"]);
    // 3.0 to 3.2 and 3.4 may support it too, but their first versions are not documented.
    assert_eq!(made_for(27), ["3.0", "3.3"]);
    assert!(made_for(37).is_empty());
}

#[test]
fn a_version_is_in_a_range_by_its_number() {
    let is_affected = |product, text: &str| on(product, &version(text)).next().is_some();
    for (kubelet, expected) in [
        ("1.22.17", true),
        ("1.23.9", true),
        ("1.23.10", false),
        ("1.24.3", true),
        ("1.24.4+abc", false),
        ("1.24.4-gke.100", false),
        ("1.25.0", false),
        ("1.34.1", false),
    ] {
        assert_eq!(is_affected(KUBELET, kubelet), expected, "{kubelet}");
    }
}
