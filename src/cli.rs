//! Defines the command line.

mod ask;
mod called_as;
mod election;
mod rollout;
mod since;
mod verify_node;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use ask::{
    AcceptHostKeyArgs, CheckNodeArgs, CompletionArgs, NodesArgs, UninstallArgs, WhyArgs,
    fingerprint,
};
pub use called_as::CalledAs;
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use election::ElectionArgs;
use jiff::Timestamp;
pub use rollout::{RolloutAction, RolloutArgs, RolloutPoolArgs, RolloutStatusArgs};
pub use since::{since, since_time};
pub use verify_node::VerifyNodeArgs;
use windows_storage_operator::assess::versions::Release;
use windows_storage_operator::report::{ColorChoice, Format};

/// Keeps csi-proxy running on the Windows nodes of a cluster, and holds upgrades while in-tree volumes of Windows
/// workloads lack their CSI drivers.
#[derive(Parser)]
#[command(version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Run the controller
    ///
    /// Needs a cluster (--kubeconfig, $KUBECONFIG, ~/.kube/config or the pod's service account) on which the custom
    /// resource definitions are installed (kubectl apply -k crds), and the programs for Windows nodes (make payload).
    ///
    /// With --once the exit status is 0 if upgrades may go on, 3 if they are held, 1 if the cluster could not be read.
    Run(RunArgs),
    /// Say whether the cluster may be upgraded, and what holds it
    ///
    /// Judges what Windows workloads need for their storage: on the cluster (--kubeconfig, $KUBECONFIG or
    /// ~/.kube/config), or on files that were taken from one (-f). Changes nothing.
    ///
    /// Without --to every in-tree volume counts, whenever its plugin goes. With --to only those count whose plugin is
    /// redirected to its CSI driver, or gone, at that version.
    ///
    /// Files are what kubectl get -o yaml|json and oc adm inspect print, and must-gather trees: YAML and JSON, many
    /// documents, lists. A cluster is judged whole, so give all of: nodes, csinodes, csidrivers, pods, cronjobs,
    /// daemonsets, deployments, jobs, replicasets, replicationcontrollers, statefulsets, persistentvolumeclaims,
    /// persistentvolumes, storageclasses, runtimeclasses; where the vSphere driver is, its configmaps of the name
    /// internal-feature-states.csi.vsphere.vmware.com; where this operator is, windowsstorages and windowsnodestorages.
    /// Other kinds are only counted.
    ///
    /// The exit status is 0 if the cluster may be upgraded, 3 if not, 1 if the input or the cluster could not be read,
    /// 2 if the command line is wrong.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Gather what one needs to see from afar what is wrong
    ///
    /// Writes a folder with the judgement as table, JSON and HTML, the objects that it rests on, the logs of the
    /// operator, and from every Windows node over SSH the state of services and pipes and the logs of csi-proxy and the
    /// agent, newest first. check -f on the folder judges as check does on the cluster. Changes nothing, in the cluster or
    /// on nodes.
    ///
    /// Holds no Secrets. Of containers it holds no values of environment variables, no commands, arguments, probes and
    /// hooks, but for the path that a driver registers by; no values of most annotations and of what is called a password
    /// or the like. Logs and events are as they were written: look through them before you give them away.
    ///
    /// What cannot be had, such as a node that is dead, is a line in summary.txt and no failure: the exit status is 0.
    /// It is 1 where nothing of the cluster can be read or the folder not be written, 2 where the command line is wrong,
    /// and where this is interrupted 128 and the signal's number: 130 after Ctrl-C, 143 after TERM. Then nothing is left
    /// behind.
    ///
    /// With --since or --since-time the logs of the operator begin with the first line of that time, and logs of nodes
    /// that were last written to before it are left out. Objects and events are there as without.
    #[command(after_help = MUST_GATHER_EXAMPLES)]
    MustGather(MustGatherArgs),
    /// List the Windows nodes: what is ready, what is missing
    ///
    /// On the cluster, or on files that were taken from one (-f), as check reads them.
    ///
    /// The exit status is 0 if every node that is shown is ready, 3 if one is not, 1 if the input or the cluster could
    /// not be read or a node of that name is not there, 2 if the command line is wrong.
    #[command(after_help = NODES_EXAMPLES)]
    Nodes(NodesArgs),
    /// Say what a node, a pod or a claim lacks for its storage, and what to do next
    ///
    /// On the cluster, or on files that were taken from one (-f), as check reads them.
    ///
    /// The exit status is 0 if nothing is missing, 3 if something is, 1 if it was not found or the input or the cluster
    /// could not be read, 2 if the command line is wrong.
    #[command(after_help = WHY_EXAMPLES)]
    Why(WhyArgs),
    /// Accept the SSH host key that a node shows now in place of the one that is pinned
    #[command(long_about = ACCEPT_ABOUT, after_help = ACCEPT_EXAMPLES)]
    AcceptHostKey(AcceptHostKeyArgs),
    /// Show, pause or resume how another csi-proxy reaches the nodes
    #[command(after_help = rollout::EXAMPLES)]
    Rollout(RolloutArgs),
    /// Remove csi-proxy and the agent from all nodes, before the operator is deleted
    ///
    /// Sets spec.csiProxy.management of WindowsStorage to Removed, shows how far the operator is on each node, and waits until
    /// nothing of it is left on any. Where something still uses csi-proxy's pipes, the operator waits until nothing has for ten
    /// minutes: delete the drivers' DaemonSets for Windows first. What other owners run on nodes stays as it is.
    ///
    /// May be interrupted and run again. To take it back, set spec.csiProxy.management to Auto.
    ///
    /// The exit status is 0 when all is removed, 1 if not, 2 if the command line is wrong.
    #[command(after_help = UNINSTALL_EXAMPLES)]
    Uninstall(UninstallArgs),
    /// Look at the hosts of nodes before the operator goes there, and change nothing
    ///
    /// Logs in to each host as the operator does, with the Secret, the settings and the host keys of the operator's namespace, and
    /// says what is in the way: the connection, the host key, the login, the user's rights, SFTP, the space on drive C:. It names the
    /// shell of the SSH server, another owner of csi-proxy, and what the operator would do there.
    ///
    /// The operator need not run. Needs the rights to read what check reads, and the Secret.
    ///
    /// The exit status is 0 if nothing is in the way on any host, 3 if something is, 1 if the cluster could not be read or no such
    /// node is there, 2 if the command line is wrong.
    #[command(after_help = CHECK_NODE_EXAMPLES)]
    CheckNode(CheckNodeArgs),
    /// Try on a Windows host all that the operator does with a node
    #[command(long_about = verify_node::ABOUT, after_help = verify_node::EXAMPLES)]
    VerifyNode(VerifyNodeArgs),
    /// Print the completion script of a shell
    ///
    /// It completes the program by the name of its file, on PATH.
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion(CompletionArgs),
    /// Print the custom resource definitions as YAML
    Crds(CrdsArgs),
}

