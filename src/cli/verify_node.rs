//! The arguments of `verify-node`.

use std::path::PathBuf;

use clap::Args;

/// What `--help` begins with.
pub const ABOUT: &str = r"Test on a Windows host everything that the operator does to a node

Use a Windows host that is not a node. The command installs the agent and csi-proxy over SSH as the operator does, updates csi-proxy, cuts the connection in the middle, sends a program that is not csi-proxy, upgrades the agent, uploads over a slow connection, and removes everything. It takes about five minutes and needs no cluster.

Prints one line of JSON per step: what was expected, what was observed, and whether they match. The lines name no host, user or key, but the problem of a failed step may quote the host: read it before you share it.

On a host with a kubelet, csi-proxy or the agent, the command changes nothing unless you give --destructive: pods there lose their storage, and csi-proxy and the agent are removed at the end. After an interrupted run, run it again with --destructive to clean up.

The exit status is 0 if everything was as expected, 3 if not, 1 if nothing could be tested, 2 if the command line is wrong.";

/// What `--help` ends with.
pub const EXAMPLES: &str = "Examples:
  ssh-keyscan win-1.example >> ~/.ssh/known_hosts
  windows-storage-operator verify-node -i ~/.ssh/id_ed25519 --payload-dir target/payload \\
    Administrator@win-1.example > report.json";

/// Arguments of `verify-node`.
#[derive(Args)]
pub struct VerifyNodeArgs {
    /// The user to log in as, who must be an administrator, and the host
    #[arg(value_name = "USER@HOST", value_parser = place)]
    pub place: Place,
    /// Port of the host's SSH server
    #[arg(long, short, value_name = "PORT", default_value_t = 22)]
    pub port: u16,
    /// File with the private key, in PEM or OpenSSH format
    #[arg(long, short, value_name = "FILE")]
    pub identity_file: PathBuf,
    /// File with the passphrase of the private key
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// The SSH host keys that are trusted.
    #[arg(
        long,
        value_name = "FILE",
        help = "File with the trusted SSH host keys; by default ~/.ssh/known_hosts"
    )]
    pub known_hosts: Option<PathBuf>,
    /// Folder with csi-proxy.exe, windows-storage-agent.exe and payload.json
    #[arg(
        long,
        value_name = "DIR",
        env = "PAYLOAD_DIR",
        default_value = "/payload"
    )]
    pub payload_dir: PathBuf,
    /// A second csi-proxy.exe for the update, with the same pipes; by default the same program with another hash
    #[arg(long, value_name = "FILE")]
    pub other_csi_proxy: Option<PathBuf>,
    /// Speed of the slow connection, in kilobytes per second
    #[arg(long, value_name = "KB", default_value_t = 30, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    pub slow_line: u64,
    /// Continue on a host that is a node, or has csi-proxy or the agent; csi-proxy and the agent are replaced and removed
    #[arg(long)]
    pub destructive: bool,
}

/// A user on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Who logs in.
    pub user: String,
    /// A name, or an address.
    pub host: String,
}

fn place(text: &str) -> Result<Place, &'static str> {
    // A domain's user may have an @ as well.
    let (user, host) = text.rsplit_once('@').unwrap_or_default();
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    if user.is_empty() || host.is_empty() {
        return Err("not a user and a host such as Administrator@win-1.example");
    }
    Ok(Place {
        user: user.to_owned(),
        host: host.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_user_and_a_host() {
        for (text, user, host) in [
            ("Administrator@win-1", "Administrator", "win-1"),
            (r"CORP\ops@10.0.0.7", r"CORP\ops", "10.0.0.7"),
            ("ops@corp.example@[fd00::7]", "ops@corp.example", "fd00::7"),
        ] {
            let (user, host) = (user.to_owned(), host.to_owned());
            assert_eq!(place(text), Ok(Place { user, host }));
        }
        for wrong in ["", "win-1", "@win-1", "ops@", "ops@[]"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
