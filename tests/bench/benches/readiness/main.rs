//! Measures the assessment of a whole cluster.
#![allow(clippy::expect_used, reason = "a benchmark fails by panicking")]

mod cluster;

use std::time::Duration;

use cluster::Size;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use readiness::assess::{Memory, assess};

const SIZE: Size = Size {
    nodes: 5_000,
    pods: 50_000,
    claims: 20_000,
};

criterion_group! {
    name = readiness;
    // A pass takes a considerable part of a second.
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3));
    targets = full_pass
}
criterion_main!(readiness);

fn full_pass(criterion: &mut Criterion) {
    let read = cluster::loader(SIZE).finish();
    criterion.bench_function("full pass to the verdict, 50,000 pods", |bencher| {
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
}
