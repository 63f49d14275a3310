//! Request targets that [`Uri`](http::Uri) cannot represent.

use std::sync::Arc;

/// Request target to send to an HTTP/1 origin if the client sent bytes that a URI must
/// percent-encode (RFC 3986, 2.1). It is an extension of the request, whose own URI has them
/// encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTarget(pub Arc<str>);
