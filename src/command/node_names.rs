//! Names of Windows nodes for a shell that completes a line: those of the cluster that the line names, and no other's.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;

use crate::cli::ClusterArgs;
use crate::command::connect;

/// How long somebody waits who has pressed a key. Without an answer by then nothing is offered.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than one can choose from.
const MOST: u32 = 500;
/// What may stand before a name where it may be one of something else.
const KIND: &str = "node/";

/// Adds the names to what the commands about nodes are completed with.
pub fn add(command: clap::Command) -> clap::Command {
    let [plain, chosen, subject] = [false, false, true].map(|with_kind| {
        ArgValueCompleter::new(move |current: &OsStr| candidates(current, with_kind))
    });
    command
        .mut_subcommand("nodes", |nodes| {
            nodes.mut_arg("names", |arg| arg.add(plain))
        })
        .mut_subcommand("accept-host-key", |accept| {
            accept.mut_arg("node", |arg| arg.add(chosen))
        })
        .mut_subcommand("why", |why| why.mut_arg("subject", |arg| arg.add(subject)))
}

fn candidates(current: &OsStr, with_kind: bool) -> Vec<CompletionCandidate> {
    let (Some(current), Some(cluster)) = (current.to_str(), cluster_of(std::env::args_os())) else {
        return Vec::new();
    };
    let is_with_kind = with_kind && current.starts_with(KIND);
    let kind = if is_with_kind { KIND } else { "" };
    let names = names(&cluster).into_iter();
    let offered = names.map(|name| format!("{kind}{name}"));
    let fitting = offered.filter(|name| name.starts_with(current));
    fitting.map(CompletionCandidate::new).collect()
}

/// The cluster that a line names; `None` where it is about files, or names one in a way that is not understood here.
fn cluster_of(words: impl Iterator<Item = OsString>) -> Option<ClusterArgs> {
    let mut cluster = ClusterArgs {
        kubeconfig: None,
        context: None,
    };
    let mut words = words.map(|word| word.into_string().ok());
    while let Some(word) = words.next() {
        let word = word?;
        let is_of_files =
            word.starts_with("--filename") || word.starts_with("-f") && !word.starts_with("--");
        if is_of_files {
            return None;
        }
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (&*word, None),
        };
        if !["--kubeconfig", "--context"].contains(&option) {
            continue;
        }
        let value = match value {
            Some(value) => value,
            // bash takes words apart at the sign as well.
            None => match words.next()?? {
                sign if sign == "=" => words.next()??,
                value => value,
            },
        };
        match option {
            "--kubeconfig" => cluster.kubeconfig = Some(value.into()),
            _ => cluster.context = Some(value),
        }
    }
    Some(cluster)
}

/// In order; none where the cluster cannot be asked.
fn names(cluster: &ClusterArgs) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let listed = runtime.block_on(async {
        let asking = async {
            let (client, _) = connect(cluster).await.ok()?;
            let windows = ListParams::default().labels("kubernetes.io/os=windows");
            let nodes: Api<Node> = Api::all(client);
            nodes.list_metadata(&windows.limit(MOST)).await.ok()
        };
        tokio::time::timeout(PATIENCE, asking).await.ok().flatten()
    });
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    let nodes = listed.into_iter().flat_map(|list| list.items);
    let names = nodes.filter_map(|node| node.metadata.name);
    let mut names: Vec<String> = names.filter(|name| is_plain(name)).collect();
    names.sort();
    names
}

/// Whether it can stand in the line of a shell as it is, as all names of nodes can that an API server takes.
fn is_plain(name: &str) -> bool {
    let plain = |char: char| char.is_ascii_alphanumeric() || "-.".contains(char);
    !name.starts_with('-') && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_is_the_one_of_the_line() {
        let of = |line: &str| {
            let words = line.split(' ').map(OsString::from);
            let cluster = cluster_of(words)?;
            let path = cluster.kubeconfig.map(|path| path.display().to_string());
            Some((path, cluster.context))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of("why w"), Some((None, None)));
        for line in [
            "why --kubeconfig a --context b w",
            "why --kubeconfig=a --context=b w",
            "why --kubeconfig = a w --context = b",
        ] {
            assert_eq!(of(line), Some((some("a"), some("b"))), "{line}");
        }
        for line in [
            "why -f x w",
            "why -fx w",
            "nodes --filename=x",
            "why --context",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
        assert!(of("accept-host-key --fingerprint SHA256:x w").is_some());
    }

    #[test]
    fn a_name_that_a_shell_would_obey_is_not_offered() {
        assert!(is_plain("win-1.example.com"));
        for name in ["$(reboot)", "a b", "a;b", "-rf", "a\u{1b}[2J", "ä"] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
