//! The export of the spans of traced requests.

use std::sync::Arc;

use proxy::SpanSink;

use crate::config::configuration::Config;

/// Starts the export of spans, if one is configured. The error is a sentence.
#[cfg(feature = "otlp")]
pub fn sink(config: &Config) -> Result<Option<Arc<dyn SpanSink>>, String> {
    let Some(endpoint) = &config.otlp_endpoint else { return Ok(None) };
    let export = otlp::SpanExport::start(endpoint, env!("CARGO_PKG_VERSION"))?;
    Ok(Some(Arc::new(export)))
}

/// Returns `None`: a program without the feature `otlp` refuses the setting.
#[cfg(not(feature = "otlp"))]
pub fn sink(_: &Config) -> Result<Option<Arc<dyn SpanSink>>, String> {
    Ok(None)
}
