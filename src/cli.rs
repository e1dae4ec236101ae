//! Defines the command line.

mod ask;
mod called_as;
mod election;
mod rollout;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use ask::{AcceptHostKeyArgs, CheckHostsArgs, UninstallArgs, WhyArgs};
pub use called_as::command;
use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
pub use election::ElectionArgs;
pub use rollout::{RolloutAction, RolloutArgs, RolloutPoolArgs, RolloutStatusArgs};
use windows_storage_operator::assess::versions::Release;
use windows_storage_operator::report::Format;

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
    Run(RunArgs),
    /// Check whether the cluster can be upgraded, and what holds the upgrade
    ///
    /// Checks what the storage of Windows workloads needs, on the cluster (--kubeconfig, $KUBECONFIG or ~/.kube/config)
    /// or in files taken from one (-f). Changes nothing.
    ///
    /// Without --to, every in-tree volume counts, whenever Kubernetes removes its plugin. With --to, a volume counts only
    /// if that version redirects its plugin to a CSI driver or no longer has the plugin.
    ///
    /// Files can be the output of kubectl get -o yaml|json and oc adm inspect, or a must-gather folder: YAML or JSON, with
    /// several documents and lists. Give all objects of these kinds: nodes, namespaces, csinodes, csidrivers, pods,
    /// cronjobs, daemonsets, deployments, jobs, replicasets, replicationcontrollers, statefulsets, persistentvolumeclaims,
    /// persistentvolumes, storageclasses, runtimeclasses. With the vSphere driver, add its configmaps named
    /// internal-feature-states.csi.vsphere.vmware.com; with this operator, windowsstorages and windowsnodestorages. Other
    /// kinds are counted and ignored.
    ///
    /// The verdict is unknown if something could not be read, or if files evidently lack something, such as all claims of a
    /// namespace in which Windows workloads use some. The message says what to add. Unpack archives before.
    ///
    /// The exit status is 0 if the cluster can be upgraded, 3 if not, 4 if that is unknown, 1 if nothing could be read,
    /// 2 if the command line is wrong.
    #[command(after_help = CHECK_EXAMPLES, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
    Check(CheckArgs),
    /// Collect what is needed to find a problem from elsewhere
    ///
    /// Writes a folder with the report of check (table, JSON and HTML), the objects behind it and the operator's logs. From
    /// every Windows node, it gets over SSH the state of services and pipes and the logs of csi-proxy and the agent, newest
    /// first. check -f on the folder gives the same verdict as check on the cluster. Changes nothing, in the cluster or on
    /// nodes.
    ///
    /// Contains no Secrets. It leaves out the values of environment variables, commands, arguments, probes and hooks of
    /// containers (except the path by which a driver registers), the values of most annotations, and values whose names
    /// suggest a password. Of a line in a log, all after a password, token or key is left out. Patterns cannot find every
    /// secret: read logs and events before you share them.
    ///
    /// What cannot be collected, for example from a node that is down, is listed in summary.txt, and the exit status is
    /// still 0. It is 1 if nothing of the cluster could be read or the folder could not be written, 2 if the command line is
    /// wrong, and 128 plus the signal's number if interrupted (130 for Ctrl-C, 143 for TERM). An interrupted command leaves
    /// nothing behind.
    #[command(after_help = MUST_GATHER_EXAMPLES)]
    MustGather(MustGatherArgs),
    /// Explain what the storage of a node, a pod or a claim lacks, and what to do next
    ///
    /// Reads the cluster, or files taken from one (-f), as check does.
    ///
    /// The exit status is 0 if nothing is missing, 3 if something is, 4 if that is unknown because not everything could be
    /// read, 1 if it was not found or nothing could be read, 2 if the command line is wrong.
    #[command(after_help = WHY_EXAMPLES)]
    Why(WhyArgs),
    /// Accept a node's current SSH host key in place of the pinned one
    #[command(long_about = ACCEPT_ABOUT, after_help = ACCEPT_EXAMPLES)]
    AcceptHostKey(AcceptHostKeyArgs),
    /// Show, pause or resume the rollout of csi-proxy to the nodes
    #[command(after_help = rollout::EXAMPLES)]
    Rollout(RolloutArgs),
    /// Remove csi-proxy and the agent from all nodes, before you delete the operator
    ///
    /// Sets spec.csiProxy.management of WindowsStorage to Removed, shows the progress, and waits until the operator
    /// has removed everything of its own from all nodes. While something uses csi-proxy's pipes on a node, the operator waits
    /// until nothing has used them for ten minutes: delete the drivers' DaemonSets for Windows first. What other owners run on
    /// nodes is not touched.
    ///
    /// The command names the nodes and asks first; without a terminal it needs --yes. You can interrupt the command and run it again. To cancel the removal, set spec.csiProxy.management to Auto.
    ///
    /// The exit status is 0 when everything is removed, 1 if not, 2 if the command line is wrong.
    #[command(after_help = UNINSTALL_EXAMPLES)]
    Uninstall(UninstallArgs),
    /// Print the custom resource definitions as YAML
    Crds(CrdsArgs),
}

