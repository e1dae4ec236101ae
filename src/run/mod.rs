//! The controller. Its leader watches, assesses the whole cluster, plans, and lets each actor act on the last plan.

mod actors;
mod history;
mod judge;
mod keep;
mod lead;
pub mod logs;
mod options;
pub(crate) mod plan;
mod serving;
mod show;
mod term;
mod version;

use kube::Client;

use crate::http::Shown;
use crate::node::payload::Payload;
use history::History;
use lead::lead;
pub use options::{Options, RunError};
use term::Term;

/// Runs until `stop` completes; with an election, only while this process is the leader.
pub async fn run(
    client: Client,
    options: Options,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let payload = Payload::load(&options.payload_dir)?;
    let metrics = &options.metrics;
    metrics.show_build(&payload.csi_proxy.version, &payload.agent.version);
    let shown = Shown {
        metrics: metrics.clone(),
        ..Shown::default()
    };
    // They end when this function returns.
    let _servers = serving::start(&client, &options, &shown).await?;
    let gate = options.operator_condition.as_deref();
    tracing::info!(
        namespace = options.namespace,
        operator_condition = gate.unwrap_or("none: the verdict is in WindowsStorage only"),
        csi_proxy = payload.csi_proxy.version,
        agent = payload.agent.version,
        "windows-storage-operator {} starts",
        env!("CARGO_PKG_VERSION")
    );
    let mut term = Term::new(&client, &options);
    let outcome = tokio::select! {
        error = term.serve(&shown, lead(client, &options, payload, shown.clone())) => Err(error),
        never = shown.liveness.beat() => match never {},
        () = stop => {
            tracing::info!("stopping; csi-proxy keeps running on all nodes");
            Ok(())
        }
    };
    // All work has been dropped by now.
    term.end().await;
    outcome
}
