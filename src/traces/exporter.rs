//! Sends what is finished, and tells when that does not succeed: once, not for each of the spans that are lost.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tokio::runtime::Handle;

use super::TracesError;
use super::settings::Settings;
use super::transport::Transport;
use crate::visible::visible;

/// A collector that comes and goes is told of no more often than this.
const AGAIN: Duration = Duration::from_secs(600);

/// Sends spans to a collector.
#[derive(Debug)]
pub struct Exporter {
    inner: opentelemetry_otlp::SpanExporter,
    transport: Transport,
    collector: String,
    outage: Mutex<Outage>,
}

impl Exporter {
    /// Sends nothing yet.
    pub fn new(settings: &Settings, runtime: Handle) -> Result<Self, TracesError> {
        let transport = Transport::new(settings, runtime)?;
        let inner = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(transport.clone())
            .with_endpoint(settings.endpoint.to_string())
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(settings.timeout)
            .build()?;
        Ok(Self {
            inner,
            transport,
            collector: settings.collector(),
            outage: Mutex::default(),
        })
    }

    /// Not within any span, so that nothing comes of it that would have to be sent.
    fn tell(&self, outcome: &OTelSdkResult) {
        let mut outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner);
        let collector = &self.collector;
        match outcome {
            Ok(()) if outage.ended() => {
                tracing::info!("traces are taken again by {collector}");
            }
            Err(error) if outage.goes_on(Instant::now()) => {
                let problem = self.transport.last_fault();
                let problem = problem.unwrap_or_else(|| words(error));
                tracing::warn!(
                    "traces cannot be sent to {collector}: {problem}; they are lost until it takes them. The operator's \
                     work does not wait for that"
                );
            }
            Ok(()) | Err(_) => {}
        }
    }
}

fn words(error: &OTelSdkError) -> String {
    visible(&match error {
        OTelSdkError::InternalFailure(words) => words.clone(),
        other => other.to_string(),
    })
}

impl SpanExporter for Exporter {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.iter_mut().for_each(name_by_phase);
        let outcome = self.inner.export(batch).await;
        self.tell(&outcome);
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// In a log the phase stands beside the name of its span; where only names are shown, all would look the same.
fn name_by_phase(span: &mut SpanData) {
    if span.name != "phase" {
        return;
    }
    let mut attributes = span.attributes.iter();
    if let Some(phase) = attributes.find(|attribute| attribute.key.as_str() == "phase") {
        span.name = phase.value.to_string().into();
    }
}

/// Whether, and since when, nothing can be sent.
#[derive(Debug, Default)]
struct Outage {
    /// This one was told of.
    is_told: bool,
    last_told: Option<Instant>,
}

impl Outage {
    /// Nothing could be sent: whether that is told now.
    fn goes_on(&mut self, now: Instant) -> bool {
        let is_early = self
            .last_told
            .is_some_and(|last| now.saturating_duration_since(last) < AGAIN);
        if self.is_told || is_early {
            return false;
        }
        self.is_told = true;
        self.last_told = Some(now);
        true
    }

    /// Something was sent: whether an outage that was told of is over.
    fn ended(&mut self) -> bool {
        std::mem::take(&mut self.is_told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_once_and_one_soon_after_it_not_at_all() {
        let (mut outage, begin) = (Outage::default(), Instant::now());
        assert!(!outage.ended());
        assert!(outage.goes_on(begin));
        assert!(!outage.goes_on(begin + AGAIN * 2));
        assert!(outage.ended());
        assert!(!outage.ended());
        assert!(!outage.goes_on(begin + AGAIN / 2));
        assert!(!outage.ended(), "nobody was told that it began");
        assert!(outage.goes_on(begin + AGAIN));
    }
}
