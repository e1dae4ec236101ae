//! What is known of released drivers, their sidecars, csi-proxy, kubelets and builds of Windows: `advisories/*.yaml`.

mod format;

use std::sync::LazyLock;

use semver::Version;

pub use self::format::{Advisory, Form, Product, Range, Reader, Support, Switch};
use crate::assess::report::Finding;
use crate::assess::versions::Release;
use crate::index::Node;

/// The products' names that are none of drivers or images.
pub const CSI_PROXY: &str = "csi-proxy";
/// See [`CSI_PROXY`].
pub const KUBELET: &str = "kubelet";
/// See [`CSI_PROXY`].
pub const WINDOWS: &str = "windows";

#[expect(clippy::expect_used, reason = "the build has read the same")]
static PRODUCTS: LazyLock<Vec<Product>> = LazyLock::new(|| {
    let joined = include_str!(concat!(env!("OUT_DIR"), "/advisories.json"));
    serde_json::from_str(joined).expect("the build has read it")
});

/// Returns all products, in the order of their files.
pub fn products() -> &'static [Product] {
    &PRODUCTS
}

/// Returns what is known of a product.
pub fn of(product: &str) -> impl Iterator<Item = &'static Advisory> {
    let products = PRODUCTS.iter().filter(move |it| it.name == product);
    products.flat_map(|it| &it.advisories)
}

/// Returns what is known of a version of a product.
pub fn on(product: &str, version: &Version) -> impl Iterator<Item = &'static Advisory> {
    of(product).filter(move |it| it.affects(version))
}

/// Returns the versions of Kubernetes that a driver's vendor lists for a version of it, by minor version.
pub fn supported(driver: &str, (major, minor): (u64, u64)) -> Option<&'static Range> {
    let version = Version::new(major, minor, 0);
    let mut supports = supports(driver);
    let support = supports.find(|support| support.versions.contains(&version))?;
    Some(&support.kubernetes)
}

/// Returns the newest version of each range that is known to support this minor version of Kubernetes 1. Of a range of
/// Kubernetes without a first version, only the last one is known.
pub fn made_for(driver: &str, minor: u64) -> impl Iterator<Item = String> {
    let version = Version::new(1, minor, 0);
    let is_named = move |range: &Range| {
        let last = range.before.as_ref().map(|before| before.minor - 1);
        range.contains(&version) && (range.from.is_some() || last == Some(minor))
    };
    let supports = supports(driver).filter(move |support| is_named(&support.kubernetes));
    supports.filter_map(|support| last_minor(&support.versions))
}

fn supports(driver: &str) -> impl Iterator<Item = &'static Support> {
    let products = PRODUCTS.iter().filter(move |it| it.name == driver);
    products.flat_map(|it| &it.supports)
}

fn last_minor(range: &Range) -> Option<String> {
    let before = range.before.as_ref()?;
    Some(format!("{}.{}", before.major, before.minor - 1))
}

/// Returns a range of minor versions in words, such as `1.27 to 1.30`.
pub fn minors(range: &Range) -> String {
    let first = range.from.as_ref();
    let first = first.map(|from| format!("{}.{}", from.major, from.minor));
    match (first, last_minor(range)) {
        (Some(first), Some(last)) if first == last => first,
        (Some(first), Some(last)) => format!("{first} to {last}"),
        (Some(first), None) => format!("{first} and later"),
        (None, Some(last)) => format!("{last} and before"),
        (None, None) => "all".to_owned(),
    }
}

impl Advisory {
    /// Returns the finding of something that has the trouble.
    pub fn finding(&self, object: String, what: &str) -> Finding {
        let Self {
            happens,
            remedy,
            source,
            ..
        } = self;
        let message = format!("{what}{happens} ({source}); {remedy}");
        Finding::new(&self.code, object, message)
    }

    /// Whether it is about this version of the product.
    pub(crate) fn affects(&self, version: &Version) -> bool {
        self.versions.iter().any(|range| range.contains(version))
    }

    /// Whether it matters at a version of Kubernetes; an unknown one is none that it names.
    pub(crate) fn matters_at(&self, release: Option<Release>) -> bool {
        let Some(range) = &self.kubernetes else {
            return true;
        };
        release.is_some_and(|release| range.contains(&Version::new(1, release.minor, 0)))
    }

    /// Whether it matters on a node.
    pub(crate) fn matters_on(&self, node: &Node) -> bool {
        let is_build = |range: &Range| {
            let build = Version::parse(&node.windows_build);
            build.is_ok_and(|build| range.contains(&build))
        };
        let is_platform = |name: &String| {
            let signal = node.platform.as_ref();
            signal.is_some_and(|signal| signal.platform.as_str() == name)
        };
        self.windows.as_ref().is_none_or(is_build) && self.platform.as_ref().is_none_or(is_platform)
    }
}

#[cfg(test)]
mod tests;
