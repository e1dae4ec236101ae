//! The arguments of `verify-node`.

use std::path::PathBuf;

use clap::Args;

/// What `--help` begins with.
pub const ABOUT: &str = r"Try on a Windows host all that the operator does with a node

For a Windows host that is no node: installs the agent and csi-proxy over SSH as the operator does, updates csi-proxy, cuts the connection in the middle, brings a program that is no csi-proxy, upgrades the agent, uploads over a slow line, and removes it all. Takes about five minutes. Needs no cluster.

Prints a line of JSON for each step: what was expected, what was observed, and whether that is the same. The lines name no host, user or key; what a step has as its problem may quote the host: read it before you give it away.

Where the host has a kubelet, csi-proxy or the agent, nothing is tried without --destructive: pods there lose their storage, and csi-proxy and the agent are removed at the end. What an interrupted run has left is removed by the next one with --destructive.

The exit status is 0 if all was as expected, 3 if not, 1 if nothing could be tried, 2 if the command line is wrong.";

/// What `--help` ends with.
pub const EXAMPLES: &str = "Examples:
  ssh-keyscan win-1.example >> ~/.ssh/known_hosts
  windows-storage-operator verify-node -i ~/.ssh/id_ed25519 --payload-dir target/payload \\
    Administrator@win-1.example > report.json";

/// Arguments of `verify-node`.
#[derive(Args)]
pub struct VerifyNodeArgs {
    /// Who logs in where; the user must be an administrator
    #[arg(value_name = "USER@HOST", value_parser = place)]
    pub place: Place,
    /// The port of the host's SSH server
    #[arg(long, short, value_name = "PORT", default_value_t = 22)]
    pub port: u16,
    /// The private key, in PEM or OpenSSH format
    #[arg(long, short, value_name = "FILE")]
    pub identity_file: PathBuf,
    /// The private key's passphrase
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// The SSH host keys that are trusted.
    #[arg(
        long,
        value_name = "FILE",
        help = "The SSH host keys that are trusted; by default ~/.ssh/known_hosts"
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
    /// Another csi-proxy.exe to update to and from, such as an older one with the same pipes; by default the same with another hash
    #[arg(long, value_name = "FILE")]
    pub other_csi_proxy: Option<PathBuf>,
    /// How fast the slow line is, in kilobytes per second
    #[arg(long, value_name = "KB", default_value_t = 30, value_parser = clap::value_parser!(u64).range(10..=1_000_000))]
    pub slow_line: u64,
    /// Go on where the host is a node, or has csi-proxy or the agent: the operator's are replaced and removed
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
