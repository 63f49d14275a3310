//! An origin that is asked only for what a directory has no file for.
//!
//! A response from the directory is validated at every use unless a rule gives it a lifetime: that
//! costs a look at the file.

use std::fmt;
use std::sync::Arc;

use http::header::HeaderValue;
use http::{Method, Response, header};
use upstream::connection::origin_body::OriginBody;
use upstream::failure::error::Failure;
use upstream::send::origin::{Connector, Origin, Sending, VERSION, Voucher};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::Endpoint;

/// The directory, and the origin for everything else.
pub(crate) struct TryRootOrigin {
    pub files: Arc<dyn Origin>,
    pub to: Arc<dyn Origin>,
}

impl TryRootOrigin {
    async fn ask(
        &self,
        with: Connector<'_>,
        outgoing: Outgoing<'_>,
    ) -> Result<Response<OriginBody>, Failure> {
        let is_read = |method: &Method| matches!(*method, Method::GET | Method::HEAD);
        let request = outgoing.request.as_deref();
        let is_plain = request.is_some_and(|request| is_read(request.method()));
        let again = outgoing.again.filter(|_| is_plain && outgoing.upgrade.is_none());
        if let Some(again) = again {
            let mut found = self.files.clone().send(with, outgoing.with_request(again)).await?;
            // Nothing else is about a file: a directory has a redirect.
            if [200, 206, 304, 412, 416].contains(&found.status().as_u16()) {
                found.headers_mut().remove(VERSION);
                let validated = HeaderValue::from_static("max-age=0");
                found.headers_mut().insert(header::CACHE_CONTROL, validated);
                return Ok(found);
            }
        }
        self.to.ask(with, outgoing).await
    }
}

impl Origin for TryRootOrigin {
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, request: Outgoing<'a>) -> Sending<'a> {
        Box::pin(async move { self.ask(with, request).await })
    }

    fn endpoint(&self, number: usize) -> Option<&Endpoint> {
        self.to.endpoint(number)
    }

    fn voucher(&self) -> Option<&dyn Voucher> {
        self.to.voucher()
    }
}

impl fmt::Display for TryRootOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to.fmt(f)
    }
}

impl fmt::Debug for TryRootOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TryRootOrigin({:?}, {:?})", self.files, self.to)
    }
}
