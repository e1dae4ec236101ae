//! Sets the failure actions of a service: what Windows does when it crashes.

use std::io;
use std::time::Duration;

use windows_service::service::{
    ServiceAction, ServiceActionType, ServiceFailureActions, ServiceFailureResetPeriod,
};

use super::scm::{OpenService, plain};

const DAY: Duration = Duration::from_secs(86_400);

impl OpenService {
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
        let update = ServiceFailureActions {
            reset_period: ServiceFailureResetPeriod::After(DAY),
            reboot_msg: None,
            command: None,
            actions: Some(actions),
        };
        self.0.update_failure_actions(update).map_err(plain)?;
        // A service that stops with an error counts as crashed too. Wine does not support this setting.
        let _ = self.0.set_failure_actions_on_non_crash_failures(on);
        Ok(())
    }
}
