//! The arguments of the election of a leader, as `kube-controller-manager` and its like have them.

use clap::{ArgAction, Args};
use windows_storage_operator::client::installed::OPERATOR;

/// Whether only one of several acts.
#[derive(Args)]
pub struct ElectionArgs {
    /// Act only while holding the Lease windows-storage-operator in the operator's namespace, so that several can run
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub leader_elect: bool,
    /// Unique name of this candidate; by default one with a random number. A candidate with the name of the last
    /// leader, such as a restarted container of its pod, acquires the lease without waiting for its end
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    leader_elect_identity: Option<String>,
}

impl ElectionArgs {
    /// The name of the candidate; none where there is no election.
    pub fn identity(&self) -> Option<String> {
        let given = self.leader_elect_identity.clone();
        let identity = given.filter(|name| !name.is_empty());
        self.leader_elect
            .then(|| identity.unwrap_or_else(random_identity))
    }
}

fn random_identity() -> String {
    format!("{OPERATOR}_{:016x}", rand::random::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_without_a_name_differ() {
        assert_ne!(random_identity(), random_identity());
    }
}
