//! Receiver of the spans of traced requests.

use crate::message::trace_context::TraceContext;
use crate::observe::access_log::Record;

/// Receiver of the spans of sampled traces, such as an exporter to a collector. Workers call it: it
/// must not block.
pub trait SpanSink: Send + Sync {
    /// Reports a request that has ended.
    fn finished(&self, request: &Record<'_>, trace: &TraceContext);

    /// Sends what is buffered and ends. Spans that come later are dropped.
    fn close(&self);
}
