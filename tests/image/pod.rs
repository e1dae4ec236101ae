//! Runs the operator from the image as the manifest's pod does: as its user, with a read-only root file system, without
//! capabilities and without privilege escalation, with a ServiceAccount token, and without /proc and /dev.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use simulated_host::SimulatedFleet;
use testbed::cleanup::{Guardian, MARK};
use testbed::commands::printed;
use testbed::control_plane::Issuer;
use testbed::objects::{self, NAMESPACE};
use testbed::sandbox::Sandbox;

use crate::archive::Image;

/// Longer than any step takes on a loaded machine; only a failure waits this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Parameters: `$1` root, `$2` uid, `$3` gid, `$4` program; the rest are its arguments.
const CONFINE: &str = r#"
root=$1 uid=$2 gid=$3 program=$4
shift 4
PATH=$PATH:/usr/sbin:/sbin
exec capsh --no-new-privs --groups="$gid" --gid="$gid" --chroot="$root" --drop=all --uid="$uid" --shell="$program" -- "$@"
"#;
/// Prepended to `CONFINE` where this machine allows mounts.
const READ_ONLY: &str = r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit"#;

struct Pod {
    child: Child,
    log: PathBuf,
    mounted: bool,
    _guardian: Guardian,
}

impl Pod {
    /// Starts the operator as this user and group, or as the image's own user.
    fn start(sandbox: &Sandbox, user: Option<&str>) -> Self {
        let image = Image::get();
        let config = &image.config["config"];
        let guardian = Guardian::temp("pod").unwrap();
        let root = guardian.dir().join("root");
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--reflink=auto"]);
        printed(copy.args([&image.root, &root])).unwrap();
        write_service_account(sandbox, &root, NAMESPACE, "windows-storage-operator");

        let user = user.or_else(|| config["User"].as_str()).unwrap();
        let (uid, gid) = user.split_once(':').unwrap();
        let arguments: Vec<String> = manifest_arguments()
            .into_iter()
            .map(|argument| argument.replace(":8081", ":0"))
            .map(|argument| argument.replace("[::]:8443", "127.0.0.1:0"))
            .collect();
        assert!(arguments.iter().any(|it| it == "--serve-address=[::]:0"));
        let log = guardian.dir().join("log");
        let output = File::create(&log).unwrap();
        let namespaces = namespaces();
        let mounted = namespaces.is_some();
        let mut command = if let Some(arguments) = namespaces {
            let mut command = guardian.command("unshare");
            command.args(arguments).arg("sh");
            command
        } else {
            // As in a container that may not mount. Files that the user cannot write are as good as read-only.
            eprintln!("this machine does not let us mount: /tmp is only made unwritable");
            fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o555)).unwrap();
            guardian.command("sh")
        };
        let script = if mounted { READ_ONLY } else { "" };
        command
            .args(["-c", &format!("{script}\n{CONFINE}"), "pod"])
            .arg(&root)
            .args([uid, gid])
            .arg(config["Entrypoint"][0].as_str().unwrap())
            .args(arguments)
            .env_clear()
            .env(MARK, guardian.dir());
        for variable in config["Env"].as_array().unwrap() {
            let (name, value) = variable.as_str().unwrap().split_once('=').unwrap();
            command.env(name, value);
        }
        let server = sandbox.control_plane.server();
        let server = server.trim_start_matches("https://");
        let (host, api_port) = server.split_once(':').unwrap();
        command
            .env("KUBERNETES_SERVICE_HOST", host)
            .env("KUBERNETES_SERVICE_PORT", api_port)
            .env("POD_NAMESPACE", NAMESPACE)
            .env("POD_NAME", "windows-storage-operator-0")
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output);
        Self {
            child: command.spawn().unwrap(),
            log,
            mounted,
            _guardian: guardian,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    fn eventually(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("it ended with {status} before: {what}\n{}", self.log());
            }
            assert!(
                Instant::now() < deadline,
                "not within {PATIENCE:?}: {what}\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Sends a GET request to the operator, at the port that its log names, and returns the status line of the answer.
    fn get(&self, path: &str) -> Option<String> {
        let log = self.log();
        let (_, rest) = log.split_once("served on http://[::]:")?;
        let port = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer.lines().next().map(str::to_owned)
    }

    /// Returns the words of a line of `/proc/PID/status`.
    fn status(&self, key: &str) -> Vec<String> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{key}:")))
            .unwrap_or_else(|| panic!("no {key} in\n{status}"));
        line.split_whitespace().map(str::to_owned).collect()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = Guardian::stop(&mut self.child);
    }
}

