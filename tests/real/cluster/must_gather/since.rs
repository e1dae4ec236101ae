//! Logs since a time, requested as with `kubectl logs`, or as `oc adm must-gather` passes it to the image.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::SystemTime;

use simulated_host::File;

use super::command;
use super::kubelet::Kubelet;
use crate::cluster::harness::assert_has;
use crate::cluster::simulated::Simulation;

const AGENT: &str = r"C:\var\log\windows-storage-agent";

fn text(dest: &Path, path: &str) -> Option<String> {
    fs::read_to_string(dest.join(path)).ok()
}

fn succeeded(output: &Output) {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
}

#[test]
fn lines_of_the_operator_and_files_of_nodes_from_before_are_left_out() {
    let simulation = Simulation::new(1);
    let harness = &simulation.harness;
    let control_plane = harness.control_plane();
    let operator = harness.start_with(&simulation.payload("v1.3.0"));
    harness.eventually("the node is ready", || simulation.ready().len() == 1);
    operator.terminate().unwrap();
    let _kubelet = Kubelet::start(harness);
    let epoch = SystemTime::UNIX_EPOCH;
    let now = SystemTime::now().duration_since(epoch).unwrap().as_secs();
    let now = u32::try_from(now).unwrap();
    simulation.host("win-000").with_disk(|disk| {
        disk.make_folders(AGENT);
        for (name, modified) in [("agent.log", now), ("agent.log.1", now - 4 * 3600)] {
            let log = File::new(name.as_bytes()).modified(modified);
            disk.put(&format!(r"{AGENT}\{name}"), log);
        }
    });
    let of_node = "nodes/win-000/windows-storage-agent";
    let of_operator = "operator/windows-storage-operator-0/operator";
    let kubeconfig = control_plane.kubeconfig();

    // As set by `oc adm must-gather --since 3h`. An empty variable is ignored.
    let dest = control_plane.dir().join("since");
    let mut gather = command(kubeconfig, &dest);
    let gather = gather.env("MUST_GATHER_SINCE", "3h0m0s");
    succeeded(&gather.env("MUST_GATHER_SINCE_TIME", "").output().unwrap());
    let summary = text(&dest, "summary.txt").unwrap();
    assert!(
        text(&dest, &format!("{of_node}/agent.log")).is_some(),
        "{summary}"
    );
    assert_eq!(text(&dest, &format!("{of_node}/agent.log.1")), None);
    assert!(summary.contains("logs since: "), "{summary}");
    assert_has(&summary, &["1 older one(s) not asked for"]);
    assert!(!summary.contains("could not be collected"), "{summary}");
    let log = text(&dest, &format!("{of_operator}/current.log"));
    assert_eq!(log.as_deref(), Some(""));

    // A flag takes precedence over the variables.
    let dest = control_plane.dir().join("since-time");
    let mut gather = command(kubeconfig, &dest);
    let gather = gather.args(["--since-time", "2026-01-01T13:00:00+01:00"]);
    succeeded(&gather.env("MUST_GATHER_SINCE", "soon").output().unwrap());
    let log = text(&dest, &format!("{of_operator}/current.log"));
    assert_eq!(log.as_deref(), Some("of now\n"));
    assert!(text(&dest, &format!("{of_node}/agent.log.1")).is_some());
    let summary = text(&dest, "summary.txt").unwrap();
    assert_has(&summary, &["logs since: 2026-01-01T12:00:00Z"]);
}

#[test]
fn a_time_that_is_none_is_refused_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let dest = folder.path().join("gathered");
    let nowhere = folder.path().join("kubeconfig");
    let refused = |arguments: &[&str], variable: Option<(&str, &str)>, status, words: &str| {
        let mut command = command(&nowhere, &dest);
        command.args(arguments).envs(variable);
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{errors}");
        assert!(errors.contains(words), "{errors}");
        assert!(!dest.exists());
    };
    refused(&["--since", "yesterday"], None, 2, "3h");
    refused(&["--since-time", "2026-01-01"], None, 2, "RFC 3339");
    let both = ["--since", "3h", "--since-time", "2026-01-01T00:00:00Z"];
    refused(&both, None, 2, "cannot be used with");
    let variable = Some(("MUST_GATHER_SINCE", "soon"));
    refused(&[], variable, 1, "MUST_GATHER_SINCE=soon: not a duration");
    let variable = Some(("MUST_GATHER_SINCE_TIME", "soon"));
    refused(&[], variable, 1, "MUST_GATHER_SINCE_TIME=soon: not a time");
}
