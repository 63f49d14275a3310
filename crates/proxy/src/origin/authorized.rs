//! An origin that gets the proxy's own credentials. They are added last, so that neither other
//! nodes of a fleet nor servers to which the origin redirects get them.

use std::fmt;
use std::sync::Arc;

use http::header::HeaderValue;
use http::{Request, Response, header};
use upstream::connection::origin_body::OriginBody;
use upstream::connection::request_body::OutBody;
use upstream::failure::error::Failure;
use upstream::send::origin::{Connector, Origin, Sending, Voucher};
use upstream::send::outgoing::Outgoing;
use upstream::settings::endpoint::Endpoint;

/// The origin, and the value of `Authorization` for it.
pub(crate) struct AuthorizedOrigin {
    pub to: Arc<dyn Origin>,
    pub credentials: HeaderValue,
}

impl AuthorizedOrigin {
    async fn ask(
        &self,
        with: Connector<'_>,
        outgoing: Outgoing<'_>,
    ) -> Result<Response<OriginBody>, Failure> {
        let request = outgoing.request.map(|request| self.authorized(request));
        match outgoing.again {
            None => self.to.ask(with, Outgoing { request, ..outgoing }).await,
            Some(again) => {
                let again = || self.authorized(again());
                let outgoing = Outgoing { request, again: Some(&again), ..outgoing };
                self.to.ask(with, outgoing).await
            }
        }
    }

    fn authorized(&self, mut request: Box<Request<OutBody>>) -> Box<Request<OutBody>> {
        request.headers_mut().insert(header::AUTHORIZATION, self.credentials.clone());
        request
    }
}

impl Origin for AuthorizedOrigin {
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

impl fmt::Display for AuthorizedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to.fmt(f)
    }
}

impl fmt::Debug for AuthorizedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthorizedOrigin({:?})", self.to)
    }
}
