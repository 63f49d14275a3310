//! Export of spans to one collector.

use opentelemetry::InstrumentationScope;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanExporter as _, SpanProcessor};
use proxy::observe::access_log::Record;
use proxy::{SpanSink, TraceContext};

use crate::collector::Collector;
use crate::span::span;

/// Sends the spans of requests to a collector, in batches from a thread of its own.
///
/// The variables of the SDK hold: `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
/// `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_BSP_MAX_QUEUE_SIZE` and others.
pub struct SpanExport {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
}

impl SpanExport {
    /// Starts the export to a URL such as `http://127.0.0.1:4318/v1/traces`, by a program of this
    /// version. Nothing is sent before the first spans.
    ///
    /// # Errors
    /// Fails if the URL is invalid. The error is a sentence.
    pub fn start(endpoint: &str, version: &'static str) -> Result<SpanExport, String> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint)
            .with_http_client(Collector::new(endpoint))
            .build();
        let mut exporter = exporter.map_err(|error| format!("otlp-endpoint: {error}"))?;
        let resource = Resource::builder();
        let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
        let resource = if named { resource } else { resource.with_service_name("larder") };
        exporter.set_resource(&resource.build());
        let processor = BatchSpanProcessor::builder(exporter).build();
        let scope = InstrumentationScope::builder("larder").with_version(version).build();
        Ok(SpanExport { processor, scope })
    }
}

impl SpanSink for SpanExport {
    fn finished(&self, request: &Record<'_>, trace: &TraceContext) {
        self.processor.on_end(span(request, trace, &self.scope));
    }

    fn close(&self) {
        if let Err(error) = self.processor.shutdown() {
            log::warn!("otlp-endpoint: {error}: the last spans are lost");
        }
    }
}
