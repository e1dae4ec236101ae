//! No secret leaks: canaries are planted in every place that may contain a secret, and everything that the operator and
//! its commands print, write and leave behind is searched for them in every form.

mod canary;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use http::StatusCode;
use memchr::memmem;
use serde_json::json;
use testbed::api_proxy::{ApiProxy, Fault, On, Verb};
use testbed::objects::{self, NAMESPACE};
use testbed::sandbox::Operator;

use crate::cluster::harness::SETTINGS;
use crate::cluster::metrics::scrape;
use crate::cluster::must_gather::{command as must_gather, contents};
use crate::cluster::simulated::Simulation;
use crate::cluster::simulated::secrets::{MARK, secrets};
use canary::Canary;

const BINARY: &str = env!("CARGO_BIN_EXE_windows-storage-operator");
const PASSPHRASE: &str = "canary-passphrase/7f+3a=9c";
const WRONG: &str = "canary-of-another/1d+5e=2b";

/// Encrypts the key with a passphrase; the text differs each time.
fn closed(folder: &Path, key: &str, passphrase: &str) -> String {
    let file = folder.join("closed");
    fs::write(&file, key).unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let done = Command::new("ssh-keygen")
        .args(["-p", "-q", "-P", "", "-N", passphrase, "-f"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(file).unwrap();
    text
}

impl Simulation {
    /// Writes the Secret, including the annotation in which `kubectl apply` stores its content.
    fn keep(&self, key: &str, passphrase: Option<&str>) {
        let mut data = json!({"private-key.pem": key});
        if let Some(passphrase) = passphrase {
            data["passphrase"] = format!("{passphrase}\n").into();
        }
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "stringData": data,
            "metadata": {"name": "cloud-private-key", "namespace": NAMESPACE}});
        let control_plane = self.harness.control_plane();
        // Deletes the old one first, so that no trace of it is left.
        if !self.harness.get("secret/cloud-private-key").is_null() {
            self.harness.delete("secret/cloud-private-key");
        }
        control_plane
            .kubectl_with_input(&["apply", "-f", "-"], &secret.to_string())
            .unwrap();
    }

    fn expect_first(&self, status: &str, reason: &str) {
        let first = "windowsnodestorage/win-000";
        self.harness.expect(first, "CSIProxyReady", status, reason);
    }
}

/// All output so far, by place.
#[derive(Default)]
struct Outputs(BTreeMap<String, Vec<u8>>);

impl Outputs {
    fn put(&mut self, place: &str, content: &[u8]) {
        let all = self.0.entry(place.to_owned()).or_default();
        all.extend_from_slice(content);
    }

    fn run(&mut self, mut command: Command) {
        let output = command.env_remove("KUBECONFIG").output().unwrap();
        let place = format!("{:?}", command.get_args().collect::<Vec<_>>());
        assert!(!output.stdout.is_empty(), "{place}: {output:?}");
        self.put(&place, &output.stdout);
        self.put(&place, &output.stderr);
    }

    /// Asserts that each place was searched: it contains what it should.
    fn hold_what_is_no_secret(&self) {
        for (place, word) in [
            ("log", "cannot be read: Unread"),
            ("log", "LoginRefused"),
            ("the disk of win-000", "MZ csiProxy"),
            ("objects", "InvalidPrivateKey"),
            ("readyz", "readyz"),
            ("metrics", "# TYPE"),
            ("command line", "--log-level"),
            ("environment", "RUST_BACKTRACE"),
            ("must-gather", "secretive"),
        ] {
            let found = memmem::find(&self.0[place], word.as_bytes());
            assert!(found.is_some(), "{word} is not in {place}");
        }
    }

