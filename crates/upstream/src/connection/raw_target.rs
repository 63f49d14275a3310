//! Targets of requests that no [`Uri`](http::Uri) can hold.

use std::sync::Arc;

/// The target that an origin server of HTTP/1 is asked for, where a client sent bytes that a URI
/// has percent-encoded (RFC 3986, 2.1): an extension of the request, whose own URI has them
/// encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawTarget(pub Arc<str>);