const MUST_GATHER_EXAMPLES: &str = "Examples:
  windows-storage-operator must-gather
  windows-storage-operator must-gather --dest /tmp/gathered
  windows-storage-operator must-gather --since 3h
  cat /tmp/gathered/summary.txt
  windows-storage-operator check -f /tmp/gathered
  tar -czf gathered.tar.gz -C /tmp gathered";

const CHECK_EXAMPLES: &str = "Examples:
  windows-storage-operator check
  windows-storage-operator check --to 1.27
  windows-storage-operator check -o json | jq .verdict
  windows-storage-operator check -f must-gather.local.123/
  kubectl get -A -o yaml \\
    nodes,csinodes,csidrivers,runtimeclasses,sc,pv,pvc,pods,ds,deploy,rs,sts,rc,jobs,cronjobs \\
    > cluster.yaml
  kubectl get -A -o yaml configmaps \\
    --field-selector metadata.name=internal-feature-states.csi.vsphere.vmware.com > switches.yaml
  kubectl get -A -o yaml windowsstorages,windowsnodestorages > own.yaml
  cat cluster.yaml | windows-storage-operator check -f - -f switches.yaml -f own.yaml";

const NODES_EXAMPLES: &str = "Examples:
  windows-storage-operator nodes
  windows-storage-operator nodes win-1 -o wide
  windows-storage-operator nodes -f must-gather.local.123/ -o json | jq '.items[].missingDrivers'";

const WHY_EXAMPLES: &str = "Examples:
  windows-storage-operator why node/win-1
  windows-storage-operator why pod/web-0 -n shop
  windows-storage-operator why pvc/data-web-0 -n shop -f must-gather.local.123/";

const ACCEPT_ABOUT: &str = r"Accept the SSH host key that a node shows now in place of the one that is pinned

For a node whose condition says HostKeyChanged or HostKeyUnknown: asks its host for its key, shows it beside the pinned one, and pins it if you say so. Nobody logs in to the host for that. The operator goes on with the node at once. Compare the fingerprint first, on the node's own console:

  ssh-keygen -lf C:\ProgramData\ssh\ssh_host_ed25519_key.pub

Has to reach the node's SSH port: from elsewhere, run it in the operator's own pod, as the examples show.

The exit status is 0 if the key is pinned, 1 if not, 2 if the command line is wrong.";

const ACCEPT_EXAMPLES: &str = "Examples:
  windows-storage-operator accept-host-key win-1
  windows-storage-operator accept-host-key win-1 \\
    --fingerprint SHA256:uNiVztksCsDhcc0u9e8BrBJWxOcbQlBiBhqLPJFtCfE
  windows-storage-operator accept-host-key --selector pool=blue --fingerprints blue.txt
  kubectl exec -it -n windows-storage-operator deployment/windows-storage-operator -- \\
    /usr/bin/windows-storage-operator accept-host-key win-1";

const CHECK_NODE_EXAMPLES: &str = "Examples:
  windows-storage-operator check-node
  windows-storage-operator check-node win-1 win-2
  windows-storage-operator check-node --selector pool=blue -o json | jq '.items[].problems'";

