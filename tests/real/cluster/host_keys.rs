//! Pinned host keys on a real API server: a key is pinned once, pins of deleted nodes are removed, and errors are clear
//! if the ConfigMap cannot be written.

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use testbed::control_plane::ControlPlane;
use testbed::objects::NAMESPACE;
use testbed::reused::Reused;
use testbed::sandbox::Sandbox;
use windows_storage_operator::node::{HostKey, Pins, Reason};

use crate::cluster::harness::client_of;

const MAP: &str = "windows-storage-host-keys";

async fn config_maps(kubeconfig: &std::path::Path) -> Api<ConfigMap> {
    Api::namespaced(client_of(kubeconfig).await, NAMESPACE)
}

async fn pins(kubeconfig: &std::path::Path) -> Pins {
    Pins::new(config_maps(kubeconfig).await, NAMESPACE.to_owned())
}

/// Starts an API server with the operator's namespace, and returns its pins.
async fn scene() -> (Reused, Pins) {
    let control_plane = Sandbox::reuse().unwrap().control_plane;
    let pins = pins(control_plane.kubeconfig()).await;
    (control_plane, pins)
}

/// Runs kubectl with arguments that contain no spaces.
fn kubectl(control_plane: &ControlPlane, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    control_plane.kubectl(&words).unwrap()
}

fn data(control_plane: &ControlPlane) -> String {
    let line = format!("get configmap {MAP} -n {NAMESPACE} -o jsonpath={{.data}}");
    kubectl(control_plane, &line)
}

#[tokio::test]
async fn pins_are_made_kept_and_removed() {
    let (control_plane, pins) = scene().await;
    let (one, two) = (
        HostKey::new("ssh-ed25519", b"one"),
        HostKey::new("ssh-ed25519", b"two"),
    );

    pins.remove("win-1").await.unwrap();
    // Concurrently: some create the ConfigMap, some change it, and no pin may be lost.
    let names: Vec<String> = (1..=128).map(|node| format!("win-{node}")).collect();
    for pinned in futures::future::join_all(names.iter().map(|node| pins.pin(node, &one))).await {
        pinned.unwrap();
    }
    pins.pin("win-1", &one).await.unwrap();
    let error = pins.pin("win-1", &two).await.unwrap_err();
    assert_eq!(error.reason, Reason::HostKeyChanged);
    let kept = data(&control_plane);
    assert!(
        names
            .iter()
            .all(|name| kept.contains(&format!(r#""{name}":"{one} stored-at-first-contact""#))),
        "{kept}"
    );
    assert!(!kept.contains(&two.to_string()), "{kept}");

    // If two operators meet different hosts concurrently, only one may pin its key, and the other gets an error.
    for number in 200..205 {
        let node = format!("win-{number}");
        let both = futures::join!(pins.pin(&node, &one), pins.pin(&node, &two));
        let results = [both.0, both.1];
        let pinned = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(pinned, 1, "{node}: {results:?}");
    }

    pins.remove("win-1").await.unwrap();
    pins.remove("win-1").await.unwrap();
    let kept = data(&control_plane);
    assert!(
        !kept.contains(r#""win-1""#) && kept.contains("win-2"),
        "{kept}"
    );
    pins.pin("win-1", &two).await.unwrap();

    let immutable = r#"--type=merge -p {"immutable":true}"#;
    let line = format!("patch configmap {MAP} -n {NAMESPACE} {immutable}");
    kubectl(&control_plane, &line);
    for refused in [pins.pin("win-900", &one).await, pins.remove("win-2").await] {
        let error = refused.unwrap_err();
        assert_eq!(error.reason, Reason::HostKeyNotStored);
        assert!(error.message.contains("0 replicas first"), "{error}");
    }
    assert!(data(&control_plane).contains("win-2"));
}

#[tokio::test]
async fn an_accepted_key_takes_the_place_of_the_pin_that_was_shown_and_of_no_other() {
    let (control_plane, pins) = scene().await;
    let [one, two, three] =
        ["one", "two", "three"].map(|own| HostKey::new("ssh-ed25519", own.as_bytes()));

    // Without a pin, and even without the ConfigMap.
    pins.replace("win-1", None, &one).await.unwrap();
    let held = |key: &HostKey| format!(r#""win-1":"{key} accepted""#);
    assert!(data(&control_plane).contains(&held(&one)));
    for shown in [None, Some(&two)] {
        let error = pins.replace("win-1", shown, &three).await.unwrap_err();
        assert_eq!(error.reason, Reason::HostKeyNotStored);
        assert!(error.message.contains(&one.fingerprint()), "{error}");
    }
    assert!(data(&control_plane).contains(&held(&one)));
    // With concurrent writes, no pin is lost.
    let names: Vec<String> = (2..8).map(|number| format!("win-{number}")).collect();
    let others = names.iter().map(|name| pins.pin(name, &three));
    let (replaced, others) = futures::join!(
        pins.replace("win-1", Some(&one), &two),
        futures::future::join_all(others)
    );
    replaced.unwrap();
    for pinned in others {
        pinned.unwrap();
    }
    let kept = data(&control_plane);
    assert!(kept.contains(&held(&two)), "{kept}");
    for name in names {
        assert!(kept.contains(&format!(r#""{name}":"{three} "#)), "{kept}");
    }
    // A key that is already accepted.
    pins.replace("win-1", Some(&one), &two).await.unwrap();
}

#[tokio::test]
async fn a_first_contact_that_is_given_up_pins_nothing_later_and_takes_nobodys_pin_with_it() {
    let (control_plane, pins) = scene().await;
    let key = HostKey::new("ssh-ed25519", b"one");
    pins.pin("win-1", &key).await.unwrap();
    let [mut writes, mut gone, waits] =
        ["writes", "gone", "waits"].map(|node| Box::pin(pins.pin(node, &key)));
    for begun in [&mut writes, &mut gone] {
        assert!(begun.now_or_never().is_none());
    }
    // Its node is gone, and another host may get its name.
    drop(gone);
    drop(writes);
    waits.await.unwrap();
    pins.pin("win-2", &key).await.unwrap();
    let kept = data(&control_plane);
    for node in ["win-1", "win-2", "waits"] {
        assert!(kept.contains(&format!(r#""{node}":"{key} "#)), "{kept}");
    }
    assert!(!kept.contains("gone"), "{kept}");
}

#[tokio::test]
async fn who_may_not_write_is_told_so() {
    let (control_plane, _) = scene().await;
    let stranger = control_plane.kubeconfig_for("stranger", &[]).unwrap();
    let pins = pins(&stranger).await;
    let key = HostKey::new("ssh-ed25519", b"one");
    for refused in [pins.pin("win-1", &key).await, pins.remove("win-1").await] {
        let error = refused.unwrap_err();
        assert_eq!(error.reason, Reason::HostKeyNotStored);
        assert!(error.message.contains("needs the rights to get"), "{error}");
    }
}
