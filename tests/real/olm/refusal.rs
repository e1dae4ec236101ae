//! Makes the API server refuse writes temporarily, by an admission policy.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::olm::cluster::{Cluster, PATIENCE};

/// The message that a refused client receives.
pub const MESSAGE: &str = "refused by the test";

/// The writes to refuse.
pub struct Refused<'a> {
    pub group: &'a str,
    pub resource: &'a str,
    pub name: &'a str,
    /// A CEL (Common Expression Language) expression; requests for which it is true are allowed.
    pub unless: &'a str,
}

impl Cluster {
    /// Refuses writes, and returns once the API server does so: `probe` are kubectl's arguments for such a write.
    pub async fn refuse(&self, refused: &Refused<'_>, probe: &str) {
        let Refused {
            group,
            resource,
            name,
            unless,
        } = refused;
        let version = "admissionregistration.k8s.io/v1";
        let rule = json!({
            "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
            "resources": [resource], "resourceNames": [name],
        });
        self.apply_all(&[
            json!({
                "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
                "spec": {
                    "matchConstraints": {"resourceRules": [rule]},
                    "validations": [{"expression": unless, "message": MESSAGE}],
                },
            }),
            json!({
                "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
                "spec": {"policyName": name, "validationActions": ["Deny"]},
            }),
        ]);
        let deadline = Instant::now() + PATIENCE;
        while !self.is_refused(probe) {
            assert!(Instant::now() < deadline, "not refused: {probe}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Allows the writes again.
    pub fn allow(&self, name: &str) {
        let policy = "validatingadmissionpolicy";
        for kind in [&format!("{policy}binding"), policy] {
            self.kubectl(&["delete", kind, name]);
        }
    }

    fn is_refused(&self, probe: &str) -> bool {
        let probe: Vec<&str> = probe.split(' ').collect();
        let tried = tokio::task::block_in_place(|| self.control_plane.kubectl(&probe));
        tried.is_err_and(|error| error.to_string().contains(MESSAGE))
    }
}
