//! What Windows does when a service crashes: read, set, put back.

use std::io;
use std::time::Duration;

use windows_service::service::{
    ServiceAction, ServiceActionType, ServiceFailureActions, ServiceFailureResetPeriod,
};
use windows_storage_agent::failure_actions::{FailureAction, FailureActions};

use super::scm::{OpenService, plain};

const DAY: Duration = Duration::from_secs(86_400);

impl OpenService {
    /// What Windows does when it crashes; an error in Wine, which does not tell.
    pub fn failure_actions(&self) -> io::Result<FailureActions> {
        let read = self.service.get_failure_actions().map_err(plain)?;
        Ok(FailureActions {
            reset_seconds: match read.reset_period {
                ServiceFailureResetPeriod::Never => None,
                ServiceFailureResetPeriod::After(time) => Some(time.as_secs()),
            },
            actions: read
                .actions
                .unwrap_or_default()
                .iter()
                .map(|action| FailureAction {
                    kind: action.action_type.to_raw(),
                    delay_milliseconds: u64::try_from(action.delay.as_millis()).unwrap_or(u64::MAX),
                })
                .collect(),
            on_errors: self
                .service
                .get_failure_actions_on_non_crash_failures()
                .ok(),
        })
    }

    /// Has Windows do what it did before the agent changed that.
    pub fn put_back_failure_actions(&self, before: &FailureActions) -> io::Result<()> {
        let actions = before
            .actions
            .iter()
            .map(|action| {
                Ok(ServiceAction {
                    action_type: ServiceActionType::from_raw(action.kind)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
                    delay: Duration::from_millis(action.delay_milliseconds),
                })
            })
            .collect::<io::Result<Vec<_>>>()?;
        let reset = before
            .reset_seconds
            .map_or(ServiceFailureResetPeriod::Never, |seconds| {
                ServiceFailureResetPeriod::After(Duration::from_secs(seconds))
            });
        self.set_failure_actions(reset, actions)?;
        before.on_errors.map_or(Ok(()), |on| {
            self.service
                .set_failure_actions_on_non_crash_failures(on)
                .map_err(plain)
        })
    }

    /// Whether Windows itself starts the service again after a crash.
    ///
    /// It must not while a change is in hand: it would start what is about to be replaced.
    pub fn set_recovery(&self, on: bool) -> io::Result<()> {
        let restart = |seconds| ServiceAction {
            action_type: ServiceActionType::Restart,
            delay: Duration::from_secs(seconds),
        };
        let actions = if on {
            vec![restart(1), restart(5), restart(30)]
        } else {
            Vec::new()
        };
        self.set_failure_actions(ServiceFailureResetPeriod::After(DAY), actions)?;
        // A service that ends itself with an error counts as crashed too; Wine does not know this setting.
        let _ = self.service.set_failure_actions_on_non_crash_failures(on);
        Ok(())
    }

    fn set_failure_actions(
        &self,
        reset_period: ServiceFailureResetPeriod,
        actions: Vec<ServiceAction>,
    ) -> io::Result<()> {
        self.service
            .update_failure_actions(ServiceFailureActions {
                reset_period,
                reboot_msg: None,
                command: None,
                actions: Some(actions),
            })
            .map_err(plain)
    }
}
