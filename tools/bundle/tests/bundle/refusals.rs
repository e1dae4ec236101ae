//! A source that has something for which the bundle has no place is refused, not passed over.

use crate::project::{copy, newest, replace};

/// What is said when `from` becomes `to` in `file`.
fn refusal(file: &str, from: &str, to: &str) -> String {
    let copy = copy();
    bundler::render(copy.path(), &newest()).unwrap();
    replace(copy.path(), file, from, to);
    let error = bundler::render(copy.path(), &newest()).unwrap_err();
    format!("{error:#}")
}

#[test]
fn what_has_no_place_in_the_bundle_is_refused() {
    for (file, from, to, complaint) in [
        (
            "manifests/rbac.yaml",
            "kind: ServiceAccount\nmetadata",
            "kind: NetworkPolicy\nmetadata",
            "has a NetworkPolicy",
        ),
        (
            "manifests/rbac.yaml",
            "  - kind: ServiceAccount\n    name: windows-storage-operator\n",
            "  - kind: User\n    name: someone\n",
            "is bound to 0 ServiceAccounts",
        ),
        (
            "manifests/deployment.yaml",
            "image: windows-storage-operator",
            "image: another",
            "container operator has another image",
        ),
        (
            "manifests/olm/clusterserviceversion.yaml",
            "name: windowsnodestorages.windowsstorage.dev\n      displayName",
            "name: others.windowsstorage.dev\n      displayName",
            "owns no windowsnodestorages.windowsstorage.dev",
        ),
        (
            "crds/kustomization.yaml",
            "  - windowsstorage.dev_windowsnodestorages.yaml\n",
            "",
            "owns a definition that is not in crds/",
        ),
        (
            "manifests/olm/annotations.yaml",
            "channels.v1: candidate",
            "channels.v1: 1",
            "is not text",
        ),
        (
            "manifests/kustomization.yaml",
            "images:",
            "pictures:",
            "has no line images:",
        ),
        (
            "manifests/olm/releases.yaml",
            "createdAt",
            "created",
            "unknown field",
        ),
    ] {
        let refusal = refusal(file, from, to);
        assert!(refusal.contains(complaint), "{file}: {refusal}");
        let named = if file.starts_with("crds/") {
            "manifests/olm/clusterserviceversion.yaml"
        } else {
            file
        };
        assert!(refusal.starts_with(named), "{file}: {refusal}");
    }
}
