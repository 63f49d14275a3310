//! An origin that is asked only for what a directory has no file for, or not at all.
//!
//! A response from the directory is validated at every use unless a rule gives it a lifetime: that
//! costs a look at the file.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Method, Request, Response, StatusCode, header};
use upstream::connection::origin_body::OriginBody;
use upstream::connection::request_body::OutBody;
use upstream::failure::error::Failure;
use upstream::send::origin::{Connector, Origin, Sending, VERSION, Voucher};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::Endpoint;

/// The directory, and the origin for everything else; `None` if the directory is to answer.
pub(crate) struct TryRootOrigin {
    pub files: Arc<dyn Origin>,
    pub to: Option<Arc<dyn Origin>>,
}

impl TryRootOrigin {
    async fn ask(
        &self,
        with: Connector<'_>,
        outgoing: Outgoing<'_>,
    ) -> Result<Response<OriginBody>, Failure> {
        let Some(to) = &self.to else {
            let found = match outgoing.again {
                Some(again) => {
                    // A date may be of what the origin servers had before.
                    let of_file = || without_date(again(), |has_tag| !has_tag);
                    self.files.clone().send(with, outgoing.with_request(&of_file)).await?
                }
                None => self.files.clone().send(with, outgoing).await?,
            };
            return Ok(if is_of_file(&found) { validated(found) } else { lacking(found) });
        };
        let is_read = |method: &Method| matches!(*method, Method::GET | Method::HEAD);
        let request = outgoing.request.as_deref();
        let is_plain = request.is_some_and(|request| is_read(request.method()));
        let again = outgoing.again.filter(|_| is_plain && outgoing.upgrade.is_none());
        if let Some(again) = again {
            // A date of one of the two would confirm what the other has.
            let of_file = || without_date(again(), |has_tag| !has_tag);
            let found = self.files.clone().send(with, outgoing.with_request(&of_file)).await?;
            if is_of_file(&found) {
                return Ok(validated(found));
            }
            let of_origin = || without_date(again(), |has_tag| has_tag);
            return to.ask(with, outgoing.with_request(&of_origin)).await;
        }
        to.ask(with, outgoing).await
    }
}

/// Returns whether a response of the directory is about a file: a directory has a redirect.
fn is_of_file(found: &Response<OriginBody>) -> bool {
    [200, 206, 304, 412, 416].contains(&found.status().as_u16())
}

/// Makes a file's response one of an origin that does not vouch.
fn validated(mut found: Response<OriginBody>) -> Response<OriginBody> {
    found.headers_mut().remove(VERSION);
    let validated = HeaderValue::from_static("max-age=0");
    found.headers_mut().insert(header::CACHE_CONTROL, validated);
    found
}

/// Makes a redirect to a directory, or a refusal to list it, a 404. Leaves other errors unchanged.
fn lacking(mut found: Response<OriginBody>) -> Response<OriginBody> {
    if found.status().is_redirection() || found.status() == StatusCode::FORBIDDEN {
        found = Response::new(OriginBody::whole(Bytes::new()));
        *found.status_mut() = StatusCode::NOT_FOUND;
    }
    found.headers_mut().remove(VERSION);
    found
}

/// Removes `If-Modified-Since` from a request. `is_meant` decides by whether it has a tag too: the
/// responses of the directory have one.
fn without_date(
    mut request: Box<Request<OutBody>>,
    is_meant: impl Fn(bool) -> bool,
) -> Box<Request<OutBody>> {
    let fields = request.headers_mut();
    if is_meant(fields.contains_key(header::IF_NONE_MATCH)) {
        fields.remove(header::IF_MODIFIED_SINCE);
    }
    request
}

impl Origin for TryRootOrigin {
    fn send<'a>(self: Arc<Self>, with: Connector<'a>, request: Outgoing<'a>) -> Sending<'a> {
        Box::pin(async move { self.ask(with, request).await })
    }

    fn endpoint(&self, number: usize) -> Option<&Endpoint> {
        self.to.as_ref()?.endpoint(number)
    }

    fn voucher(&self) -> Option<&dyn Voucher> {
        self.to.as_ref()?.voucher()
    }
}

impl fmt::Display for TryRootOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to.as_ref().unwrap_or(&self.files).fmt(f)
    }
}

impl fmt::Debug for TryRootOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TryRootOrigin({:?}, {:?})", self.files, self.to)
    }
}
