//! `rollout`: shows the progress of csi-proxy on the nodes, and pauses or resumes it.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::Patch;
use serde_json::{Value, json};
use tokio::time::sleep;
use windows_storage_operator::api::{NodePool, RolloutStatus, SETTINGS_NAME, WindowsStorage};
use windows_storage_operator::client::deadline::{self, CallError};
use windows_storage_operator::report::Answer;
use windows_storage_operator::status::find;
use windows_storage_operator::visible::visible;

use crate::cli::{ClusterArgs, RolloutAction, RolloutArgs, RolloutPoolArgs, RolloutStatusArgs};
use crate::command::connect::connect;
use crate::command::progress::Line;
use crate::command::{FIND_OPERATOR, explain_missing, print, report_line, runtime, written_by};

/// The interval between two reads.
const PAUSE: Duration = Duration::from_secs(2);
/// An operator that runs has noticed a request within this time.
const NOTICED: Duration = Duration::from_secs(60);
/// The condition's reasons that mean that nothing is left to be done.
const DONE: [&str; 3] = ["Complete", "NotManaged", "Removed"];
/// The width of a rollout's bar, in characters.
const BAR: u32 = 30;

/// Runs the command. Returns `False` while nodes are left, as for a held upgrade.
pub fn rollout(arguments: &RolloutArgs) -> anyhow::Result<Answer> {
    runtime()?.block_on(async {
        match &arguments.action {
            RolloutAction::Status(arguments) => status(arguments).await,
            RolloutAction::Pause(arguments) => set_paused(arguments, true).await,
            RolloutAction::Resume(arguments) => set_paused(arguments, false).await,
        }
    })
}

async fn settings(cluster: &ClusterArgs) -> anyhow::Result<Api<WindowsStorage>> {
    let (client, _) = connect(cluster).await?;
    Ok(Api::all(client))
}

async fn read(settings: &Api<WindowsStorage>) -> Result<WindowsStorage, CallError> {
    let reading = settings.get(SETTINGS_NAME);
    deadline::call("read WindowsStorage cluster", reading).await
}

async fn status(arguments: &RolloutStatusArgs) -> anyhow::Result<Answer> {
    let settings = settings(&arguments.cluster).await?;
    // While nodes are pinned, nothing changes until the pin does.
    let has_ended =
        |seen: &Seen| seen.is_complete() || ["Stopped", "Pinned"].contains(&&*seen.reason);
    let seen = if arguments.watch {
        follow(&settings, arguments.timeout, has_ended).await?
    } else {
        Seen::of(&read(&settings).await.map_err(explain_missing)?)
    };
    let text = seen.text();
    if arguments.watch && seen.reason == "Stopped" {
        bail!("{}", text.trim_end());
    }
    if arguments.watch && !has_ended(&seen) {
        bail!(
            "not done within {:#}: {}",
            arguments.timeout,
            text.trim_end()
        );
    }
    print(&text)?;
    Ok(Answer::of(seen.is_complete()))
}

/// Shows what the object says until that has ended, or until the time is over unless that is zero. Returns the last of it.
///
/// `await_condition` of kube shows no progress, and ends at the first error.
pub async fn follow(
    settings: &Api<WindowsStorage>,
    timeout: SignedDuration,
    has_ended: impl Fn(&Seen) -> bool,
) -> anyhow::Result<Seen> {
    let begin = Instant::now();
    let mut shown = Line::new();
    loop {
        let seen = match read(settings).await {
            Ok(object) => Seen::of(&object),
            Err(error) if error.is_forbidden() || error.is_not_found() => {
                return Err(explain_missing(error));
            }
            // The API server may be unavailable for a while.
            Err(error) => Seen::nothing(format!("{error}; retrying")),
        };
        let elapsed = SignedDuration::try_from(begin.elapsed()).unwrap_or_default();
        if has_ended(&seen) || timeout.is_positive() && elapsed > timeout {
            return Ok(seen);
        }
        let mut line = seen.line();
        if seen.reason.is_empty() && begin.elapsed() > NOTICED {
            line = format!("{line}; {FIND_OPERATOR}");
        }
        shown.show(&line);
        sleep(PAUSE).await;
    }
}

