//! Tokens, certificates and certificate authorities are replaced while the operator runs.

use std::fs;
use std::path::{Path, PathBuf};

use testbed::control_plane::Issuer;
use testbed::objects::NAMESPACE;
use testbed::sandbox::Operator;

use super::{NODES, Scene};

const ACCOUNT: &str = "windows-storage-operator";

impl Scene {
    /// Creates a folder with these authorities, as a kubelet mounts it.
    pub fn mounted(&self, issuers: &[Issuer]) -> PathBuf {
        let folder = self.control_plane().dir().join("mounted");
        fs::create_dir_all(&folder).unwrap();
        self.trust(&folder, issuers);
        folder
    }

    /// Replaces the trusted authorities.
    fn trust(&self, folder: &Path, issuers: &[Issuer]) {
        let authorities = self.control_plane().authorities(issuers).unwrap();
        put(folder, "ca.crt", &authorities);
    }

    /// Makes the operator authenticate with the token in this folder.
    pub fn by_token(&mut self, folder: &Path) {
        let kubeconfig = self.control_plane().kubeconfig_with_token_file(folder);
        self.by(&kubeconfig.unwrap());
    }

    fn by(&mut self, kubeconfig: &Path) {
        let harness = &mut self.simulation.harness;
        harness.command = harness.command.with_kubeconfig(kubeconfig);
    }

    /// Creates a token for the operator that is valid as long as this Secret exists.
    pub fn token_bound_to(&self, secret: &str) -> String {
        let harness = &**self;
        harness.kubectl(&format!("create secret generic {secret} -n {NAMESPACE}"));
        let bound = format!("--bound-object-name={secret}");
        let kind = "--bound-object-kind=Secret";
        harness.kubectl(&format!(
            "create token {ACCOUNT} -n {NAMESPACE} {kind} {bound}"
        ))
    }

    /// Creates a token for the operator that is valid as long as its ServiceAccount exists.
    pub fn token(&self) -> String {
        self.kubectl(&format!("create token {ACCOUNT} -n {NAMESPACE}"))
    }

    /// Restarts the API server with a certificate of this authority.
    fn serve_with(&self, issuer: Issuer) {
        let control_plane = self.control_plane();
        control_plane.stop_api_server().unwrap();
        control_plane.renew_serving_certificate(issuer).unwrap();
        control_plane.start_api_server().unwrap();
    }

    /// Waits until the operator exits because certificates have changed, and restarts it as its Deployment does.
    fn restarted(&self, mut operator: Operator) -> Operator {
        let mark = self.mark();
        let status = operator.wait().unwrap();
        let log = self.told_since(mark);
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains("cluster's certificate files changed"), "{log}");
        let mark = self.mark();
        let operator = self.launch();
        let told = concat!(
            "windows-storage-operator ",
            env!("CARGO_PKG_VERSION"),
            " starts"
        );
        self.eventually("it runs again", || self.told_since(mark).contains(told));
        operator
    }

    fn expect_told(&self, mark: usize, words: &str) {
        self.eventually(&format!("the operator says {words:?}"), || {
            self.told_since(mark).contains(words)
        });
    }
}

/// Replaces a file atomically, as a kubelet does.
pub fn put(folder: &Path, name: &str, content: &[u8]) {
    let new = folder.join(format!("{name}.new"));
    fs::write(&new, content).unwrap();
    fs::rename(&new, folder.join(name)).unwrap();
}

#[test]
fn a_token_is_replaced_and_the_one_before_revoked() {
    let mut scene = Scene::new();
    let folder = scene.mounted(&[Issuer::First]);
    put(&folder, "token", scene.token_bound_to("first").as_bytes());
    scene.by_token(&folder);
    let mut operator = scene.start();
    let calm = scene.calm();
    let openings = scene.openings();

    // Revoked before there is a new token: nothing can be read, and the gate does not open.
    let mark = scene.mark();
    scene.kubectl(&format!("delete secret first -n {NAMESPACE}"));
    // Existing watches might continue for a while.
    scene.control_plane().restart_api_server().unwrap();
    scene.expect_told(mark, "Unauthorized");
    scene.eventually("it says so where it is asked", || {
        scene.ready().contains("Unauthorized")
    });
    scene.register(NODES[1], true);
    assert_eq!(scene.openings(), openings);
    put(&folder, "token", scene.token_bound_to("second").as_bytes());
    scene.expect_open();
    scene.register(NODES[1], false);
    scene.expect_as_calm(&calm);
    assert_eq!(operator.ended().unwrap(), None);
}

#[test]
#[ignore = "make chaos"]
fn a_replaced_authority_restarts_the_operator_which_then_trusts_it_alone() {
    let mut scene = Scene::new();
    let folder = scene.mounted(&[Issuer::First]);
    put(&folder, "token", scene.token_bound_to("only").as_bytes());
    scene.by_token(&folder);
    let mut operator = scene.start();
    let calm = scene.calm();
    let openings = scene.openings();

    // A new certificate of the same authority makes no difference.
    scene.serve_with(Issuer::First);
    scene.register(NODES[0], false);
    scene.expect_missing("win-000, win-001");
    scene.register(NODES[0], true);
    scene.expect_missing(NODES[1]);

    // The server changes before the file: the operator does not trust it, and reports that.
    let mark = scene.mark();
    scene.serve_with(Issuer::Successor);
    scene.expect_told(mark, "certificate verify failed");
    scene.eventually("it says so where it is asked", || {
        scene.ready().contains("certificate verify failed")
    });
    scene.register(NODES[0], false);
    scene.trust(&folder, &[Issuer::First, Issuer::Successor]);
    operator = scene.restarted(operator);
    scene.expect_missing("win-000, win-001");
    // An invalid file changes nothing.
    put(&folder, "ca.crt", b"nonsense");
    scene.control_plane().restart_api_server().unwrap();
    scene.register(NODES[0], true);
    scene.expect_missing(NODES[1]);
    assert_eq!(scene.openings(), openings);

    // The earlier authority is no longer trusted: anyone with its key could impersonate the API server.
    scene.trust(&folder, &[Issuer::Successor]);
    operator = scene.restarted(operator);
    let mark = scene.mark();
    scene.serve_with(Issuer::First);
    scene.expect_told(mark, "certificate verify failed");
    scene.serve_with(Issuer::Successor);
    scene.expect_as_calm(&calm);
    assert_eq!(operator.ended().unwrap(), None);
}
