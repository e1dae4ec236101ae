//! Follows node statuses in the API.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use testbed::control_plane::ControlPlane;
use testbed::simulated_host::SimulatedHost;

/// A watch of node statuses, and what it has shown so far.
pub struct Statuses {
    watch: Child,
    seen: Arc<Mutex<Seen>>,
}

struct Seen {
    missing: BTreeSet<String>,
    all_at: Option<Instant>,
}

impl Statuses {
    /// Starts watching until the API reports csi-proxy as ready on all of these nodes.
    pub fn follow(control_plane: &ControlPlane, live: &[&SimulatedHost]) -> Result<Self> {
        const LINE: &str = concat!(
            r#"jsonpath={.metadata.name}{" "}"#,
            r#"{.status.conditions[?(@.type=="CSIProxyReady")].status}{"\n"}"#
        );
        let mut watch = control_plane
            .kubectl_command()
            .args(["get", "windowsnodestorages", "--watch", "-o", LINE])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting kubectl")?;
        let lines = BufReader::new(watch.stdout.take().context("kubectl has no output")?);
        let seen = Arc::new(Mutex::new(Seen {
            missing: live.iter().map(|host| host.name().to_owned()).collect(),
            all_at: None,
        }));
        let noted = Arc::clone(&seen);
        thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some(name) = line.strip_suffix(" True") {
                    let mut seen = noted.lock().unwrap_or_else(PoisonError::into_inner);
                    if seen.missing.remove(name) && seen.missing.is_empty() {
                        seen.all_at = Some(Instant::now());
                    }
                }
            }
        });
        Ok(Self { watch, seen })
    }

    /// Returns when the last node was reported ready, if all were.
    pub fn all_at(&self) -> Option<Instant> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .all_at
    }

    /// Returns how many nodes have not been reported ready yet.
    pub fn missing(&self) -> usize {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.missing.len()
    }
}

impl Drop for Statuses {
    fn drop(&mut self) {
        // The watch may have ended already.
        let _ = self.watch.kill();
        let _ = self.watch.wait();
    }
}
