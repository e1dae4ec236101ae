//! Traces: what the operator sends to a collector, and that it does not care where there is none.

pub mod collector;

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::json;

use crate::harness::Harness;
use crate::simulated::Simulation;
use collector::{Collector, certificate, text};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Milliseconds between two times of sending; five seconds by default.
const DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
const LOST: &str = "traces cannot be sent to";

/// Whether the process has a thread that sends traces.
fn has_thread(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.flatten().any(|thread| {
        let name = fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name.starts_with("OpenTelemetry"))
    })
}

/// The names of what was done within a span, in their order.
fn within<'a>(spans: &'a [Span], parent: &Span) -> Vec<&'a Span> {
    let children = spans.iter();
    let children = children.filter(|span| span.parent_span_id == parent.span_id);
    let mut children: Vec<&Span> = children.collect();
    children.sort_by_key(|span| span.start_time_unix_nano);
    for child in &children {
        assert_eq!(child.trace_id, parent.trace_id);
        assert!(child.start_time_unix_nano >= parent.start_time_unix_nano);
        assert!(child.end_time_unix_nano <= parent.end_time_unix_nano);
    }
    children
}

fn names<'a>(spans: &[&'a Span]) -> Vec<&'a str> {
    spans.iter().map(|span| &*span.name).collect()
}

/// The first visit: it brings the agent and csi-proxy.
fn the_first_visit_is_told_whole(spans: &[Span]) {
    let mut visits = spans.iter().filter(|span| span.name == "visit");
    let visit = visits.next().unwrap();
    assert!(visit.parent_span_id.is_empty());
    assert_eq!(text(&visit.attributes, "node").as_deref(), Some("win-000"));
    assert_eq!(visit.status.as_ref().map_or(0, |status| status.code), 0);
    let phases = within(spans, visit);
    let named = names(&phases);
    let begin = ["connect", "handshake", "host key", "login", "status"];
    assert_eq!(named[..5], begin, "{named:?}");
    for phase in ["agent upload", "agent install", "apply"] {
        assert!(named.contains(&phase), "{phase}: {named:?}");
    }
    for phase in &phases {
        let attribute = text(&phase.attributes, "phase");
        assert_eq!(attribute.as_deref(), Some(&*phase.name));
    }
    // The lines of the log are with the span in which they were written.
    let upload = phases.iter().find(|phase| phase.name == "agent upload");
    let lines = &upload.unwrap().events;
    assert!(
        lines.iter().any(|line| line.name == "sending the agent"),
        "{lines:?}"
    );
}

fn passes_are_told(spans: &[Span]) {
    let pass = spans.iter().find(|span| span.name == "pass").unwrap();
    assert!(pass.parent_span_id.is_empty());
    let steps = names(&within(spans, pass));
    assert_eq!(steps[..2], ["judge", "gate"], "{steps:?}");
    // Nothing but what the program itself does, and nothing that never ends.
    let known = |name: &str| {
        [
            "visit",
            "pass",
            "judge",
            "gate",
            "services",
            "node statuses",
        ]
        .contains(&name)
    };
    for span in spans {
        let is_phase = text(&span.attributes, "phase").is_some();
        assert!(is_phase || known(&span.name), "{span:?}");
    }
}

