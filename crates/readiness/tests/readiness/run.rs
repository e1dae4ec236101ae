//! Feeds a cluster's events to the subject under test, and compares its report with the contract.

use crate::findings::report;
use crate::generate::{Event, events};
use crate::oracle::cluster::Cluster;
use crate::oracle::{Memory, expect_after, expect_of_files, versions};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::{Value, json};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Something that follows a cluster and reports on it.
pub trait Subject {
    /// Adds an object, or replaces the one with the same apiVersion, kind, namespace and name.
    fn upsert(&mut self, object: &Value);
    /// Removes an object. `object` is its last state.
    fn delete(&mut self, object: &Value);
    /// Returns what `check -o json` prints, for a future version if one is given.
    fn report(&mut self, target: Option<&str>) -> Value;
}

pub fn fresh(
    make: &dyn Fn() -> Box<dyn Subject>,
    objects: &[Value],
    target: Option<&str>,
) -> Value {
    let mut subject = make();
    for object in objects {
        subject.upsert(object);
    }
    subject.report(target)
}

/// Returns a version that a cluster with these objects may be upgraded to.
pub fn target(objects: &[Value], seed: u64) -> String {
    let minor = 23 + seed % 15;
    let openshift = versions::is_openshift(Cluster(objects, &Memory::default()));
    match (openshift, minor) {
        (true, 37) => "5.0".to_owned(),
        (true, _) => format!("4.{}", minor - 13),
        (false, _) => format!("1.{minor}"),
    }
}

/// Runs `clusters` random clusters with `length` events each, and panics at the first difference, with a minimal sequence
/// of events that shows one.
pub fn run(make: &dyn Fn() -> Box<dyn Subject>, clusters: u32, length: usize, seed: u64) {
    for cluster in 0..clusters {
        let cluster_seed = seed
            .wrapping_mul(1_000_003)
            .wrapping_add(u64::from(cluster));
        let life = events(length, cluster_seed);
        if let Some(first) = difference(make, &life, cluster_seed) {
            let fewest = minimal(make, &life[..first.after], cluster_seed);
            let shown = difference(make, &fewest, cluster_seed).unwrap_or(first);
            panic!("{}", describe(&fewest, &shown, seed, cluster));
        }
    }
}

struct Difference {
    /// The number of events played.
    after: usize,
    what: String,
}

fn describe(life: &[Event], difference: &Difference, seed: u64, cluster: u32) -> String {
    let mut text = format!(
        "seed {seed}, cluster {cluster}: {}\nafter these events:\n",
        difference.what
    );
    for event in life {
        let (verb, object) = match event {
            Event::Upsert(object) => ("upsert", object),
            Event::Delete(object) => ("delete", object),
        };
        writeln!(text, "{verb} {object}").unwrap();
    }
    text
}

/// Returns an object's identity.
pub fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!(
        "{} {} {} {}",
        object["apiVersion"], object["kind"], metadata["namespace"], metadata["name"]
    )
}

fn difference(
    make: &dyn Fn() -> Box<dyn Subject>,
    life: &[Event],
    seed: u64,
) -> Option<Difference> {
    let mut after = 0;
    // Treat a panic as a difference, so that its events are minimized too.
    let outcome = catch_unwind(AssertUnwindSafe(|| play(make, life, seed, &mut after)));
    let what = outcome.unwrap_or_else(|_| Some("the subject panicked".to_owned()))?;
    Some(Difference { after, what })
}

fn play(
    make: &dyn Fn() -> Box<dyn Subject>,
    life: &[Event],
    seed: u64,
    after: &mut usize,
) -> Option<String> {
    let mut subject = make();
    let mut objects: Vec<Value> = Vec::new();
    let mut memory = Memory::default();
    for event in life {
        *after += 1;
        let before = objects.clone();
        let (Event::Upsert(object) | Event::Delete(object)) = event;
        let there = objects.iter().position(|there| key(there) == key(object));
        match (event, there) {
            (Event::Upsert(object), Some(there)) => objects[there] = object.clone(),
            (Event::Upsert(object), None) => objects.push(object.clone()),
            (Event::Delete(_), Some(there)) => subject.delete(&objects.swap_remove(there)),
            // While minimizing, the object may never have been added.
            (Event::Delete(_), None) => {}
        }
        if let Event::Upsert(object) = event {
            subject.upsert(object);
        }
        memory = memory.after(&before, &objects);
        let expected = |target: Option<&str>| expect_after(&objects, &memory, target);
        let what = disagreement(&expected(None), &subject.report(None)).or_else(|| {
            // Checking a target costs as much again and rarely finds anything else, so only every third event does it.
            let target = after.is_multiple_of(3).then(|| target(&objects, seed))?;
            disagreement(&expected(Some(&target)), &subject.report(Some(&target)))
        });
        // Files never change, so that any state is as good as another.
        let what = what.or_else(|| {
            after.is_multiple_of(6).then_some(())?;
            of_files(&objects, Some(&target(&objects, seed)))
        });
        if what.is_some() {
            return what;
        }
    }
    objects.shuffle(&mut StdRng::seed_from_u64(seed));
    let expected = expect_after(&objects, &Memory::default(), None);
    let what = disagreement(&expected, &fresh(make, &objects, None));
    what.map(|what| format!("a fresh subject that is fed the objects in another order: {what}"))
        .or_else(|| of_files(&objects, None))
}

