//! The leader's work: one judge, and actors that each do what it plans.

use std::time::Instant;

use kube::{Api, Client};
use tokio::sync::watch;

use crate::gate::Gate;
use crate::http::Shown;
use crate::node::payload::Payload;
use crate::node::{Context, Observations, Pins, RolloutSlots, Workers};
use crate::run::actors::Actors;
use crate::run::judge::{Eyes, Judge};
use crate::run::keep::Board;
use crate::run::version::follow;
use crate::run::{Options, RunError};
use crate::status::EventSink;
use crate::watch::{self as feeds, Watches};

/// Runs the leader's work, which ends only by an error.
pub async fn lead(client: Client, options: &Options, payload: Payload, shown: Shown) -> RunError {
    let (observations, slots, board) = <(Observations, RolloutSlots, Board)>::default();
    let config_maps = Api::namespaced(client.clone(), &options.namespace);
    let pins = Pins::new(config_maps, options.namespace.clone());
    let metrics = shown.metrics.clone();
    let gate = Gate::new(options.gate(&client), metrics.clone());
    let version = watch::Sender::new(options.kubernetes_version.clone());
    let eyes = Eyes {
        observations: observations.clone(),
        gate: gate.reports(),
        board: board.clone(),
        kubernetes_version: version.subscribe(),
    };
    // Before the first lists begin: they count for what this process opens first.
    let started = Instant::now();
    let Watches {
        mut feeds,
        news,
        lists,
        secrets,
    } = feeds::start(&client, &options.namespace, &metrics, &options.revisions);
    let mut context = Context::new(payload.clone(), pins.clone(), slots.clone());
    context.fence = options.fence.clone();
    let workers = Workers::new(
        context,
        observations,
        metrics.clone(),
        options.probe_interval,
    );
    let judge = Judge::new(
        &options.namespace,
        (news, lists, secrets),
        eyes,
        slots,
        payload,
        (shown, options.levels.clone()),
        started,
    );
    let actors = Actors {
        client: &client,
        namespace: &options.namespace,
        plans: judge.plans(),
        board: &board,
        metrics: &metrics,
        events: EventSink::new(&client, options.instance.clone()),
        pins,
    };
    tokio::select! {
        never = judge.run() => match never {},
        never = actors.gate(gate) => match never {},
        never = actors.services() => match never {},
        never = actors.settings() => match never {},
        never = actors.statuses() => match never {},
        node = actors.nodes(workers) => RunError::Worker(node),
        never = actors.leftovers() => match never {},
        never = actors.events() => match never {},
        never = follow(&client, &version) => match never {},
        ended = feeds.join_next() => match ended {
            Some(Ok(went_back)) => went_back.into(),
            _ => RunError::Watch,
        },
    }
}
