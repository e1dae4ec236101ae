//! How long the judgement takes: for a whole cluster, and for one event. Prints a table, and writes JSON to the path
//! in `BENCH_JSON`.
#![allow(clippy::expect_used, reason = "a benchmark fails by panicking")]

mod cluster;

use std::time::{Duration, Instant};

use cluster::{DRIVERS, Size};
use serde_json::{Value, json};
use windows_storage_operator::assess::Assessment;
use windows_storage_operator::index::Cluster;
use windows_storage_operator::objects::{
    ClaimObject, ClassObject, CsiNodeObject, NodeObject, Object, PodObject, VolumeObject, decode,
};

const FULL: Size = Size {
    nodes: 5_000,
    pods: 50_000,
    claims: 20_000,
};
const PASSES: usize = 15;
const EVENTS: usize = 4_000;

fn main() {
    let mut lines = Vec::new();
    for (name, size) in [
        (
            "1/10",
            Size {
                nodes: FULL.nodes / 10,
                pods: FULL.pods / 10,
                claims: FULL.claims / 10,
            },
        ),
        ("full", FULL),
    ] {
        lines.extend(measure(name, size));
    }
    println!(
        "{:<8} {:<34} {:>12} {:>12} {:>12}",
        "cluster", "what", "p50", "p99", "max"
    );
    for line in &lines {
        println!(
            "{:<8} {:<34} {:>12} {:>12} {:>12}",
            line.cluster,
            line.what,
            shown(line.p50),
            shown(line.p99),
            shown(line.max)
        );
    }
    if let Ok(path) = std::env::var("BENCH_JSON") {
        let rows: Vec<Value> = lines.iter().map(Line::json).collect();
        let text = serde_json::to_string_pretty(&rows).expect("numbers serialize");
        std::fs::write(path, text).expect("the file can be written");
    }
}

struct Line {
    cluster: &'static str,
    what: String,
    p50: Duration,
    p99: Duration,
    max: Duration,
}

impl Line {
    fn of(cluster: &'static str, what: &str, mut times: Vec<Duration>) -> Self {
        times.sort();
        let at = |part: usize| times[(times.len() - 1) * part / 100];
        Self {
            cluster,
            what: what.to_owned(),
            p50: at(50),
            p99: at(99),
            max: at(100),
        }
    }

    fn json(&self) -> Value {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        json!({"cluster": self.cluster, "what": self.what, "p50Micros": micros(self.p50),
            "p99Micros": micros(self.p99), "maxMicros": micros(self.max)})
    }
}

fn shown(time: Duration) -> String {
    format!("{:.1} µs", time.as_secs_f64() * 1e6)
}

fn measure(name: &'static str, size: Size) -> Vec<Line> {
    let read = cluster::loader(size).finish();
    let mut lines = Vec::new();
    let mut times = Vec::new();
    for _ in 0..PASSES {
        let mut cluster = read.clone();
        let start = Instant::now();
        let mut assessment = Assessment::default();
        assessment.update(&mut cluster);
        let verdict = assessment.verdict(&cluster);
        times.push(start.elapsed());
        assert!(!verdict.message.is_empty());
    }
    lines.push(Line::of(name, "full pass to the verdict", times));

    let mut live = Live {
        cluster: read,
        assessment: Assessment::default(),
    };
    live.assessment.update(&mut live.cluster);
    let times = (0..PASSES).map(|_| {
        let start = Instant::now();
        let report = live.assessment.report(&live.cluster);
        assert!(!report.nodes.is_empty());
        start.elapsed()
    });
    lines.push(Line::of(name, "whole report", times.collect()));
    lines.extend(live.events(name, size));
    lines
}

/// A cluster that is followed.
struct Live {
    cluster: Cluster,
    assessment: Assessment,
}

impl Live {
    /// An object as it comes decoded from a watch, to the verdict.
    fn put<K: Object>(&mut self, object: &Value) -> Duration {
        let object: K = decode(object).expect("the object is well-formed");
        let key = K::key(object.meta());
        let row = object.row();
        let start = Instant::now();
        match row {
            Some(row) => K::table(&mut self.cluster).apply(key, row),
            None => K::table(&mut self.cluster).delete(&key),
        };
        self.assessment.update(&mut self.cluster);
        let verdict = self.assessment.verdict(&self.cluster);
        let time = start.elapsed();
        assert!(!verdict.message.is_empty());
        time
    }

    fn events(&mut self, name: &'static str, size: Size) -> Vec<Line> {
        let mut all = Vec::new();
        let mut lines = Vec::new();
        let mut add = |what: &str, times: Vec<Duration>| {
            all.extend_from_slice(&times);
            lines.push(Line::of(name, what, times));
        };
        // A stride that meets every part of the cluster.
        let numbers = |of: usize| (0..EVENTS).map(move |event| event * 7919 % of);
        add(
            "event: pod ends",
            numbers(size.claims)
                .map(|number| {
                    let mut pod = cluster::pod(number, size);
                    pod["status"]["phase"] = json!("Succeeded");
                    self.put::<PodObject>(&pod)
                })
                .collect(),
        );
        add(
            "event: pod starts",
            numbers(size.claims)
                .map(|number| self.put::<PodObject>(&cluster::pod(number, size)))
                .collect(),
        );
        add(
            "event: pod without storage",
            numbers(size.pods - size.claims)
                .map(|number| {
                    let mut pod = cluster::pod(size.claims + number, size);
                    pod["spec"]["nodeName"] = json!("node-00001");
                    self.put::<PodObject>(&pod)
                })
                .collect(),
        );
        add(
            "event: claim changes",
            numbers(size.claims)
                .map(|number| {
                    let mut claim = cluster::claim(number);
                    claim["spec"]["storageClassName"] = json!("other");
                    self.put::<ClaimObject>(&claim)
                })
                .collect(),
        );
        add(
            "event: volume changes",
            numbers(size.claims)
                .map(|number| {
                    self.put::<VolumeObject>(&renamed(
                        cluster::volume(number + 16),
                        &cluster::volume(number),
                    ))
                    .max(self.put::<VolumeObject>(&cluster::volume(number)))
                })
                .collect(),
        );
        add(
            "event: CSINode changes",
            numbers(size.nodes)
                .enumerate()
                .map(|(event, number)| {
                    self.put::<CsiNodeObject>(&cluster::csi_node(number, event % DRIVERS.len()))
                })
                .collect(),
        );
        add(
            "event: node changes",
            numbers(size.nodes)
                .enumerate()
                .map(|(event, number)| {
                    let mut node = cluster::node(number);
                    node["status"]["nodeInfo"]["kubeletVersion"] = json!(format!("v1.33.{event}"));
                    self.put::<NodeObject>(&node)
                })
                .collect(),
        );
        lines.push(Line::of(name, "all of these events", all));
        let class = (0..20).map(|event| {
            let mut class = cluster::class(1);
            class["provisioner"] = json!(format!("provisioner-{event}"));
            self.put::<ClassObject>(&class)
        });
        lines.push(Line::of(
            name,
            "event: class of 1/20 of the claims",
            class.collect(),
        ));
        lines
    }
}

/// The object with the name of another one.
fn renamed(mut object: Value, other: &Value) -> Value {
    object["metadata"]["name"] = other["metadata"]["name"].clone();
    object
}
