//! The response to a client, on its way from the decisions on a request to the connection.

use http::Response;

use crate::response::response_body::ResponseBody;

/// A response to a client.
pub(crate) type ClientResponse = Response<ResponseBody>;
