//! Reuses control planes between tests, because starting one takes seconds of CPU time.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;

use crate::cleanup::Guardian;
use crate::control_plane::{Content, ControlPlane};

/// Control planes that are not in use. They end with the process.
static IDLE: Mutex<Vec<(ControlPlane, Content)>> = Mutex::new(Vec::new());

/// A control plane that is reused: by a later test, after an earlier one, or both.
#[derive(Debug)]
pub struct Reused {
    /// `None` only in `drop`.
    inner: Option<(ControlPlane, Option<Content>)>,
    files: Guardian,
}

impl Reused {
    /// Wraps a control plane that is not reused and ends when this is dropped.
    pub fn once(control_plane: ControlPlane) -> Result<Self> {
        Ok(Self {
            inner: Some((control_plane, None)),
            files: Guardian::temp("sandbox")?,
        })
    }

    /// Returns an idle control plane, restored to its initial content, or a new one from `make`. All users in one
    /// process must pass an equivalent `make`.
    pub fn take(make: impl FnOnce() -> Result<ControlPlane>) -> Result<Self> {
        let files = Guardian::temp("sandbox")?;
        loop {
            let Some((control_plane, content)) = idle().pop() else {
                break;
            };
            // A control plane that cannot be restored is dropped.
            if control_plane.restore(&content).is_ok() {
                control_plane.forget_requests()?;
                let inner = Some((control_plane, Some(content)));
                return Ok(Self { inner, files });
            }
        }
        let control_plane = make()?;
        let content = control_plane.content()?;
        let inner = Some((control_plane, Some(content)));
        Ok(Self { inner, files })
    }

    /// Returns a directory for the current user, which is removed when this is dropped.
    pub fn dir(&self) -> &Path {
        self.files.dir()
    }
}

impl Deref for Reused {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        match &self.inner {
            Some((control_plane, _)) => control_plane,
            None => unreachable!("only dropping takes it"),
        }
    }
}

impl Drop for Reused {
    fn drop(&mut self) {
        let Some((control_plane, Some(content))) = self.inner.take() else {
            return;
        };
        let is_idle = control_plane.stop_controller_manager().is_ok();
        if is_idle && control_plane.is_as_started() {
            idle().push((control_plane, content));
        }
    }
}

fn idle() -> MutexGuard<'static, Vec<(ControlPlane, Content)>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
