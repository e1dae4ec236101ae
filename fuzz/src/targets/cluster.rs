//! Objects of a cluster, out of files and as an API server sends them, and what is written of them.

use serde_json::Value;
use windows_storage_operator::assess::assess_once;
use windows_storage_operator::files::{self, Object, Outcome};
use windows_storage_operator::index::{Cluster, ReadFrom, WorkloadKind};
use windows_storage_operator::objects::{Loader, Received, cluster_kinds, kind};
use windows_storage_operator::report::{Format, Question, explain, render};

use crate::compare::{is_same, is_visible};
use crate::{html, yaml};

fn read(bytes: &[u8]) -> (Outcome, Vec<Object>) {
    let mut objects = Vec::new();
    let outcome = files::read_from("input", bytes, &|_, _| true, &mut |_| {}, &mut |object| {
        objects.push(object);
        Ok(())
    });
    (outcome, objects)
}

/// Files: the same answer each time, faults in one line each, and an object is the same in JSON and in YAML.
pub fn files(bytes: &[u8]) {
    let (outcome, objects) = read(bytes);
    let again = read(bytes);
    assert_eq!(
        format!("{outcome:?} {objects:?}"),
        format!("{:?} {:?}", again.0, again.1)
    );
    let faults = outcome.unread.and(outcome.left_out).to_string();
    let is_fault = |line: &str| line.starts_with("input") || line.starts_with("and ");
    assert!(faults.lines().all(is_fault), "{faults:?}");
    is_visible(&faults.replace('\n', " "), "errors");
    for object in &objects {
        // A list that is handed over whole would come back as its items.
        if object.value.get("items").is_some() {
            continue;
        }
        let json = object.value.to_string();
        let yaml = yaml::written(&object.value);
        for text in [&json, &yaml] {
            let (outcome, found) = read(text.as_bytes());
            // Within a list it was less deep than it may be.
            let [found] = found.as_slice() else {
                panic!("{} objects of {text:?}: {outcome:?}", found.len());
            };
            assert!(is_same(&found.value, &object.value), "{text:?}: {found:?}");
        }
        same_as_received(&json, &object.value);
    }
}

/// What comes from an API server is decoded from its text, what comes from a file out of a tree.
fn same_as_received(json: &str, value: &Value) {
    let Ok(received) = serde_json::from_str::<Received>(json) else {
        return;
    };
    for kind in cluster_kinds() {
        let mut loader = Loader::default();
        let put = loader.put(&kind.resource.api_version, kind.name(), value);
        if loader.counts().is_empty() {
            // It has no name, or not the one that matters.
            continue;
        }
        let mut live = Cluster {
            read_from: ReadFrom::Files,
            ..Cluster::default()
        };
        kind.absorb(&mut live, &received);
        let problem = kind.table(&live).problem();
        assert_eq!(put.is_ok(), problem.is_none(), "{put:?}: {json}");
        if put.is_ok() {
            assert_eq!(rows(&live), rows(&loader.finish()), "{json}");
        }
    }
}

fn rows(cluster: &Cluster) -> String {
    let nodes: Vec<_> = cluster.nodes.iter().collect();
    let volumes: Vec<_> = cluster.volumes.iter().collect();
    let pods: Vec<_> = cluster.pods.iter().collect();
    let claims: Vec<_> = cluster.claims.iter().collect();
    let sets: Vec<_> = cluster.owners[WorkloadKind::DaemonSet].iter().collect();
    format!("{nodes:?} {volumes:?} {pods:?} {claims:?} {sets:?}")
}

/// The judgement on any objects, in every format and asked about every name.
pub fn report(bytes: &[u8]) {
    let mut loader = Loader::default();
    for object in read(bytes).1 {
        if kind(&object.api_version, &object.kind).is_some()
            && let Err(error) = loader.put(&object.api_version, &object.kind, &object.value)
        {
            is_visible(&error.to_string(), "an error");
        }
    }
    let cluster: Cluster = loader.finish();
    let report = assess_once(&cluster, None);
    assert!(report.verdict.message.len() <= 32_768);
    let text = |format| render(&report, format, false).unwrap();
    let [table, json, yaml, page] =
        [Format::Table, Format::Json, Format::Yaml, Format::Html].map(text);
    for shown in [&table, &json, &yaml, &page] {
        is_visible(shown, "the report");
    }
    let json: Value = serde_json::from_str(&json).unwrap();
    let yaml: Value = serde_yaml::from_str(&yaml).unwrap();
    assert!(is_same(&json, &yaml), "{json} {yaml}");
    html::check(&page);
    let nodes = report.nodes.iter().map(|node| node.name.clone());
    let volumes = report.volumes.iter().map(|it| it.workload.name.clone());
    for name in nodes.chain(volumes).take(20) {
        let question = Question { kind: None, name };
        if let Some(explanation) = explain(&question, "default", &report, &cluster) {
            is_visible(&explanation.render(false), "an explanation");
        }
    }
}
