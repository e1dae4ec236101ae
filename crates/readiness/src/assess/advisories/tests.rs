use super::*;
use crate::assess::drivers::{self, VSPHERE};
use crate::assess::{codes, plugins};
use crate::index::Platform;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

fn read(text: &str) -> Result<Product, String> {
    let product: serde_json::Value = serde_yaml::from_str(text).unwrap();
    serde_json::from_value(product).map_err(|error| error.to_string())
}

#[test]
fn a_range_without_a_version_is_refused_as_is_what_says_nothing() {
    let advisory = "{code: A, happens: h, remedy: r, source: s, versions: ";
    for (ranges, refused) in [
        (r#"[{from: "1.2", before: "1.3"}]"#, None),
        (r#"[{from: "1.2", before: "1.2.1"}]"#, None),
        ("[{}]", None),
        (
            r#"[{from: "1.2", before: "1.2.0"}]"#,
            Some("no version is from 1.2.0 and before 1.2.0"),
        ),
        (
            r#"[{from: "1.3", before: "1.2"}]"#,
            Some("no version is from"),
        ),
        (
            r#"[{before: "0"}]"#,
            Some("no version is from 0.0.0 and before 0.0.0"),
        ),
        (r#"[{before: "0.0.1"}]"#, None),
        (r#"[{before: "x"}]"#, Some("version \"x\"")),
        // As a number, 1.10 would be 1.1.
        ("[{before: 1.10}]", Some("expected a string")),
        ("[{to: \"1.2\"}]", Some("unknown field")),
        ("[]", Some("no versions")),
    ] {
        let text = format!("{{product: p, advisories: [{advisory}{ranges}}}]}}");
        let error = read(&text).err();
        assert_eq!(error.is_some(), refused.is_some(), "{ranges}: {error:?}");
        assert!(
            error
                .unwrap_or_default()
                .contains(refused.unwrap_or_default()),
            "{ranges}"
        );
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
