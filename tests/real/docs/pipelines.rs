//! The pipelines of docs/ci.md, and the action of this repository, do what they say.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use testbed::commands::printed;
use testbed::objects;
use testbed::parts::part;
use testbed::sandbox::Sandbox;

use crate::docs::blocks::page;
use crate::docs::{exists, read, root};
use crate::samples::catalogue::documents as parsed;

const PAGE: &str = "docs/ci.md";
const PROGRAM: &str = env!("CARGO_BIN_EXE_windows-storage-operator");

/// Returns the documents of all YAML blocks of the page.
fn documents() -> Vec<Value> {
    let blocks = page(PAGE).blocks.into_iter();
    let blocks = blocks.filter(|block| block.language == "yaml");
    blocks.flat_map(|block| parsed(&block.code)).collect()
}

/// Returns the YAML block whose first line names this file.
fn file(name: &str) -> String {
    let first = format!("# {name}\n");
    let mut blocks = page(PAGE).blocks.into_iter();
    let block = blocks.find(|block| block.code.starts_with(&first));
    block.unwrap_or_else(|| panic!("{PAGE} has no {name}")).code
}

/// Runs a script as runners do, with these variables only.
fn run(script: &str, folder: &Path, variables: &[(&str, &str)]) -> Output {
    Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

/// Returns a cluster in which an in-tree volume lacks its driver.
fn held_cluster() -> Sandbox {
    let sandbox = Sandbox::reuse().unwrap();
    sandbox.add_node("win-1", None).unwrap();
    sandbox.register("win-1", &[]).unwrap();
    let workload = objects::azure_disk_workload("win-1");
    sandbox.control_plane.apply(&workload).unwrap();
    sandbox
}

/// Runs the action's check with these inputs, and returns its exit status and the summary.
fn act(inputs: &Value, kubeconfig: &str) -> (i32, String) {
    let action = &parsed(&read("action.yml"))[0];
    let steps = action["runs"]["steps"].as_array().unwrap();
    let step = steps.iter().find(|step| step["id"] == "check").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let temp = folder.path().to_str().unwrap();
    let [output, summary] = ["output", "summary"].map(|name| format!("{temp}/{name}"));
    // As the first step would have left it.
    let built = folder.path().join("target/release");
    fs::create_dir_all(&built).unwrap();
    symlink(PROGRAM, built.join("windows-storage-operator")).unwrap();
    let mut variables = vec![
        ("GITHUB_ACTION_PATH", temp),
        ("GITHUB_OUTPUT", &output),
        ("GITHUB_STEP_SUMMARY", &summary),
        ("KUBECONFIG", kubeconfig),
        ("RUNNER_TEMP", temp),
    ];
    for (name, value) in step["env"].as_object().unwrap() {
        let value = value.as_str().unwrap();
        let input = value.strip_prefix("${{ inputs.");
        let input = input.and_then(|rest| rest.strip_suffix(" }}")).unwrap();
        assert!(action["inputs"][input].is_object(), "{input}");
        variables.push((name, inputs[input].as_str().unwrap_or_default()));
    }
    let ran = run(step["run"].as_str().unwrap(), folder.path(), &variables);
    let status = ran.status.code().unwrap();
    assert_eq!(
        fs::read_to_string(output).unwrap(),
        format!("status={status}\n"),
        "{ran:?}"
    );
    assert!(!folder.path().join("touched").exists());
    (status, fs::read_to_string(summary).unwrap())
}

#[test]
fn the_action_ends_as_check_does_and_shows_the_report() {
    let sandbox = held_cluster();
    let kubeconfig = sandbox.control_plane.kubeconfig().to_str().unwrap();
    let folder = |name: &str| format!("{}/tests/check/input/{name}", root().display());
    let (ready, held) = (folder("ready-1.31"), folder("vsphere-1.26"));
    for (inputs, status, said) in [
        (json!({}), 3, "    NOT UPGRADEABLE (DriversMissing): 1 in-"),
        (json!({"files": ready}), 0, "    UPGRADEABLE (Drivers"),
        (
            json!({"files": ready, "to": "1.33", "program": PROGRAM}),
            0,
            "    UPGRADEABLE to 1.33 (Drivers",
        ),
        (json!({"files": held}), 3, "    NOT UPGRADEABLE (Drivers"),
        (json!({"files": "away"}), 1, ""),
        (json!({"files": ready, "to": "$(touch touched)"}), 2, ""),
    ] {
        let (ended, summary) = act(&inputs, kubeconfig);
        assert_eq!(ended, status, "{inputs}: {summary}");
        assert!(summary.starts_with(said), "{inputs}: {summary}");
        let is_markup = |line: &str| !line.starts_with("    ");
        assert!(!summary.lines().any(is_markup), "{summary}");
    }
    let action = &parsed(&read("action.yml"))[0];
    let build = action["runs"]["steps"][0]["run"].as_str().unwrap();
    let exists = exists();
    let mut targets = build.lines().filter(|line| line.starts_with("make "));
    assert!(targets.all(exists), "{build}");
}

#[test]
fn the_workflow_of_the_page_uses_the_action_as_it_is() {
    let name = ".github/workflows/upgrade.yaml";
    let (workflow, remote) = (file(name), "OWNER/windows-storage-operator@COMMIT");
    assert!(workflow.contains(remote), "{workflow}");
    // actionlint compares inputs only with those of a local action.
    let workflow = workflow.replace(remote, "./");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join(".github/workflows")).unwrap();
    fs::create_dir(folder.path().join(".git")).unwrap();
    fs::write(folder.path().join("action.yml"), read("action.yml")).unwrap();
    let lint = |workflow: &str| {
        fs::write(folder.path().join(name), workflow).unwrap();
        let mut actionlint = Command::new(part("actionlint").unwrap());
        printed(actionlint.arg(name).current_dir(folder.path()))
    };
    lint(&workflow).unwrap();
    let other = lint(&workflow.replace(" to: ", " until: "));
    let other = other.unwrap_err().to_string();
    assert!(other.contains("until"), "{other}");
}

