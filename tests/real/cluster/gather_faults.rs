//! `must-gather` against an API server that returns little or nothing.

use std::fs;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use testbed::api_proxy::{ApiProxy, Fault, On, Verb};

use crate::cluster::harness::{Harness, assert_has};
use crate::cluster::must_gather::command;

fn assert_nothing_kept(output: &Output, says: &str) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}: {errors}");
    assert_has(
        &errors,
        &[
            says,
            "nothing of the cluster can be read",
            "kubectl get nodes",
        ],
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn a_server_that_gives_nothing_leaves_nothing() {
    let harness = Harness::held();
    let proxy = ApiProxy::start(harness.command.kubeconfig()).unwrap();
    let outer = harness.control_plane().dir().join("outer");
    let dest = outer.join("a/b/c");
    let gather = || command(proxy.kubeconfig(), &dest).output().unwrap();
    for status in [401, 500] {
        let refused = proxy.order(On::verb(Verb::List), Fault::refuse(status));
        assert_nothing_kept(&gather(), "CSINode: it cannot be read");
        assert!(refused.hits() > 10);
        refused.lift();
        assert!(!outer.exists());
    }
    // It waits for two requests, 30 s each, and then stops asking.
    let hung = proxy.order(On::verb(Verb::List), Fault::Hang);
    let begin = Instant::now();
    assert_nothing_kept(&gather(), "no answer from the API server within 30 s");
    assert!(begin.elapsed() < Duration::from_secs(100), "{begin:?}");
    assert_eq!(hung.hits(), 2);
    assert!(!outer.exists());
    hung.lift();

    // A missing kubeconfig leaves nothing behind either.
    let output = command(&outer.join("none"), &dest).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!outer.exists());
}

#[test]
fn a_server_that_falls_silent_is_asked_for_no_more_and_what_was_had_is_kept() {
    let harness = Harness::held();
    let proxy = ApiProxy::start(harness.command.kubeconfig()).unwrap();
    let dest = harness.control_plane().dir().join("gathered");
    let hung = ["nodes", "cronjobs"];
    let hung = hung.map(|resource| proxy.order(On::to(Verb::List, resource), Fault::Hang));
    let begin = Instant::now();
    // The gathered files are kept even if standard output cannot be written.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command(proxy.kubeconfig(), &dest)
        .stdout(Stdio::from(full))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let told = format!("gathered into {}", dest.display());
    assert!(errors.contains(&told), "{errors}");
    assert!(begin.elapsed() < Duration::from_secs(150), "{begin:?}");
    assert_eq!(hung.map(|order| order.hits()), [1, 1]);
    assert_eq!(proxy.count(Verb::List, "persistentvolumes"), 0);
    assert_eq!(proxy.count(Verb::Get, "secrets"), 0);
    assert!(
        dest.join("cluster-scoped-resources/storage.k8s.io/csinodes.yaml")
            .exists()
    );
    let summary = fs::read_to_string(dest.join("summary.txt")).unwrap();
    assert_has(
        &summary,
        &[
            "could not be collected: Node: it cannot be read: no answer",
            "could not be collected: PersistentVolume: it cannot be read: not asked for, because the API server has left 2 requests in a row",
            "could not be collected: Secret cloud-private-key of namespace windows-storage-operator, which opens the nodes: not asked for",
            "ReadinessUnknown",
        ],
    );
}
