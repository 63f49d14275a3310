//! What becomes of every request, told to the access log.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use http::StatusCode;
use proxy::access_log::{AccessLog, Hierarchy, Record};
use proxy::{Finished, Observer};

/// Writes the access log, if there is one.
pub struct Observing {
    /// The log.
    pub access_log: Option<Arc<AccessLog>>,
}

impl Observer for Observing {
    fn wants_texts(&self) -> bool {
        self.access_log.is_some()
    }

    fn finished(&self, finished: &Finished<'_>) {
        let (Some(log), Some(texts)) = (&self.access_log, finished.texts) else { return };
        log.log(&Record {
            ended: SystemTime::now(),
            duration: finished.duration,
            client: finished.client.ip(),
            method: finished.method.as_str(),
            url: &texts.url,
            version: finished.version,
            status: finished.status.as_u16(),
            bytes_in: 0,
            bytes_out: finished.body_bytes,
            body_out: finished.body_bytes,
            referer: texts.referer.as_ref().map(|v| v.as_bytes()),
            user_agent: texts.user_agent.as_ref().map(|v| v.as_bytes()),
            content_type: texts.content_type.as_ref().map(|v| v.as_bytes()),
            outcome: finished.outcome,
            aborted: !finished.complete,
            hierarchy: finished.upstream.map_or(Hierarchy::None, Hierarchy::Parent),
        });
    }

    fn refused(&self, client: SocketAddr, status: Option<StatusCode>, why: &dyn fmt::Display) {
        log::debug!("{client}: refused before there was a request ({status:?}): {why}");
    }
}
