//! The versions of drivers and Kubernetes that the samples support: in the samples, on the page, and by `check`.

use std::path::Path;

use semver::{Op, Version, VersionReq};
use serde_json::json;
use testbed::objects;
use windows_storage_operator::assess::advisories::{self, Range, minors};

use crate::samples::catalogue::{DRIVERS, Sample, all, documents};
use crate::samples::report::check_objects;

const DRIVER_VERSIONS: &str = "windowsstorage.dev/driver-versions";
const KUBERNETES_VERSIONS: &str = "windowsstorage.dev/kubernetes-versions";
const CODE: &str = "DriverNotForVersion";

/// The versions in a sample's DaemonSet.
struct Says {
    /// The driver's version, without a suffix.
    driver: Version,
    drivers: VersionReq,
    kubernetes: VersionReq,
}

impl Says {
    fn read(sample: Sample) -> Self {
        let set = sample.daemon_set();
        let annotation = |name: &str| {
            let text = set["metadata"]["annotations"][name].as_str();
            assert!(text.is_some(), "{sample:?} has no {name}");
            VersionReq::parse(text.unwrap()).unwrap()
        };
        let image = set["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
        let (_, tag) = image.unwrap().rsplit_once(":v").unwrap();
        Self {
            driver: Version::parse(tag.trim_end_matches("-windows-hp")).unwrap(),
            drivers: annotation(DRIVER_VERSIONS),
            kubernetes: annotation(KUBERNETES_VERSIONS),
        }
    }

    /// Returns the versions of Kubernetes that both the form and the driver's version support.
    fn supported(&self, sample: Sample) -> Range {
        let version = (self.driver.major, self.driver.minor);
        let of_driver = advisories::supported(&sample.driver.name, version).cloned();
        let (least, none) = ends(&self.kubernetes);
        assert_eq!(none, None, "{sample:?}: a form of a sample has no end");
        let least = least.map(|minor| Version::new(1, minor, 0));
        let (from, before) = of_driver.map(|it| (it.from, it.before)).unwrap_or_default();
        Range {
            from: least.max(from),
            before,
        }
    }
}

/// Returns the first supported minor version, and the first after the last supported one.
fn ends(versions: &VersionReq) -> (Option<u64>, Option<u64>) {
    let of = |op| {
        let mut found = versions.comparators.iter().filter(|it| it.op == op);
        found.next().map(|it| it.minor.unwrap())
    };
    (of(Op::GreaterEq), of(Op::Less))
}

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/drivers.md");
    std::fs::read_to_string(path).unwrap()
}

fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn the_page_says_what_each_sample_says_and_its_version_and_pipes_are_among_them() {
    let page = page();
    // The vendor's default comes first.
    let rows = page.lines().filter_map(|line| line.strip_prefix("| [`"));
    let rows: Vec<_> = rows
        .filter_map(|row| Some(row.split_once('`')?.0))
        .collect();
    let samples = all().map(|it| format!("{}/{}", it.driver.folder, it.form.folder));
    assert_eq!(rows, samples.collect::<Vec<_>>());
    for sample in all() {
        let says = Says::read(sample);
        assert!(says.drivers.matches(&says.driver), "{sample:?}");
        let folder = format!("| [`{}/{}`]", sample.driver.folder, sample.form.folder);
        let row = page.lines().find(|line| line.starts_with(&folder)).unwrap();
        let (first, before) = ends(&says.drivers);
        let from = says.drivers.comparators[0].major;
        let from = format!("v{}.{}", from, first.unwrap());
        let drivers = before.map_or_else(
            || format!("{from} and later"),
            |before| format!("{from} to v{}.{}", says.driver.major, before - 1),
        );
        let kubernetes = minors(&says.supported(sample));
        let version = format!("`v{}`", says.driver);
        assert_eq!(cells(row)[1..], [version, kubernetes, drivers], "{row}");
    }
    // The form that needs csi-proxy uses these pipes, and the other one none.
    for driver in DRIVERS.iter() {
        let start = format!("| `{}` | `{}` |", driver.name, driver.key());
        let row = page.lines().find(|line| line.starts_with(&start)).unwrap();
        let pipes = row.split('`').filter(|it| it.starts_with("csi-proxy-"));
        let with_pipes = driver.forms.iter().filter(|it| !it.pipes.is_empty());
        let forms: Vec<_> = with_pipes.map(|it| (&*it.folder, &it.pipes)).collect();
        let pipes = pipes.map(str::to_owned).collect();
        assert_eq!(forms, [("csi-proxy", &pipes)], "{row}");
    }
}

/// Returns whether `check` reports that the sample's driver does not support this minor version of Kubernetes.
fn is_refused(sample: Sample, minor: u64) -> bool {
    let mut cluster = sample.objects();
    let mut node = documents(&objects::windows_node("win-1")).remove(0);
    let version = format!("v1.{minor}.1");
    node["status"]["nodeInfo"] = json!({"operatingSystem": "windows", "kubeletVersion": version});
    cluster.push(node);
    let registered = objects::csi_node("win-1", &[&sample.driver.name]);
    cluster.extend(documents(&registered));
    let report = check_objects(&cluster);
    let found = report.findings();
    let of_code: Vec<_> = found.iter().filter(|(code, _)| *code == CODE).collect();
    let object = format!("DaemonSet/{}", sample.driver.key());
    assert!(of_code.iter().all(|(_, of)| *of == object), "{of_code:?}");
    !of_code.is_empty()
}

#[test]
fn check_says_where_the_driver_of_a_sample_is_not_for_the_cluster() {
    for sample in all() {
        let says = Says::read(sample);
        let supported = says.supported(sample);
        let least = supported.from.unwrap().minor;
        assert!(!is_refused(sample, least), "{sample:?} at 1.{least}");
        let Some(most) = supported.before.map(|before| before.minor - 1) else {
            assert!(!is_refused(sample, 37), "{sample:?}");
            continue;
        };
        assert!(!is_refused(sample, most), "{sample:?} at 1.{most}");
        for minor in [least - 1, most + 1] {
            assert!(is_refused(sample, minor), "{sample:?} at 1.{minor}");
        }
    }
}
