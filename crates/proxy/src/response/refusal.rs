//! Responses to requests that their rule does not admit.

use http::Response;

use crate::observe::outcome::Outcome;
use crate::request::admission::Refusal;
use crate::response::error_response;
use crate::response::response_body::ResponseBody;
use crate::response::transaction::Transaction;

/// Creates the response to a request that its rule does not admit.
pub(crate) fn refuse(transaction: Transaction, refusal: Refusal) -> Response<ResponseBody> {
    let Refusal { status, why, text, field: (name, value) } = refusal;
    let mut response = error_response::plain(transaction, status, Outcome::Denied(why), text);
    response.headers_mut().insert(name, value);
    response
}
