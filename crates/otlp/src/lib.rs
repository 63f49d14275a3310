//! Spans of requests for an OpenTelemetry collector: OTLP over HTTP, with Protocol Buffers.
//!
//! The SDK batches spans and sends them from a thread of its own, so a request never waits for a
//! collector. Spans that do not fit into its queue are dropped.

mod collector;
mod export;
mod span;

pub use export::SpanExport;