fn of_files(objects: &[Value], target: Option<&str>) -> Option<String> {
    let expected = expect_of_files(objects, target);
    let what = disagreement(&expected, &report(objects, false, target))?;
    Some(format!("the same objects as files: {what}"))
}

/// Removes events, at first many at once, as long as a difference remains.
fn minimal(make: &dyn Fn() -> Box<dyn Subject>, life: &[Event], seed: u64) -> Vec<Event> {
    let mut fewest = life.to_vec();
    let mut size = fewest.len().div_ceil(2).max(1);
    loop {
        let before = fewest.len();
        let mut from = 0;
        while from < fewest.len() {
            let to = (from + size).min(fewest.len());
            let fewer: Vec<_> = fewest[..from]
                .iter()
                .chain(&fewest[to..])
                .cloned()
                .collect();
            if difference(make, &fewer, seed).is_some() {
                fewest = fewer;
            } else {
                from = to;
            }
        }
        if size > 1 {
            size = size.div_ceil(2);
        } else if fewest.len() == before {
            return fewest;
        }
    }
}

/// Returns what is wrong with a report, if anything.
pub fn disagreement(expected: &Value, report: &Value) -> Option<String> {
    let mut wanted = expected.clone();
    let verdict = wanted["verdict"].as_object_mut().unwrap();
    let whole = verdict.remove("message");
    let end = verdict.remove("messageEnd");
    let got = comparable(report);
    let mut wrong = Vec::new();
    for part in [
        "windowsNodes",
        "target",
        "verdict",
        "nodes",
        "volumes",
        "drivers",
        "findings",
    ] {
        if wanted[part] != got[part] {
            wrong.push(format!(
                "{part}\n  expected {}\n  reported {}",
                wanted[part], got[part]
            ));
        }
    }
    let message = report["verdict"]["message"].as_str().unwrap_or_default();
    if whole.is_some_and(|whole| whole != message)
        || end.is_some_and(|end| !message.ends_with(end.as_str().unwrap()))
    {
        wrong.push(format!(
            "verdict.message\n  expected {}\n  reported {message:?}",
            expected["verdict"]
        ));
    }
    if message.len() > 32_768 {
        wrong.push(format!("verdict.message is {} bytes long", message.len()));
    }
    (!wrong.is_empty()).then(|| wrong.join("\n"))
}

/// Returns the parts of a report that the oracle computes, in the oracle's form.
pub fn comparable(report: &Value) -> Value {
    let mut findings: Vec<_> = items(report, "findings")
        .filter(|finding| {
            [
                "PersistentVolumeNotFound",
                "PersistentVolumeClaimNotFound",
                "StorageClassNotFound",
                "PlacementUnknown",
                "VirtualNode",
            ]
            .iter()
            .any(|code| finding["code"] == *code)
        })
        .map(|finding| (finding["code"].as_str(), finding["object"].as_str()))
        .collect();
    findings.sort_unstable();
    findings.dedup();
    json!({
        "windowsNodes": report["cluster"]["windowsNodes"],
        "target": report["target"],
        "verdict": only(&report["verdict"], &["upgradeable", "reason"]),
        "nodes": items(report, "nodes")
            .map(|node| only(node, &["name", "csiNode", "drivers", "missingDrivers"]))
            .collect::<Vec<_>>(),
        "volumes": report["volumes"],
        "drivers": items(report, "drivers")
            .map(|driver| {
                let mut known = only(driver, &["name", "registeredOn", "missingOn", "daemonSet", "csiProxyPipes"]);
                let mut codes = items(driver, "findings").map(|finding| &finding["code"]);
                known["advice"] = codes.find(|code| is_advice(code)).cloned().unwrap_or_default();
                known
            })
            .collect::<Vec<_>>(),
        "findings": findings,
    })
}

fn is_advice(code: &Value) -> bool {
    let codes = [
        "InTreeRecommended",
        "CSIOptIn",
        "CSIRecommended",
        "PluginRemoved",
    ];
    codes.iter().any(|advice| code == advice)
}

fn items<'a>(report: &'a Value, part: &str) -> impl Iterator<Item = &'a Value> {
    report[part].as_array().into_iter().flatten()
}

fn only(object: &Value, keys: &[&str]) -> Value {
    keys.iter()
        .map(|key| ((*key).to_owned(), object[*key].clone()))
        .collect()
}