#[test]
fn the_gitlab_job_of_the_page_runs_the_program_that_it_names_and_no_other() {
    let job = &parsed(&file(".gitlab-ci.yml"))[0]["windows-storage"];
    let script = job["script"].as_array().unwrap().iter();
    let script: Vec<&str> = script.map(|line| line.as_str().unwrap()).collect();
    let script = script.join("\n");
    let sandbox = held_cluster();
    let kubeconfig = sandbox.control_plane.kubeconfig().to_str().unwrap();
    let sum = printed(Command::new("sha256sum").arg(PROGRAM)).unwrap();
    let sum = sum.split(' ').next().unwrap();
    let url = format!("file://{PROGRAM}");
    let variables = |sum| {
        [
            ("CHECK_URL", &*url),
            ("CHECK_SHA256", sum),
            ("KUBECONFIG", kubeconfig),
        ]
    };
    let folder = tempfile::tempdir().unwrap();
    let ran = run(&script, folder.path(), &variables(sum));
    let said = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(3), "{ran:?}");
    assert!(said.contains("NOT UPGRADEABLE (DriversMissing)"), "{said}");
    assert_eq!(job["artifacts"]["when"], "always");
    let artifacts = job["artifacts"]["paths"].as_array().unwrap();
    for artifact in artifacts {
        let report = fs::read_to_string(folder.path().join(artifact.as_str().unwrap()));
        assert!(report.unwrap().contains("DriversMissing"));
    }
    let folder = tempfile::tempdir().unwrap();
    let ran = run(&script, folder.path(), &variables(&"0".repeat(64)));
    assert!(![Some(0), Some(3)].contains(&ran.status.code()), "{ran:?}");
    assert!(!folder.path().join("report.html").exists());
}

/// Returns what Argo CD and Flux say of each object by the rules of the page.
fn health(objects: &[Value]) -> Vec<(String, String)> {
    let documents = documents();
    let of = |kind: &str| -> Vec<&Value> {
        let found = documents.iter().filter(|it| it["kind"] == kind);
        found.collect()
    };
    let rules = &of("ConfigMap")[0]["data"];
    let kustomizations = of("Kustomization");
    let (watches, waits) = (&kustomizations[0], &kustomizations[1]);
    let cluster = json!({"apiVersion": "windowsstorage.dev/v1alpha1", "kind": "WindowsStorage"});
    let rule = &watches["spec"]["healthCheckExprs"][0];
    let check = &watches["spec"]["healthChecks"][0];
    for key in ["apiVersion", "kind"] {
        assert_eq!((&rule[key], &check[key]), (&cluster[key], &cluster[key]));
        let is_ours = |object: &Value| object[key] == cluster[key];
        assert!(objects.iter().all(is_ours), "{objects:?}");
    }
    let other = &waits["spec"]["dependsOn"][0]["name"];
    assert_eq!(other, &watches["metadata"]["name"]);
    let input = json!({
        "lua": rules["resource.customizations.health.windowsstorage.dev_WindowsStorage"],
        "cel": rule, "objects": objects,
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("input.json");
    fs::write(&file, input.to_string()).unwrap();
    let mut engines = Command::new(part("gitops-check").unwrap());
    let said = printed(engines.stdin(File::open(file).unwrap())).unwrap();
    let said: Vec<Value> = serde_json::from_str(&said).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let said = said.iter();
    said.map(|said| (text(&said["argo"]["status"]), text(&said["flux"])))
        .collect()
}

#[test]
fn argo_cd_and_flux_go_on_when_upgrades_are_allowed() {
    let sandbox = Sandbox::reuse().unwrap();
    let control_plane = &sandbox.control_plane;
    control_plane.apply(&objects::settings(22, "ops")).unwrap();
    let path = "/apis/windowsstorage.dev/v1alpha1/windowsstorages/cluster";
    let new = control_plane.read(path).unwrap().unwrap();
    let generation = new["metadata"]["generation"].as_i64().unwrap();
    let with = |status: &str, generation: i64| {
        let condition = |type_: &str, status: &str| {
            json!({
                "type": type_, "status": status, "reason": "Test", "message": "said",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let opposite = if status == "True" { "False" } else { "True" };
        let conditions = [
            condition("Ready", opposite),
            condition("Upgradeable", status),
        ];
        let status =
            json!({"status": {"conditions": conditions, "observedGeneration": generation}});
        control_plane
            .patch(&format!("{path}/status"), &status)
            .unwrap()
    };
    let objects = [
        new,
        with("True", generation),
        with("False", generation),
        with("True", generation - 1),
    ];
    let expected = [
        ("Progressing", "Unknown"),
        ("Healthy", "Current"),
        ("Degraded", "Failed"),
        ("Progressing", "InProgress"),
    ];
    let said = health(&objects);
    let said: Vec<(&str, &str)> = said.iter().map(|(argo, flux)| (&**argo, &**flux)).collect();
    assert_eq!(said, expected);
}
