//! Reads, sets and restores the failure actions of a service.

use std::io;
use std::time::Duration;

use windows_service::service::{
    ServiceAction, ServiceActionType, ServiceFailureActions, ServiceFailureResetPeriod,
};
use windows_storage_agent::failure_actions::{FailureAction, FailureActions};
use windows_sys::Win32::System::Threading::INFINITE;

use super::scm::{OpenService, plain};

const DAY: Duration = Duration::from_secs(86_400);

impl OpenService {
    /// Returns the failure actions; fails under Wine, which does not report them.
    pub fn failure_actions(&self) -> io::Result<FailureActions> {
        let read = self.0.get_failure_actions().map_err(plain)?;
        let actions = read.actions.unwrap_or_default();
        let actions = actions.iter().map(ServiceAction::to_raw);
        let reset = read.reset_period.to_raw();
        let on_errors = self.0.get_failure_actions_on_non_crash_failures();
        Ok(FailureActions {
            reset_seconds: (reset != INFINITE).then_some(reset.into()),
            actions: actions
                .map(|action| FailureAction {
                    kind: action.Type,
                    delay_milliseconds: action.Delay.into(),
                })
                .collect(),
            on_errors: on_errors.ok(),
        })
    }

    /// Restores the failure actions that were set before the agent changed them.
    pub fn put_back_failure_actions(&self, before: &FailureActions) -> io::Result<()> {
        let actions = before.actions.iter().map(|action| {
            let action_type = ServiceActionType::from_raw(action.kind);
            Ok(ServiceAction {
                action_type: action_type.map_err(io::Error::other)?,
                delay: Duration::from_millis(action.delay_milliseconds),
            })
        });
        let actions = actions.collect::<io::Result<Vec<_>>>()?;
        let after = |seconds| ServiceFailureResetPeriod::After(Duration::from_secs(seconds));
        let reset = before.reset_seconds.map(after);
        self.set_failure_actions(reset.unwrap_or(ServiceFailureResetPeriod::Never), actions)?;
        if let Some(on) = before.on_errors {
            let set = self.0.set_failure_actions_on_non_crash_failures(on);
            set.map_err(plain)?;
        }
        Ok(())
    }

    /// Sets whether Windows itself restarts the service after a crash.
    ///
    /// It must not do so during a change: it would start the program that is about to be replaced.
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
        // A service that stops with an error counts as crashed too. Wine does not support this setting.
        let _ = self.0.set_failure_actions_on_non_crash_failures(on);
        Ok(())
    }

    fn set_failure_actions(
        &self,
        reset_period: ServiceFailureResetPeriod,
        actions: Vec<ServiceAction>,
    ) -> io::Result<()> {
        let update = ServiceFailureActions {
            reset_period,
            reboot_msg: None,
            command: None,
            actions: Some(actions),
        };
        self.0.update_failure_actions(update).map_err(plain)
    }
}