const MUST_GATHER_EXAMPLES: &str = "Examples:
  windows-storage-operator must-gather
  windows-storage-operator must-gather --dest /tmp/gathered
  cat /tmp/gathered/summary.txt
  windows-storage-operator check -f /tmp/gathered
  tar -czf gathered.tar.gz -C /tmp gathered";

const CHECK_EXAMPLES: &str = "Examples:
  windows-storage-operator check
  windows-storage-operator check --to 1.27
  windows-storage-operator check --drain win-1
  windows-storage-operator check -o json | jq .verdict
  windows-storage-operator check -f must-gather.local.123/
  kubectl get -A -o yaml \\
    nodes,ns,csinodes,csidrivers,runtimeclasses,sc,pv,pvc,pods,ds,deploy,rs,sts,rc,jobs,cronjobs \\
    > cluster.yaml
  kubectl get -A -o yaml configmaps \\
    --field-selector metadata.name=internal-feature-states.csi.vsphere.vmware.com > switches.yaml
  kubectl get -A -o yaml windowsstorages,windowsnodestorages > own.yaml
  cat cluster.yaml | windows-storage-operator check -f - -f switches.yaml -f own.yaml";

const WHY_EXAMPLES: &str = "Examples:
  windows-storage-operator why node/win-1
  windows-storage-operator why pod/web-0 -n shop
  windows-storage-operator why pvc/data-web-0 -n shop -f must-gather.local.123/";

const ACCEPT_ABOUT: &str = r"Accept a node's current SSH host key in place of the pinned one

Use it for a node whose condition has the reason HostKeyChanged or HostKeyUnknown. The command asks the host for its key without logging in, shows it beside the pinned one, and pins it if you confirm. The operator then continues with the node at once. First compare the fingerprint on the node's own console:

  ssh-keygen -lf C:\ProgramData\ssh\ssh_host_ed25519_key.pub

The command must reach the node's SSH port. If it cannot from your machine, run it in the operator's pod, as in the examples.

The exit status is 0 if the key is pinned, 1 if not, 2 if the command line is wrong.";

const ACCEPT_EXAMPLES: &str = "Examples:
  windows-storage-operator accept-host-key win-1
  windows-storage-operator accept-host-key win-1 \\
    --fingerprint SHA256:uNiVztksCsDhcc0u9e8BrBJWxOcbQlBiBhqLPJFtCfE
  kubectl exec -it -n windows-storage-operator deployment/windows-storage-operator -- \\
    /usr/bin/windows-storage-operator accept-host-key win-1";

const CHECK_HOSTS_EXAMPLES: &str = "Examples:
  windows-storage-operator check hosts
  windows-storage-operator check hosts win-1 win-2
  windows-storage-operator check hosts --selector pool=blue -o json | jq '.items[].problems'";

const UNINSTALL_EXAMPLES: &str = "Examples:
  windows-storage-operator uninstall
  windows-storage-operator uninstall --timeout 2h";

/// Which cluster.
#[derive(Args)]
pub struct ClusterArgs {
    /// Path to the kubeconfig file
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Name of the kubeconfig context to use
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// User to act as, if you may impersonate that user
    #[arg(long = "as", value_name = "USER")]
    pub act_as: Option<String>,
    /// How long to wait for an answer of the API server, such as 5s or 2m; by default 15s, and for lists a minute
    #[arg(long, value_name = "DURATION", value_parser = ask::request_timeout)]
    pub request_timeout: Option<Duration>,
}

/// What is judged.
#[derive(Args)]
pub struct InputArgs {
    /// The cluster, unless files are given.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// File or folder to read instead of a cluster (*.yaml, *.yml, *.json); - reads standard input. Can be repeated
    #[arg(long = "filename", short, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context", "act_as", "request_timeout"])]
    pub files: Vec<PathBuf>,
    /// Also say on standard error what was read
    #[arg(long, short)]
    pub verbose: bool,
}

