//! Policies for access to csi-proxy's pipes.

use super::*;

#[test]
fn what_reaches_csi_proxys_pipes_is_for_namespaces_with_the_label() {
    let Some(control_plane) = enforced() else {
        return;
    };
    let new = |object: &Value| to_new(control_plane, object);
    for path in REACHING {
        let refused = new(&pod("shop", &host_path(path)));
        assert!(
            refused.is_refused("volume data mounts csi-proxy's pipes"),
            "{path}: {refused:?}"
        );
        assert!(
            refused
                .warnings
                .contains("windowsstorage.dev/csi-proxy-pipes=allowed")
        );
    }
    for path in OTHER {
        let taken = new(&pod("shop", &host_path(path)));
        assert!(taken.is_silent(), "{path}: {taken:?}");
    }
    let by_container = json!({"hostNetwork": true,
        "containers": [{"name": "c", "image": "example.com/a:1", "securityContext": {"windowsOptions": {"hostProcess": true}}}]});
    for more in [host_process(), by_container] {
        let refused = new(&pod("shop", &more));
        assert!(
            refused.is_refused("HostProcess containers reach"),
            "{refused:?}"
        );
        assert!(new(&pod("drivers", &more)).is_silent());
    }
    let mounted = host_path(REACHING[0]);
    assert!(new(&pod("drivers", &mounted)).is_silent());
    assert!(new(&pod("shop", &json!({}))).is_silent());

    // Applying a workload gives a warning, and its pods are refused.
    for (object, is_warned) in [
        (deployment("shop", &mounted), true),
        (cron_job("shop", &mounted), true),
        (deployment("drivers", &mounted), false),
        (deployment("shop", &json!({})), false),
    ] {
        let taken = new(&object);
        assert_eq!(
            taken.is_warned("mounts csi-proxy's pipes"),
            is_warned,
            "{taken:?}"
        );
        assert_eq!(taken.is_silent(), !is_warned, "{taken:?}");
    }
    let mut owned = pod("shop", &mounted);
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "d", "uid": "u", "controller": true}]);
    let refused = new(&owned);
    assert!(
        refused.is_refused("mounts csi-proxy's pipes"),
        "{refused:?}"
    );
}
