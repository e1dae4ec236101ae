//! The arguments of `check hosts`, `why`, `uninstall` and `accept-host-key`.

use std::time::Duration;

use clap::{Args, ColorChoice};
use jiff::SignedDuration;
use windows_storage_operator::report::Format;

use super::{ClusterArgs, InputArgs};

/// Arguments of `check hosts`.
#[derive(Args)]
pub struct CheckHostsArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Only these nodes; by default all Windows nodes
    #[arg(value_name = "NODE")]
    pub names: Vec<String>,
    /// Only nodes with these labels, such as pool=blue
    #[arg(long, short = 'l', value_name = "LABELS", conflicts_with = "names")]
    pub selector: Option<String>,
    /// Namespace of the operator, with the Secret that holds the SSH key; by default that of its Deployment
    #[arg(long, short, value_name = "NAME", env = "POD_NAMESPACE")]
    pub namespace: Option<String>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    pub output: Format,
    /// When to colour the table; auto: on a terminal
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
}

/// Arguments of `why`.
#[derive(Args)]
pub struct WhyArgs {
    /// The cluster, or files.
    #[command(flatten)]
    pub input: InputArgs,
    /// node/NAME, pod/NAME, pvc/NAME, pv/NAME or another workload such as deployment/NAME. A NAME alone is searched among
    /// nodes, then pods, claims, other workloads and volumes
    #[arg(value_name = "NODE|POD|PVC", num_args = 1..=2, required = true)]
    pub subject: Vec<String>,
    /// Namespace of the pod, claim or workload; by default the context's, or "default"
    #[arg(long, short, value_name = "NAME")]
    pub namespace: Option<String>,
    /// When to colour the answer; auto: on a terminal
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,
}

/// Arguments of `uninstall`.
#[derive(Args)]
pub struct UninstallArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// How long to wait, such as 90s, 30m or 2h; 0s waits forever
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = timeout)]
    pub timeout: SignedDuration,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

/// A time to wait for an answer.
pub(super) fn request_timeout(text: &str) -> Result<Duration, &'static str> {
    // As kubectl: a number alone is one of seconds.
    let seconds = text.trim().parse().ok().map(Duration::from_secs);
    let duration = timeout(text).ok().map(SignedDuration::unsigned_abs);
    let duration = seconds.or(duration);
    let usable = duration.filter(|duration| *duration > Duration::ZERO);
    usable.ok_or("not a duration such as 5s or 2m")
}

/// A time to wait, or zero.
pub(super) fn timeout(text: &str) -> Result<SignedDuration, &'static str> {
    let duration: Option<SignedDuration> = text.trim().parse().ok();
    let usable = duration.filter(|duration| !duration.is_negative());
    usable.ok_or("not a duration such as 90s, 30m or 2h")
}

/// Arguments of `accept-host-key`.
#[derive(Args)]
pub struct AcceptHostKeyArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// The node whose host has another key
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Namespace of the operator, with the ConfigMap windows-storage-host-keys; by default that of its Deployment
    #[arg(long, short, value_name = "NAME", env = "POD_NAMESPACE")]
    pub namespace: Option<String>,
    /// Accept the key, without asking, if it has this fingerprint, as ssh-keygen -l shows it on the node
    #[arg(long, value_name = "SHA256:HASH", value_parser = fingerprint)]
    pub fingerprint: Option<String>,
    /// Accept any key that the host has now, without asking
    #[arg(long, short)]
    pub yes: bool,
}

/// Takes a fingerprint, also with the full stop of the sentence that it ends.
fn fingerprint(text: &str) -> Result<String, &'static str> {
    let text = text.trim_end_matches('.');
    let hash = text.strip_prefix("SHA256:").unwrap_or_default();
    (!hash.is_empty())
        .then(|| text.to_owned())
        .ok_or("not a fingerprint such as SHA256:FRrd9fNHKxrZ1R…, as ssh-keygen -l shows it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_may_end_a_sentence() {
        let taken = Ok("SHA256:FRrd9f".to_owned());
        assert_eq!(fingerprint("SHA256:FRrd9f"), taken);
        assert_eq!(fingerprint("SHA256:FRrd9f."), taken);
        assert!(fingerprint("MD5:00:11").is_err());
        assert!(fingerprint("SHA256:").is_err());
    }
}