/// Writes the files that a kubelet mounts into a container for its ServiceAccount.
pub fn write_service_account(sandbox: &Sandbox, root: &Path, namespace: &str, name: &str) {
    let control_plane = &sandbox.control_plane;
    let token = ["create", "token", "--namespace", namespace, name];
    let token = control_plane.kubectl(&token).unwrap();
    let dir = root.join("run/secrets/kubernetes.io/serviceaccount");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("token"), token.trim()).unwrap();
    fs::write(dir.join("namespace"), namespace).unwrap();
    let authority = control_plane.authorities(&[Issuer::First]).unwrap();
    fs::write(dir.join("ca.crt"), authority).unwrap();
}

/// Returns the operator's arguments in the Deployment.
fn manifest_arguments() -> Vec<String> {
    let deployment: Value =
        serde_yaml::from_str(include_str!("../../manifests/deployment.yaml")).unwrap();
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    serde_json::from_value(arguments.clone()).unwrap()
}

/// Returns the options of `unshare` that allow mounts; without root, in a user namespace.
pub fn namespaces() -> Option<Vec<&'static str>> {
    let mut arguments = vec!["--mount", "--propagation", "private"];
    if !is_root() {
        arguments.extend(["--user", "--map-root-user", "--map-auto"]);
    }
    let tried = Command::new("unshare")
        .args(&arguments)
        .args(["mount", "--bind", "/", "/"])
        .status()
        .unwrap();
    // There is no fallback without root: chroot needs root as well.
    assert!(tried.success() || is_root(), "no user namespaces: {tried}");
    tried.success().then_some(arguments)
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn it_runs_confined_and_does_its_work() {
    does_its_work(None, ["65532", "65532"]);
}

/// OpenShift assigns a user ID from the namespace's range, and the group root. Its real IDs are higher than this one:
/// too high for a user namespace here.
#[test]
fn as_a_user_that_openshift_picks_it_does_as_well() {
    does_its_work(Some("54321:0"), ["54321", "0"]);
}

fn does_its_work(user: Option<&str>, [uid, gid]: [&str; 2]) {
    let sandbox = Sandbox::reuse().unwrap();
    let fleet = SimulatedFleet::new().unwrap();
    let host = fleet.add_host("win-1").unwrap();
    sandbox
        .add_node("win-1", Some(&host.address().to_string()))
        .unwrap();
    sandbox.register("win-1", &[]).unwrap();
    for objects in [
        objects::ssh_secret(&fleet.private_key().unwrap()),
        objects::settings(fleet.port(), fleet.user()),
        objects::azure_disk_workload("win-1"),
    ] {
        sandbox.control_plane.apply(&objects).unwrap();
    }

    let mut pod = Pod::start(&sandbox, user);
    pod.eventually("it is ready", |pod| {
        pod.get("/readyz")
            .is_some_and(|line| line.contains(" 200 "))
    });
    assert!(pod.get("/healthz").unwrap().contains(" 200 "));

    // Checked from outside the process, so that the test does not rely on the confinement it sets up.
    if is_root() {
        assert_eq!(pod.status("Uid"), [uid; 4]);
        assert_eq!(pod.status("Gid"), [gid; 4]);
    }
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(pod.status(set), ["0000000000000000"], "{set}");
    }
    assert_eq!(pod.status("NoNewPrivs"), ["1"]);
    if pod.mounted {
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", pod.child.id())).unwrap();
        // mountinfo lists only mounts below the process's root directory.
        let [root] = mounts.lines().collect::<Vec<_>>()[..] else {
            panic!("not one mount: {mounts}");
        };
        let fields: Vec<&str> = root.split(' ').collect();
        assert_eq!(fields[4], "/");
        assert!(fields[5].split(',').any(|option| option == "ro"), "{root}");
    }

    let wait_for = |object, condition| {
        let waited = sandbox.wait_for(object, condition, 120);
        waited.unwrap_or_else(|error| panic!("{error:#}\n{}", pod.log()));
    };
    let missing =
        r#"jsonpath={.status.conditions[?(@.type=="Upgradeable")].reason}=DriversMissing"#;
    wait_for("windowsstorage/cluster", "condition=Upgradeable=False");
    wait_for("windowsstorage/cluster", missing);
    // The programs of /payload are installed on the host.
    wait_for("windowsnodestorage/win-1", "condition=CSIProxyReady");
    sandbox.register("win-1", &["disk.csi.azure.com"]).unwrap();
    wait_for("windowsstorage/cluster", "condition=Upgradeable");
    let log = pod.log();
    for complaint in ["forbidden", "Read-only file system", "ermission denied"] {
        assert!(!log.contains(complaint), "{complaint}:\n{log}");
    }
}
