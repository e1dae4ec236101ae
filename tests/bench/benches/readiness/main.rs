//! Measures the assessment of a whole cluster and of single events, on a cluster and on one of a tenth of its size, to
//! show which costs of an event grow with the cluster.
#![allow(clippy::expect_used, reason = "a benchmark fails by panicking")]

mod cluster;

use std::time::{Duration, Instant};

use cluster::{DRIVERS, Size};
use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, Criterion, SamplingMode, criterion_group, criterion_main,
};
use readiness::assess::{Memory, assess};
use readiness::index::Cluster;
use readiness::objects::{self, Received};
use serde_json::{Value, json};

const FULL: Size = Size {
    nodes: 5_000,
    pods: 50_000,
    claims: 20_000,
};
const TENTH: Size = Size {
    nodes: FULL.nodes / 10,
    pods: FULL.pods / 10,
    claims: FULL.claims / 10,
};
/// Samples of a full pass. A pass takes a considerable part of a second.
const PASSES: usize = 10;
const EVENTS: usize = 50;

criterion_group! {
    name = readiness;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3));
    targets = tenth, full
}
criterion_main!(readiness);

fn tenth(criterion: &mut Criterion) {
    measure(criterion.benchmark_group("5,000 pods"), TENTH);
}

fn full(criterion: &mut Criterion) {
    measure(criterion.benchmark_group("50,000 pods"), FULL);
}

fn measure(mut group: BenchmarkGroup<'_, WallTime>, size: Size) {
    let read = cluster::loader(size).finish();
    group.sample_size(PASSES);
    group.bench_function("full pass to the verdict", |bencher| {
        bencher.iter_batched(
            || read.clone(),
            |cluster| {
                let mut memory = Memory::default();
                memory.learn(&cluster);
                let report = assess(&cluster, &memory, None);
                // Returned so that dropping it is not measured.
                (report, memory, cluster)
            },
            BatchSize::PerIteration,
        );
    });
    let mut live = Live {
        cluster: read,
        assessment: Assessment::default(),
    };
    live.assessment.update(&mut live.cluster);
    group.bench_function("whole report", |bencher| {
        bencher.iter_with_large_drop(|| live.assessment.report(&live.cluster));
    });
    group.sample_size(EVENTS).sampling_mode(SamplingMode::Flat);
    // Counts the events only: building the objects takes a hundred times as long.
    group.measurement_time(Duration::from_millis(100));
    live.events(&mut group, size);
    group.finish();
}

/// A cluster with its assessment, kept up to date.
struct Live {
    cluster: Cluster,
    assessment: Assessment,
}

impl Live {
    /// Measures the time from a watch event to the verdict.
    fn put(&mut self, object: &Value) -> Duration {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        let kind = objects::kind(text("apiVersion"), text("kind")).expect("the kind is used");
        let object: Received =
            serde_json::from_str(&object.to_string()).expect("the object is well-formed");
        let start = Instant::now();
        kind.absorb(&mut self.cluster, &object);
        self.assessment.update(&mut self.cluster);
        let verdict = self.assessment.verdict(&self.cluster);
        let time = start.elapsed();
        assert!(!verdict.message.is_empty());
        time
    }

    fn events(&mut self, group: &mut BenchmarkGroup<'_, WallTime>, size: Size) {
        events(group, "event: pod ends", size.claims, |number| {
            let pod = cluster::pod(number, size);
            let mut ended = pod.clone();
            ended["status"]["phase"] = json!("Succeeded");
            let time = self.put(&ended);
            self.put(&pod);
            time
        });
        let mut changes = 0;
        events(group, "event: claim changes", size.claims, |number| {
            changes += 1;
            let mut claim = cluster::claim(number);
            claim["spec"]["storageClassName"] = json!(["other", "another"][changes % 2]);
            self.put(&claim)
        });
        events(group, "event: CSINode changes", size.nodes, |number| {
            changes += 1;
            self.put(&cluster::csi_node(number, changes % DRIVERS.len()))
        });
        group.sample_size(PASSES);
        events(group, "event: class of 1/20 of the claims", 2, |number| {
            let mut class = cluster::class(1);
            class["provisioner"] = json!(format!("provisioner-{number}"));
            self.put(&class)
        });
    }
}

/// Measures single events, spread over the whole cluster.
fn events(
    group: &mut BenchmarkGroup<'_, WallTime>,
    what: &str,
    objects: usize,
    mut put: impl FnMut(usize) -> Duration,
) {
    // A stride that reaches every part of the cluster.
    const STRIDE: usize = 7919;
    let mut event = 0;
    group.bench_function(what, |bencher| {
        bencher.iter_custom(|times| {
            (0..times)
                .map(|_| {
                    event += 1;
                    put(event * STRIDE % objects)
                })
                .sum()
        });
    });
}