    /// Asserts that no place contains a canary.
    fn hold_no(&self, canaries: &[Canary]) {
        let mut found = Vec::new();
        for (place, content) in &self.0 {
            let canaries = canaries.iter().filter_map(|canary| canary.find(content));
            found.extend(canaries.map(|canary| format!("{place}: {canary}")));
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}

#[test]
fn no_secret_is_in_any_output_in_any_form_whatever_goes_wrong() {
    no_secret_is_in_any_output(0, "--log-format=json");
}

#[test]
fn no_secret_is_in_a_log_for_people_nor_beside_it() {
    no_secret_is_in_any_output(1, "--log-format=text");
}

fn no_secret_is_in_any_output(round: usize, format: &str) {
    let mut simulation = Simulation::new(2);
    let proxy = ApiProxy::start(simulation.harness.command.kubeconfig()).unwrap();
    let kubeconfig = fs::read_to_string(proxy.kubeconfig()).unwrap();
    let kubeconfig: serde_json::Value = serde_json::from_str(&kubeconfig).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    simulation.harness.command = simulation
        .harness
        .command
        .with_kubeconfig(proxy.kubeconfig());
    let harness = &simulation.harness;
    let folder = harness.control_plane().dir().to_owned();
    let control_plane = harness.control_plane();
    control_plane
        .apply(&objects::azure_disk_workload("win-000"))
        .unwrap();
    control_plane.apply(&secrets()).unwrap();

    let open = simulation.fleet.private_key().unwrap();
    let shut = closed(&folder, &open, PASSPHRASE);
    let mut canaries = vec![
        Canary::new("passphrase", PASSPHRASE),
        Canary::new("wrong passphrase", WRONG),
        Canary::new("token", &token[token.len() - 60..]),
        Canary::new("what is secret of others", MARK),
    ];
    canaries.extend(Canary::of_key("private key", &open));
    canaries.extend(Canary::of_key("encrypted private key", &shut));

    let scraper = harness.token("scraper", true);
    canaries.push(Canary::new(
        "token of who scrapes",
        &scraper[scraper.len() - 60..],
    ));
    let temporary = folder.join("temporary");
    fs::create_dir(&temporary).unwrap();
    let environment = [
        ("RUST_LOG", "trace"),
        ("RUST_BACKTRACE", "full"),
        ("TMPDIR", temporary.to_str().unwrap()),
    ];
    let mut outputs = Outputs::default();
    let arguments = [
        format,
        "--log-level=trace,kube_client=trace,kube_client::client=trace,kube_runtime::watcher=trace",
        "--serve-address=127.0.0.1:0",
        "--metrics-address=127.0.0.1:0",
    ];
    simulation.keep(&shut, Some(WRONG));
    let payload = simulation.payload("v1.3.0");
    let command = harness.command.with_payload(&payload);
    let command = command.with_variables(&environment);
    let operator = command.start(Some(&harness.log), &arguments, true);
    let operator = operator.unwrap();
    let mut look = |what: &str| look_at(&simulation, &operator, &scraper, what, &mut outputs);
    all_goes_wrong(&simulation, &open, &shut, &mut look);
    the_server_repeats_secrets(&simulation, &proxy, (&open, &shut), round, &mut look);
    simulation.keep(&shut, Some(PASSPHRASE));
    harness.eventually("all nodes are ready", || simulation.ready().len() == 2);
    look("all is well");
    operator.terminate().unwrap();
    outputs.put("log", harness.log().as_bytes());
    for (path, content) in contents(&temporary) {
        outputs.put(&path.display().to_string(), &content);
    }
    the_commands(&simulation, &mut outputs);
    for host in &simulation.hosts {
        let files = host.with_disk(|disk| {
            let content = |path: &String| disk.file(path).unwrap().content().to_vec();
            disk.files().iter().flat_map(content).collect::<Vec<u8>>()
        });
        outputs.put(&format!("the disk of {}", host.name()), &files);
    }

    outputs.hold_what_is_no_secret();
    outputs.hold_no(&canaries);
    // The search works in each place: a canary that is planted at its end, in whatever form, is found.
    let written = [
        PASSPHRASE.to_owned(),
        openssl::base64::encode_block(format!("k: {PASSPHRASE}\n").as_bytes()),
        json!(PASSPHRASE.as_bytes()).to_string(),
        PASSPHRASE
            .replace('/', "%2F")
            .replace('+', "%2B")
            .replace('=', "%3D"),
    ];
    for content in outputs.0.values() {
        for written in &written {
            let planted = [content, written.as_bytes()].concat();
            assert!(canaries[0].find(&planted).is_some(), "{written}");
        }
    }
}

/// Collects everything that a running operator exposes.
fn look_at(
    simulation: &Simulation,
    operator: &Operator,
    scraper: &str,
    what: &str,
    outputs: &mut Outputs,
) {
    let harness = &simulation.harness;
    println!("looking while {what}");
    let kinds = "windowsstorages windowsnodestorages events leases operatorconditions";
    for kind in kinds.split(' ') {
        outputs.put("objects", harness.list(kind).to_string().as_bytes());
    }
    for name in ["windows-services", "windows-storage-host-keys"] {
        let map = harness.get(&format!("configmap/{name}"));
        outputs.put("objects", map.to_string().as_bytes());
    }
    outputs.put("readyz", harness.get_http("readyz?verbose").as_bytes());
    let address = harness.metrics_address();
    let metrics = scrape(&address, "/metrics", Some(scraper));
    assert_eq!(metrics.status(), "200");
    outputs.put("metrics", metrics.answer.as_bytes());
    let process = PathBuf::from(format!("/proc/{}", operator.id()));
    outputs.put("command line", &fs::read(process.join("cmdline")).unwrap());
    // If only root can read it, no other process can leak it either.
    let environment = fs::read(process.join("environ"));
    outputs.put(
        "environment",
        &environment.unwrap_or(b"RUST_BACKTRACE".to_vec()),
    );
}

/// Runs through every way in which a key can be wrong or refused.
fn all_goes_wrong(simulation: &Simulation, open: &str, shut: &str, look: &mut dyn FnMut(&str)) {
    simulation.expect_first("Unknown", "InvalidPrivateKey");
    look("the passphrase is another key's");
    let half = |key: &str| key[..key.len() / 2].to_owned();
    for broken in [
        half(open),
        half(shut),
        open.replace("BEGIN", "BEGAN"),
        shut.replace('\n', " "),
    ] {
        simulation.keep(&broken, Some(PASSPHRASE));
        let harness = &simulation.harness;
        harness.expect(SETTINGS, "CredentialsValid", "False", "InvalidPrivateKey");
        look("the key is broken");
    }
    for host in &simulation.hosts {
        host.set_faults(|faults| faults.refuses_logins = true);
    }
    simulation.keep(shut, Some(PASSPHRASE));
    simulation.expect_first("Unknown", "LoginRefused");
    look("logins are refused");
    for host in &simulation.hosts {
        host.set_faults(|faults| faults.refuses_logins = false);
    }
}

/// Simulates a server, or a proxy in front of it, that echoes the secrets in errors and in invalid answers.
fn the_server_repeats_secrets(
    simulation: &Simulation,
    proxy: &ApiProxy,
    (open, shut): (&str, &str),
    round: usize,
    look: &mut dyn FnMut(&str),
) {
    let harness = &simulation.harness;
    let said = [open, shut, PASSPHRASE].join(" ");
    let status = |code: u16| {
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": said, "reason": said, "code": code})
    };
    let metadata = json!({"name": "cloud-private-key", "namespace": NAMESPACE});
    let secret = |data: serde_json::Value| json!({"kind": "Secret", "apiVersion": "v1", "metadata": metadata, "data": data});
    let answers = [
        (403, status(403).to_string()),
        (500, status(500).to_string()),
        (500, said.clone()),
        (200, said.clone()),
        (200, json!(said).to_string()),
        (200, secret(json!(said)).to_string()),
        (200, secret(json!({"private-key.pem": said})).to_string()),
    ];
    // Every other answer only: each takes some seconds.
    for (code, body) in answers.into_iter().skip(round).step_by(2) {
        let code = StatusCode::from_u16(code).unwrap();
        let order = proxy.order(On::to(Verb::Get, "secrets"), Fault::Answer { code, body });
        // The operator has processed the answer when it asks again.
        harness.eventually("the answer is taken in", || order.hits() > 1);
        look("the server repeats secrets");
        order.lift();
        simulation.keep(shut, Some(PASSPHRASE));
        harness.eventually("the key is read", || {
            let (status, ..) = harness.condition(SETTINGS, "CredentialsValid");
            status == "True"
        });
    }
}

/// Runs the commands for people as an administrator, who may read Secrets.
fn the_commands(simulation: &Simulation, outputs: &mut Outputs) {
    let control_plane = simulation.harness.control_plane();
    let kubeconfig = control_plane.kubeconfig();
    let with = |arguments: &[&str]| {
        let mut command = Command::new(BINARY);
        command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
        command
    };
    for arguments in [
        &["check", "-o", "table"][..],
        &["check", "-o", "json"],
        &["check", "-o", "yaml"],
        &["check", "-o", "html"],
        &["why", "pod/web-0", "-n", "shop"],
    ] {
        outputs.run(with(arguments));
    }
    let dest = control_plane.dir().join("gathered");
    let gathered = must_gather(kubeconfig, &dest).output().unwrap();
    assert!(gathered.status.success(), "{gathered:?}");
    outputs.put("must-gather", &gathered.stdout);
    outputs.put("must-gather", &gathered.stderr);
    for (_, content) in contents(&dest) {
        outputs.put("must-gather", &content);
    }
}
