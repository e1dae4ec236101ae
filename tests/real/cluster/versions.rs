//! Every API server version that the operator supports accepts the manifests: `make test-versions` runs this on each.

use std::path::Path;

use testbed::control_plane::ControlPlane;

#[test]
fn all_that_is_installed_applies_without_a_warning() {
    let control_plane = ControlPlane::start().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["crds", "manifests"] {
        let applied = control_plane
            .kubectl_command()
            .args(["apply", "--server-side", "-k"])
            .arg(root.join(folder))
            .output()
            .unwrap();
        let said = String::from_utf8(applied.stderr).unwrap();
        assert!(applied.status.success(), "{folder}: {said}");
        assert_eq!(said, "", "{folder}");
        control_plane.await_definitions().unwrap();
    }
    for (kind, name) in [
        ("WindowsStorage", "cluster"),
        ("WindowsNodeStorage", "win-1"),
    ] {
        let object = format!(
            "apiVersion: windowsstorage.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\n"
        );
        control_plane.apply(&object).unwrap();
        let shown = control_plane.kubectl(&["get", kind, name]).unwrap();
        assert!(shown.contains(name), "{shown}");
    }
}
