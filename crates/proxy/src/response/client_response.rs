//! Type of responses, from the decision on a request to the connection.

use http::Response;

use crate::response::response_body::ResponseBody;

pub(crate) type ClientResponse = Response<ResponseBody>;
