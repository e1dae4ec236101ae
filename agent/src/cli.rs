//! The agent's command line.
//!
//! It is parsed by hand: the grammar is a few commands with a few options, and the program must stay small.

use std::time::Duration;

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Install the program and start it as a service.
    Install {
        /// The expected SHA-256 of the program's own file.
        sha256: Option<String>,
    },
    /// Hand a request to the service and wait for its result.
    Apply {
        /// The path of the request file.
        request: String,
        /// The total time to wait.
        timeout: Duration,
    },
    /// Print the state of the node.
    Status {
        /// Pipes to probe besides those of the stored request.
        pipes: Vec<String>,
    },
    /// End the service and remove what it installed.
    Uninstall {
        /// Leave csi-proxy as it is.
        keeps_csi_proxy: bool,
    },
    /// Run under the Service Control Manager.
    Service,
    /// Print the version.
    Version,
    /// Print the help.
    Help,
}

/// What `--help` prints.
pub const HELP: &str = "\
windows-storage-agent keeps csi-proxy running on this Windows node.
The operator windows-storage-operator uploads it, installs it and hands it requests over SSH.

Usage:
  windows-storage-agent install [--sha256 HEX]
      Put this program at C:\\k\\windows-storage-agent.exe and start it as the service windows-storage-agent.
      With --sha256 it refuses unless its own file has that hash. May be run again at any time.
  windows-storage-agent apply --request FILE [--timeout SECONDS]
      Hand the request FILE, in C:\\k\\windows-storage\\incoming, to the service and wait for the result
      (300 seconds unless said otherwise). The service finishes even if this command is stopped.
      A packed program that the request names is unpacked first.
  windows-storage-agent status [--pipe NAME]...
      Show csi-proxy's service, its program and its pipes, and the pipes named here.
      Changes nothing, and works while the service is down.
  windows-storage-agent uninstall [--keep-csi-proxy]
      End the agent's service and remove it with all its files, and csi-proxy where the agent has made its service. With
      --keep-csi-proxy that goes on as it is. Other services go on in any case. May be run again at any time.
  windows-storage-agent service
      What the Service Control Manager runs. Not for use by hand.
  windows-storage-agent version | --version | --help

Each of install, apply, status and uninstall prints one JSON object as the last line of its output.
Exit status: 0 done, 1 it failed (the JSON says why), 2 wrong usage.

Try:
  C:\\k\\windows-storage-agent.exe status --pipe csi-proxy-filesystem-v1
  type C:\\var\\log\\windows-storage-agent\\agent.log
";

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);

/// Parses the arguments after the program's name; the error is one line for the user.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut arguments = arguments.into_iter();
    let name = arguments
        .next()
        .ok_or("a command is missing: install, apply, status, uninstall, service or version")?;
    let mut command = match name.as_str() {
        "install" => Command::Install { sha256: None },
        "apply" => Command::Apply {
            request: String::new(),
            timeout: DEFAULT_TIMEOUT,
        },
        "status" => Command::Status { pipes: Vec::new() },
        "uninstall" => Command::Uninstall {
            keeps_csi_proxy: false,
        },
        "service" => Command::Service,
        "version" | "--version" | "-V" => Command::Version,
        "help" | "--help" | "-h" => Command::Help,
        _ => {
            return Err(format!(
                "'{name}' is not a command: install, apply, status, uninstall, service or version"
            ));
        }
    };
    while let Some(argument) = arguments.next() {
        if argument == "--help" || argument == "-h" {
            return Ok(Command::Help);
        }
        if !argument.starts_with("--") {
            return Err(format!("'{argument}' is not expected here"));
        }
        if let (Command::Uninstall { keeps_csi_proxy }, "--keep-csi-proxy") =
            (&mut command, argument.as_str())
        {
            *keeps_csi_proxy = true;
            continue;
        }
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (argument.as_str(), arguments.next()),
        };
        let value = value.ok_or_else(|| format!("{option} needs a value"))?;
        match (&mut command, option) {
            (Command::Install { sha256 }, "--sha256") => *sha256 = Some(value.to_ascii_lowercase()),
            (Command::Apply { request, .. }, "--request") => *request = value,
            (Command::Apply { timeout, .. }, "--timeout") => *timeout = seconds(option, &value)?,
            (Command::Status { pipes }, "--pipe") => pipes.push(value),
            _ => return Err(format!("{name} has no option {option}")),
        }
    }
    match command {
        Command::Apply { request, .. } if request.is_empty() => {
            Err("apply needs --request FILE".to_owned())
        }
        command => Ok(command),
    }
}

fn seconds(option: &str, text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds)),
        _ => Err(format!(
            "{option} wants a number of seconds above 0, not '{text}'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn reads_every_command() {
        let install = |sha256: Option<&str>| Command::Install {
            sha256: sha256.map(str::to_owned),
        };
        let apply = |timeout| Command::Apply {
            request: r"C:\k\r.json".into(),
            timeout: Duration::from_secs(timeout),
        };
        let status = Command::Status {
            pipes: vec!["p".into()],
        };
        let uninstall = |keeps_csi_proxy| Command::Uninstall { keeps_csi_proxy };
        for (line, command) in [
            ("install", install(None)),
            ("install --sha256 AB", install(Some("ab"))),
            (r"apply --request C:\k\r.json --timeout=7", apply(7)),
            (r"apply --request C:\k\r.json", apply(300)),
            ("status --pipe p", status),
            ("uninstall", uninstall(false)),
            ("uninstall --keep-csi-proxy", uninstall(true)),
            ("service", Command::Service),
            ("--version", Command::Version),
            ("apply --help", Command::Help),
        ] {
            assert_eq!(words(line), Ok(command), "{line}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for line in [
            "",
            "fly",
            "apply",
            "apply --request",
            "apply --request x --timeout 0",
            "apply --request x --timeout soon",
            "status x",
            "status --keep-csi-proxy",
            "uninstall --keep",
            "service --file x",
        ] {
            assert!(words(line).is_err(), "{line}");
        }
        assert_eq!(
            words("install --force yes"),
            Err("install has no option --force".into())
        );
    }
}