/// What the object says about the rollout.
#[derive(Default)]
pub struct Seen {
    rollout: RolloutStatus,
    /// The condition's reason; empty if nothing is known of the current generation.
    pub reason: String,
    /// The condition's message, or why nothing is known.
    pub message: String,
}

impl Seen {
    fn nothing(message: String) -> Self {
        Self {
            message,
            ..Self::default()
        }
    }

    fn of(object: &WindowsStorage) -> Self {
        let Some(said) = progress(object) else {
            return Self::nothing("the operator has not noticed the last change yet".to_owned());
        };
        let status = object.status.as_ref();
        let rollout = status.and_then(|status| status.rollout.clone());
        Self {
            rollout: rollout.unwrap_or_default(),
            reason: said.reason.clone(),
            message: visible(&said.message),
        }
    }

    /// Returns whether nothing is left to be done, also if updates are paused.
    fn is_complete(&self) -> bool {
        let (reason, rollout) = (self.reason.as_str(), &self.rollout);
        DONE.contains(&reason) || reason == "Paused" && rollout.updated_nodes == rollout.nodes
    }

    /// Returns one line, with a bar.
    fn line(&self) -> String {
        if ["", "Removing", "Removed"].contains(&&*self.reason) {
            return self.message.clone();
        }
        let rollout = &self.rollout;
        let bar = bar(rollout.updated_nodes, rollout.nodes);
        format!("{bar} {}", self.message)
    }

    /// Returns all of it: a line, and one for each pool.
    fn text(&self) -> String {
        let mut text = self.line() + "\n";
        for pool in &self.rollout.pools {
            // Writing to a String does not fail.
            let _ = writeln!(
                text,
                "{} pool {}: {} of {} updated, {} waiting, {} failed",
                bar(pool.updated_nodes, pool.nodes),
                visible(&pool.name),
                pool.updated_nodes,
                pool.nodes,
                pool.waiting_nodes,
                pool.failed_nodes
            );
        }
        text
    }
}

fn bar(done: u32, of: u32) -> String {
    // With nothing to do, all is done.
    let filled = (done * BAR).checked_div(of).unwrap_or(BAR).min(BAR);
    let (full, empty) = (filled as usize, (BAR - filled) as usize);
    format!("[{}{}]", "#".repeat(full), ".".repeat(empty))
}

/// Returns the rollout's condition, if it is about the current generation.
fn progress(object: &WindowsStorage) -> Option<&Condition> {
    let said = find(&object.status.as_ref()?.conditions, "RolloutProgressing")?;
    let is_of_now = said.observed_generation >= object.metadata.generation;
    is_of_now.then_some(said)
}

async fn set_paused(arguments: &RolloutPoolArgs, paused: bool) -> anyhow::Result<Answer> {
    let settings = settings(&arguments.cluster).await?;
    let object = read(&settings).await.map_err(explain_missing)?;
    let pool = arguments.pool.as_deref();
    let status = object.status.as_ref();
    let rollout = status.and_then(|status| status.rollout.as_ref());
    let is_stopped = rollout.is_some_and(|rollout| rollout.failed_nodes > 0);
    let retries = !paused && is_stopped && pool.is_none();
    let patch = match pool {
        Some(name) => {
            if !paused
                && object
                    .spec
                    .node_pools
                    .iter()
                    .any(|it| it.name == name && !it.rollout.paused)
            {
                bail!(
                    "pool {} is not paused; rollout resume without --pool retries nodes on which the update was rolled back",
                    visible(name)
                );
            }
            let operations = of_pool(&object, name, paused)?;
            let operations = serde_json::from_value(operations);
            Patch::Json(operations.context("the change cannot be written")?)
        }
        None => Patch::Merge(of_all(paused, retries)),
    };
    let parameters = written_by();
    let patching = settings.patch(SETTINGS_NAME, &parameters, &patch);
    deadline::call("write WindowsStorage cluster", patching).await?;
    let of = pool.map_or_else(String::new, |pool| format!(" pool {}", visible(pool)));
    let said = match (paused, retries) {
        (true, _) => "paused",
        (false, true) => "resumed; nodes on which the update was rolled back are retried",
        (false, false) => "resumed",
    };
    print(&format!("windowsstorage/cluster{of} {said}\n"))?;
    let is_left = |it: &&NodePool| it.rollout.paused && pool.is_none() && !paused;
    let left = object.spec.node_pools.iter().filter(is_left);
    let left: Vec<&str> = left.map(|pool| pool.name.as_str()).collect();
    if !left.is_empty() {
        let names = visible(&left.join(", "));
        report_line(format!("note: these pools stay paused: {names}"));
    }
    if !paused && is_stopped && pool.is_some() {
        report_line(
            "note: rollout resume without --pool also retries nodes on which the update was rolled back",
        );
    }
    Ok(Answer::Fine)
}

