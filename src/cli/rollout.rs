//! The arguments of `rollout`.

use clap::{Args, Subcommand};
use jiff::SignedDuration;

use super::ClusterArgs;
use super::ask::timeout;

/// What `rollout --help` ends with.
pub const EXAMPLES: &str = "Examples:
  windows-storage-operator rollout status
  windows-storage-operator rollout pause --pool blue
  windows-storage-operator rollout resume --pool blue
  windows-storage-operator rollout resume";

/// Arguments of `rollout`.
#[derive(Args)]
pub struct RolloutArgs {
    /// What to do.
    #[command(subcommand)]
    pub action: RolloutAction,
}

/// What is done with the rollout.
#[derive(Subcommand)]
pub enum RolloutAction {
    /// Show the progress of the rollout, and wait until it is done
    ///
    /// The exit status is 0 when every managed node was updated, 1 if the rollout has stopped or the timeout is over, 2 if the
    /// command line is wrong. It is 3 if only nodes are left that are pinned to another version, and with --watch=false while
    /// any are left.
    Status(RolloutStatusArgs),
    /// Pause the rollout; nodes that are being updated are finished
    Pause(RolloutPoolArgs),
    /// Resume a rollout that was paused, or that stopped after a failure
    ///
    /// After a failure, the nodes on which the update was rolled back are retried, except with --pool.
    Resume(RolloutPoolArgs),
}

/// Arguments of `rollout status`.
#[derive(Args)]
pub struct RolloutStatusArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Wait until it is done
    #[arg(long, short, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub watch: bool,
    /// How long to wait, such as 90s, 30m or 2h; 0s waits forever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = timeout)]
    pub timeout: SignedDuration,
}

/// Arguments of `rollout pause` and `rollout resume`.
#[derive(Args)]
pub struct RolloutPoolArgs {
    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Only the nodes of this pool of spec.nodePools
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
}
