//! The real Operator Lifecycle Manager (v0) on a control plane: `olm-operator`, which installs and upgrades CSVs.
//!
//! There is no catalog and no catalog operator: the test creates what an `InstallPlan` creates.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::{io, thread};

use anyhow::{Context, Result};

use crate::cleanup::Guardian;
use crate::control_plane::ControlPlane;
use crate::parts::part;

/// Number of log lines to keep. While OLM holds an upgrade, it writes hundreds of lines per second.
const LAST_LINES: usize = 60;

/// A running OLM. It is stopped when this is dropped or when this process ends.
///
/// It serves its health and metrics on port 8080 of the machine, and no flag changes that. If the port is in use, OLM
/// logs an error and continues, so several can run.
#[derive(Debug)]
pub struct Olm {
    child: Child,
    last_lines: Arc<Mutex<VecDeque<String>>>,
    reader: Option<JoinHandle<()>>,
    /// Taken only in `drop`.
    guardian: Option<Guardian>,
}

impl Olm {
    /// Installs OLM's CRDs, which must exist before it starts.
    pub fn install_definitions(control_plane: &ControlPlane) -> Result<()> {
        let folder = part("olm-crds")?;
        let folder = folder
            .to_str()
            .context("the path of OLM's CRDs is not UTF-8")?;
        control_plane.kubectl(&["apply", "--server-side", "-f", folder])?;
        control_plane.await_definitions()?;
        Ok(())
    }

    /// Starts OLM. It is working once it has read the cluster, which shows when the status of an `OperatorGroup` names
    /// its namespaces.
    pub fn start(control_plane: &ControlPlane) -> Result<Self> {
        let guardian = Guardian::temp("olm")?;
        let mut command = guardian.command(part("olm")?);
        command
            // Shorter than the default, so that OLM resyncs sooner what no event has told it.
            .arg("--interval=30s")
            .env("KUBECONFIG", control_plane.kubeconfig())
            // Otherwise OLM enables a check for its own tests that ends the process.
            .env_remove("CI")
            .stdin(Stdio::null());
        let (output, writer) = io::pipe()?;
        command.stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn().context("starting OLM")?;
        // The command holds the other end of the pipe, so the log would never end.
        drop(command);
        let last_lines = Arc::default();
        let kept = Arc::clone(&last_lines);
        let reader = thread::spawn(move || keep_last_lines(output, &kept));
        Ok(Self {
            child,
            last_lines,
            reader: Some(reader),
            guardian: Some(guardian),
        })
    }

    /// Returns the end of its log.
    pub fn log(&self) -> String {
        let lines = self
            .last_lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(String::as_str).collect()
    }
}

impl Drop for Olm {
    fn drop(&mut self) {
        drop(self.guardian.take());
        // The guardian has killed OLM. Waiting reaps the zombie; the log ends as well.
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Reads to the end, so that the writer never blocks, and keeps the last lines.
fn keep_last_lines(output: impl Read, kept: &Mutex<VecDeque<String>>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output
        .read_until(b'\n', &mut line)
        .is_ok_and(|bytes| bytes > 0)
    {
        let mut lines = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(String::from_utf8_lossy(&line).into_owned());
        line.clear();
    }
}