/// Returns the patch for the rollout of all nodes.
fn of_all(paused: bool, retries: bool) -> Value {
    let mut rollout = json!({"paused": paused});
    if retries {
        // Any text that differs from the previous one.
        rollout["resume"] = Timestamp::now().to_string().into();
    }
    json!({"spec": {"rollout": rollout}})
}

/// Returns the JSON patch for a pool: fields of pools that this program does not know stay.
fn of_pool(object: &WindowsStorage, name: &str, paused: bool) -> anyhow::Result<Value> {
    let pools = &object.spec.node_pools;
    let Some(at) = pools.iter().position(|pool| pool.name == name) else {
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        bail!(
            "there is no pool {} in spec.nodePools of WindowsStorage, which has {}",
            visible(name),
            if names.is_empty() {
                "none".to_owned()
            } else {
                visible(&names.join(", "))
            }
        );
    };
    let at = format!("/spec/nodePools/{at}");
    // Detects a concurrent change of the list. `rollout` exists because the definition has a default for it.
    Ok(json!([
        {"op": "test", "path": format!("{at}/name"), "value": name},
        {"op": "add", "path": format!("{at}/rollout/paused"), "value": paused},
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(spec: &Value) -> WindowsStorage {
        serde_json::from_value(json!({
            "apiVersion": "windowsstorage.dev/v1alpha1", "kind": "WindowsStorage",
            "metadata": {"name": "cluster", "generation": 2}, "spec": spec,
            "status": {"conditions": [{
                "type": "RolloutProgressing", "status": "False", "reason": "Stopped", "message": "words",
                "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        }))
        .unwrap()
    }

    #[test]
    fn a_bar_shows_how_much_is_done() {
        for (done, of, filled) in [(0, 3, 0), (1, 3, 10), (3, 3, 30), (0, 0, 30)] {
            let bar = bar(done, of);
            assert_eq!(bar.matches('#').count(), filled, "{bar}");
            assert_eq!(bar.len(), 32);
        }
    }

    #[test]
    fn a_paused_rollout_with_nothing_left_is_complete() {
        for (reason, updated_nodes, is_complete) in [
            ("Paused", 2, true),
            ("Paused", 1, false),
            ("Updating", 2, false),
            ("Complete", 2, true),
        ] {
            let seen = Seen {
                reason: reason.to_owned(),
                rollout: RolloutStatus {
                    nodes: 2,
                    updated_nodes,
                    ..RolloutStatus::default()
                },
                message: String::new(),
            };
            assert_eq!(seen.is_complete(), is_complete, "{reason} {updated_nodes}");
        }
    }

    #[test]
    fn what_was_said_of_an_older_spec_does_not_count() {
        let mut object = object(&json!({}));
        assert_eq!(Seen::of(&object).reason, "Stopped");
        object.metadata.generation = Some(3);
        assert_eq!(Seen::of(&object).reason, "");
    }

    #[test]
    fn a_pool_is_paused_by_its_name_and_what_else_it_says_stays() {
        let pool = |name: &str| json!({"name": name, "nodeSelector": {"a": "b"}});
        let object = object(&json!({"nodePools": [pool("green"), pool("blue")]}));
        assert_eq!(
            of_pool(&object, "blue", true).unwrap(),
            json!([
                {"op": "test", "path": "/spec/nodePools/1/name", "value": "blue"},
                {"op": "add", "path": "/spec/nodePools/1/rollout/paused", "value": true},
            ])
        );
        assert!(of_pool(&object, "grey", true).is_err());
        assert!(of_all(false, true)["spec"]["rollout"]["resume"].is_string());
        assert!(of_all(false, false)["spec"]["rollout"]["resume"].is_null());
    }
}
