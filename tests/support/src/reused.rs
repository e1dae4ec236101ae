//! Reuses control planes between tests: to start one takes seconds of a processor.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;

use crate::cleanup::Guardian;
use crate::control_plane::{Content, ControlPlane};

/// What nobody uses at the moment. It ends with the process.
static IDLE: Mutex<Vec<(ControlPlane, Content)>> = Mutex::new(Vec::new());

/// A control plane that an earlier test has used, or that a later one will use.
#[derive(Debug)]
pub struct Reused {
    /// `None` in `drop` only.
    inner: Option<(ControlPlane, Option<Content>)>,
    files: Guardian,
}

impl Reused {
    /// One that ends when this is dropped.
    pub fn once(control_plane: ControlPlane) -> Result<Self> {
        Ok(Self {
            inner: Some((control_plane, None)),
            files: Guardian::temp("sandbox")?,
        })
    }

    /// One that `make` has made, as it was then. All that use the same process have to make alike.
    pub fn take(make: impl FnOnce() -> Result<ControlPlane>) -> Result<Self> {
        let files = Guardian::temp("sandbox")?;
        loop {
            let Some((control_plane, content)) = idle().pop() else {
                break;
            };
            // One that cannot be had as it was ends here.
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

    /// A directory for the current user. It is removed when this is dropped.
    #[must_use]
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
