//! The leader's work: one judge, and actors that each do what it plans.

use std::time::Instant;

use kube::{Api, Client};
use tokio::sync::watch;

use crate::assess::{Memory, assess};
use crate::gate::Gate;
use crate::http::Shown;
use crate::index::Cluster;
use crate::node::payload::Payload;
use crate::node::{Context, Observations, Pins, RolloutSlots, Workers};
use crate::run::actors::Actors;
use crate::run::judge::Judge;
use crate::run::keep::Board;
use crate::run::version::follow;
use crate::run::{History, Options, RunError};
use crate::status::EventSink;
use crate::watch::{self as feeds, Watches};

/// Runs the leader's work, which ends only by an error.
pub async fn lead(client: Client, options: &Options, payload: Payload, shown: Shown) -> RunError {
    let (observations, slots, board) = <(Observations, RolloutSlots, Board)>::default();
    let config_maps = Api::namespaced(client.clone(), &options.namespace);
    let pins = Pins::new(config_maps, options.namespace.clone());
    let metrics = shown.metrics.clone();
    let gate = Gate::new(options.gate(&client, &options.revisions), metrics.clone());
    let version = watch::Sender::new(options.kubernetes_version.clone());
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
        observations.clone(),
        metrics.clone(),
        options.probe_interval,
    );
    let memory = Memory::default();
    let cluster = Cluster {
        namespace: options.namespace.clone(),
        ..Cluster::default()
    };
    let judge = Judge {
        report: assess(&cluster, &memory, None),
        cluster,
        memory,
        history: History::new(started),
        news,
        lists,
        secrets,
        observations,
        gate: gate.reports(),
        board: board.clone(),
        kubernetes_version: version.subscribe(),
        slots,
        payload,
        plans: watch::Sender::new(None),
        shown,
        is_restored: false,
    };
    let actors = Actors {
        client: &client,
        namespace: &options.namespace,
        plans: judge.plans.subscribe(),
        board: &board,
        metrics: &metrics,
        events: EventSink::new(&client, options.instance.clone()),
        pins,
        revisions: &options.revisions,
    };
    tokio::select! {
        never = judge.run() => match never {},
        never = actors.gate(gate) => match never {},
        never = actors.services() => match never {},
        never = actors.settings() => match never {},
        never = actors.statuses() => match never {},
        node = actors.nodes(workers) => RunError::Worker(node),
        never = actors.leftovers() => match never {},
        never = follow(&client, &version) => match never {},
        _ = feeds.join_next() => RunError::Watch,
        went_back = options.revisions.went_back() => went_back.into(),
    }
}