/// What `check` can look at in place of storage.
#[derive(Subcommand)]
pub enum CheckCommand {
    /// Check the hosts of nodes before the operator manages them; changes nothing
    ///
    /// Logs in to each host as the operator does, with the Secret, the settings and the host keys in the operator's namespace, and
    /// reports problems: connection, host key, login, the user's rights, SFTP, free space on drive C:. Also reports the shell of the
    /// SSH server, another owner of csi-proxy, and what the operator would do on the node.
    ///
    /// The operator does not have to run. You need permission to read what check reads, and the Secret.
    ///
    /// The exit status is 0 if no host has a problem, 3 if one has, 1 if the cluster could not be read or a named node does not
    /// exist, 2 if the command line is wrong.
    #[command(after_help = CHECK_HOSTS_EXAMPLES)]
    Hosts(CheckHostsArgs),
}

/// Arguments of `check`.
#[derive(Args)]
pub struct CheckArgs {
    /// Something else to check.
    #[command(subcommand)]
    pub command: Option<CheckCommand>,
    /// The cluster, or files.
    #[command(flatten)]
    pub input: InputArgs,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// When to colour the table; auto: on a terminal
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
    /// Version to upgrade to: of Kubernetes, such as 1.27, or on OpenShift, such as 4.14
    #[arg(long, value_name = "VERSION")]
    pub to: Option<Release>,
    /// Only the pods of this node: which could not mount their volumes if they started again there, as after its upgrade
    #[arg(long, value_name = "NODE", conflicts_with = "drain")]
    pub node: Option<String>,
    /// Only the pods of this node: which could mount their volumes on no other node if it were drained
    #[arg(long, value_name = "NODE")]
    pub drain: Option<String>,
}

/// Arguments of `must-gather`.
#[derive(Args)]
pub struct MustGatherArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Folder to write, which must be new or empty; by default must-gather.local. and a number
    #[arg(long, value_name = "DIR")]
    pub dest: Option<PathBuf>,
    /// Namespace of the operator; by default that of its Deployment
    #[arg(long, short, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Largest size of the logs of one node, in MiB; a single file gets at most half of it
    #[arg(long, value_name = "MIB", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_240))]
    pub node_log_limit: u64,
}

/// Arguments of `run`.
#[derive(Args)]
pub struct RunArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Namespace of the operator, with its ConfigMaps, the Secret with the SSH key and the OperatorCondition
    #[arg(
        long,
        short,
        value_name = "NAME",
        env = "POD_NAMESPACE",
        default_value = "windows-storage-operator"
    )]
    pub namespace: String,
    /// OperatorCondition to write; OLM sets the variable. Without it, the verdict is only in WindowsStorage
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
    /// Seconds between two checks of a node that is well; tests shorten it
    #[arg(long, value_name = "SECONDS", default_value_t = 300, hide = true)]
    pub probe_interval: u64,
    /// Address for /healthz and /readyz, and for /metrics to local clients only; "none" to disable
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081", value_parser = serve_address)]
    pub serve_address: ServeAddress,
    /// Address for /metrics over TLS, such as [::]:8443, for clients that RBAC allows to get that path; "none" to disable
    #[arg(long, value_name = "ADDRESS", default_value = "none", value_parser = serve_address)]
    pub metrics_address: ServeAddress,
    /// Folder with tls.crt and tls.key for /metrics, reloaded when they change; by default the certificate is self-signed
    #[arg(long, value_name = "DIR")]
    pub metrics_cert_dir: Option<PathBuf>,
    /// Which of several acts.
    #[command(flatten)]
    pub election: ElectionArgs,
    /// What to log: error, warn, info, debug, trace, or a list such as info,hyper=debug
    #[arg(long, value_name = "LEVEL", env = "RUST_LOG", default_value = "info")]
    pub log_level: String,
    /// Log format
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Arguments of `crds`.
#[derive(Args)]
pub struct CrdsArgs {
    /// Write one file for each definition to this folder instead
    #[arg(long, value_name = "DIR")]
    pub dest_dir: Option<PathBuf>,
}

/// How to log.
#[derive(Clone, Copy, ValueEnum)]
pub enum LogFormat {
    /// Human-readable lines
    Text,
    /// One JSON object per line
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