const UNINSTALL_EXAMPLES: &str = "Examples:
  windows-storage-operator uninstall
  windows-storage-operator uninstall --timeout 2h";

const COMPLETION_EXAMPLES: &str = "Examples, for the shell's own start-up file:
  source <(windows-storage-operator completion bash)
  source <(windows-storage-operator completion zsh)
  windows-storage-operator completion fish | source
  windows-storage-operator completion powershell | Out-String | Invoke-Expression";

/// Which cluster.
#[derive(Args)]
pub struct ClusterArgs {
    /// Path of the kubeconfig
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

/// What is judged.
#[derive(Args)]
pub struct InputArgs {
    /// The cluster, unless files are given.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// A file or folder to judge in place of a cluster (*.yaml, *.yml, *.json); - is standard input. May be repeated
    #[arg(long = "filename", short, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context"])]
    pub files: Vec<PathBuf>,
}

/// Arguments of `check`.
#[derive(Args)]
pub struct CheckArgs {
    /// The cluster, or files.
    #[command(flatten)]
    pub input: InputArgs,
    /// How to show the judgement
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// Whether the table is coloured; auto: on a terminal
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
    /// Judge for that version: of Kubernetes, such as 1.27, or, on OpenShift, such as 4.14
    #[arg(long, value_name = "VERSION")]
    pub to: Option<Release>,
}

/// Arguments of `must-gather`.
#[derive(Args)]
pub struct MustGatherArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The folder to write, which must not be there or be empty; by default must-gather.local. and a number
    #[arg(long, value_name = "DIR")]
    pub dest: Option<PathBuf>,
    /// The operator's namespace; by default the one that its Deployment is in
    #[arg(long, short, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The most that is taken of the logs of one node, in MiB, and half of that of one file
    #[arg(long, value_name = "MIB", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_240))]
    pub node_log_limit: u64,
    /// Logs of the last time alone.
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = since,
        conflicts_with = "since_time",
        help = "Logs of the last 5s, 2m or 3h alone; by default what $MUST_GATHER_SINCE says, which oc sets"
    )]
    pub since: Option<Timestamp>,
    /// Logs from a time on alone.
    #[arg(
        long,
        value_name = "RFC3339",
        value_parser = since_time,
        help = "Logs from then on alone, such as 2026-01-31T03:00:00Z; by default what $MUST_GATHER_SINCE_TIME says"
    )]
    pub since_time: Option<Timestamp>,
}

/// Arguments of `run`.
#[derive(Args)]
pub struct RunArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The operator's own namespace: its ConfigMaps, the Secret with the SSH key and the OperatorCondition are there
    #[arg(
        long,
        short,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        default_value = "windows-storage-operator"
    )]
    pub namespace: String,
    /// The OperatorCondition to write; OLM sets the variable. Without it the verdict is in WindowsStorage only
    #[arg(long, value_name = "NAME", env = "OPERATOR_CONDITION_NAME")]
    pub operator_condition: Option<String>,
    /// Folder with csi-proxy.exe, windows-storage-agent.exe and payload.json
    #[arg(
        long,
        value_name = "DIR",
        env = "PAYLOAD_DIR",
        default_value = "/payload"
    )]
    pub payload_dir: PathBuf,
    /// Where /healthz and /readyz are served, and /metrics to this machine alone; "none" for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081", value_parser = serve_address)]
    pub serve_address: ServeAddress,
    /// Where /metrics is served over TLS, such as [::]:8443, to those whom the cluster lets get that path
    #[arg(long, value_name = "ADDRESS", default_value = "none", value_parser = serve_address)]
    pub metrics_address: ServeAddress,
    /// Folder with tls.crt and tls.key for /metrics, read again when they change; without them a certificate is made
    #[arg(long, value_name = "DIR")]
    pub metrics_cert_dir: Option<PathBuf>,
    /// One full pass: judge, reconcile every node once, write, and end
    #[arg(long)]
    pub once: bool,
    /// Which of several acts.
    #[command(flatten)]
    pub election: ElectionArgs,
    /// What to log: error, warn, info, debug, trace, or a list such as info,hyper=debug
    #[arg(long, value_name = "LEVEL", env = "RUST_LOG", default_value = "info")]
    pub log_level: String,
    /// How to log
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Arguments of `crds`.
#[derive(Args)]
pub struct CrdsArgs {
    /// Write one file each into this folder instead
    #[arg(long, value_name = "DIR")]
    pub dest_dir: Option<PathBuf>,
}

/// How to log.
#[derive(Clone, Copy, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

/// An address, or nowhere.
type ServeAddress = Option<SocketAddr>;

fn serve_address(text: &str) -> Result<ServeAddress, &'static str> {
    if text == "none" {
        return Ok(None);
    }
    let wrong = "not an address such as 127.0.0.1:8081 or [::]:8081, and not \"none\"";
    text.parse().map(Some).map_err(|_| wrong)
}