#[test]
fn visits_with_their_phases_and_passes_go_to_the_collector() {
    let simulation = Simulation::new(1);
    let harness = &simulation.harness;
    let payload = simulation.payload("v1.3.0");
    let collector = Collector::start();
    let endpoint = format!("http://{}", collector.address());
    let variables = [
        (ENDPOINT, &*endpoint),
        (DELAY, "200"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-token=geheim"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=test",
        ),
    ];
    // All that libraries say as well, that of sending included.
    let arguments = ["--log-format=json", "--log-level=trace"];
    let operator = harness.start_in(&variables, &payload, &arguments);
    harness.eventually("the node is ready", || simulation.ready().len() == 1);
    let is_visit = |span: &Span| span.name == "visit";
    harness.eventually("a visit is told", || collector.spans().iter().any(is_visit));
    assert!(has_thread(operator.id()));
    operator.terminate().unwrap();
    let spans = collector.spans();
    the_first_visit_is_told_whole(&spans);
    passes_are_told(&spans);
    for (key, value) in [
        ("service.name", "windows-storage-operator"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("deployment.environment.name", "test"),
    ] {
        assert_eq!(collector.resource(key).as_deref(), Some(value), "{key}");
    }
    let head = collector.heads().remove(0);
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("x-token: geheim"), "{head}");
    assert!(!harness.log().contains("geheim"));
    // What is for traces alone is not in the log.
    assert!(!harness.log().contains("only_traced"));
    assert!(!harness.log().contains(r#""name":"judge""#));
}

#[test]
fn the_end_sends_what_is_there_and_a_fault_has_its_reason_and_phase() {
    let simulation = Simulation::new(1);
    let harness = &simulation.harness;
    simulation.want(&json!({"ssh": {"user": "nobody", "port": 1}}));
    let payload = simulation.payload("v1.3.0");
    let (pem, acceptor) = certificate();
    let authority = harness.sandbox.control_plane.dir().join("authority.pem");
    fs::write(&authority, pem).unwrap();
    let collector = Collector::with_tls(acceptor);
    let endpoint = format!("https://{}/elsewhere", collector.address());
    let variables = [
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &*endpoint),
        (
            "OTEL_EXPORTER_OTLP_CERTIFICATE",
            authority.to_str().unwrap(),
        ),
        ("OTEL_SERVICE_NAME", "storage"),
        (DELAY, "600000"),
    ];
    let operator = harness.start_in(&variables, &payload, &[]);
    harness.eventually("the fault is told", || {
        harness.log().contains("Unreachable")
    });
    assert!(collector.spans().is_empty());
    operator.terminate().unwrap();
    let spans = collector.spans();
    let visit = spans.iter().find(|span| span.name == "visit").unwrap();
    let status = visit.status.as_ref().unwrap();
    assert_eq!(status.code, StatusCode::Error as i32);
    assert!(status.message.contains("127."), "{status:?}");
    let attribute = |key| text(&visit.attributes, key);
    assert_eq!(attribute("reason").as_deref(), Some("Unreachable"));
    assert_eq!(attribute("phase").as_deref(), Some("connect"));
    assert_eq!(
        collector.resource("service.name").as_deref(),
        Some("storage")
    );
    let head = collector.heads().remove(0);
    assert!(head.starts_with("POST /elsewhere HTTP/1.1\r\n"), "{head}");
}

#[test]
fn a_collector_that_is_dead_or_silent_delays_nothing_and_is_one_warning() {
    let simulation = Simulation::new(1);
    let harness = &simulation.harness;
    let payload = simulation.payload("v1.3.0");
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let endpoint = format!("http://{address}");
    let variables = [
        (ENDPOINT, &*endpoint),
        (DELAY, "100"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
    ];
    let operator = harness.start_in(&variables, &payload, &[]);
    harness.eventually("the node is ready", || simulation.ready().len() == 1);
    harness.eventually("the loss is told", || harness.log().contains(LOST));
    assert!(harness.log().contains("no answer within 500 ms"));
    drop(silent);
    let visits = || simulation.host("win-000").counters().logins;
    let before = visits();
    harness.eventually("work goes on", || visits() > before);
    assert_eq!(harness.log().matches(LOST).count(), 1, "{}", harness.log());

    let collector = Collector::at(address, None);
    harness.eventually("it is told that traces are taken", || {
        harness
            .log()
            .contains("traces are taken again by http://127.0.0.1:")
    });
    assert!(!collector.spans().is_empty());
    drop(collector);

    let silent = TcpListener::bind(address).unwrap();
    let begin = Instant::now();
    assert!(operator.terminate().unwrap().success());
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(harness.log().matches(LOST).count(), 1, "{}", harness.log());
    drop(silent);
}

#[test]
fn without_an_endpoint_there_is_no_thread_for_traces() {
    let harness = Harness::new();
    let operator = harness.start();
    harness.expect_gate("True", "NoWindowsNodes", &[]);
    assert!(!has_thread(operator.id()));
    operator.terminate().unwrap();
}

#[test]
fn what_cannot_be_heeded_ends_the_start_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |variables: &[(&str, &str)], words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_windows-storage-operator"))
            .arg("run")
            .arg("--kubeconfig")
            .arg(folder.path().join("none"))
            .env_remove("KUBECONFIG")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        for words in words {
            assert!(errors.contains(words), "{words}: {errors}");
        }
        assert!(!errors.contains("geheim"), "{errors}");
    };
    refused(
        &[(ENDPOINT, "collector:4318")],
        &[
            "error: OTEL_EXPORTER_OTLP_ENDPOINT",
            "http://collector:4318",
            "unset",
        ],
    );
    refused(
        &[(ENDPOINT, "http://eve:geheim@c")],
        &["OTEL_EXPORTER_OTLP_HEADERS"],
    );
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    refused(
        &[(ENDPOINT, "http://c:4317"), grpc],
        &["http/protobuf", "4318"],
    );
    let authority = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/does/not/exist.pem");
    refused(
        &[(ENDPOINT, "https://c"), authority],
        &["/does/not/exist.pem", "PEM"],
    );
}
