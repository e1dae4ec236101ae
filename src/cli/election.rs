//! The arguments of the election of a leader, as `kube-controller-manager` and its like have them.

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgAction, Args, CommandFactory};
use jiff::SignedDuration;
use windows_storage_operator::lease::{Candidacy, Timings};

use super::Cli;

/// Whether only one of several acts, and when another takes over.
#[derive(Args)]
#[allow(clippy::struct_field_names, reason = "the options are called so")]
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
    /// How long other candidates wait after a leader stops renewing the lease
    #[arg(long, value_name = "DURATION", default_value = "137s", value_parser = duration)]
    leader_elect_lease_duration: Duration,
    /// How long a leader keeps acting while it cannot renew the lease; shorter than the lease duration
    #[arg(long, value_name = "DURATION", default_value = "107s", value_parser = duration)]
    leader_elect_renew_deadline: Duration,
    /// Interval between renewals, and between attempts to acquire the lease
    #[arg(long, value_name = "DURATION", default_value = "26s", value_parser = duration)]
    leader_elect_retry_period: Duration,
    /// Unique name of this candidate; by default the host's name and a random number. A candidate with the name of the last
    /// leader, such as a restarted container of its pod, acquires the lease without waiting for its end
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    leader_elect_identity: Option<String>,
}

impl ElectionArgs {
    /// Who wants to lead; nobody where there is no election. Ends the process where the times do not fit each other.
    pub fn candidacy(&self) -> Option<Candidacy> {
        let timings = Timings::new(
            self.leader_elect_lease_duration,
            self.leader_elect_renew_deadline,
            self.leader_elect_retry_period,
        );
        let timings = timings.unwrap_or_else(|error| {
            let problem = format!("--leader-elect-...: {error}");
            Cli::command()
                .error(ErrorKind::ValueValidation, problem)
                .exit()
        });
        let given = self.leader_elect_identity.clone();
        let identity = given.filter(|name| !name.is_empty());
        self.leader_elect.then(|| Candidacy {
            identity: identity.unwrap_or_else(random_identity),
            timings,
        })
    }
}

/// As client-go's examples have it: where it is, and which of several there.
fn random_identity() -> String {
    format!("{}_{:016x}", host_name(), rand::random::<u64>())
}

#[cfg(unix)]
fn host_name() -> String {
    let host = rustix::system::uname();
    host.nodename().to_string_lossy().into_owned()
}

#[cfg(windows)]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Result<SignedDuration, _> = text.parse();
    parsed
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| "not a duration such as 137s, 2m17s or 500ms".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_for_other_programs() {
        assert_eq!(duration("137s"), Ok(Duration::from_secs(137)));
        assert_eq!(duration("2m17s"), Ok(Duration::from_secs(137)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "137", "-5s", "5s ago", "soon", "1e400s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn two_without_a_name_differ() {
        assert_ne!(random_identity(), random_identity());
    }
}
