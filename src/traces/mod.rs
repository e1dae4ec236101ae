//! Traces: the spans of the log, and those of each pass, sent to a collector by OTLP where the environment names one.
//!
//! Where it names none there is nothing of this: no thread, no queue, and spans for traces alone are never made.

mod exporter;
mod settings;
mod transport;

use std::time::Duration;

use openssl::error::ErrorStack;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use exporter::Exporter;
pub use settings::Settings;

/// The target of spans that are for traces and not for the log: a pass has a line only where it decides something.
pub const ONLY_TRACED: &str = "windows_storage_operator::only_traced";
/// This program's own spans begin with it.
const OWN: &str = "windows_storage_operator";
/// What the service is called where the environment does not say.
const SERVICE: &str = "windows-storage-operator";
/// How long the end of the process waits for the last spans to be taken.
const FLUSH: Duration = Duration::from_secs(3);

/// Why traces cannot be sent as the environment says.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The address is none.
    #[error(
        "{variable} is not the address of a collector such as http://collector:4318: {problem}; correct the variable, or \
         unset it to send no traces"
    )]
    Endpoint {
        /// The variable.
        variable: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// Another protocol.
    #[error(
        "{variable} is {value}, but traces are sent by http/protobuf alone; set it to that, and the endpoint to the \
         collector's port for it, usually 4318"
    )]
    Protocol {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
    },
    /// The deadline of a request.
    #[error("{variable} is {value}, not a number of milliseconds such as 10000")]
    Timeout {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
    },
    /// The authorities to trust.
    #[error(
        "cannot use {path}, which OTEL_EXPORTER_OTLP_CERTIFICATE names: {problem}; it has to hold certificates of authorities \
         in PEM"
    )]
    Authorities {
        /// The file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// OpenSSL says no.
    #[error("cannot prepare TLS for sending traces: {0}")]
    Tls(#[from] ErrorStack),
    /// The library says no.
    #[error("cannot send traces as OTEL_EXPORTER_OTLP_… says: {0}")]
    Exporter(#[from] ExporterBuildError),
}

/// What sends traces, with a thread and a bounded queue of its own.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
}

impl Traces {
    /// As the environment says; `None` where it asks for none. Requests are sent on that runtime.
    pub fn from_environment(runtime: &Handle) -> Result<Option<Self>, TracesError> {
        let variable = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into());
        let Some(settings) = Settings::read(variable)? else {
            return Ok(None);
        };
        let exporter = Exporter::new(&settings, runtime.clone())?;
        // It heeds OTEL_BSP_… and OTEL_TRACES_SAMPLER itself.
        let provider = SdkTracerProvider::builder()
            .with_resource(resource(variable("OTEL_SERVICE_NAME")))
            .with_batch_exporter(exporter)
            .build();
        Ok(Some(Self { provider }))
    }

    /// What hands spans over, for a subscriber.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let tracer = self.provider.tracer(SERVICE);
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_context_activation(false)
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(is_traced))
    }

    /// Sends what is finished, and ends. A collector that does not answer is waited for three seconds and no longer.
    pub fn flush(self) {
        if let Err(error) = self.provider.shutdown_with_timeout(FLUSH) {
            tracing::warn!("the last traces were not sent: {error}");
        }
    }
}

/// Where traces come from: what the environment says goes first.
fn resource(service: Option<String>) -> Resource {
    let known = [
        KeyValue::new("service.name", SERVICE),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ];
    let pod = std::env::var("POD_NAME").ok();
    let pod = pod.map(|name| KeyValue::new("k8s.pod.name", name));
    let resource = Resource::builder_empty()
        .with_detector(Box::new(TelemetryResourceDetector))
        .with_attributes(known.into_iter().chain(pod))
        .with_detector(Box::new(EnvResourceDetector::new()));
    match service.filter(|name| !name.is_empty()) {
        Some(name) => resource.with_service_name(name).build(),
        None => resource.build(),
    }
}

/// The program's own: what libraries tell of sending traces must not become traces.
fn is_traced(metadata: &Metadata<'_>) -> bool {
    let own = metadata.target().strip_prefix(OWN);
    let is_own = own.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    // That of a node's task lasts for as long as the node is there, and gathers all that is logged meanwhile.
    let is_endless = metadata.is_span() && metadata.name() == "node";
    is_own && !is_endless
}

/// Whether it is for the log.
#[must_use]
pub fn is_logged(metadata: &Metadata<'_>) -> bool {
    metadata.target() != ONLY_TRACED
}
